// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// checkSeveralStreams: records of what any engine wrote, read at the horizon of
// another, lack nothing and have the order of each row.
func checkSeveralStreams(e *env) {
	envs := []*env{e, e.second()}
	t := e.create(streaming(define("t", "pk:S"), ddb.ViewBoth))
	e.horizon()
	chains := []*chain{{items: map[string]string{}}, {items: map[string]string{}}}
	var left atomic.Int64
	left.Store(workers)
	e.together(workers+len(envs), func(i int) error {
		if i >= workers { // follows the other
			for left.Load() > 0 {
				if err := chains[i-workers].follow(e.ctx, envs[i-workers].e, t.ID); err != nil {
					return err
				}
			}
			return nil
		}
		defer left.Add(-1)
		for range repeats {
			if _, err := envs[i%2].e.Write(e.ctx, add(t, item("pk", fmt.Sprint(i%3)), 1)); err != nil {
				return err
			}
		}
		return nil
	})
	for i, x := range envs {
		x.horizon()
		x.ok(chains[i].follow(x.ctx, x.e, t.ID))
		equal(x, "records", chains[i].n, workers*repeats)
	}
}

// checkSeveralClaims: work that both find has one owner.
func checkSeveralClaims(a, b *env) {
	t := a.create(rich(a.fresh()))
	a.drop(t)
	w := b.pending(storage.TableDrop, t.Name())
	equal(b, "work", w, a.pending(storage.TableDrop, t.Name()))
	l, err := a.e.Claim(a.ctx, w)
	a.ok(err)
	_, err = b.e.Claim(b.ctx, w)
	b.fails(err, storage.ErrClaimed)
	a.ok(l.Release())
	leases := make([]storage.Lease, 4)
	a.together(len(leases), func(i int) error {
		l, err := []*env{a, b}[i%2].e.Claim(a.ctx, w)
		if errors.Is(err, storage.ErrClaimed) {
			return nil
		}
		leases[i] = l
		return err
	})
	owners := 0
	for _, l := range leases {
		if l != nil {
			owners++
			a.complete(l)
			a.ok(l.Release())
		}
	}
	equal(a, "owners", owners, 1)
	for _, e := range []*env{a, b} {
		_, err := e.e.Claim(e.ctx, w)
		e.fails(err, storage.ErrNoWork)
	}
}

// raw opens the database once more, for one that ends without order: what it
// leaves open is no mistake.
func (e *env) raw() storage.Engine {
	e.Helper()
	if e.h.Second == nil {
		e.Skip("an engine of this kind has its database to itself")
	}
	raw := e.h.Second()
	e.Cleanup(func() { _ = raw.Close() })
	return raw
}

// checkOwnerDies: what an engine owned is free when it is no more.
func checkOwnerDies(e *env) {
	raw := e.raw()
	t, _ := e.filled(5)
	e.drop(t)
	w := e.pending(storage.TableDrop, t.Name())
	_, err := raw.Claim(e.ctx, w)
	e.ok(err)
	_, err = e.e.Claim(e.ctx, w)
	e.fails(err, storage.ErrClaimed)
	e.ok(raw.Close())
	var l storage.Lease
	if !e.soon(func() bool {
		l, err = e.e.Claim(e.ctx, w)
		return !errors.Is(err, storage.ErrClaimed)
	}) {
		e.Fatal("work has an owner that is gone")
	}
	e.ok(err)
	e.complete(l)
	e.ok(l.Release())
}

// checkHearsOfWork: an engine tells of work that the other made due.
func checkHearsOfWork(a, b *env) {
	t := a.create(rich(a.fresh()))
	var heard atomic.Int64
	b.e.OnWork(func() { heard.Add(1) })
	a.drop(t)
	if !b.soon(func() bool { return heard.Load() > 0 }) {
		b.Fatal("nobody is told of the table that was dropped")
	}
	b.e.OnWork(nil)
	b.finish(storage.TableDrop, t.Name())
}

// checkLoadElsewhere: a load belongs to its engine, and nobody else takes it
// for abandoned.
func checkLoadElsewhere(a, b *env) {
	name := a.fresh()
	l := a.load(rich(name))
	t := l.Table()
	a.ok(l.Add(a.ctx, loadRows(t, rowsOf(0, 20)...)))
	b.allGone(t, rowOf(1))
	for _, e := range []*env{a, b} {
		equal(e, "drop of a table being loaded", e.pending(storage.TableDrop, name), storage.Work{})
		got, _, err := e.e.Describe(e.ctx, account, name)
		e.ok(err)
		equal(e, "status", got.Status, storage.Creating)
	}
	a.ok(l.Finish(a.ctx, nil))
	a.ok(l.Abort())
	_ = b.readers(t, rowOf(1)) // with the definition of before
	now := b.learns(name, t.ID, a.current(t).Version)
	equal(b, "rows", len(b.rows(now, storage.Range{})), 20)
	b.consistent(now)

	dropped := a.load(rich(name + "x"))
	b.drop(dropped.Table())
	a.fails(dropped.Add(a.ctx, loadRows(dropped.Table(), rowOf(1))), storage.ErrTableNotFound)
	a.ok(dropped.Abort())
	b.finish(storage.TableDrop, name+"x")
}

// checkLoaderDies: what an engine was loading is dropped by the others.
func checkLoaderDies(e *env) {
	raw := e.raw()
	l, err := raw.Load(e.ctx, account, rich("t"), e.now)
	e.ok(err)
	e.ok(l.Add(e.ctx, loadRows(l.Table(), rowsOf(0, 20)...)))
	equal(e, "drop of a table being loaded", e.pending(storage.TableDrop, "t"), storage.Work{})
	e.ok(raw.Close())
	if !e.soon(func() bool { return e.pending(storage.TableDrop, "t").Kind != 0 }) {
		e.Fatal("a table whose loader is gone is not dropped")
	}
	e.finish(storage.TableDrop, "t")
	fresh, _ := e.filled(3)
	e.consistent(fresh)
}

// checkSnapshotElsewhere: a snapshot shows all of a table that the other engine
// drops meanwhile.
func checkSnapshotElsewhere(a, b *env) {
	a.probe(5)
	name := a.fresh()
	t := a.create(rich(name))
	a.put(t, rowsOf(0, 40)...)
	s, err := b.e.Snapshot(b.ctx, account, name)
	b.ok(err)
	gone := false
	b.shows("dropped elsewhere", s, rowsOf(0, 40), func(n int) {
		switch n {
		case 3:
			a.drop(t)
		case 7:
			gone = a.goes(t)
		}
	})
	b.ok(s.Close())
	if !gone {
		a.finish(storage.TableDrop, name)
	}
	_, err = b.e.Snapshot(b.ctx, account, name)
	b.fails(err, storage.ErrTableNotFound)
}
