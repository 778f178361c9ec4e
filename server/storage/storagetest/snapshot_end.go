// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// checkSnapshotRefusals: what there is no snapshot of.
func checkSnapshotRefusals(e *env) {
	t := e.create(define("t", "id:S"))
	refused := func(what string, ctx context.Context, acct, name string, want error) {
		e.Helper()
		if s, err := e.e.Snapshot(ctx, acct, name); !errors.Is(err, want) || s != nil {
			e.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	refused("no table", e.ctx, account, "missing", storage.ErrTableNotFound)
	refused("no name", e.ctx, account, "", storage.ErrTableNotFound)
	refused("another account", e.ctx, "111111111111", "t", storage.ErrTableNotFound)
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	refused("cancelled", done, account, "t", context.Canceled)
	l, err := e.e.Load(e.ctx, account, define("loading", "id:S"), e.now)
	e.ok(err)
	refused("CREATING", e.ctx, account, "loading", storage.ErrTableNotActive)
	e.ok(l.Finish(e.ctx, nil))
	e.shows("loaded", e.snapshot("loading"), nil, nil)
	e.drop(t)
	refused("DELETING", e.ctx, account, "t", storage.ErrTableNotFound)
	e.finish(storage.TableDrop, "t")
	refused("gone", e.ctx, account, "t", storage.ErrTableNotFound)
	e.ok(e.e.Close())
	refused("closed", e.ctx, account, "loading", storage.ErrClosed)
	e.e = e.checked(e.h.Reopen())
}

// ending is a way in which a snapshot ends: its place is free afterwards.
type ending struct {
	name string
	end  func(e *env, s storage.Snapshot)
}

// at ends the reading of a snapshot with the third row, as do says; the next
// one is the error want, when that is not nil.
func at(want error, do func(e *env, s storage.Snapshot, cancel func()) (more bool)) func(*env, storage.Snapshot) {
	return func(e *env, s storage.Snapshot) {
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		n := 0
		for row, err := range s.Rows(ctx) {
			if n++; n > 3 {
				if row != nil || want == nil || !errors.Is(err, want) {
					e.Fatalf("a row (%v) instead of %v, error %v", row != nil, want, err)
				}
				e.oneMore() // at once, before the loop is left
				return
			}
			e.ok(err)
			if n == 3 && !do(e, s, cancel) {
				return
			}
		}
		e.Fatalf("ends after %d rows without an error", n)
	}
}

func endings() []ending {
	return []ending{
		{"drained", func(e *env, s storage.Snapshot) { e.drain("drained", s, nil) }},
		{"never read", func(e *env, s storage.Snapshot) { e.ok(s.Close()) }},
		{"closed, then read", func(e *env, s storage.Snapshot) {
			rows := s.Rows(e.ctx)
			e.ok(s.Close())
			e.endsWith("closed", storage.ErrClosed, rows)
		}},
		{"abandoned", at(nil, func(*env, storage.Snapshot, func()) bool { return false })},
		{"pulled and stopped", func(e *env, s storage.Snapshot) {
			next, stop := iter.Pull2(s.Rows(e.ctx))
			_, err, ok := next()
			e.ok(err)
			equal(e, "a row", ok, true)
			stop()
		}},
		{"cancelled", at(context.Canceled, func(_ *env, _ storage.Snapshot, cancel func()) bool {
			cancel()
			return true
		})},
		{"cancelled before", func(e *env, s storage.Snapshot) {
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			e.endsWith("cancelled before", context.Canceled, s.Rows(ctx))
		}},
		{"closed while read", at(storage.ErrClosed, func(e *env, s storage.Snapshot, _ func()) bool {
			e.ok(s.Close())
			e.oneMore()
			return true
		})},
		{"closed by another goroutine while read", at(storage.ErrClosed, func(e *env, s storage.Snapshot, _ func()) bool {
			closed := make(chan error)
			go func() { closed <- s.Close() }()
			e.ok(<-closed)
			return true
		})},
	}
}

// oneMore: there is a place for a snapshot, now.
func (e *env) oneMore() {
	e.Helper()
	s, err := e.e.Snapshot(e.ctx, account, "filled")
	if err != nil {
		e.Fatalf("the place was not given back: %v", err)
	}
	e.ok(s.Close())
}

// checkSnapshotFreed: however a snapshot ends, its place is free at once,
// without Close.
func checkSnapshotFreed(e *env) {
	e.probe(4)
	held := e.bound() - 1
	_, items := e.filled(30)
	var others []storage.Snapshot
	for range held {
		others = append(others, e.snapshot("filled"))
	}
	for _, x := range endings() {
		for range 2 {
			s := e.snapshot("filled")
			_, err := e.e.Snapshot(e.ctx, account, "filled")
			e.fails(err, storage.ErrTooManySnapshots)
			x.end(e, s)
			e.oneMore()
			e.ok(s.Close())
			e.ok(s.Close())
			e.oneMore()
		}
	}
	for _, s := range others { // nobody took theirs
		e.shows("held all the time", s, items, nil)
	}
}

// checkSnapshotOpenFails: an opening that fails or is cancelled holds nothing.
func checkSnapshotOpenFails(e *env) {
	probe := e.probe(4)
	n := e.bound()
	e.filled(5)
	for range n + 1 {
		_, err := e.e.Snapshot(e.ctx, account, "missing")
		e.fails(err, storage.ErrTableNotFound)
	}
	for i := range probe.pauses {
		for range n + 1 {
			ctx, cancel := context.WithCancel(e.ctx)
			stop := func() { cancel() }
			probe.pauses[i].Store(&stop)
			s, err := e.e.Snapshot(ctx, account, "filled")
			probe.pauses[i].Store(nil)
			cancel()
			if s != nil || !errors.Is(err, context.Canceled) {
				e.Fatalf("an opening that was cancelled: %v", err)
			}
		}
	}
	e.oneMore()
}

// checkSnapshotClosedElsewhere: Close at any moment of the reading.
func checkSnapshotClosedElsewhere(e *env) {
	e.probe(1)
	n := e.bound()
	_, items := e.filled(12)
	for range repeats {
		e.together(n, func(i int) error {
			s, err := e.e.Snapshot(e.ctx, account, "filled")
			if err != nil {
				return err
			}
			closed := make(chan error, 2)
			for range 2 {
				go func() { closed <- s.Close() }()
			}
			rows := 0
			for row, err := range s.Rows(e.ctx) {
				if errors.Is(err, storage.ErrClosed) {
					break
				} else if err != nil {
					return err
				}
				if rows++; rows > len(items) || len(row.Item) == 0 {
					return fmt.Errorf("reader %d: row %d of %d: %s", i, rows, len(items), row.Item)
				}
			}
			return errors.Join(<-closed, <-closed, s.Close())
		})
	}
	e.oneMore()
}

// checkSnapshotBound: the places are as many as said; beyond, an opening fails
// and does not wait; all else goes on.
func checkSnapshotBound(e *env) {
	e.probe(4)
	n := e.bound()
	t, items := e.filled(30)
	var held []storage.Snapshot
	for range n {
		s := e.snapshot("filled")
		next, stop := iter.Pull2(s.Rows(e.ctx)) // each is half read
		_, err, _ := next()
		e.ok(err)
		e.Cleanup(stop)
		held = append(held, s)
	}
	soon, cancel := context.WithTimeout(e.ctx, 5*time.Second)
	defer cancel()
	_, err := e.e.Snapshot(soon, account, "filled")
	e.fails(err, storage.ErrTooManySnapshots)
	e.together(workers, func(i int) error {
		it := item("pk", fmt.Sprint("more", i), "sk", i, "g", "G")
		for range repeats {
			if _, err := e.e.Write(e.ctx, putWrite(t, it)); err != nil {
				return err
			}
			if row, err := e.e.Get(e.ctx, t, keyOf(t, it)); row == nil || err != nil {
				return fmt.Errorf("row %v: %w", row, err)
			}
			if rows, err := e.collect(t, storage.Range{Index: t.Indexes[0].ID}, 0); err != nil || len(rows) < len(items) {
				return fmt.Errorf("%d rows: %w", len(rows), err)
			}
			if _, _, err := e.e.Describe(e.ctx, account, "filled"); err != nil {
				return err
			}
		}
		return nil
	})
	e.touch(t)
	e.ok(held[0].Close())
	e.oneMore()
	for _, s := range held[1:] {
		e.ok(s.Close())
	}
	opened := make([]storage.Snapshot, 3*n)
	e.together(len(opened), func(i int) error {
		s, err := e.e.Snapshot(e.ctx, account, "filled")
		if errors.Is(err, storage.ErrTooManySnapshots) {
			return nil
		}
		opened[i] = s
		return err
	})
	got := 0
	for _, s := range opened {
		if s != nil {
			got++
			e.ok(s.Close())
		}
	}
	equal(e, "snapshots opened at the same time", got, n)
}

// checkSnapshotUnreadable: an item that cannot be read ends the snapshot.
func checkSnapshotUnreadable(e *env) {
	e.probe(4)
	n := e.bound()
	if e.h.Snapshots.Damage == nil {
		e.Skip("nothing damages the rows of this engine")
	}
	t, items := e.filled(30)
	e.h.Snapshots.Damage(t, keyOf(t, items[17]))
	for range n + 1 {
		s, err := e.e.Snapshot(e.ctx, account, "filled")
		e.ok(err)
		e.endsWith("unreadable", storage.ErrCorrupt, s.Rows(e.ctx))
		e.Cleanup(func() { _ = s.Close() }) // it is free without
	}
}

// checkSnapshotEngineClosed: Close of the engine waits for nobody who reads
// snapshots; these end with ErrClosed.
func checkSnapshotEngineClosed(e *env) {
	e.probe(4)
	t, items := e.filled(30)
	raw := e.h.Engine // closing it is what leaves these open: no mistake here
	unread, err := raw.Snapshot(e.ctx, account, "filled")
	e.ok(err)
	s, err := raw.Snapshot(e.ctx, account, "filled")
	e.ok(err)
	n := 0
	var last error
	for _, err := range s.Rows(e.ctx) {
		if last = err; err != nil {
			break
		}
		if n++; n != 2 {
			continue
		}
		closed := make(chan error, 1)
		go func() { closed <- raw.Close() }()
		timeout, stop := clock.Real{}.After(patience)
		select {
		case err := <-closed:
			e.ok(err)
		case <-timeout:
			e.Fatal("Close waits for a snapshot")
		}
		stop()
	}
	e.fails(last, storage.ErrClosed)
	equal(e, "rows", n, 2)
	e.endsWith("unread", storage.ErrClosed, unread.Rows(e.ctx))
	e.ok(s.Close())
	e.ok(unread.Close())
	e.e = e.checked(e.h.Reopen())
	e.shows("opened again", e.snapshot("filled"), items, nil)
	e.consistent(t)
}
