// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

func beginLoad(t testing.TB, db *DB, def ddb.TableDefinition) *loading {
	t.Helper()
	l, err := db.Load(context.Background(), acct, def, instant())
	if err != nil {
		t.Fatal(err)
	}
	return l.(*loading)
}

func loadRowsOf(t testing.TB, tab *storage.Table, items ...ddb.Item) []storage.LoadRow {
	t.Helper()
	rows := make([]storage.LoadRow, len(items))
	for i, it := range items {
		next, err := storage.Derive(tab, it)
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = storage.LoadRow{Key: key(t, tab, it["pk"].Str(), it["sk"].Str()), Next: next}
	}
	return rows
}

func mustAdd(t testing.TB, l *loading, items ...ddb.Item) {
	t.Helper()
	if err := l.Add(context.Background(), loadRowsOf(t, l.table, items...)); err != nil {
		t.Fatal(err)
	}
}

// loadFilesOf lists the runs beside the database.
func loadFilesOf(t testing.TB, db *DB) []string {
	t.Helper()
	names, err := filepath.Glob(db.path + loadInfix + "*")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func statusOf(t testing.TB, db *DB, name string) storage.Status {
	t.Helper()
	tab, err := db.Table(context.Background(), acct, name)
	if err != nil {
		t.Fatal(err)
	}
	return tab.Status
}

// TestLoadSpills: entries that do not fit in memory go through files, in many
// runs, and the table is what it would be without; no path leaves a file.
func TestLoadSpills(t *testing.T) {
	t.Parallel()
	const rows = 3000
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		end  func(t *testing.T, db *DB, l *loading) error
		want storage.Status
	}{
		"finish": {func(t *testing.T, _ *DB, l *loading) error { return l.Finish(t.Context(), nil) }, storage.Active},
		"abort":  {func(_ *testing.T, _ *DB, l *loading) error { return l.Abort() }, storage.Deleting},
		"duplicate": {func(t *testing.T, _ *DB, l *loading) error {
			err := l.Add(t.Context(), loadRowsOf(t, l.table, many(1, 1)...))
			if dup := (*storage.DuplicateKey)(nil); !errors.As(err, &dup) {
				return errors.Join(failed, err)
			}
			return nil
		}, storage.Creating},
		"cancelled finish": {func(t *testing.T, _ *DB, l *loading) error {
			ctx, cancel := context.WithCancel(t.Context())
			if err := l.Finish(ctx, func(done, _ int64) {
				if done > 0 {
					cancel()
				}
			}); !errors.Is(err, context.Canceled) {
				return errors.Join(failed, err)
			}
			return nil
		}, storage.Creating},
		"dropped": {func(t *testing.T, db *DB, l *loading) error {
			drop1(t, db, "t")
			if err := l.Finish(t.Context(), nil); !errors.Is(err, storage.ErrTableNotFound) {
				return errors.Join(failed, err)
			}
			return nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal}
			o.hooks.spill = 2 << 10
			db := mustOpen(t, o)
			l := beginLoad(t, db, wide("t"))
			for items := range slices.Chunk(many(rows, 10), 700) {
				for i := range items {
					items[i]["h"] = items[i]["pk"]
				}
				mustAdd(t, l, items...)
			}
			if len(loadFilesOf(t, db)) == 0 {
				t.Fatal("nothing was spilled")
			}
			if err := c.end(t, db, l); err != nil {
				t.Fatal(err)
			}
			if files := loadFilesOf(t, db); len(files) != 0 {
				t.Errorf("files left: %q", files)
			}
			if c.want != 0 {
				if got := statusOf(t, db, "t"); got != c.want {
					t.Errorf("table is %s, want %s", got, c.want)
				}
			}
			if c.want == storage.Active {
				_, stats, err := db.Describe(t.Context(), acct, "t")
				if err != nil || stats.Items != rows || stats.Indexes[l.table.Indexes[0].ID].Items != rows || stats.Indexes[l.table.Indexes[2].ID].Items != 0 {
					t.Errorf("statistics %+v, %v", stats, err)
				}
				drop1(t, db, "t")
			} else if err := l.Abort(); err != nil {
				t.Fatal(err)
			}
			if c.want == storage.Creating || c.want == storage.Deleting {
				p := finish(t, db, storage.TableDrop, instant())
				if p.Done < rows || p.Done != p.Total {
					t.Errorf("drop ended with %+v", p)
				}
			}
			check(t, db)
		})
	}
}

// TestLoadIsWhole: after a spilled load every row has its entries and no other.
func TestLoadIsWhole(t *testing.T) {
	t.Parallel()
	o := Options{Path: Memory}
	o.hooks.spill = 1 << 10
	db := mustOpen(t, o)
	l := beginLoad(t, db, wide("t"))
	mustAdd(t, l, many(2000, 10)...)
	last, steps := int64(-1), 0
	if err := l.Finish(t.Context(), func(done, total int64) {
		if done < last || done > total || total != 2000 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
		steps++
	}); err != nil || last != 2000 || steps < 2 {
		t.Fatalf("%v; %d entries in %d steps", err, last, steps)
	}
	check(t, db)
	tab, err := db.Table(t.Context(), acct, "t")
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, tab, item("p0", "000000", "g", "moved"))
	check(t, db)
}

// TestLoadTransactions: a transaction of a load is large while nobody waits,
// and ends soon when somebody does.
func TestLoadTransactions(t *testing.T) {
	t.Parallel()
	big := func() []ddb.Item { return many(45, 390<<10) }
	for name, c := range map[string]struct {
		items   []ddb.Item
		awaited bool
		slow    bool
		batches int
		first   int // rows of the first; 0: not of interest
	}{
		"alone":                 {many(loadRows, 1), false, false, 1, loadRows},
		"alone, many rows":      {many(loadRows+1, 1), false, false, 2, loadRows},
		"alone, large rows":     {big(), false, false, 3, loadBytes/(390<<10) + 1},
		"alone, slow":           {many(loadRows, 1), false, true, 1, loadRows},
		"awaited":               {many(loadRows, 1), true, false, 1 + 1 + 1, sharedRows},
		"awaited, large rows":   {big(), true, false, 1 + 1 + 2, sharedSize/(390<<10) + 1},
		"awaited, slow":         {many(100, 1), true, true, 1 + 1 + 1, int(sharedTime / time.Millisecond)},
		"awaited, one row only": {many(1, 1), true, true, 1 + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clk clock.Clock = clock.NewFake(instant())
			if c.slow {
				clk = &ticking{Fake: clock.NewFake(instant())}
			}
			g := openGated(t, Options{Clock: clk})
			tab := create(t, g.DB, plain("other"))
			l := beginLoad(t, g.DB, plain("t"))
			rows := loadRowsOf(t, l.table, c.items...)
			var err error
			fs := []func(){func() { err = l.Add(context.Background(), rows) }}
			if c.awaited {
				fs = append(fs, func() { mustPut(t, g.DB, tab, item("p", "s")) })
			}
			var first int
			g.watch(func() {
				if first == 0 {
					first = len(l.ids)
				}
			})
			batches := g.during(fs...)
			if err != nil {
				t.Fatal(err)
			}
			if len(batches) != c.batches {
				t.Errorf("%d transactions, want %d", len(batches), c.batches)
			}
			if c.first != 0 && first != c.first {
				t.Errorf("the first transaction has %d rows, want %d", first, c.first)
			}
			if l.stats.Items != int64(len(c.items)) {
				t.Errorf("%d rows, want %d", l.stats.Items, len(c.items))
			}
			if err := l.Abort(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// watch calls f after each transaction of a load.
func (g *gated) watch(f func()) { g.o.hooks.step = f }

// ticking is a clock that goes on by a millisecond whenever it is looked at.
type ticking struct {
	*clock.Fake

	mu sync.Mutex
	n  time.Duration
}

// Now implements clock.Clock.
func (c *ticking) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.Fake.Now().Add(c.n * time.Millisecond)
}

// TestLoadLongKeys: a load notes shortened keys as a write does.
func TestLoadLongKeys(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db")}
	db := mustOpen(t, o)
	for name, ordered := range map[string]bool{strings.Repeat("x", 300): true, strings.Repeat("x", 301): false} {
		def := plain(fmt.Sprint("t", len(name)))
		l := beginLoad(t, db, def)
		mustAdd(t, l, item("a", "1"), item(name, "1"), item(name, "2"))
		if err := l.Finish(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s, err := db.Snapshot(t.Context(), acct, def.TableName)
			if err != nil {
				t.Fatal(err)
			}
			if s.KeyOrdered() != ordered {
				t.Errorf("a key of %d bytes: ordered is %v", len(name), s.KeyOrdered())
			}
			if err := errors.Join(s.Close(), db.Close()); err != nil {
				t.Fatal(err)
			}
			db = mustOpen(t, o)
		}
	}
}

// TestLoadRefusals: a load is no more after its end, nor after an error.
func TestLoadRefusals(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	for name, end := range map[string]func(l *loading) error{
		"finished": func(l *loading) error { return l.Finish(context.Background(), nil) },
		"aborted":  func(l *loading) error { return l.Abort() },
		"failed": func(l *loading) error {
			if err := l.Add(context.Background(), loadRowsOf(t, l.table, item("p", "s"), item("p", "s"))); err == nil {
				return errors.New("a key is there twice")
			}
			return nil
		},
	} {
		l := beginLoad(t, db, definition(name))
		if err := end(l); err != nil {
			t.Fatal(err)
		}
		wantErr(t, l.Add(t.Context(), loadRowsOf(t, l.table, item("p", "t"))), storage.ErrInvalid)
		wantErr(t, l.Finish(t.Context(), nil), storage.ErrInvalid)
		if err := errors.Join(l.Abort(), l.Abort()); err != nil {
			t.Error(err)
		}
	}
	check(t, db)
}

// TestLoadedTableIsDue: what a load made has no samples yet, so it is counted
// at once, also by the process after the one that loaded it; until then its
// statistics are those of the load.
func TestLoadedTableIsDue(t *testing.T) {
	t.Parallel()
	for _, reopened := range []bool{false, true} {
		o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal}
		db := mustOpen(t, o)
		l := beginLoad(t, db, definition("t"))
		mustAdd(t, l, many(100, 10)...)
		if w, ok := work(t, db, storage.Statistics, instant()); ok {
			t.Errorf("%+v is due during the load", w)
		}
		if err := l.Finish(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if reopened {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = mustOpen(t, o)
		}
		_, stats, err := db.Describe(t.Context(), acct, "t")
		if err != nil || stats.Items != 100 || stats.Indexes[l.table.Indexes[0].ID].Items != 100 {
			t.Errorf("reopened %v: statistics %+v, %v", reopened, stats, err)
		}
		if p := finish(t, db, storage.Statistics, instant()); p.Done != 200 {
			t.Errorf("reopened %v: counted %+v", reopened, p)
		}
		if w, ok := work(t, db, storage.Statistics, instant()); ok {
			t.Errorf("reopened %v: %+v is due again", reopened, w)
		}
	}
}

// TestLoadTakesLittleCache while it lasts, however it ends.
func TestLoadTakesLittleCache(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory, CacheBytes: 2 * loadCache})
	want := func(when string, bytes int64) {
		t.Helper()
		err := db.change(t.Context(), false, func(tx *tx) error {
			n, err := tx.w.s.c.queryInt("PRAGMA cache_size")
			if n != -bytes>>10 {
				t.Errorf("%s: cache_size %d", when, n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want("before", 2*loadCache)
	finished, aborted := beginLoad(t, db, plain("first")), beginLoad(t, db, plain("second"))
	mustAdd(t, finished, many(10, 10)...)
	want("while two are loaded", loadCache)
	if err := finished.Finish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want("while one is loaded", loadCache)
	if err := aborted.Abort(); err != nil {
		t.Fatal(err)
	}
	want("afterwards", 2*loadCache)
	db = mustOpen(t, Options{Path: Memory, CacheBytes: loadCache / 4})
	beginLoad(t, db, plain("third"))
	want("of little", loadCache/4)
}
