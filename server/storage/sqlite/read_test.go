// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// variants are all kinds of Range.
func variants() []variant {
	var vs []variant
	for i := range 16 {
		for want := storage.Sizes; want <= storage.Items; want++ {
			vs = append(vs, variant{i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0, want})
		}
	}
	return vs
}

// plan is what SQLite does for a statement.
func plan(t *testing.T, s *session, sql string) string {
	t.Helper()
	var steps []string
	err := s.c.each(t.Context(), "EXPLAIN QUERY PLAN "+sql, func(st *stmt) error {
		steps = append(steps, string(st.colBlob(3)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(steps, "; ")
}

// TestPlans: every bound narrows what is read, nothing is sorted, and reading
// keys of an index does not read rows.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	err := db.read(t.Context(), func(s *session) error {
		for _, v := range variants() {
			fixed, cols, path := "t=?", "pk,sk", "SEARCH r USING INDEX sqlite_autoindex_r_1 ("
			if v.index {
				fixed, cols, path = "ix=?", "p,s,pk,sk", "SEARCH x USING PRIMARY KEY ("
			}
			if v.part {
				first, rest, _ := strings.Cut(cols, ",")
				fixed, cols = fixed+" AND "+first+"=?", rest
			}
			if strings.Contains(cols, ",") {
				cols = "(" + cols + ")"
			}
			marks := "?"
			if n := strings.Count(cols, ","); n > 0 {
				marks = "(?" + strings.Repeat(",?", n) + ")"
			}
			want := path + fixed + " AND " + cols + ">" + marks
			if v.bounded {
				want += " AND " + cols + "<" + marks
			}
			want += ")"
			switch {
			case v.index && v.want == storage.Items:
				want += "; SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"
			case v.index && v.want == storage.Keys: // evaluated for shortened keys only
				want += "; CORRELATED SCALAR SUBQUERY 1; SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"
			}
			if got := plan(t, s, v.sql()); got != want {
				t.Errorf("%+v\n got %s\nwant %s", v, got, want)
			}
		}
		for _, sql := range []string{
			sqlGet, sqlFind, sqlUpdate, sqlDelete, sqlResize, sqlRemove, sqlToken, sqlOldToken, sqlPruneTokens,
			sqlChanges, sqlOldRecord, sqlPruneRecords,
			sqlFirstRows, sqlEntryAt, sqlFirstEntry, sqlAllEntries, sqlSample, sqlVersion, sqlAllRows, sqlEntry,
		} {
			if got := plan(t, s, sql); strings.Contains(got, "SCAN") || strings.Contains(got, "TEMP B-TREE") {
				t.Errorf("%s\n%s", sql, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadsWhileTheCatalogChanges: with the gate open no read trusts the
// catalog in memory; each asks the database, in its own snapshot.
func TestReadsWhileTheCatalogChanges(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	tab, other := create(t, db, definition("t")), create(t, db, definition("other"))
	mustPut(t, db, tab, many(1200, 10)...)
	mustPut(t, db, other, item("p", "s"))
	memory := db.cat.Load()
	stale, err := db.UpdateTable(t.Context(), acct, "other", func(t *storage.Table) (ddb.TableDefinition, error) { return t.Def, nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.DropTable(t.Context(), acct, "t", func(*storage.Table) error { return nil }); err != nil {
		t.Fatal(err)
	}
	current := db.cat.Load()
	// As a reader may find it between COMMIT and what follows.
	db.gate.Add(1)
	db.cat.Store(memory)
	for _, c := range []struct {
		name string
		tab  *storage.Table
		want error
	}{{"updated", other, storage.ErrStale}, {"dropped", tab, storage.ErrTableNotFound}} {
		k := key(t, c.tab, "p", "s")
		_, err := db.Get(t.Context(), c.tab, k)
		wantErr(t, err, c.want)
		_, err = db.GetAll(t.Context(), []storage.TableKey{{Table: c.tab, Key: k}}, 0)
		wantErr(t, err, c.want)
		for _, err := range db.Range(t.Context(), c.tab, storage.Range{Want: storage.Items}) {
			wantErr(t, err, c.want)
		}
	}
	// The definition in the database is the one that counts.
	db.cat.Store(current)
	if row := get(t, db, stale, "p", "s"); row == nil {
		t.Error("row is not found")
	}
	rows, err := db.GetAll(t.Context(), []storage.TableKey{{Table: stale, Key: key(t, stale, "p", "s")}}, 0)
	if err != nil || len(rows) != 1 || rows[0] == nil {
		t.Errorf("rows %v (%v)", rows, err)
	}
	n := 0
	for _, err := range db.Range(t.Context(), stale, storage.Range{Want: storage.Items}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d rows", n)
	}
	if _, err := db.Write(t.Context(), put(t, stale, item("p", "s", "x", "y"))); err != nil {
		t.Fatal(err)
	}
	db.gate.Add(1)
	assertIdle(t, db)
}

// assertIdle checks that all slots and sessions are back, out of transactions.
func assertIdle(t *testing.T, db *DB) {
	t.Helper()
	db.pool.mu.Lock()
	defer db.pool.mu.Unlock()
	if n := len(db.pool.slots); n != 0 {
		t.Errorf("%d slots are taken", n)
	}
	if len(db.pool.idle) == 0 {
		t.Error("no session is idle")
	}
	for _, s := range db.pool.idle {
		if !s.c.autocommit() {
			t.Error("an idle session is in a transaction")
		}
		for _, st := range s.ranges {
			if st.busy() {
				t.Error("a statement of an idle session still runs")
			}
		}
	}
}

// TestAbandonedIterators give everything back at once, wherever they stop.
func TestAbandonedIterators(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory, Readers: 1})
	tab := create(t, db, definition("t"))
	mustPut(t, db, tab, many(3*chunkRows, 10)...)
	for _, stop := range []int{1, 2, chunkRows, chunkRows + 1, 2*chunkRows + 7, 3 * chunkRows} {
		for _, r := range []storage.Range{{Want: storage.Items}, {Want: storage.Keys, Index: tab.Indexes[0].ID}, {Want: storage.Sizes, Rows: 5}} {
			n := 0
			for _, err := range db.Range(t.Context(), tab, r) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == stop {
					break
				}
			}
			if n != stop {
				t.Fatalf("%d rows, want %d", n, stop)
			}
			assertIdle(t, db)
		}
	}
	func() {
		defer func() { _ = recover() }()
		for range db.Range(t.Context(), tab, storage.Range{Want: storage.Items}) {
			panic("in the caller")
		}
	}()
	assertIdle(t, db)
}

// TestCancelledReads end at the next row and give everything back.
func TestCancelledReads(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory, Readers: 1})
	tab := create(t, db, definition("t"))
	mustPut(t, db, tab, many(3*chunkRows, 10)...)
	for _, after := range []int{0, 1, chunkRows - 1, chunkRows, chunkRows + 1, 2 * chunkRows} {
		ctx, cancel := context.WithCancel(t.Context())
		if after == 0 {
			cancel()
		}
		n, failed := 0, false
		for _, err := range db.Range(ctx, tab, storage.Range{Want: storage.Items}) {
			if err != nil {
				wantErr(t, err, context.Canceled)
				failed = true
				continue
			}
			if n++; n == after {
				cancel()
			}
		}
		if n != after || !failed {
			t.Errorf("%d rows before the end, want %d", n, after)
		}
		assertIdleOrFresh(t, db)
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := db.Get(ctx, tab, key(t, tab, "p", "s"))
	wantErr(t, err, context.Canceled)
	_, err = db.GetAll(ctx, []storage.TableKey{{Table: tab, Key: key(t, tab, "p", "s")}}, 0)
	wantErr(t, err, context.Canceled)
	wantErr(t, db.Check(ctx), context.Canceled)
	wantErr(t, db.Ping(ctx), context.Canceled)
}

// assertIdleOrFresh is assertIdle for a pool that may not have been used.
func assertIdleOrFresh(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertIdle(t, db)
}

// TestWaitForASlotEnds with the context of who waits.
func TestWaitForASlotEnds(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory, Readers: 1})
	tab := create(t, db, definition("t"))
	ctx, cancel := context.WithCancel(t.Context())
	err := db.read(t.Context(), func(*session) error {
		done := make(chan error)
		go func() {
			_, err := db.Get(ctx, tab, key(t, tab, "p", "s"))
			done <- err
		}()
		cancel()
		return <-done
	})
	wantErr(t, err, context.Canceled)
	assertIdle(t, db)
}

// TestReadsWithinReads: with a single place in the pool a caller may call
// whatever it likes while it iterates, iterators within iterators included.
func TestReadsWithinReads(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory, Readers: 1})
	tab := create(t, db, definition("t"))
	mustPut(t, db, tab, many(2*chunkRows, 10)...)
	var nest func(depth int)
	nest = func(depth int) {
		n := 0
		for row, err := range db.Range(t.Context(), tab, storage.Range{Want: storage.Items}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n != 3 {
				continue
			}
			if got := mustGet(t, db, tab, row.Key); got == nil {
				t.Fatal("row is not there")
			}
			mustPut(t, db, tab, item("new", fmt.Sprint(depth)))
			if depth < 4 {
				nest(depth + 1)
			}
		}
		if n != 2*chunkRows+depth {
			t.Errorf("%d rows at depth %d", n, depth)
		}
	}
	nest(0)
	assertIdle(t, db)
	if n := len(db.pool.idle); n > 2 || n != db.pool.total {
		t.Errorf("%d sessions are kept, %d counted", n, db.pool.total)
	}
}

// TestLargeRowsEndChunks: memory read ahead is bounded by bytes, and by the
// caller's hints.
func TestLargeRowsEndChunks(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	tab := create(t, db, definition("t"))
	mustPut(t, db, tab, many(12, 100_000)...)
	for _, c := range []struct {
		r    storage.Range
		rows int
	}{
		{storage.Range{Want: storage.Items}, 3},
		{storage.Range{Want: storage.Items, Rows: 2}, 2},
		{storage.Range{Want: storage.Items, Bytes: 150_000}, 2},
		{storage.Range{Want: storage.Items, Bytes: 1}, 1},
		{storage.Range{Want: storage.Sizes}, 12},
	} {
		cur := &cursor{db: db, want: &c.r, chunk: new(storage.RowBuffer)}
		if err := cur.start(t.Context(), tab); err != nil {
			t.Fatal(err)
		}
		if err := cur.fill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := cur.chunk.Len(); got != c.rows {
			t.Errorf("%+v: %d rows read ahead, want %d", c.r, got, c.rows)
		}
		cur.close()
	}
	assertIdle(t, db)
}

// TestCloseWaitsForIterators and lets nothing in meanwhile.
func TestCloseWaitsForIterators(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	tab := create(t, db, definition("t"))
	mustPut(t, db, tab, many(2*chunkRows, 10)...)
	closed, n := make(chan error, 1), 0
	for _, err := range db.Range(t.Context(), tab, storage.Range{Want: storage.Items}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			go func() { closed <- db.Close() }()
			for db.Ping(t.Context()) == nil { // until it has begun
				runtime.Gosched()
			}
			_, err := db.Get(t.Context(), tab, key(t, tab, "p", "s"))
			wantErr(t, err, storage.ErrClosed)
		}
		select {
		case <-closed:
			t.Fatal("closed under an iterator")
		default:
		}
	}
	if err := <-closed; err != nil || n != 2*chunkRows {
		t.Errorf("%d rows, close: %v", n, err)
	}
}

// TestDamage is noticed by whoever meets it, and by Check.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sql string
		read      bool // a read over the index notices
	}{
		{"row without entry", "DELETE FROM x WHERE pk = (SELECT min(pk) FROM x)", false},
		{"entry without row", "DELETE FROM r WHERE id = 3", true},
		{"entry of nobody", "INSERT INTO x SELECT ix, p, s, x'99', x'', rid, size FROM x LIMIT 1", false},
		{"wrong size of entry", "UPDATE x SET size = size + 1", false},
		{"wrong row of entry", "UPDATE x SET rid = 1", false},
		{"wrong size", "UPDATE r SET size = size + 1 WHERE id = 3", false},
		{"wrong flags", "UPDATE r SET flags = 1 WHERE id = 3", false},
		{"not an item", "UPDATE r SET item = x'00' WHERE id = 3", false},
		{"another's item", "UPDATE r SET item = (SELECT item FROM r WHERE id = 4) WHERE id = 3", false},
		{"no key", "UPDATE r SET item = CAST('{}' AS BLOB) WHERE id = 3", false},
		{"row of no table", "UPDATE r SET t = 77 WHERE id = 3", false},
		{"entry of no index", "UPDATE x SET ix = 77 WHERE pk = (SELECT min(pk) FROM x)", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{Path: Memory})
			tab := create(t, db, definition("t"))
			mustPut(t, db, tab, many(9, 10)...)
			check(t, db)
			if err := db.change(t.Context(), false, func(tx *tx) error { return tx.w.s.c.exec(c.sql) }); err != nil {
				t.Fatal(err)
			}
			wantErr(t, db.Check(t.Context()), storage.ErrCorrupt)
			if !c.read {
				return
			}
			var last error
			for _, err := range db.Range(t.Context(), tab, storage.Range{Index: tab.Indexes[0].ID, Want: storage.Items}) {
				last = err
			}
			wantErr(t, last, storage.ErrCorrupt)
		})
	}
}

// TestDamagedRowRefusesWrites to it, without harm to others.
func TestDamagedRowRefusesWrites(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	tab := create(t, db, definition("t"))
	items := many(2, 10)
	mustPut(t, db, tab, items...)
	if err := db.change(t.Context(), false, func(tx *tx) error { return tx.w.s.c.exec("DELETE FROM x WHERE pk = (SELECT pk FROM r WHERE id = 1)") }); err != nil {
		t.Fatal(err)
	}
	ws := []storage.Write{put(t, tab, items[0]), put(t, tab, items[1])}
	for i := range ws {
		ws[i].Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, nil }
	}
	rs := db.WriteEach(t.Context(), ws)
	wantErr(t, rs[0].Err, storage.ErrCorrupt)
	if rs[1].Err != nil {
		t.Errorf("the other write: %v", rs[1].Err)
	}
}
