// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// TestFailoverLosesCommits: a standby that was behind is promoted. What was
// remembered of what it never got does no harm, however that is found out.
func TestFailoverLosesCommits(t *testing.T) {
	t.Parallel()
	for name, promote := range map[string]func(t *testing.T, db *DB){
		"the session is lost": func(t *testing.T, db *DB) {
			t.Helper()
			mustExec(t, mustConnect(t, db.o.URL),
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		},
		"a connection is made": func(_ *testing.T, db *DB) {
			db.memory.mu.Lock()
			db.memory.timeline = "00000000"
			db.memory.mu.Unlock()
			db.pool.Reset()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{})
			tab := create(t, db, streaming(hashTable("t"), ddb.ViewBoth))
			mustWrite(t, db, put(tab, item("a")))
			reaches(t, db, 1)
			for i := range 50 {
				mustWrite(t, db, put(tab, item(fmt.Sprint("lost", i))))
			}
			mustWrite(t, db, put(tab, item(strings.Repeat("L", 2000))))
			_, err := db.Sample(t.Context(), tab, 0, db.Clock().Now())
			must(t, err)
			reaches(t, db, 52)
			before := db.memory.epoch.Load()
			undo(t, db, tab)
			promote(t, db)
			for db.memory.epoch.Load() == before {
				must(t, t.Context().Err())
				_ = db.Ping(t.Context()) // it may meet a connection that is lost
			}
			afterFailover(t, db, tab)
		})
	}
}

// undo leaves the first row and its record, and of the horizon too much.
func undo(t *testing.T, db *DB, tab *storage.Table) {
	t.Helper()
	c := mustConnect(t, db.o.URL)
	mustExec(t, c, "BEGIN")
	for _, sql := range []string{
		"DELETE FROM extenddb.changes WHERE seq > 1", "DELETE FROM extenddb.samples", "UPDATE extenddb.tables SET long_keys = false",
		"DELETE FROM " + rowsOf(tab.ID) + " WHERE pk NOT IN (SELECT pk FROM extenddb.changes)", "SELECT setval('extenddb.change_seq', 1)",
	} {
		mustExec(t, c, sql)
	}
	mustExec(t, c, "COMMIT")
}

func afterFailover(t *testing.T, db *DB, tab *storage.Table) {
	t.Helper()
	latest := horizonOf(t, db)
	if latest != 1 {
		t.Errorf("horizon %d, want 1", latest)
	}
	_, err := db.Sample(t.Context(), tab, 0, db.Clock().Now())
	must(t, err)
	c := mustConnect(t, db.o.URL)
	if n := selectInt(t, c, "SELECT count(*) FROM extenddb.samples"); n != 1 {
		t.Error("the use of a sample is not noted again")
	}
	keys := strings.Split("1957328", "")
	for _, k := range keys {
		mustWrite(t, db, put(tab, item(strings.Repeat("Z", 1999)+k)))
	}
	last := latest + int64(len(keys))
	reaches(t, db, last)
	if got := selectInt(t, c, "SELECT seq FROM extenddb.horizon"); got != last {
		t.Errorf("the horizon for all is %d, want %d", got, last)
	}
	records, err := db.Records(t.Context(), tab.ID, latest, last, 100, 0)
	if err != nil || len(records) != len(keys) {
		t.Errorf("%d new records: %v", len(records), err)
	}
	s, err := db.Snapshot(t.Context(), acct, "t")
	must(t, err)
	defer s.Close()
	rows := 0
	for _, err := range s.Rows(t.Context()) {
		must(t, err)
		rows++
	}
	if s.KeyOrdered() || rows != 1+len(keys) {
		t.Errorf("snapshot of %d rows, in order: %v", rows, s.KeyOrdered())
	}
}

// TestTimelineIsKnown of the database of the tests.
func TestTimelineIsKnown(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	want := fmt.Sprintf("%08X", selectInt(t, mustConnect(t, db.o.URL), "SELECT timeline_id FROM pg_control_checkpoint()"))
	db.memory.mu.Lock()
	defer db.memory.mu.Unlock()
	if db.memory.timeline != want {
		t.Errorf("timeline %q, want %s", db.memory.timeline, want)
	}
	if n := db.memory.epoch.Load(); n != 0 {
		t.Errorf("forgot %d times", n)
	}
}
