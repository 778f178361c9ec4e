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
		o := Options{Path: filepath.Join(t.TempDir(), "test.db"), Synchronous: Normal, MaxTables: 20}
		db := mustOpen(t, o)
		return storagetest.Harness{
			Engine:    db,
			MaxTables: o.MaxTables,
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
