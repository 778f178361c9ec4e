// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func iterateChecks() []check {
	return []check{
		{"iterate/abandoned", checkAbandoned},
		{"iterate/pulled", checkPulled},
		{"iterate/twice", checkIterateTwice},
		{"iterate/nested", checkNested},
		{"iterate/writes inside", checkWritesInside},
		{"iterate/budget", checkBudget},
		{"iterate/cancelled before", checkCancelledBefore},
		{"iterate/cancelled during", checkCancelledDuring},
		{"iterate/cancelled at random", checkCancelledAnyhow},
	}
}

// filled is a table with n rows, all in one partition of its indexes.
func (e *env) filled(n int) (*storage.Table, []ddb.Item) {
	e.Helper()
	t := e.create(define("filled", "pk:S/sk:N", index{"g", "g:S", ddb.ProjectAll}, index{"l", "/l:N", ddb.ProjectKeysOnly}))
	var items []ddb.Item
	for i := range n {
		items = append(items, item("pk", "p", "sk", i, "g", "G", "l", -i, "x", fmt.Sprintf("%0200d", i)))
	}
	e.put(t, items...)
	return t, items
}

// checkAbandoned: readers that stop half-way, more of them than an engine
// has connections; it goes on to work and closes.
func checkAbandoned(e *env) {
	t, items := e.filled(60)
	for i := range 4 * repeats {
		r := storage.Range{Want: storage.Items, Reverse: i%2 == 0}
		if i%3 > 0 {
			r.Index = t.Indexes[i%3-1].ID
		}
		n := 0
		for row, err := range e.e.Range(e.ctx, t, r) {
			e.ok(err)
			if row == nil || n == i%7 {
				break
			}
			n++
		}
	}
	e.put(t, items[0])
	equal(e, "rows", len(e.rows(t, storage.Range{})), len(items))
	e.reopen()
	equal(e, "rows", len(e.rows(t, storage.Range{})), len(items))
}

// checkPulled: an iterator that is stopped from outside, with others going
// on.
func checkPulled(e *env) {
	t, items := e.filled(20)
	var stops []func()
	for i := range 3 {
		next, stop := iter.Pull2(e.e.Range(e.ctx, t, storage.Range{Want: storage.Items}))
		stops = append(stops, stop)
		for range i + 1 {
			_, err, ok := next()
			e.ok(err)
			equal(e, "goes on", ok, true)
		}
	}
	e.put(t, items[3])
	for _, stop := range stops {
		stop()
		stop()
	}
	equal(e, "rows", len(e.rows(t, storage.Range{})), len(items))
}

// checkIterateTwice: the sequence may be run again, and reads afresh.
func checkIterateTwice(e *env) {
	t, items := e.filled(5)
	seq := e.e.Range(e.ctx, t, storage.Range{Want: storage.Sizes})
	count := func() (n int) {
		for _, err := range seq {
			e.ok(err)
			n++
		}
		return n
	}
	equal(e, "rows", count(), 5)
	e.delete(t, items[0])
	equal(e, "rows", count(), 4)
}

// checkNested: reads inside a read.
func checkNested(e *env) {
	t, items := e.filled(6)
	n := 0
	for _, err := range e.e.Range(e.ctx, t, storage.Range{Want: storage.Sizes}) {
		e.ok(err)
		for row, err := range e.e.Range(e.ctx, t, storage.Range{Index: t.Indexes[0].ID, Want: storage.Items}) {
			e.ok(err)
			if row.Key.Equal(keyOf(t, items[2])) {
				break
			}
			n++
		}
		e.holds(t, items[4])
	}
	equal(e, "rows", n, 12)
}

// checkWritesInside: writes from within a loop over the same rows neither
// wait for it nor disturb it.
func checkWritesInside(e *env) {
	t, items := e.filled(40)
	n := 0
	for row, err := range e.e.Range(e.ctx, t, storage.Range{Want: storage.Items}) {
		e.ok(err)
		equal(e, "item", string(row.Item), string(ddb.AppendItem(nil, items[n])))
		e.put(t, with(items[39-n], "x", "rewritten"), item("pk", "p", "sk", 1000+n))
		e.delete(t, item("pk", "p", "sk", 1000+n-1))
		n++
	}
	equal(e, "rows", n, len(items))
	e.consistent(t)
}

func checkBudget(e *env) {
	t, items := e.filled(10)
	var ks []storage.TableKey
	for _, it := range items {
		ks = append(ks, storage.TableKey{Table: t, Key: keyOf(t, it)})
	}
	absent := storage.TableKey{Table: t, Key: keyOf(t, item("pk", "p", "sk", 99))}
	ks = append(ks[:3], append([]storage.TableKey{absent}, ks[3:]...)...)
	sum := []int{0} // stored bytes of the first rows
	for _, it := range items {
		sum = append(sum, sum[len(sum)-1]+len(ddb.AppendItem(nil, it)))
	}
	for _, c := range []struct{ budget, want int }{
		{0, 11}, {-1, 11}, {1, 1}, {sum[1], 1}, {sum[1] + 1, 2}, {sum[3], 3}, {sum[3] + 1, 5}, {sum[10], 11}, {sum[10] + 1, 11},
	} {
		rows, err := e.e.GetAll(e.ctx, ks, c.budget)
		e.ok(err)
		equal(e, fmt.Sprint("rows for budget ", c.budget), len(rows), c.want)
		for i, row := range rows {
			equal(e, "row is there", row != nil, i != 3)
		}
	}
	rows, err := e.e.GetAll(e.ctx, nil, 0)
	e.ok(err)
	equal(e, "rows of nothing", len(rows), 0)
	rows, err = e.e.GetAll(e.ctx, []storage.TableKey{ks[0], ks[0]}, 0)
	e.ok(err)
	equal(e, "the same row twice", rows[0].Ver, rows[1].Ver)
}

func checkCancelledBefore(e *env) {
	t, items := e.filled(5)
	live := e.ctx
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	e.ctx = ctx
	calls := e.readers(t, items[0])
	for call, err := range e.writers(t, with(items[0], "x", "never")) {
		calls[call] = err
	}
	_, calls["CreateTable"] = e.e.CreateTable(ctx, account, define("new", "id:S"), e.now)
	_, calls["UpdateTable"] = e.e.UpdateTable(ctx, account, "filled", func(t *storage.Table) (ddb.TableDefinition, error) { return t.Def, nil })
	_, calls["DropTable"] = e.e.DropTable(ctx, account, "filled", agree)
	_, _, calls["Describe"] = e.e.Describe(ctx, account, "filled")
	e.ctx = live
	for call, err := range calls {
		if !errors.Is(err, context.Canceled) {
			e.Fatalf("%s with a context that is done: %v", call, err)
		}
	}
	got, _, err := e.e.Describe(e.ctx, account, "filled")
	e.ok(err)
	same(e, got, t)
	for _, it := range items {
		e.holds(t, it)
	}
	e.consistent(t)
}

// checkCancelledDuring: the context ends while a range is read or while a
// Decide runs. A write is then either done or not, and says which.
func checkCancelledDuring(e *env) {
	t, items := e.filled(manyRows)
	for _, ix := range []storage.IndexID{0, t.Indexes[0].ID, t.Indexes[1].ID} {
		ctx, cancel := context.WithCancel(e.ctx)
		n := 0
		var last error
		for _, err := range e.e.Range(ctx, t, storage.Range{Index: ix, Want: storage.Items}) {
			if last = err; err != nil {
				break
			}
			if n++; n == 3 {
				cancel()
			}
		}
		cancel()
		if !errors.Is(last, context.Canceled) && n < len(items) { // it may have fetched all before
			e.Fatalf("cancelled range ends after %d rows with %v", n, last)
		}
	}
	it := item("pk", "other", "sk", 1, "g", "G")
	for i := range 6 {
		ctx, cancel := context.WithCancel(e.ctx)
		w := putWrite(t, with(it, "i", i))
		derive := w.Decide
		w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
			cancel()
			return derive(t, cur)
		}
		var err error
		switch i % 3 {
		case 0:
			_, err = e.e.Write(ctx, w)
		case 1:
			err = e.e.WriteEach(ctx, []storage.Write{w})[0].Err
		default:
			_, err = e.e.WriteAll(ctx, []storage.Write{w}, nil)
		}
		cancel()
		switch {
		case err == nil:
			e.holds(t, with(it, "i", i))
		case !errors.Is(err, context.Canceled):
			e.Fatalf("cancelled write %d: %v", i, err)
		}
		e.consistent(t)
	}
}

// checkCancelledAnyhow: acknowledged changes are there, whenever others are
// cancelled around them.
func checkCancelledAnyhow(e *env) {
	t, _ := e.filled(1)
	done := make([]int, workers)
	e.together(workers, func(i int) error {
		it := item("pk", "counter", "sk", i)
		for n := range repeats {
			ctx, cancel := context.WithCancel(e.ctx)
			w := add(t, it, 1)
			if i%2 == 1 { // these are cancelled from elsewhere
				go cancel()
			}
			var err error
			if n%2 == 0 {
				_, err = e.e.Write(ctx, w)
			} else {
				err = e.e.WriteEach(ctx, []storage.Write{w})[0].Err
			}
			cancel()
			switch {
			case err == nil:
				done[i]++
			case i%2 == 0 || !errors.Is(err, context.Canceled):
				return err
			}
		}
		return nil
	})
	for i, n := range done {
		it := item("pk", "counter", "sk", i)
		if i%2 == 0 {
			e.holds(t, with(it, "n", repeats))
			continue
		}
		// A cancelled write may have been done: never fewer than acknowledged.
		if row := e.get(t, it); row != nil {
			kept, err := ddb.ParseItem(row.Item)
			e.ok(err)
			if kept["n"].Number().Cmp(ddb.NumberFromInt(int64(n))) < 0 {
				e.Fatalf("worker %d: %s kept of %d acknowledged", i, kept["n"].Str(), n)
			}
		} else if n > 0 {
			e.Fatalf("worker %d: nothing kept of %d acknowledged", i, n)
		}
	}
	e.consistent(t)
}
