// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/server/storage"
)

// checkLoadOneStep: whoever sees the table ACTIVE sees all of it.
func checkLoadOneStep(e *env) {
	for range 4 {
		l := e.load(rich("t"))
		t := l.Table()
		e.addAll(l, loadRows(t, rowsOf(0, manyRows)...), 50)
		e.together(4, func(i int) error {
			if i == 0 {
				return l.Finish(e.ctx, nil)
			}
			for {
				now, stats, err := e.e.Describe(e.ctx, account, "t")
				if err != nil {
					return err
				}
				if now.Status == storage.Creating {
					if _, err := e.e.Get(e.ctx, now, keyOf(now, rowOf(0))); !errors.Is(err, storage.ErrTableNotFound) && !errors.Is(err, storage.ErrStale) {
						return fmt.Errorf("a CREATING table is read: %w", err)
					}
					continue
				}
				return e.wholeTable(now, stats, i)
			}
		})
		e.consistent(e.current(t))
		e.drop(t)
		e.finish(storage.TableDrop, "t")
	}
}

// wholeTable compares rows, entries and statistics of a table just loaded,
// beginning with an index of which observer i knows.
func (e *env) wholeTable(t *storage.Table, stats storage.Stats, i int) error {
	g := t.Indexes[i%2].ID
	entries, err := e.collect(t, storage.Range{Index: g, Want: storage.Sizes}, 0)
	if err != nil {
		return err
	}
	rows, err := e.collect(t, storage.Range{}, 0)
	if err != nil {
		return err
	}
	if len(rows) != manyRows || len(entries) != manyRows || stats.Items != manyRows || stats.Indexes[g].Items != manyRows {
		return fmt.Errorf("an ACTIVE table has %d rows, %d entries, statistics %+v", len(rows), len(entries), stats)
	}
	return nil
}

// checkLoadReopen: a load does not outlive its process, however far it was;
// its table is dropped.
func checkLoadReopen(e *env) {
	finished := e.load(rich("finished"))
	e.ok(finished.Add(e.ctx, loadRows(finished.Table(), rowsOf(0, 30)...)))
	kept := e.finishLoad(finished)
	var loads []storage.Loading
	for name, until := range map[string]func(l storage.Loading) error{
		"at-once": func(storage.Loading) error { return nil },
		"rows":    func(l storage.Loading) error { return l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, manyRows)...)) },
		"failed": func(l storage.Loading) error {
			if err := l.Add(e.ctx, loadRows(l.Table(), rowOf(1), rowOf(1))); err == nil {
				return errors.New("a key is there twice")
			}
			return nil
		},
		"in-finish": func(l storage.Loading) error {
			if err := l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, manyRows)...)); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			if err := l.Finish(ctx, func(int64, int64) { cancel() }); err == nil {
				return errors.New("a cancelled load is finished")
			}
			return nil
		},
	} {
		l, err := e.h.Engine.Load(e.ctx, account, rich(name), e.now) // not checked: it is left open
		e.ok(err)
		e.ok(until(l))
		loads = append(loads, l)
	}
	e.reopen()
	for range 2 {
		for _, l := range loads {
			t, _, err := e.e.Describe(e.ctx, account, l.Table().Name())
			e.ok(err)
			equal(e, "status", t.Status, storage.Deleting)
			equal(e, "version", t.Version, l.Table().Version+1)
			e.allGone(t, rowOf(1))
		}
		e.reopen()
	}
	for _, l := range loads {
		if err := l.Abort(); err != nil && !errors.Is(err, storage.ErrClosed) {
			e.Fatalf("abort after the engine: %v", err)
		}
		e.vanishes(e.current(l.Table()))
	}
	same(e, e.current(kept), kept)
	equal(e, "rows", len(e.rows(kept, storage.Range{})), 30)
	e.consistent(kept)
}

// checkLoadClosed: a load whose engine is closed does nothing more.
func checkLoadClosed(e *env) {
	engine := e.h.Engine // not checked: loads are left open
	var loads []storage.Loading
	for i := range 3 {
		l, err := engine.Load(e.ctx, account, rich(fmt.Sprint("t", i)), e.now)
		e.ok(err)
		e.ok(l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, 20)...)))
		loads = append(loads, l)
	}
	e.ok(e.e.Close())
	_, err := e.e.Load(e.ctx, account, rich("new"), e.now)
	e.fails(err, storage.ErrClosed)
	e.fails(loads[0].Add(e.ctx, loadRows(loads[0].Table(), rowOf(20))), storage.ErrClosed)
	e.fails(loads[1].Finish(e.ctx, nil), storage.ErrClosed)
	for _, l := range loads {
		e.fails(l.Abort(), storage.ErrClosed)
	}
	e.e = e.checked(e.h.Reopen())
	for _, l := range loads {
		e.vanishes(e.current(l.Table()))
	}
}

// checkLoadsTogether: loads do not meet, whatever their accounts and names,
// and one that is aborted takes nothing from the others.
func checkLoadsTogether(e *env) {
	loads := make([]storage.Loading, workers)
	for i := range loads {
		loads[i] = e.loadOf(fmt.Sprintf("%012d", i/2), rich(fmt.Sprint("t", i%2)))
	}
	e.together(len(loads), func(i int) error {
		l := loads[i]
		for j := range 10 {
			if err := l.Add(e.ctx, loadRows(l.Table(), rowsOf(j*20, j*20+20-i)...)); err != nil {
				return err
			}
			if j == 5 && i%4 == 1 {
				return l.Abort()
			}
		}
		return l.Finish(e.ctx, nil)
	})
	for i, l := range loads {
		t := e.current(l.Table())
		if i%4 == 1 {
			equal(e, "status", t.Status, storage.Deleting)
			continue
		}
		equal(e, "rows", len(e.rows(t, storage.Range{})), 10*(20-i))
		e.consistent(t)
	}
}

// checkLoadBesideWriters: others are read and written meanwhile, at every
// point of a load.
func checkLoadBesideWriters(e *env) {
	other := e.create(rich("other"))
	n := 0
	write := func() {
		e.Helper()
		it := rowOf(n)
		e.put(other, it)
		e.holds(other, it)
		n++
	}
	l := e.load(rich("t"))
	for chunk := range 6 {
		write()
		e.ok(l.Add(e.ctx, loadRows(l.Table(), rowsOf(chunk*100, chunk*100+100)...)))
	}
	e.ok(l.Finish(e.ctx, func(int64, int64) { write() }))
	t := e.current(l.Table())
	equal(e, "rows", len(e.rows(t, storage.Range{})), 600)
	equal(e, "rows of the other table", len(e.rows(other, storage.Range{})), n)

	l = e.load(rich("u"))
	e.together(workers, func(i int) error {
		if i == 0 {
			for j := range 20 {
				if err := l.Add(e.ctx, loadRows(l.Table(), rowsOf(j*50, j*50+50)...)); err != nil {
					return err
				}
			}
			return l.Finish(e.ctx, nil)
		}
		for j := range repeats {
			if _, err := e.e.Write(e.ctx, putWrite(other, with(rowOf(j), "pk", fmt.Sprint("w", i)))); err != nil {
				return err
			}
		}
		return nil
	})
	equal(e, "rows", len(e.rows(e.current(l.Table()), storage.Range{})), 1000)
	for _, t := range []*storage.Table{t, other, e.current(l.Table())} {
		e.consistent(t)
	}
	e.holds(other, with(rowOf(0), "pk", "w1"))
}
