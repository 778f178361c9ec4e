// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// TestFaultySnapshot: opening, reading and closing fail as told, once, and
// never keep a place in the engine.
func TestFaultySnapshot(t *testing.T) {
	t.Parallel()
	e, f, table, items := faultyEnv(t)
	read := func(s storage.Snapshot) (rows int, err error) {
		for _, err = range s.Rows(e.ctx) {
			if err == nil {
				rows++
			}
		}
		return rows, err
	}
	for range memBound + 1 {
		for _, after := range []int{0, 1} { // the answer is lost
			f.Inject(Fault{Method: "Snapshot", Err: storage.ErrUnavailable, After: after})
			_, err := f.Snapshot(e.ctx, account, table.Name())
			e.fails(err, storage.ErrUnavailable)
		}
		f.Inject(Fault{Method: "Snapshot", Err: storage.ErrUnavailable, After: 1})
		_, err := f.Snapshot(e.ctx, account, "missing")
		e.fails(err, storage.ErrTableNotFound)
		for _, after := range []int{0, 3, len(items) + 1} {
			f.Inject(Fault{Method: "Rows", Err: storage.ErrSnapshotExpired, After: after})
			rows, err := read(e.snapshot(table.Name()))
			e.fails(err, storage.ErrSnapshotExpired)
			equal(e, "rows before the fault", rows, min(after, len(items)))
		}
		f.Inject(Fault{Method: "Snapshot.Close", Err: storage.ErrUnavailable})
		s := e.snapshot(table.Name())
		e.fails(s.Close(), storage.ErrUnavailable)
		e.ok(s.Close())
	}
	s := e.snapshot(table.Name())
	rows, err := read(s)
	e.ok(err)
	equal(e, "rows", rows, len(items))
	e.ok(s.Close())
	equal(e, "unused faults", len(f.Unused()), 0)
}
