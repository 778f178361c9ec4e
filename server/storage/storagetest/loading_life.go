// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// rowOf is a row that the loads of these checks have.
func rowOf(i int) ddb.Item {
	return item("pk", "p", "sk", fmt.Sprintf("%05d", i), "g", fmt.Sprint("G", i%3), "h", i)
}

func rowsOf(from, to int) (items []ddb.Item) {
	for i := from; i < to; i++ {
		items = append(items, rowOf(i))
	}
	return items
}

// hidden: the table of a load is listed and described, and that is all.
func (e *env) hidden(t *storage.Table) {
	e.Helper()
	got, err := e.e.Table(e.ctx, t.Account, t.Name())
	e.ok(err)
	same(e, got, t)
	got, _, err = e.e.Describe(e.ctx, t.Account, t.Name())
	e.ok(err)
	same(e, got, t)
	equal(e, "status", got.Status, storage.Creating)
	names, _, err := e.e.Tables(e.ctx, t.Account, "", 100)
	e.ok(err)
	equal(e, "tables", fmt.Sprint(names), fmt.Sprint([]string{t.Name()}))
	e.allGone(t, rowOf(1))
	_, err = e.e.Snapshot(e.ctx, t.Account, t.Name())
	e.fails(err, storage.ErrTableNotActive)
	now := e.now
	defer func() { e.now = now }()
	e.now = now.Add(statisticsDue)
	for _, kind := range []storage.WorkKind{storage.TableDrop, storage.Statistics} {
		equal(e, "work", e.pending(kind, t.Name()), storage.Work{})
		_, err := e.e.Claim(e.ctx, storage.Work{Kind: kind, Table: t.ID, Account: t.Account, Name: t.Name()})
		e.fails(err, storage.ErrNoWork)
	}
}

func checkLoadHidden(e *env) {
	l := e.load(rich("t"))
	t := l.Table()
	equal(e, "version", t.Version, 1)
	e.hidden(t)
	for i := range 3 {
		e.ok(l.Add(e.ctx, loadRows(t, rowOf(i))))
		e.hidden(t)
	}
	n := 0
	e.ok(l.Finish(e.ctx, func(int64, int64) {
		n++
		e.hidden(t)
	}))
	if n == 0 {
		e.Fatal("no progress was told")
	}
	now := e.current(t)
	for call, err := range e.readers(t, rowOf(1)) {
		if !errors.Is(err, storage.ErrStale) {
			e.Fatalf("%s with the definition of the load: %v", call, err)
		}
	}
	e.put(t, rowOf(7)) // a writer takes the newer one
	e.holds(now, rowOf(7))
	e.consistent(now)
}

// checkLoadDropped: whoever may can change and drop a table being loaded.
func checkLoadDropped(e *env) {
	l := e.load(rich("changed"))
	changed := e.touch(l.Table())
	equal(e, "status", changed.Status, storage.Creating)
	equal(e, "version", changed.Version, 2)
	e.ok(l.Add(e.ctx, loadRows(l.Table(), rowOf(1))))
	e.hidden(changed)
	t := e.finishLoad(l)
	equal(e, "protection", t.Def.DeletionProtection, changed.Def.DeletionProtection)
	equal(e, "version", t.Version, 3)
	e.consistent(t)

	refusal := errors.New("no")
	l = e.load(rich("dropped"))
	e.ok(l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, 20)...)))
	_, err := e.e.DropTable(e.ctx, account, "dropped", func(*storage.Table) error { return refusal })
	e.fails(err, refusal)
	e.ok(l.Add(e.ctx, loadRows(l.Table(), rowOf(20))))
	e.drop(l.Table())
	e.fails(l.Add(e.ctx, loadRows(l.Table(), rowOf(21))), storage.ErrTableNotFound)
	e.ok(l.Abort())
	e.vanishes(l.Table())

	// The next of its name is not its.
	l = e.load(rich("dropped"))
	e.ok(l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, 20)...)))
	e.drop(l.Table())
	e.finish(storage.TableDrop, "dropped")
	next := e.create(rich("dropped"))
	e.put(next, rowOf(5))
	e.fails(l.Finish(e.ctx, nil), storage.ErrTableNotFound)
	e.ok(l.Abort())
	same(e, e.current(next), next)
	equal(e, "rows of the next table", len(e.rows(next, storage.Range{})), 1)
	e.consistent(next)
}

// checkLoadName: a name is one table's, whichever way it came about.
func checkLoadName(e *env) {
	exists := func(err error, want *storage.Table) {
		e.Helper()
		e.fails(err, storage.ErrTableExists)
		var x *storage.TableExists
		if !errors.As(err, &x) {
			e.Fatalf("error %T is no *TableExists", err)
		}
		same(e, x.Table, want)
	}
	both := func(want *storage.Table) {
		e.Helper()
		_, err := e.e.Load(e.ctx, account, define("t", "id:N"), e.now)
		exists(err, want)
		_, err = e.e.CreateTable(e.ctx, account, define("t", "id:N"), e.now)
		exists(err, want)
	}
	t := e.create(define("t", "id:S"))
	both(t)
	both(e.drop(t))
	e.finish(storage.TableDrop, "t")
	l := e.load(define("t", "id:S"))
	both(l.Table())
	other := e.loadOf("111111111111", define("t", "id:S"))
	e.ok(other.Add(e.ctx, loadRows(other.Table(), item("id", "o"))))
	e.ok(l.Add(e.ctx, loadRows(l.Table(), item("id", "l"))))
	both(e.finishLoad(l))
	t = e.finishLoad(other)
	equal(e, "account", t.Account, "111111111111")
	e.holds(t, item("id", "o"))
	e.absent(t, item("id", "l"))

	loads := make([]storage.Loading, workers)
	e.together(workers, func(i int) error {
		l, err := e.e.Load(e.ctx, account, rich("raced"), e.now)
		if loads[i] = l; errors.Is(err, storage.ErrTableExists) {
			loads[i] = nil
			return nil
		}
		return err
	})
	winners := 0
	for _, l := range loads {
		if l != nil {
			winners++
			e.ok(l.Abort())
		}
	}
	equal(e, "winners", winners, 1)
}

func checkLoadTooMany(e *env) {
	if e.h.MaxTables == 0 {
		e.Skip("this engine was not opened with a small limit of tables")
	}
	for i := range e.h.MaxTables - 1 {
		e.create(define(fmt.Sprint("t", i), "id:S"))
	}
	full := func() {
		e.Helper()
		_, err := e.e.Load(e.ctx, account, define("more", "id:S"), e.now)
		e.fails(err, storage.ErrTooManyTables)
		_, err = e.e.CreateTable(e.ctx, account, define("more", "id:S"), e.now)
		e.fails(err, storage.ErrTooManyTables)
	}
	l := e.load(define("last", "id:S"))
	full()
	e.ok(l.Abort())
	full() // until it is gone
	e.finish(storage.TableDrop, "last")
	e.finishLoad(e.load(define("more", "id:S")))
	e.finishLoad(e.loadOf("111111111111", define("more", "id:S")))
}

// checkLoadAbort: at every point, and again.
func checkLoadAbort(e *env) {
	for name, until := range map[string]func(l storage.Loading) error{
		"at-once":   func(storage.Loading) error { return nil },
		"no-rows":   func(l storage.Loading) error { return l.Add(e.ctx, nil) },
		"some-rows": func(l storage.Loading) error { return l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, 40)...)) },
		"more-rows": func(l storage.Loading) error {
			return errors.Join(l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, manyRows)...)), l.Add(e.ctx, loadRows(l.Table(), rowOf(manyRows))))
		},
		"in-finish": func(l storage.Loading) error {
			if err := l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, manyRows)...)); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			if err := l.Finish(ctx, func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("cancelled in its progress, Finish returns %w", errors.Join(err, errors.ErrUnsupported))
			}
			return nil
		},
	} {
		l := e.load(rich(name))
		e.ok(until(l))
		for range 2 {
			e.ok(l.Abort())
		}
		e.vanishes(l.Table())
		e.ok(l.Abort())
	}
	l := e.load(rich("finished"))
	e.ok(l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, 9)...)))
	t := e.finishLoad(l)
	e.ok(l.Abort())
	same(e, e.current(t), t)
	equal(e, "rows", len(e.rows(t, storage.Range{})), 9)
}

// fading is a context that ends when it was asked so many times.
type fading struct {
	context.Context

	cancel context.CancelFunc
	left   atomic.Int32
}

func fade(ctx context.Context, after int) *fading {
	f := &fading{}
	f.Context, f.cancel = context.WithCancel(ctx)
	f.left.Store(int32(after))
	return f
}

// Err implements context.Context.
func (f *fading) Err() error {
	if f.left.Add(-1) < 0 {
		f.cancel()
	}
	return f.Context.Err()
}

// checkLoadCancelled: wherever a call is cancelled, it either did everything,
// or the load can be aborted.
func checkLoadCancelled(e *env) {
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := e.e.Load(done, account, rich("t"), e.now)
	e.fails(err, context.Canceled)
	_, err = e.e.Table(e.ctx, account, "t")
	e.fails(err, storage.ErrTableNotFound)
	const rows = 100
	for n := range 12 {
		add, finish := fade(e.ctx, n/2), fade(e.ctx, 1<<20)
		if n%2 == 1 {
			add, finish = finish, add
		}
		l := e.load(rich("t"))
		err := l.Add(add, loadRows(l.Table(), rowsOf(0, rows)...))
		if err == nil {
			err = l.Finish(finish, nil)
		}
		add.cancel()
		finish.cancel()
		if err != nil {
			e.fails(err, context.Canceled)
			e.hidden(l.Table())
			e.ok(l.Abort())
			e.vanishes(l.Table())
			continue
		}
		t := e.current(l.Table())
		equal(e, "rows", len(e.rows(t, storage.Range{})), rows)
		e.consistent(t)
		e.drop(t)
		e.finish(storage.TableDrop, "t")
	}
}
