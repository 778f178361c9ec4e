// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// severalChecks are of two engines on one database, each with caches of its
// own.
func severalChecks() []check {
	both := func(run func(a, b *env)) func(e *env) { // each in the part of the other
		return func(e *env) {
			two := e.second()
			run(e, two)
			run(two, e)
		}
	}
	return []check{
		{"several/definition changed", both(checkChangedElsewhere)},
		{"several/dropped", both(checkDroppedElsewhere)},
		{"several/re-created", both(checkRecreatedElsewhere)},
		{"several/definition changed at once", checkChangedAtOnce},
		{"several/re-created at once", checkRecreatedAtOnce},
		{"several/counter", checkSeveralCounter},
		{"several/streams", checkSeveralStreams},
		{"several/claims", both(checkSeveralClaims)},
		{"several/claims die with their owner", checkOwnerDies},
		{"several/work is heard of", both(checkHearsOfWork)},
		{"several/load", both(checkLoadElsewhere)},
		{"several/loader dies", checkLoaderDies},
		{"several/snapshot and drop", both(checkSnapshotElsewhere)},
	}
}

// second opens the database once more.
func (e *env) second() *env {
	e.Helper()
	if e.h.Second == nil {
		e.Skip("an engine of this kind has its database to itself")
	}
	two := *e
	two.e = e.checked(e.h.Second())
	e.Cleanup(func() { e.ok(two.e.Close()) })
	return &two
}

// fresh is the name of a table that there is not.
func (e *env) fresh() string {
	e.Helper()
	names, _, err := e.e.Tables(e.ctx, account, "", 100)
	e.ok(err)
	return fmt.Sprint("t", len(names))
}

// knows makes an engine use a table, so that it has a definition of it.
func (e *env) knows(name string, it ddb.Item) *storage.Table {
	e.Helper()
	t, err := e.e.Table(e.ctx, account, name)
	e.ok(err)
	e.put(t, it)
	e.holds(t, it)
	return t
}

// learns finds the definition after the one it had has failed, as a server does.
func (e *env) learns(name string, id storage.TableID, version int64) *storage.Table {
	e.Helper()
	var t *storage.Table
	var err error
	if !e.soon(func() bool {
		t, err = e.e.Table(e.ctx, account, name)
		return err == nil && t.ID == id && t.Version == version
	}) {
		e.Fatalf("the definition is not version %d of table %d but %+v (%v)", version, id, t, err)
	}
	return t
}

func checkChangedElsewhere(a, b *env) {
	t := a.create(rich(a.fresh()))
	it := item("pk", "p", "sk", "s", "g", "G", "h", 1)
	old := b.knows(t.Name(), it)
	now := a.touch(t)
	for call, err := range b.readers(old, it) {
		if !errors.Is(err, storage.ErrStale) {
			b.Fatalf("%s with an outdated definition: %v", call, err)
		}
	}
	b.learns(t.Name(), now.ID, now.Version)
	now = a.touch(t)
	for call, err := range b.writers(old, it) {
		b.wrote(call, err)
	}
	r, err := b.e.Write(b.ctx, putWrite(old, with(it, "g", "H")))
	b.ok(err)
	equal(b, "version that the write ran with", r.Table.Version, now.Version)
	now = a.touch(t)
	rs, err := b.e.WriteAll(b.ctx, []storage.Write{putWrite(old, with(it, "g", "I"))}, nil)
	b.ok(err)
	equal(b, "version that the transaction ran with", rs[0].Table.Version, now.Version)
	now = a.touch(t)
	r = b.e.WriteEach(b.ctx, []storage.Write{blind(putWrite(old, with(it, "g", "J")))})[0]
	b.ok(r.Err)
	equal(b, "version that the blind write ran with", r.Table.Version, now.Version)
	b.ready(now, it)
	for _, e := range []*env{a, b} {
		e.holds(now, with(it, "g", "J"))
		e.consistent(now)
		got, _, err := e.e.Describe(e.ctx, account, t.Name())
		e.ok(err)
		same(e, got, now)
	}
}

func (e *env) wrote(call string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", call, err)
	}
}

// ready checks that every way of reading works with a definition.
func (e *env) ready(t *storage.Table, it ddb.Item) {
	e.Helper()
	for call, err := range e.readers(t, it) {
		if err != nil {
			e.Fatalf("%s with the current definition: %v", call, err)
		}
	}
}

func checkDroppedElsewhere(a, b *env) {
	t := a.create(rich(a.fresh()))
	it := item("pk", "p", "sk", "s", "g", "G", "h", 1)
	old := b.knows(t.Name(), it)
	a.drop(t)
	b.allGone(old, it)
	got, _, err := b.e.Describe(b.ctx, account, t.Name())
	b.ok(err)
	equal(b, "status", got.Status, storage.Deleting)
	b.finish(storage.TableDrop, t.Name())
	b.allGone(old, it)
	for _, e := range []*env{a, b} {
		_, _, err := e.e.Describe(e.ctx, account, t.Name())
		e.fails(err, storage.ErrTableNotFound)
		if !e.soon(func() bool {
			_, err = e.e.Table(e.ctx, account, t.Name())
			return errors.Is(err, storage.ErrTableNotFound)
		}) {
			e.Fatalf("a table that is gone is still found: %v", err)
		}
	}
}

// checkRecreatedElsewhere: whoever knows the table of before is told that it is
// gone; the new one works for everybody who has its definition.
func checkRecreatedElsewhere(a, b *env) {
	t := a.create(rich(a.fresh()))
	it := item("pk", "p", "sk", "s", "g", "G", "h", 1)
	old := b.knows(t.Name(), it)
	a.drop(t)
	a.finish(storage.TableDrop, t.Name())
	now := a.create(rich(t.Name()))
	for call, err := range b.writers(now, it) {
		b.wrote(call+" of the new table", err)
	}
	b.ready(now, it)
	b.allGone(old, it)
	b.put(now, with(it, "g", "new"))
	b.allGone(old, it)
	b.learns(t.Name(), now.ID, now.Version)
	for _, e := range []*env{a, b} {
		e.holds(now, with(it, "g", "new"))
		e.consistent(now)
	}
}

// checkChangedAtOnce: one changes the definition all the time while both write
// and read; no change of a row is lost, and no entry.
func checkChangedAtOnce(e *env) {
	envs := []*env{e, e.second()}
	old := e.create(rich("t"))
	it := item("pk", "p", "sk", "s", "g", "G")
	e.together(workers, func(i int) error {
		x := envs[i%2]
		for n := range repeats {
			if i == 0 {
				if _, err := x.e.UpdateTable(x.ctx, account, "t", toggle); err != nil {
					return err
				}
				continue
			}
			var err error
			if n%3 == 0 {
				_, err = x.e.WriteAll(x.ctx, []storage.Write{add(old, it, 1)}, nil)
			} else {
				_, err = x.e.Write(x.ctx, add(old, it, 1))
			}
			if err != nil {
				return err
			}
			t, err := x.e.Table(x.ctx, account, "t")
			if err == nil {
				_, err = x.e.Get(x.ctx, t, keyOf(t, it))
			}
			if err != nil && !errors.Is(err, storage.ErrStale) {
				return err
			}
		}
		return nil
	})
	for _, x := range envs {
		now, _, err := x.e.Describe(x.ctx, account, "t")
		x.ok(err)
		x.holds(now, with(it, "n", (workers-1)*repeats))
		x.consistent(now)
	}
}

// checkRecreatedAtOnce: what was acknowledged of a table is in it, and in no
// other of its name.
func checkRecreatedAtOnce(e *env) {
	two := e.second()
	e.create(rich("t"))
	var mu sync.Mutex
	acked := map[storage.TableID]int{}
	const rounds = 4
	over := make(chan struct{})
	e.together(4, func(i int) error {
		if i == 0 {
			defer close(over)
			return e.recreate("t", rounds)
		}
		x := []*env{e, two}[i%2]
		for n := 0; ; n++ {
			select {
			case <-over:
				return nil
			default:
			}
			t, err := x.e.Table(x.ctx, account, "t")
			if err == nil {
				var r storage.Result
				r, err = x.e.Write(x.ctx, putWrite(t, item("pk", fmt.Sprint(i), "sk", fmt.Sprint(n), "g", "G", "h", n)))
				if err == nil {
					mu.Lock()
					acked[r.Table.ID]++
					mu.Unlock()
				}
			}
			if err != nil && !errors.Is(err, storage.ErrTableNotFound) {
				return err
			}
			runtime.Gosched()
		}
	})
	for _, x := range []*env{e, two} {
		t, _, err := x.e.Describe(x.ctx, account, "t")
		x.ok(err)
		equal(x, "rows of the last table", len(x.rows(t, storage.Range{})), acked[t.ID])
		x.consistent(t)
	}
}

// recreate drops a table and makes another of its name, again and again.
func (e *env) recreate(name string, times int) error {
	for range times {
		yieldAWhile()
		t, err := e.e.DropTable(e.ctx, account, name, agree)
		if err != nil {
			return err
		}
		l, err := e.e.Claim(e.ctx, storage.Work{Kind: storage.TableDrop, Table: t.ID, Account: account, Name: name})
		if err != nil {
			return err
		}
		var p storage.Progress
		if !e.soon(func() bool {
			p, err = l.Step(e.ctx, e.now)
			return p.Finished || err != nil && !errors.Is(err, storage.ErrHeld)
		}) {
			err = errors.Join(err, fmt.Errorf("the drop is not finished but at %+v", p))
		}
		if err := errors.Join(err, l.Release()); err != nil {
			return err
		}
		if _, err := e.e.CreateTable(e.ctx, account, rich(name), e.now); err != nil {
			return err
		}
	}
	return nil
}

// checkSeveralCounter: no change is lost, whichever engine it came through, of
// one row or of two that have the same sum as ever.
func checkSeveralCounter(e *env) {
	envs := []*env{e, e.second()}
	t := e.create(define("t", "pk:S", index{"by-n", "n:N", ddb.ProjectKeysOnly}))
	a, b, c := item("pk", "a"), item("pk", "b"), item("pk", "c")
	e.together(workers, func(i int) error {
		x := envs[i%2]
		for range repeats {
			if _, err := x.e.Write(x.ctx, add(t, a, 1)); err != nil {
				return err
			}
			ws := []storage.Write{add(t, b, 2), add(t, c, -2)}
			if i%4 > 1 {
				ws[0], ws[1] = ws[1], ws[0]
			}
			if _, err := x.e.WriteAll(x.ctx, ws, nil); err != nil {
				return err
			}
		}
		return nil
	})
	for _, x := range envs {
		x.holds(t, with(a, "n", workers*repeats))
		x.holds(t, with(b, "n", 2*workers*repeats))
		x.holds(t, with(c, "n", -2*workers*repeats))
		x.consistent(t)
	}
}
