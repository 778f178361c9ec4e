// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func loadingChecks() []check {
	return []check{
		{"loading/loaded as written", checkLoaded},
		{"loading/empty table", checkLoadEmpty},
		{"loading/long keys", checkLoadLongKeys},
		{"loading/bad index keys", checkLoadBadKeys},
		{"loading/out of sight", checkLoadHidden},
		{"loading/changed and dropped", checkLoadDropped},
		{"loading/name taken", checkLoadName},
		{"loading/too many tables", checkLoadTooMany},
		{"loading/duplicates", checkLoadDuplicates},
		{"loading/abort", checkLoadAbort},
		{"loading/cancelled", checkLoadCancelled},
		{"loading/one step", checkLoadOneStep},
		{"loading/reopen", checkLoadReopen},
		{"loading/closed", checkLoadClosed},
		{"loading/side by side", checkLoadsTogether},
		{"loading/beside writers", checkLoadBesideWriters},
	}
}

// load begins the load of a table.
func (e *env) load(def ddb.TableDefinition) storage.Loading {
	e.Helper()
	return e.loadOf(account, def)
}

func (e *env) loadOf(account string, def ddb.TableDefinition) storage.Loading {
	e.Helper()
	l, err := e.e.Load(e.ctx, account, def, e.now)
	e.ok(err)
	return l
}

// loadRows are the rows of items, in key order.
func loadRows(t *storage.Table, items ...ddb.Item) []storage.LoadRow {
	rows := unsortedRows(t, items...)
	slices.SortFunc(rows, func(a, b storage.LoadRow) int { return tablePosition(a.Key).Compare(tablePosition(b.Key)) })
	return rows
}

func unsortedRows(t *storage.Table, items ...ddb.Item) []storage.LoadRow {
	rows := make([]storage.LoadRow, len(items))
	for i, it := range items {
		next, err := storage.Derive(t, it)
		if err != nil {
			panic(fmt.Sprintf("storagetest: item without key: %v", err)) // a mistake in the suite
		}
		rows[i] = storage.LoadRow{Key: keyOf(t, it), Next: next}
	}
	return rows
}

// addAll adds rows some at a time.
func (e *env) addAll(l storage.Loading, rows []storage.LoadRow, atOnce int) {
	e.Helper()
	for chunk := range slices.Chunk(rows, atOnce) {
		e.ok(l.Add(e.ctx, chunk))
	}
}

// finishLoad finishes a load and returns the table.
func (e *env) finishLoad(l storage.Loading) *storage.Table {
	e.Helper()
	e.ok(l.Finish(e.ctx, nil))
	t, err := e.e.Table(e.ctx, l.Table().Account, l.Table().Name())
	e.ok(err)
	return t
}

// loadItems are n items of a rich table, with every index met by some.
func loadItems(n int) []ddb.Item {
	var items []ddb.Item
	for i := range n {
		it := item("pk", fmt.Sprint("p", i%7), "sk", fmt.Sprintf("%04d", i), "x", fmt.Sprintf("%0*d", i%90, i))
		if i%2 == 0 {
			it = with(it, "g", fmt.Sprint("G", i%5), "h", i%11-5)
		}
		if i%3 == 0 {
			it = with(it, "a", "A", "b", i%4, "c", []byte{byte(i)}, "d", fmt.Sprint(i), "e", i, "l", -i)
		}
		if i%5 == 0 {
			it = with(it, "m", fmt.Sprint(i), "y", number("1E100"))
		}
		items = append(items, it)
	}
	return items
}

// checkLoaded: a loaded table is what the same rows make of it one by one, in
// rows, entries, statistics and samples, at once and after a restart.
func checkLoaded(e *env) {
	items := loadItems(manyRows)
	written := e.create(rich("written"))
	e.put(written, items...)
	for _, how := range []struct {
		name   string
		atOnce int
		rows   func(t *storage.Table, items ...ddb.Item) []storage.LoadRow
	}{{"sorted", 100, loadRows}, {"all-at-once", len(items), loadRows}, {"as-they-come", 10, unsortedRows}} {
		l := e.load(rich(how.name))
		rows := how.rows(l.Table(), items...)
		e.addAll(l, rows, how.atOnce)
		e.ok(l.Add(e.ctx, nil))
		t := e.finishLoad(l)
		e.ok(l.Abort()) // does nothing
		e.likeWritten(t, written)
		e.loadedStats(t, rows)
		e.reopen()
		e.likeWritten(t, written)
		e.count(t.Name())
		e.loadedStats(t, rows)
		e.segments(t)
		written = e.current(written)
	}
}

func (e *env) current(t *storage.Table) *storage.Table {
	e.Helper()
	t, err := e.e.Table(e.ctx, t.Account, t.Name())
	e.ok(err)
	return t
}

// likeWritten compares a table that was loaded with one that was written, and
// writes to it.
func (e *env) likeWritten(t, written *storage.Table) {
	e.Helper()
	equal(e, "status", t.Status, storage.Active)
	equal(e, "version", t.Version, 2)
	e.consistent(t)
	for i := range 1 + len(t.Indexes) {
		r, like := storage.Range{}, storage.Range{}
		if i > 0 {
			r.Index, like.Index = t.Indexes[i-1].ID, written.Indexes[i-1].ID
		}
		got, want := e.rows(t, r), e.rows(written, like)
		equal(e, "rows", len(got), len(want))
		seen := map[int64]bool{}
		for j := range got {
			if !sameRow(got[j], want[j]) || got[j].Ver == 0 || seen[got[j].Ver] {
				e.Fatalf("row %d of index %d is\n%+v, want\n%+v", j, i, got[j], want[j])
			}
			seen[got[j].Ver] = true
		}
	}
	it := item("pk", "p0", "sk", "0000", "g", "written", "l", 7)
	old := e.get(t, it)
	e.put(t, it, item("pk", "new", "sk", "n", "g", "G", "h", 1))
	e.holds(t, it)
	e.consistent(t)
	before, err := ddb.ParseItem(old.Item)
	e.ok(err)
	e.delete(t, item("pk", "new", "sk", "n"))
	e.put(t, before)
	e.consistent(t)
}

// sameRow compares all of two rows but their versions.
func sameRow(a, b *storage.Row) bool {
	x, y := a.Clone(), b.Clone()
	x.Ver, y.Ver = 0, 0
	return reflect.DeepEqual(x, y)
}

// loadedStats: the statistics are those of the rows.
func (e *env) loadedStats(t *storage.Table, rows []storage.LoadRow) {
	e.Helper()
	_, stats, err := e.e.Describe(e.ctx, account, t.Name())
	e.ok(err)
	want := storage.Stats{Items: int64(len(rows)), Indexes: map[storage.IndexID]storage.IndexStats{}}
	for _, ix := range t.Indexes {
		want.Indexes[ix.ID] = storage.IndexStats{}
	}
	for _, r := range rows {
		want.Bytes += int64(r.Next.Size)
		for _, x := range r.Next.Entries {
			s := want.Indexes[x.Index]
			want.Indexes[x.Index] = storage.IndexStats{Items: s.Items + 1, Bytes: s.Bytes + int64(x.Size)}
		}
	}
	if !reflect.DeepEqual(stats, want) {
		e.Fatalf("statistics %+v, want %+v", stats, want)
	}
}

// segments: samples cut the table and each index into parts that are all of
// it.
func (e *env) segments(t *storage.Table) {
	e.Helper()
	for i := range 1 + len(t.Indexes) {
		var ix storage.IndexID
		if i > 0 {
			ix = t.Indexes[i-1].ID
		}
		all := e.rows(t, storage.Range{Index: ix, Want: storage.Sizes})
		sample, err := e.e.Sample(e.ctx, t, ix, e.now)
		e.ok(err)
		if len(sample) == 0 && len(all) > 0 {
			e.Fatalf("index %d has no sample", i)
		}
		cuts := []*storage.Position{nil, nil}
		for q := range min(len(sample), 4) {
			cuts = slices.Insert(cuts, len(cuts)-1, &sample[q*len(sample)/4])
		}
		n := 0
		for j, end := range cuts[1:] {
			n += len(e.rows(t, storage.Range{Index: ix, Start: cuts[j], End: end, Want: storage.Sizes}))
		}
		equal(e, fmt.Sprintf("rows of all segments of index %d", i), n, len(all))
	}
}

func checkLoadEmpty(e *env) {
	l := e.load(rich("t"))
	var told []int64
	e.ok(l.Finish(e.ctx, func(done, total int64) { told = append(told, done, total) }))
	for _, n := range told {
		equal(e, "progress", n, 0)
	}
	t := e.current(l.Table())
	e.loadedStats(t, nil)
	equal(e, "rows", len(e.rows(t, storage.Range{})), 0)
	e.put(t, loadItems(10)...)
	e.consistent(t)
}

// checkLoadLongKeys: keys that are shortened, in the table and its index.
func checkLoadLongKeys(e *env) {
	def := define("t", "pk:S/sk:S", index{"g", "g:S/h:S", ddb.ProjectKeysOnly}, index{"l", "/h:S", ddb.ProjectAll})
	var items []ddb.Item
	for i := range 40 {
		items = append(items, item("pk", long(2048, i/10), "sk", long(1024, i), "g", long(2048, i/5), "h", long(1024, 40-i)))
	}
	items = append(items, item("pk", "a", "sk", "\x00", "g", "\x00", "h", "\x00\u00FF"))
	l := e.load(def)
	e.addAll(l, loadRows(l.Table(), items...), 6)
	t := e.finishLoad(l)
	for _, it := range items {
		e.holds(t, it)
	}
	e.consistent(t)
	e.noKeyOrder(t)
}

// noKeyOrder: a table with shortened keys does not come in key order.
func (e *env) noKeyOrder(t *storage.Table) {
	e.Helper()
	s, err := e.e.Snapshot(e.ctx, t.Account, t.Name())
	e.ok(err)
	defer s.Close() //nolint:errcheck // never fails
	n := 0
	var last string
	ordered := true
	for row, err := range s.Rows(e.ctx) {
		e.ok(err)
		it, err := ddb.ParseItem(row.Item)
		e.ok(err)
		ordered = ordered && it["pk"].Str() >= last
		last = it["pk"].Str()
		n++
	}
	equal(e, "rows", n, len(e.rows(t, storage.Range{})))
	if s.KeyOrdered() && !ordered {
		e.Fatal("a snapshot claims an order that it has not")
	}
}

// checkLoadBadKeys: what cannot be in an index is left out of it.
func checkLoadBadKeys(e *env) {
	def := define("t", "pk:S", index{"g", "g:S/h:N", ddb.ProjectAll}, index{"k", "g:S", "x"})
	items := []ddb.Item{
		item("pk", "good", "g", "G", "h", 1), item("pk", "none", "h", 1), item("pk", "type", "g", 1, "h", "1"),
		item("pk", "empty", "g", "", "h", 1), item("pk", "long", "g", long(2049, 1), "h", 1), item("pk", "half", "g", "G", "h", "x"),
	}
	l := e.load(def)
	rows := loadRows(l.Table(), items...)
	if !slices.ContainsFunc(rows, func(r storage.LoadRow) bool { return len(r.Next.Bad) > 0 }) {
		e.Fatal("no row has a bad key")
	}
	e.addAll(l, rows, 2)
	t := e.finishLoad(l)
	equal(e, "entries of g", len(e.rows(t, storage.Range{Index: t.Index("g").ID})), 1)
	equal(e, "entries of k", len(e.rows(t, storage.Range{Index: t.Index("k").ID})), 2)
	for _, it := range items {
		e.holds(t, it)
	}
	e.consistent(t)
	e.loadedStats(t, rows)
}

// checkLoadDuplicates: a key that is there already is told, wherever it was.
func checkLoadDuplicates(e *env) {
	one := func(i int) ddb.Item { return item("pk", "p", "sk", fmt.Sprintf("%05d", i), "g", "G") }
	for name, c := range map[string]struct {
		before, batch []int
		row           int
	}{
		"in-one-batch":     {nil, []int{1, 2, 2, 3}, 2},
		"first-and-last":   {nil, []int{5, 1, 2, 3, 5}, 4},
		"of-the-last":      {[]int{1, 2}, []int{2, 3}, 0},
		"of-an-early-one":  {[]int{1, 2, 3, 4, 5, 6, 7}, []int{10, 9, 1, 8}, 2},
		"behind-many":      {[]int{700}, seq(0, 701), 700},
		"behind-many-more": {[]int{9000}, append(seq(0, 4600), 9000), 4600},
	} {
		l := e.load(define(name, "pk:S/sk:S", index{"g", "g:S", ddb.ProjectAll}))
		rows := func(ns []int) (rows []storage.LoadRow) {
			for _, n := range ns {
				rows = append(rows, loadRows(l.Table(), with(one(n), "x", len(rows)))...)
			}
			return rows
		}
		for _, n := range c.before {
			e.ok(l.Add(e.ctx, rows([]int{n})))
		}
		err := l.Add(e.ctx, rows(c.batch))
		var duplicate *storage.DuplicateKey
		if !errors.As(err, &duplicate) || duplicate.Row != c.row {
			e.Fatalf("%s: error %v, want a duplicate in row %d", name, err, c.row)
		}
		e.ok(l.Abort())
		e.ok(l.Abort())
		e.vanishes(l.Table())
	}
}

func seq(from, to int) (ns []int) {
	for i := from; i < to; i++ {
		ns = append(ns, i)
	}
	return ns
}

// vanishes: the table of an aborted load is DELETING; once the job has run
// there is nothing of it, and its name can be used.
func (e *env) vanishes(t *storage.Table) {
	e.Helper()
	seen, _, err := e.e.Describe(e.ctx, t.Account, t.Name())
	e.ok(err)
	equal(e, "status", seen.Status, storage.Deleting)
	equal(e, "id", seen.ID, t.ID)
	e.allGone(seen, item("pk", "p", "sk", "00001"))
	e.finish(storage.TableDrop, t.Name())
	_, err = e.e.Table(e.ctx, t.Account, t.Name())
	e.fails(err, storage.ErrTableNotFound)
	again := e.create(t.Def)
	if again.ID == t.ID || again.UUID == t.UUID {
		e.Fatal("a new table has the identity of an aborted load")
	}
	for i := range 1 + len(again.Indexes) {
		r := storage.Range{}
		if i > 0 {
			r.Index = again.Indexes[i-1].ID
		}
		equal(e, "rows of the new table", len(e.rows(again, r)), 0)
	}
	it := item("pk", "p", "sk", "00001", "g", "G")
	e.put(again, it)
	e.holds(again, it)
	e.consistent(again)
	e.drop(again)
	e.finish(storage.TableDrop, again.Name())
}
