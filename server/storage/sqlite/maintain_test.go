// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// work finds a piece of work that is due.
func work(t *testing.T, db *DB, kind storage.WorkKind, now time.Time) (storage.Work, bool) {
	t.Helper()
	ws, err := db.Pending(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ws {
		if w.Kind == kind {
			return w, true
		}
	}
	return storage.Work{}, false
}

// finish does work of a kind and returns the last progress.
func finish(t *testing.T, db *DB, kind storage.WorkKind, now time.Time) storage.Progress {
	t.Helper()
	w, ok := work(t, db, kind, now)
	if !ok {
		t.Fatalf("no %s is due", kind)
	}
	l, err := db.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for {
		p, err := l.Step(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		if p.Finished {
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
}

// drop1 drops a table and all of its storage.
func drop1(t *testing.T, db *DB, name string) {
	t.Helper()
	if _, err := db.DropTable(t.Context(), acct, name, func(*storage.Table) error { return nil }); err != nil {
		t.Fatal(err)
	}
	finish(t, db, storage.TableDrop, instant())
}

// TestCrashInDrop: a drop goes on where it was, at any step.
func TestCrashInDrop(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal, Clock: clock.NewFake(instant())}
	db := mustOpen(t, o)
	const rows = 2*dropRows + 500
	tab, other := create(t, db, definition("t")), create(t, db, definition("other"))
	mustPut(t, db, tab, many(rows, 10)...)
	mustPut(t, db, other, many(20, 10)...)
	finish(t, db, storage.Statistics, instant().Add(countAfter))
	if _, err := db.DropTable(t.Context(), acct, "t", func(*storage.Table) error { return nil }); err != nil {
		t.Fatal(err)
	}
	done, steps := int64(0), 0
	for finished := false; !finished; steps++ {
		w, ok := work(t, db, storage.TableDrop, instant())
		if !ok {
			t.Fatal("the drop is forgotten")
		}
		l, err := db.Claim(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.Step(t.Context(), instant())
		if err != nil {
			t.Fatal(err)
		}
		if p.Done <= done || p.Total != 2*rows {
			t.Errorf("progress %+v after %d", p, done)
		}
		done, finished = p.Done, p.Finished
		check(t, db)
		o.Path = crashImage(t, db)
		db = mustOpen(t, o)
	}
	if done != 2*rows || steps < 4 {
		t.Errorf("%d rows and entries in %d steps", done, steps)
	}
	for _, table := range []string{"r", "x", "tables", "indexes", "leftovers", "samples", "table_stats"} {
		n, want := int64(-1), map[string]int64{"r": 20, "x": 20, "tables": 1, "indexes": 1}[table]
		err := db.read(t.Context(), func(s *session) (err error) {
			n, err = s.c.queryInt("SELECT count(*) FROM " + table + map[bool]string{true: " WHERE t = 1"}[table == "table_stats" || table == "samples"])
			return err
		})
		if err != nil || n != want {
			t.Errorf("%d rows of %s left, want %d (%v)", n, table, want, err)
		}
	}
	create(t, db, definition("t"))
	check(t, db)
}

// TestDropLeavesGapsForWriters: other writes commit between two steps.
func TestDropLeavesGapsForWriters(t *testing.T) {
	t.Parallel()
	g := openGated(t, Options{})
	tab, other := create(t, g.DB, definition("t")), create(t, g.DB, definition("other"))
	mustPut(t, g.DB, tab, many(dropRows, 10)...)
	if _, err := g.DropTable(t.Context(), acct, "t", func(*storage.Table) error { return nil }); err != nil {
		t.Fatal(err)
	}
	w, _ := work(t, g.DB, storage.TableDrop, instant())
	l, err := g.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	var p storage.Progress
	var stepped, written error
	batches := g.during(
		func() { p, stepped = l.Step(t.Context(), instant()) },
		func() { _, written = g.Write(t.Context(), put(t, other, item("p", "s"))) },
	)
	if stepped != nil || written != nil || p.Finished || len(batches) != 2 {
		t.Errorf("step %v (%+v), write %v, batches %v", stepped, p, written, batches)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	finish(t, g.DB, storage.TableDrop, instant())
	check(t, g.DB)
}

func TestStatisticsAreDue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		tracked *tracked
		want    bool
	}{
		{"new table", nil, true},
		{"never counted", &tracked{}, true},
		{"just counted", &tracked{at: instant()}, false},
		{"crashed since", &tracked{at: instant(), unknown: true}, true},
		{"a few changes", &tracked{at: instant().Add(-time.Hour), items: 10_000, changed: 100}, false},
		{"a change of a small table", &tracked{at: instant().Add(-time.Minute), items: 999, changed: 1}, true},
		{"a change of a small table, too soon", &tracked{at: instant().Add(-59 * time.Second), items: 999, changed: 1}, false},
		{"no change of a small table", &tracked{at: instant().Add(-time.Hour), items: 999}, false},
		{"a tenth, too soon", &tracked{at: instant().Add(-59 * time.Second), items: 10_000, changed: 1001}, false},
		{"a tenth", &tracked{at: instant().Add(-time.Minute), items: 10_000, changed: 1001}, true},
		{"less than a tenth", &tracked{at: instant().Add(-time.Hour), items: 10_000, changed: 1000}, false},
		{"doubled", &tracked{at: instant().Add(-5 * time.Second), items: 10_000, changed: 10_001}, true},
		{"doubled, too soon", &tracked{at: instant().Add(-4 * time.Second), items: 10_000, changed: 10_001}, false},
		{"old and changed", &tracked{at: instant().Add(-6 * time.Hour), items: 10_000, changed: 1}, true},
		{"old and unchanged", &tracked{at: instant().Add(-23 * time.Hour), items: 10_000}, false},
		{"without sample", &tracked{at: instant().Add(-sampleHeld), later: true}, true},
		{"without sample, too soon", &tracked{at: instant().Add(-sampleHeld + 1), later: true}, false},
		{"very old", &tracked{at: instant().Add(-24 * time.Hour), items: 10_000}, true},
	} {
		k := &tracker{tables: map[storage.TableID]*tracked{}}
		if c.tracked != nil {
			k.tables[1] = c.tracked
		}
		if got := k.due(1, instant()); got != c.want {
			t.Errorf("%s: due %v", c.name, got)
		}
	}
}

// TestStatisticsAcrossRestarts: closed in order, the engine knows what changed;
// after a crash it counts again, and leaves samples in use alone.
func TestStatisticsAcrossRestarts(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(instant())
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Clock: clk}
	db := mustOpen(t, o)
	tab := create(t, db, definition("t"))
	if _, due := work(t, db, storage.Statistics, clk.Now()); due {
		t.Error("due although nothing was ever written")
	}
	mustPut(t, db, tab, many(30, 10)...)
	clk.Advance(countAfter)
	finish(t, db, storage.Statistics, clk.Now())
	sample, err := db.Sample(t.Context(), tab, 0, clk.Now())
	if err != nil || len(sample) != 30 {
		t.Fatalf("sample of %d (%v)", len(sample), err)
	}
	mustPut(t, db, tab, many(150, 10)...)
	image := crashImage(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db = mustOpen(t, o)
	if _, due := work(t, db, storage.Statistics, clk.Now()); due {
		t.Error("due at once although closed in order")
	}
	if _, s, _ := db.Describe(t.Context(), acct, "t"); s.Items != 30 || s.Indexes[tab.Indexes[0].ID].Items != 30 {
		t.Errorf("statistics are lost: %+v", s)
	}
	clk.Advance(time.Minute)
	finish(t, db, storage.Statistics, clk.Now())
	if _, s, _ := db.Describe(t.Context(), acct, "t"); s.Items != 150 {
		t.Errorf("statistics %+v", s)
	}
	if s, err := db.Sample(t.Context(), tab, 0, clk.Now()); len(s) != 30 || err != nil {
		t.Errorf("sample in use was replaced by one of %d (%v)", len(s), err)
	}

	db = mustOpen(t, Options{Path: image, Clock: clk})
	finish(t, db, storage.Statistics, clk.Now()) // due at once
	if s, err := db.Sample(t.Context(), tab, 0, clk.Now().Add(-2*time.Hour)); len(s) != 30 || err != nil {
		t.Errorf("sample perhaps in use was replaced by one of %d (%v)", len(s), err)
	}
	clk.Advance(25 * time.Hour)
	finish(t, db, storage.Statistics, clk.Now())
	if s, err := db.Sample(t.Context(), tab, 0, clk.Now()); len(s) != 150 || err != nil {
		t.Errorf("sample of %d (%v)", len(s), err)
	}
}

// TestSampleCacheIsBounded: samples are read again when too many are kept.
func TestSampleCacheIsBounded(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	var tabs []*storage.Table
	for i := range maxCached + 8 {
		tab := create(t, db, plain(fmt.Sprint("table-", i)))
		mustPut(t, db, tab, item("p", fmt.Sprint(i)))
		tabs = append(tabs, tab)
	}
	for range tabs {
		finish(t, db, storage.Statistics, instant().Add(countAfter))
	}
	for range 2 {
		for i, tab := range tabs {
			s, err := db.Sample(t.Context(), tab, 0, instant())
			if want := key(t, tab, "p", fmt.Sprint(i)); err != nil || len(s) != 1 || string(s[0].SK) != string(want.SK) {
				t.Fatalf("sample %v of table %d (%v)", s, i, err)
			}
		}
	}
	if db.stats.cached > maxCached {
		t.Errorf("%d samples in memory", db.stats.cached)
	}
}
