// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"iter"

	"github.com/extenddb/extenddb/server/storage"
)

// Snapshot implements storage.Snapshotter.
func (s *Stub) Snapshot(ctx context.Context, account, table string) (storage.Snapshot, error) {
	if s.OnSnapshot != nil {
		return s.OnSnapshot(ctx, account, table)
	}
	return s.Engine.Snapshot(ctx, account, table)
}

// StubSnapshot is a snapshot of which any method may be replaced. Nil fields
// go to Snapshot.
type StubSnapshot struct {
	storage.Snapshot

	OnTable      func() *storage.Table
	OnMarker     func() (kind, value string)
	OnKeyOrdered func() bool
	OnRows       func(ctx context.Context) iter.Seq2[*storage.Row, error]
	OnClose      func() error
}

// Table implements storage.Snapshot.
func (s *StubSnapshot) Table() *storage.Table {
	if s.OnTable != nil {
		return s.OnTable()
	}
	return s.Snapshot.Table()
}

// Marker implements storage.Snapshot.
func (s *StubSnapshot) Marker() (kind, value string) {
	if s.OnMarker != nil {
		return s.OnMarker()
	}
	return s.Snapshot.Marker()
}

// KeyOrdered implements storage.Snapshot.
func (s *StubSnapshot) KeyOrdered() bool {
	if s.OnKeyOrdered != nil {
		return s.OnKeyOrdered()
	}
	return s.Snapshot.KeyOrdered()
}

// Rows implements storage.Snapshot.
func (s *StubSnapshot) Rows(ctx context.Context) iter.Seq2[*storage.Row, error] {
	if s.OnRows != nil {
		return s.OnRows(ctx)
	}
	return s.Snapshot.Rows(ctx)
}

// Close implements storage.Snapshot.
func (s *StubSnapshot) Close() error {
	if s.OnClose != nil {
		return s.OnClose()
	}
	return s.Snapshot.Close()
}
