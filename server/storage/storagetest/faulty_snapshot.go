// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"iter"

	"github.com/extenddb/extenddb/server/storage"
)

// Snapshot implements storage.Snapshotter. The snapshot has the faults of Rows
// and Snapshot.Close; After, of Rows, counts rows as it does of Range.
func (f *Faulty) Snapshot(ctx context.Context, account, table string) (storage.Snapshot, error) {
	var opened storage.Snapshot
	s, err := inject(f, "Snapshot", func() (s storage.Snapshot, err error) {
		opened, err = f.Engine.Snapshot(ctx, account, table)
		return opened, err
	})
	if err != nil {
		if opened != nil { // the answer is lost, and nobody else can close it
			_ = opened.Close()
		}
		return nil, err
	}
	return faultySnapshot{s, f}, nil
}

type faultySnapshot struct {
	storage.Snapshot // its Table, Marker and KeyOrdered

	f *Faulty
}

// Rows implements storage.Snapshot. A fault ends the snapshot.
func (s faultySnapshot) Rows(ctx context.Context) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		s.f.rows("Rows", s.Snapshot.Rows(ctx), func(row *storage.Row, err error) bool {
			if err != nil {
				_ = s.Snapshot.Close() // as a snapshot that failed of itself
			}
			return yield(row, err)
		})
	}
}

// Close implements storage.Snapshot. It is carried out whatever it answers.
func (s faultySnapshot) Close() error {
	hit, err := s.f.next("Snapshot.Close"), s.Snapshot.Close()
	if hit.Err != nil {
		return hit.Err
	}
	return err
}
