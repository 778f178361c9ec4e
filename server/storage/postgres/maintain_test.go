// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// TestStatisticsAreDue by what changed, and how long ago they were taken.
func TestStatisticsAreDue(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	tab := loadedTable(t, db, "t", 1)
	for _, k := range []struct {
		items, changed int64
		ago            time.Duration
		due            bool
	}{
		{0, 0, 0, false},
		{0, 0, countAnyway - time.Millisecond, false},
		{0, 0, countAnyway, true},
		{5000, 0, countAtLast, false},
		{5000, 1, countAtLast - time.Millisecond, false},
		{5000, 1, countAtLast, true},
		{5000, 500, countAfter, false},
		{5000, 501, countAfter, true},
		{5000, 501, countAfter - time.Millisecond, false},
		{5000, 5001, recountAfter, true},
		{5000, 5001, recountAfter - time.Millisecond, false},
		{5000, 5000, recountAfter, false},
		{0, fewChanges, recountAfter, false},
		{0, fewChanges + 1, recountAfter, true},
		{smallTable - 1, 1, countAfter, true},
		{smallTable - 1, 1, countAfter - time.Millisecond, false},
		{smallTable, 1, countAfter, false},
	} {
		mustExec(t, c, "UPDATE extenddb.table_stats SET items = $2, changed = $3, counted = $4 WHERE t = $1",
			int64(tab.ID), k.items, k.changed, jobNow())
		if got := len(due(t, db, storage.Statistics, jobNow().Add(k.ago))) == 1; got != k.due {
			t.Errorf("%+v: due is %v", k, got)
		}
	}
	mustExec(t, c, "UPDATE extenddb.table_stats SET counted = NULL")
	if len(due(t, db, storage.Statistics, jobNow())) != 1 {
		t.Error("what was never counted is not due")
	}
	mustExec(t, c, "UPDATE extenddb.table_stats SET items = 0, changed = 0, counted = $1", jobNow())
	mustExec(t, c, "UPDATE extenddb.samples SET positions = '' WHERE ix = 0")
	for ago, want := range map[time.Duration]int{sampleHeld - time.Second: 0, sampleHeld: 1} {
		if n := len(due(t, db, storage.Statistics, jobNow().Add(ago))); n != want {
			t.Errorf("a sample that was held off for %s: %d due", ago, n)
		}
	}
}

// TestChangesOfAllServersCount together.
func TestChangesOfAllServersCount(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
	tab := loadedTable(t, db, "t", 1)
	mustExec(t, c, "UPDATE extenddb.table_stats SET items = 0, counted = $1", jobNow())
	now := jobNow().Add(recountAfter)
	db.stats.touch(tab.ID, 60)
	if ws := due(t, db, storage.Statistics, now); len(ws) != 0 {
		t.Fatalf("due after 60: %+v", ws)
	}
	other.stats.touch(tab.ID, 60)
	other.stats.touch(tab.ID, 0)
	other.stats.touch(tab.ID+1000, 5) // of a table that is gone
	must(t, other.Close())            // which is a time to tell
	l := claimed(t, db, storage.Statistics, now)
	db.stats.touch(tab.ID, 7)
	must(t, db.stats.flush(t.Context()))
	complete(t, l, now)
	if n := selectInt(t, c, "SELECT changed FROM extenddb.table_stats"); n != 7 {
		t.Errorf("%d are left to be counted", n)
	}
	checkOrphans(t, c)
	db.stats.touch(tab.ID, 3)
	mustExec(t, c, "ALTER TABLE extenddb.table_stats RENAME TO away")
	if err := db.stats.flush(t.Context()); err == nil {
		t.Error("counts went nowhere")
	}
	mustExec(t, c, "ALTER TABLE extenddb.away RENAME TO table_stats")
	must(t, db.stats.flush(t.Context()))
	must(t, db.stats.flush(t.Context()))
	if n := selectInt(t, c, "SELECT changed FROM extenddb.table_stats"); n != 10 {
		t.Errorf("%d changed, want 10", n)
	}
}

// TestStatisticsAreTakenOnce: what another server has just counted, this one
// leaves alone although it was told that it is due.
func TestStatisticsAreTakenOnce(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
	loadedTable(t, db, "t", 5000)
	for range 2 {
		mustExec(t, c, "UPDATE extenddb.table_stats SET changed = 5")
		now := jobNow().Add(countAnyway)
		w := due(t, other, storage.Statistics, now)[0]
		l := claimed(t, db, storage.Statistics, now)
		if ws := due(t, db, storage.Statistics, now); len(ws) != 0 {
			t.Errorf("due although it is claimed: %+v", ws)
		}
		_, err := other.Claim(t.Context(), w)
		wantIs(t, err, storage.ErrClaimed)
		if p := complete(t, l, now); p.Done != 5000+5000+1667 {
			t.Errorf("progress %+v", p)
		}
		_, err = other.Claim(t.Context(), w)
		wantIs(t, err, storage.ErrNoWork)
		mustExec(t, c, "UPDATE extenddb.table_stats SET counted = NULL")
	}
}

// TestStatisticsOfRemovedTable: the table goes between the last page and the
// moment that statistics are stored.
func TestStatisticsOfRemovedTable(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	tab := loadedTable(t, db, "t", 10)
	l := claimed(t, db, storage.Statistics, jobNow().Add(countAnyway))
	n := &count{db: db, t: tab}
	must(t, db.call(t.Context(), func(c *pgxpool.Conn) error {
		for len(n.walked) <= len(tab.Indexes) {
			if _, err := n.page(t.Context(), c.Conn()); err != nil {
				return err
			}
			n.next(tab)
		}
		markDropped(t, db, "t")
		drop := claimed(t, db, storage.TableDrop, jobNow())
		wantIs(t, n.store(t.Context(), c.Conn(), jobNow()), storage.ErrTableNotFound)
		complete(t, drop, jobNow())
		wantIs(t, n.store(t.Context(), c.Conn(), jobNow()), storage.ErrTableNotFound)
		_, err := n.page(t.Context(), c.Conn())
		wantIs(t, err, storage.ErrTableNotFound)
		return nil
	}))
	_, err := l.Step(t.Context(), jobNow())
	wantIs(t, err, storage.ErrNoWork)
	checkOrphans(t, c)
}

// TestTrims: tokens and records go some at a time, and only those whose time is
// over.
func TestTrims(t *testing.T) {
	t.Parallel()
	const old, young = 2*trimRows + 10, 20
	for kind, k := range map[storage.WorkKind]struct{ fill, count, hold string }{
		storage.TokenExpiry: {
			"INSERT INTO extenddb.tokens SELECT 'a', ($2 || i::text)::bytea, '', $1 FROM generate_series(1, $3) i",
			"SELECT count(*) FROM extenddb.tokens", "SELECT FROM extenddb.tokens WHERE expires = $1 LIMIT 1 FOR UPDATE",
		},
		storage.RecordTrim: {
			`INSERT INTO extenddb.changes SELECT nextval('extenddb.change_seq'), 7, 1, false, 0, $1::timestamptz - '24h'::interval, $2::text::bytea,
				'', '', '', '' FROM generate_series(1, $3) i`,
			"SELECT count(*) FROM extenddb.changes", "",
		},
	} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{})
			c := mustConnect(t, db.o.URL)
			now := jobNow()
			if ws := due(t, db, kind, now); len(ws) != 0 {
				t.Fatalf("due: %+v", ws)
			}
			mustExec(t, c, k.fill, now.Add(-time.Second), "old", old)
			mustExec(t, c, k.fill, now.Add(time.Second), "young", young)
			l := claimed(t, db, kind, now)
			if l.w != (storage.Work{Kind: kind}) {
				t.Errorf("work %+v", l.w)
			}
			p, err := l.Step(t.Context(), now)
			must(t, err)
			if p.Finished || p.Done != trimRows || selectInt(t, c, k.count) != old+young-trimRows {
				t.Errorf("first step: %+v", p)
			}
			if p = complete(t, l, now); p.Done != old || selectInt(t, c, k.count) != young {
				t.Errorf("last step: %+v", p)
			}
			if ws := due(t, db, kind, now); len(ws) != 0 {
				t.Errorf("due: %+v", ws)
			}
			if k.hold == "" {
				return
			}
			tx, err := c.Begin(t.Context())
			must(t, err)
			_, err = tx.Exec(t.Context(), k.hold, now.Add(time.Second))
			must(t, err)
			complete(t, claimed(t, db, kind, now.Add(time.Minute)), now.Add(time.Minute)) // waits for nobody
			must(t, tx.Rollback(t.Context()))
			if n := selectInt(t, c, k.count); n != 1 {
				t.Errorf("%d are left", n)
			}
		})
	}
}

// TestRunnersOfTwoServers share the work, through losses of the connections
// that own it: all of it is done, and nothing is left.
func TestRunnersOfTwoServers(t *testing.T) {
	t.Parallel()
	const tables = 12
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	for i := range tables {
		loadedTable(t, db, fmt.Sprint("t", i), 2500)
		if i%2 == 0 {
			markDropped(t, db, fmt.Sprint("t", i))
		}
	}
	mustExec(t, c, "UPDATE extenddb.table_stats SET items = 0, counted = NULL")
	var wg sync.WaitGroup
	for _, server := range []*DB{db, mustOpen(t, Options{URL: db.o.URL})} {
		wg.Go(func() {
			for {
				ws, err := server.Pending(t.Context(), jobNow())
				if err == nil && len(ws) == 0 {
					return
				}
				for _, w := range ws {
					runWork(t, server, w)
				}
				if t.Context().Err() != nil {
					return
				}
			}
		})
	}
	for range 5 {
		mustExec(t, c, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND "+here)
		mustExec(t, c, "SELECT pg_sleep(0.02)")
	}
	wg.Wait()
	if n := selectInt(t, c, "SELECT count(*) FROM extenddb.tables"); n != tables/2 {
		t.Errorf("%d tables are left", n)
	}
	if n := selectInt(t, c, "SELECT count(*) FROM extenddb.table_stats WHERE items = 2500 AND counted IS NOT NULL"); n != tables/2 {
		t.Errorf("%d tables are counted", n)
	}
	checkOrphans(t, c)
}

// runWork does a piece of work as far as it goes.
func runWork(t *testing.T, db *DB, w storage.Work) {
	l, err := db.Claim(t.Context(), w)
	for err == nil {
		var p storage.Progress
		if p, err = l.Step(t.Context(), jobNow()); p.Finished {
			break
		}
	}
	if l != nil {
		_ = l.Release() // it may be lost
	}
	for _, e := range []error{storage.ErrClaimed, storage.ErrNoWork, storage.ErrHeld, storage.ErrUnavailable} {
		if errors.Is(err, e) {
			return
		}
	}
	if err != nil {
		t.Errorf("%s: %v", w.Kind, err)
	}
}

// TestDropOfSnapshotOfAnotherServer waits for it, and the end of the snapshot
// wakes who waits.
func TestDropOfSnapshotOfAnotherServer(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
	loadedTable(t, db, "t", 100)
	snap, err := other.Snapshot(t.Context(), jobAccount, "t")
	must(t, err)
	markDropped(t, db, "t")
	l := claimed(t, db, storage.TableDrop, jobNow())
	_, err = l.Step(t.Context(), jobNow())
	wantIs(t, err, storage.ErrHeld)
	if !strings.Contains(err.Error(), `("extenddb`) {
		t.Errorf("error %v", err)
	}
	checkOrphans(t, c)
	n := 0
	for _, err := range snap.Rows(t.Context()) {
		must(t, err)
		n++
	}
	must(t, snap.Close())
	if n != 100 {
		t.Errorf("a snapshot of %d rows", n)
	}
	complete(t, l, jobNow())
	checkOrphans(t, c)
}
