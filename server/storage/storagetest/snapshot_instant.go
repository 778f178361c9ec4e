// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// checkSnapshotConsistency: definition, marker and rows are those of the
// opening, whatever is written while the rows are read, page by page.
func checkSnapshotConsistency(e *env) {
	const rows, gone, page = 700, 100, 50
	probe := e.probe(page)
	t := e.versioned()
	e.put(t, versions(0, rows, 1)...)
	described, _, err := e.e.Describe(e.ctx, account, "t")
	e.ok(err)
	begin := probe.fetches.Load()
	s := e.snapshot("t")
	same(e, s.Table(), described)
	kind, value := s.Marker()
	equal(e, "ordered", s.KeyOrdered(), !e.h.Snapshots.Unordered)
	changed := int64(0)
	e.shows("first", s, versions(0, rows, 1), func(n int) {
		if n != page+1 {
			return
		}
		if probe.fetches.Load() < begin+2 {
			e.Fatalf("%d rows of pages of %d are read at once", n, page)
		}
		for _, it := range versions(0, gone, 1) {
			e.delete(t, it)
		}
		e.put(t, versions(rows, rows+gone, 1)...)
		e.put(t, versions(gone, rows, 2)...)
		e.put(t, versions(gone, rows, 3)...)
		t = e.touch(t)
		changed = probe.fetches.Load()
	})
	if probe.fetches.Load() == changed {
		e.Fatal("nothing is read after the change: all was read before")
	}
	again, same2 := s.Marker()
	equal(e, "marker", again+" "+same2, kind+" "+value)
	same(e, s.Table(), described)
	second := e.snapshot("t")
	same(e, second.Table(), t)
	e.shows("second", second, slices.Concat(versions(rows, rows+gone, 1), versions(gone, rows, 3)), nil)
	empty := e.create(define("empty", "id:S"))
	s = e.snapshot("empty")
	same(e, s.Table(), empty)
	e.shows("empty", s, nil, nil)
}

// checkSnapshotInstant: a write, a change of the definition and another write,
// all while the snapshot is being opened: it has an order with them.
func checkSnapshotInstant(e *env) {
	probe := e.probe(2)
	for i, at := range []string{"after the definition", "before the items"} {
		t := e.create(define(fmt.Sprint("t", i), "id:S"))
		e.put(t, item("id", "old"))
		paused, resume := make(chan struct{}), make(chan struct{})
		stop := func() { close(paused); <-resume }
		probe.pauses[i].Store(&stop)
		var s storage.Snapshot
		opened := make(chan error, 1)
		go func() {
			var err error
			s, err = e.e.Snapshot(e.ctx, account, t.Name())
			opened <- err
		}()
		select {
		case <-paused:
		case err := <-opened:
			e.Fatalf("%s: the opening is over before it comes by (%v)", at, err)
		}
		probe.pauses[i].Store(nil)
		finished := make(chan error, 1)
		go func() { finished <- e.change(t) }()
		committed := e.within(finished)
		close(resume)
		e.ok(<-opened)
		e.Cleanup(func() { _ = s.Close() })
		equal(e, at+": the change waits", !committed, e.h.Snapshots.UpdateWaits)
		if !committed {
			e.ok(<-finished)
		}
		seen := map[string]bool{}
		for _, row := range e.drain(at, s, nil) {
			it, err := ddb.ParseItem(row.Item)
			e.ok(err)
			seen[it["id"].Str()] = true
		}
		changed := s.Table().Def.DeletionProtection
		switch {
		case !seen["old"]:
			e.Fatalf("%s: a row written long before is missing", at)
		case changed && !seen["first"]:
			e.Fatalf("%s: the definition is newer than the rows", at)
		case seen["second"] && !changed:
			e.Fatalf("%s: the rows are newer than the definition", at)
		case seen["second"]:
			e.Fatalf("%s: a row written after the instant shows", at)
		case changed != (s.Table().Version > t.Version):
			e.Fatalf("%s: version %d after %d, changed %v", at, s.Table().Version, t.Version, changed)
		}
	}
}

// change writes a row, changes the definition and writes another row.
func (e *env) change(t *storage.Table) error {
	if _, err := e.e.Write(e.ctx, putWrite(t, item("id", "first"))); err != nil {
		return err
	}
	next, err := e.e.UpdateTable(e.ctx, account, t.Name(), toggle)
	if err != nil {
		return err
	}
	_, err = e.e.Write(e.ctx, putWrite(next, item("id", "second")))
	return err
}

// within waits for a change, but not for ever where it waits for us.
func (e *env) within(finished <-chan error) bool {
	e.Helper()
	wait := patience
	if e.h.Snapshots.UpdateWaits {
		wait = 2 * time.Second
	}
	timeout, stop := clock.Real{}.After(wait)
	defer stop()
	select {
	case err := <-finished:
		e.ok(err)
		return true
	case <-timeout:
		return false
	}
}

// checkSnapshotTogether: some rows always change together, and so they do in
// every snapshot.
func checkSnapshotTogether(e *env) {
	e.probe(1)
	t := e.create(define("t", "id:S"))
	write := func(ctx context.Context, n int) error {
		var ws []storage.Write
		for i := range 8 {
			ws = append(ws, putWrite(t, item("id", fmt.Sprint(i), "n", n)))
		}
		_, err := e.e.WriteAll(ctx, ws, nil)
		return err
	}
	e.ok(write(e.ctx, 0))
	e.during(write, func() error {
		s, err := e.e.Snapshot(e.ctx, account, "t")
		if err != nil {
			return err
		}
		seen := map[string]int{}
		for row, err := range s.Rows(e.ctx) {
			if err != nil {
				return err
			}
			it, err := ddb.ParseItem(row.Item)
			if err != nil {
				return err
			}
			seen[it["n"].Str()]++
			runtime.Gosched()
		}
		if len(seen) != 1 {
			err = fmt.Errorf("one instant shows %v", seen)
		}
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		return err
	})
}

// goes drops what is left of t, if it need not wait for a snapshot.
func (e *env) goes(t *storage.Table) (gone bool) {
	e.Helper()
	if !e.h.Snapshots.DropWaits {
		e.finish(storage.TableDrop, t.Name())
		return true
	}
	l := e.claim(storage.TableDrop, t.Name())
	defer func() { e.ok(l.Release()) }()
	for range maxSteps {
		p, err := l.Step(e.ctx, e.now)
		if errors.Is(err, storage.ErrHeld) {
			return false
		}
		e.ok(err)
		if p.Finished {
			break
		}
	}
	e.Fatal("the drop does not wait for the snapshot")
	return true
}

// checkSnapshotDropped: the table goes, all of it, and another of its name
// comes; the snapshot shows neither.
func checkSnapshotDropped(e *env) {
	const rows = 40
	e.probe(5)
	t := e.versioned()
	e.put(t, versions(0, rows, 1)...)
	s := e.snapshot("t")
	gone := false
	e.shows("dropped", s, versions(0, rows, 1), func(n int) {
		switch n {
		case 3:
			e.drop(t)
			_, err := e.e.Snapshot(e.ctx, account, "t")
			e.fails(err, storage.ErrTableNotFound)
		case 7:
			if gone = e.goes(t); gone {
				_, err := e.e.Table(e.ctx, account, "t")
				e.fails(err, storage.ErrTableNotFound)
			}
			_, err := e.e.Snapshot(e.ctx, account, "t")
			e.fails(err, storage.ErrTableNotFound)
		case 11:
			if gone {
				t = e.versioned()
				e.put(t, versions(10, 60, 2)...)
			}
		}
	})
	equal(e, "table", s.Table().Status, storage.Active)
	e.ok(s.Close())
	if !gone {
		e.finish(storage.TableDrop, "t")
		t = e.versioned()
		e.put(t, versions(10, 60, 2)...)
	}
	s = e.snapshot("t")
	same(e, s.Table(), t)
	e.shows("re-created", s, versions(10, 60, 2), nil)
}
