// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// Load implements Loader.
func (c *checked) Load(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (Loading, error) {
	const call = "Load"
	if err := c.checkNew(call, account, def, at); err != nil {
		return nil, err
	}
	l, err := c.next.Load(ctx, account, def, at)
	c.checkExists(call, err)
	if err != nil {
		return nil, c.filter(ctx, call, err, changing(ErrTableExists, ErrTooManyTables)...)
	}
	w := &checkedLoading{next: l, c: c, h: c.hold("load of table " + def.TableName)}
	if t := w.Table(); t != nil {
		c.checkTable(call, t, account, def.TableName)
	}
	return w, nil
}

// checkedLoading is a load under observation.
type checkedLoading struct {
	next Loading
	c    *checked
	h    *handle
	busy atomic.Bool // one of its methods runs
	bad  bool        // a call failed: only Abort is allowed
	done bool        // finished or aborted
}

// Table implements Loading.
func (l *checkedLoading) Table() *Table {
	t := l.next.Table()
	if t == nil || t.Status != Creating {
		l.c.breach("Loading.Table", "table is not CREATING: %+v", t)
	}
	return t
}

// enter begins a call: there is one at a time, and none after the end. What
// the call returns is to go through the function it returns.
func (l *checkedLoading) enter(call string) (leave func(error) error, err error) {
	if !l.busy.CompareAndSwap(false, true) {
		return nil, l.c.invalid(call, "two goroutines use %s", l.h.what)
	}
	leave = func(err error) error {
		l.bad = l.bad || err != nil
		l.busy.Store(false)
		return err
	}
	switch {
	case l.done:
		return nil, leave(l.c.invalid(call, "%s is over", l.h.what))
	case l.bad:
		return nil, leave(l.c.invalid(call, "%s failed: only Abort is allowed", l.h.what))
	}
	return leave, nil
}

// Add implements Loading.
func (l *checkedLoading) Add(ctx context.Context, rows []LoadRow) error {
	const call = "Add"
	leave, err := l.enter(call)
	if err != nil {
		return err
	}
	for i := range rows {
		if err := l.checkRow(call, i, &rows[i]); err != nil {
			return leave(err)
		}
	}
	if l.c.o.Poison {
		rows = cloneRows(rows)
		defer poisonRows(rows)
	}
	err = l.next.Add(ctx, rows)
	var duplicate *DuplicateKey
	if errors.As(err, &duplicate) {
		if duplicate.Row < 0 || duplicate.Row >= len(rows) {
			l.c.breach(call, "duplicate %d of %d rows", duplicate.Row, len(rows))
		}
		return leave(err)
	}
	return leave(l.c.filter(ctx, call, err, changing(ErrTableNotFound)...))
}

// checkRow: the row is complete, and so is each entry.
func (l *checkedLoading) checkRow(call string, i int, r *LoadRow) error {
	t := l.next.Table()
	if err := l.c.checkKey(call, t, r.Key); err != nil {
		return err
	}
	if r.Next == nil || r.Next == Unchanged || len(r.Next.Item) == 0 || r.Next.Size <= 0 {
		return l.c.invalid(call, "row %d is empty", i)
	}
	for j, e := range r.Next.Entries {
		n := len(e.P)
		if e.Index == 0 || !t.hasIndex(e.Index) || n < 2 || n > keyenc.MaxHash || e.S == nil || e.Size <= 0 ||
			slices.ContainsFunc(r.Next.Entries[:j], func(o Entry) bool { return o.Index == e.Index }) {
			return l.c.invalid(call, "entry %d of row %d: %+v", j, i, e)
		}
	}
	return nil
}

func cloneRows(rows []LoadRow) []LoadRow {
	clones := make([]LoadRow, len(rows))
	for i, r := range rows {
		next := *r.Next
		next.Item, next.Entries = bytes.Clone(next.Item), slices.Clone(next.Entries)
		for j := range next.Entries {
			e := &next.Entries[j]
			e.P, e.S = bytes.Clone(e.P), bytes.Clone(e.S)
		}
		clones[i] = LoadRow{Key{bytes.Clone(r.Key.PK), bytes.Clone(r.Key.SK)}, &next}
	}
	return clones
}

func poisonRows(rows []LoadRow) {
	for _, r := range rows {
		poison(&Row{Key: r.Key, Item: r.Next.Item})
		for _, e := range r.Next.Entries {
			poison(&Row{P: e.P, S: e.S})
		}
	}
}

// Finish implements Loading.
func (l *checkedLoading) Finish(ctx context.Context, progress func(done, total int64)) error {
	const call = "Finish"
	leave, err := l.enter(call)
	if err != nil {
		return err
	}
	last, returned := int64(0), false
	err = l.next.Finish(ctx, func(done, total int64) {
		if done < last || done > total || returned {
			l.c.breach(call, "progress %d of %d after %d", done, total, last)
		}
		last = done
		if progress != nil {
			progress(done, total)
		}
	})
	returned = true
	if err == nil {
		l.done = true
		l.c.free(l.h)
	}
	return leave(l.c.filter(ctx, call, err, changing(ErrTableNotFound)...))
}

// Abort implements Loading.
func (l *checkedLoading) Abort() error {
	const call = "Abort"
	if !l.busy.CompareAndSwap(false, true) {
		return l.c.invalid(call, "two goroutines use %s", l.h.what)
	}
	defer l.busy.Store(false)
	l.done = true
	l.c.free(l.h)
	return l.c.filter(context.Background(), call, l.next.Abort(), changing()...)
}
