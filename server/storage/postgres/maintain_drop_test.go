// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestDropWaitsForHolders: whoever reads the table delays its end, is named,
// and delays nothing else; when it is gone, so is the table.
func TestDropWaitsForHolders(t *testing.T) {
	t.Parallel()
	for what, relation := range map[string]func(tab *storage.Table) string{
		"rows":    func(tab *storage.Table) string { return rowsOf(tab.ID) },
		"entries": func(tab *storage.Table) string { return entriesOf(tab.Indexes[1].ID) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{})
			tab, other := loadedTable(t, db, "t", 100), loadedTable(t, db, "other", 10)
			dump, c := outsider(t, db, "pg_dump"), outsider(t, db, "check")
			mustExec(t, dump, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
			if n := selectInt(t, dump, "SELECT count(*) FROM "+relation(tab)); n == 0 {
				t.Fatal("nothing is there")
			}
			markDropped(t, db, "t")
			l := claimed(t, db, storage.TableDrop, jobNow())
			for range 2 {
				begin := time.Now()
				_, err := l.Step(t.Context(), jobNow())
				var held *storage.Held
				if !errors.As(err, &held) || !strings.HasPrefix(held.Holder, fmt.Sprintf("process %d (\"pg_dump\") since 20", dump.PgConn().PID())) {
					t.Fatalf("error %v", err)
				}
				if took := time.Since(begin); took < dropWait {
					t.Errorf("it waited for %s only", took)
				}
				checkOrphans(t, c)
			}
			if n := selectInt(t, c, "SELECT count(*) FROM "+rowsOf(tab.ID)); n != 100 { // it is whole, and not in the way
				t.Errorf("%d rows", n)
			}
			if n := selectInt(t, c, "SELECT count(*) FROM "+rowsOf(other.ID)); n != 10 {
				t.Errorf("%d rows", n)
			}
			mustExec(t, dump, "COMMIT")
			if p := complete(t, l, jobNow()); p.Done != 100 {
				t.Errorf("progress %+v", p)
			}
			_, err := db.Table(t.Context(), jobAccount, "t")
			wantIs(t, err, storage.ErrTableNotFound)
			if left := due(t, db, storage.TableDrop, jobNow()); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
			checkOrphans(t, c)
		})
	}
}

// TestDropInTheWay: while a drop waits, another server that has not heard of it
// learns that the table is gone, and other tables are read as ever.
func TestDropInTheWay(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	deaf := Options{URL: db.o.URL}
	deaf.hooks.heard = func(string) bool { return false }
	other := mustOpen(t, deaf)
	loadedTable(t, db, "t", 10)
	loadedTable(t, db, "u", 10)
	tab, err := other.Table(t.Context(), jobAccount, "t")
	must(t, err)
	untouched, err := other.Table(t.Context(), jobAccount, "u")
	must(t, err)
	dump, c := outsider(t, db, "pg_dump"), mustConnect(t, db.o.URL)
	mustExec(t, dump, "BEGIN; LOCK TABLE "+rowsOf(tab.ID)+" IN ACCESS SHARE MODE")
	markDropped(t, db, "t")
	l := claimed(t, db, storage.TableDrop, jobNow())
	k := jobRows(t, tab, jobItem(1))[0].Key
	stop, stepped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			_, err := l.Step(t.Context(), jobNow())
			select {
			case <-stop:
				stepped <- err
				return
			default:
			}
		}
	}()
	for range 5 {
		awaitLock(t, c)
		_, err = other.Get(t.Context(), tab, k)
		wantIs(t, err, storage.ErrTableNotFound)
		if row, err := other.Get(t.Context(), untouched, k); err != nil || row == nil {
			t.Errorf("%v, %v", row, err)
		}
	}
	close(stop)
	held := <-stepped
	wantIs(t, held, storage.ErrHeld)
	if strings.Contains(held.Error(), "SQLSTATE") {
		t.Errorf("the reason is %q", held)
	}
	mustExec(t, dump, "ROLLBACK")
	complete(t, l, jobNow())
}

// awaitLock waits until somebody waits for a lock in the database.
func awaitLock(t testing.TB, c *pgx.Conn) {
	t.Helper()
	for selectInt(t, c, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == 0 {
		must(t, t.Context().Err())
	}
}

// TestDropMeetsStatistics: who stores statistics while the table goes leaves
// nothing of it.
func TestDropMeetsStatistics(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c, counter := mustConnect(t, db.o.URL), outsider(t, db, "statistics")
	tab := loadedTable(t, db, "t", 0)
	mustExec(t, c, "DELETE FROM extenddb.index_stats") // as if nobody had counted before
	mustExec(t, counter, "BEGIN")
	mustExec(t, counter, setStats, int64(tab.ID), 1, 1, jobNow(), 0)
	mustExec(t, counter, setIndexStats, int64(tab.ID), []int64{int64(tab.Indexes[0].ID)}, []int64{1}, []int64{1})
	mustExec(t, counter, setSample, int64(tab.ID), 0, "", jobNow())
	markDropped(t, db, "t")
	l := claimed(t, db, storage.TableDrop, jobNow())
	_, err := l.Step(t.Context(), jobNow())
	wantIs(t, err, storage.ErrHeld)
	stepped := make(chan error, 1)
	go func() {
		_, err := l.Step(t.Context(), jobNow())
		for errors.Is(err, storage.ErrHeld) {
			_, err = l.Step(t.Context(), jobNow())
		}
		stepped <- err
	}()
	awaitLock(t, c)
	mustExec(t, counter, "COMMIT")
	must(t, <-stepped)
	checkOrphans(t, c)
}

// TestDropStopsAtDependents: what somebody made on our storage is named; nobody
// is asked to try again at once.
func TestDropStopsAtDependents(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab, c := loadedTable(t, db, "t", 3), outsider(t, db, "check")
	mustExec(t, c, "CREATE VIEW public.report AS SELECT pk FROM "+rowsOf(tab.ID))
	markDropped(t, db, "t")
	l := claimed(t, db, storage.TableDrop, jobNow())
	_, err := l.Step(t.Context(), jobNow())
	wantIs(t, err, storage.ErrUnavailable)
	if errors.Is(err, storage.ErrHeld) || !strings.Contains(err.Error(), `table "t" cannot be removed`) || !strings.Contains(err.Error(), "report") {
		t.Errorf("error %v", err)
	}
	checkOrphans(t, c)
	mustExec(t, c, "DROP VIEW public.report")
	complete(t, l, jobNow())
	checkOrphans(t, c)
}

// TestDropKilled: a drop that ends with its process, wherever that is, did
// everything or nothing.
func TestDropKilled(t *testing.T) {
	t.Parallel()
	failed := errors.New("killed")
	o := Options{}
	o.hooks.dropping = func() error { return failed }
	db := mustOpen(t, o)
	tab, c := loadedTable(t, db, "t", 30), outsider(t, db, "check")
	other := mustOpen(t, Options{URL: db.o.URL})
	markDropped(t, db, "t")
	l := claimed(t, db, storage.TableDrop, jobNow())
	_, err := l.Step(t.Context(), jobNow())
	wantIs(t, err, failed)
	checkOrphans(t, c)
	if n := selectInt(t, c, "SELECT count(*) FROM "+rowsOf(tab.ID)); n != 30 {
		t.Errorf("%d rows are left", n)
	}
	w := l.w
	_, err = other.Claim(t.Context(), w)
	wantIs(t, err, storage.ErrClaimed)
	terminate(t, c, lockKey{int32(storage.TableDrop), int64(tab.ID)})
	next, err := other.Claim(t.Context(), w)
	must(t, err)
	lost(t, db, l.own)
	_, err = l.Step(t.Context(), jobNow())
	wantIs(t, err, storage.ErrNoWork)
	complete(t, next, jobNow())
	checkOrphans(t, c)
	must(t, l.Release())
	_, err = db.Claim(t.Context(), w)
	wantIs(t, err, storage.ErrNoWork)
}

// TestDropOfWhatIsPartlyGone: what somebody removed by hand is no obstacle.
func TestDropOfWhatIsPartlyGone(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab, c := loadedTable(t, db, "t", 3), outsider(t, db, "check")
	mustExec(t, c, "DROP TABLE "+rowsOf(tab.ID))
	mustExec(t, c, "DELETE FROM extenddb.table_stats")
	markDropped(t, db, "t")
	complete(t, claimed(t, db, storage.TableDrop, jobNow()), jobNow())
	checkOrphans(t, c)
}

// TestDropEndsAutovacuum, which gives way to nobody who waits for a short time
// only, and may go on for hours.
func TestDropEndsAutovacuum(t *testing.T) {
	t.Parallel()
	s := servers.Private(t, "autovacuum_naptime=1s", "deadlock_timeout=100ms")
	db := mustOpen(t, Options{URL: s.Database(t)})
	tab, c := loadedTable(t, db, "t", 20_000), outsider(t, db, "check")
	mustExec(t, c, "ALTER TABLE "+rowsOf(tab.ID)+` SET (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0,
		autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)`)
	mustExec(t, c, "DELETE FROM "+rowsOf(tab.ID))
	markDropped(t, db, "t")
	for selectInt(t, c, `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE a.backend_type = 'autovacuum worker' AND l.relation = $1::regclass AND l.granted AND `+here, rowsOf(tab.ID)) == 0 {
		mustExec(t, c, "SELECT pg_sleep(0.05)") // the launcher comes by every second
	}
	complete(t, claimed(t, db, storage.TableDrop, jobNow()), jobNow())
	checkOrphans(t, c)
}

func TestDescribeHolder(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 14, 15, 4, 5, 0, time.FixedZone("", 3600))
	for want, got := range map[string]string{
		`process 4711 ("pg_dump") since 2026-03-14T14:04:05Z`: describe(4711, "pg_dump", "client backend", &since),
		`process 4711 ("client backend")`:                     describe(4711, "", "client backend", nil),
		`process 4711 ("a\nb")`:                               describe(4711, "a\nb", "client backend", nil),
		"a prepared transaction (see pg_prepared_xacts)":      describe(0, "", "prepared transaction", nil),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
