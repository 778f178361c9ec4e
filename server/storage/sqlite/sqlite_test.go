// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// TestConformance is what every engine must pass, on a file.
func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Harness {
		probe := new(storagetest.SnapshotProbe)
		o := Options{Path: filepath.Join(t.TempDir(), "test.db"), Synchronous: Normal, MaxTables: 20, Readers: 6, hooks: hooks{
			snapDefinition: probe.AfterDefinition, snapItems: probe.BeforeItems, snapRows: probe.FetchSize, snapRead: probe.Fetched,
		}}
		db := mustOpen(t, o)
		return storagetest.Harness{
			Engine:    db,
			MaxTables: o.MaxTables,
			Snapshots: storagetest.Snapshots{Probe: probe, Bound: 3, Damage: func(tab *storage.Table, k storage.Key) {
				overwrite(t, db, tab, k, []byte("{"))
			}},
			Reopen: func() storage.Engine {
				db = mustOpen(t, o)
				return db
			},
		}
	})
}

func mustOpen(t testing.TB, o Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// overwrite replaces the stored item of a row, behind the back of everything.
func overwrite(t testing.TB, db *DB, tab *storage.Table, k storage.Key, item []byte) {
	t.Helper()
	err := db.change(t.Context(), false, func(tx *tx) error {
		return tx.run("UPDATE r SET item = ? WHERE t = ? AND pk = ? AND sk = ?", item, int64(tab.ID), k.PK, k.SK)
	})
	if err != nil {
		t.Fatal(err)
	}
}
