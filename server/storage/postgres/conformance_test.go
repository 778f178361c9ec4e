// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"testing"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
	"github.com/extenddb/extenddb/test/servers"
)

// TestConformance is what every engine must pass.
func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Harness {
		probe := new(storagetest.SnapshotProbe)
		o := Options{URL: servers.Database(t), MaxConns: 10, MaxTables: 20, hooks: hooks{
			snapDefinition: probe.AfterDefinition, snapItems: probe.BeforeItems, snapRows: probe.FetchSize, snapRead: probe.Fetched,
		}}
		db := mustOpen(t, o)
		return storagetest.Harness{
			Engine:    db,
			MaxTables: o.MaxTables,
			Snapshots: storagetest.Snapshots{Probe: probe, Bound: 5, DropWaits: true, Damage: func(tab *storage.Table, k storage.Key) {
				c := mustConnect(t, o.URL)
				mustExec(t, c, "UPDATE "+rowsOf(tab.ID)+" SET item = '{' WHERE pk = $1 AND sk = $2", k.PK, k.SK)
			}},
			Reopen: func() storage.Engine {
				db = mustOpen(t, o)
				return db
			},
			Second: func() storage.Engine { return mustOpen(t, o) },
		}
	})
}
