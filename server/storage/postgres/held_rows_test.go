// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"testing"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestStatisticsAreHeld: somebody has locked rows of statistics for as long as
// he likes. What was counted stays, and all else goes on.
func TestStatisticsAreHeld(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	db, err := Open(t.Context(), Options{URL: url})
	must(t, err)
	held, other := create(t, db, hashTable("held")), create(t, db, hashTable("other"))
	dropped := create(t, db, hashTable("dropped"))
	mustWrite(t, db, put(held, item("x")), put(other, item("x")), put(dropped, item("x")))
	markDropped(t, db, "dropped")
	hold, c := mustConnect(t, url), mustConnect(t, url)
	changed := func(want int64, tab *storage.Table) {
		t.Helper()
		if n := selectInt(t, c, "SELECT changed FROM extenddb.table_stats WHERE t = $1", int64(tab.ID)); n != want {
			t.Errorf("%d changes of %q are known, want %d", n, tab.Name(), want)
		}
	}
	lock := func() {
		mustExec(t, hold, "BEGIN")
		mustExec(t, hold, "SELECT FROM extenddb.table_stats WHERE t = $1 FOR UPDATE", int64(held.ID))
	}
	lock()
	complete(t, claimed(t, db, storage.TableDrop, jobNow()), jobNow()) // Pending, too
	changed(0, held)
	changed(1, other)
	must(t, db.session.do(t.Context(), db.session.tick, nil))
	mustExec(t, hold, "COMMIT")
	must(t, db.stats.flush(t.Context()))
	changed(1, held)
	changed(1, other)
	if left := db.stats.take(); len(left) != 0 { // nothing of the table that went
		t.Errorf("left: %v", left)
	}
	mustWrite(t, db, put(held, item("y")))
	lock()
	must(t, db.Close())
	mustExec(t, hold, "COMMIT")
	changed(1, held)
}

// TestLoadLeftBehindIsHeld: nobody waits for who has locked the row of a table
// whose load is over.
func TestLoadLeftBehindIsHeld(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	loader, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
	l := beginLoad(t, loader, "t")
	terminate(t, c, lockKey{lockLoad, int64(l.table.ID)})
	mustExec(t, c, "BEGIN")
	mustExec(t, c, "SELECT FROM extenddb.tables FOR UPDATE")
	if ws := due(t, db, storage.TableDrop, jobNow()); len(ws) != 0 {
		t.Errorf("due: %v", ws)
	}
	mustExec(t, c, "COMMIT")
	complete(t, claimed(t, db, storage.TableDrop, jobNow()), jobNow())
}
