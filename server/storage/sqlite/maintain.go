// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// A step of background work ends at the first of these.
const (
	stepTime  = 20 * time.Millisecond
	countRows = 20_000
	dropRows  = 2_000
	dropPage  = 128     // rows found before they are deleted
	dropBytes = 8 << 20 // counted size
	trimRows  = 2_000
	trimPage  = 64 // of up to a megabyte each
)

// claims are the leases in use: they die with the process, as its lock does.
type claims struct {
	mu   sync.Mutex
	held map[storage.Work]struct{}
	told map[storage.Work]struct{} // of those that cannot be done
}

func (c *claims) init() { c.held = map[storage.Work]struct{}{} }

// Pending implements storage.Maintainer: drops first. Work that is claimed is
// not due.
func (db *DB) Pending(ctx context.Context, now time.Time) ([]storage.Work, error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var ws []storage.Work
	for _, t := range db.cat.Load().byID {
		w := storage.Work{Kind: storage.TableDrop, Table: t.id, Account: t.account, Name: t.name}
		switch {
		case db.dropping(t):
		case t.status == storage.Active && db.stats.due(t.id, now):
			w.Kind = storage.Statistics
		default:
			continue
		}
		if !db.work.has(w) {
			ws = append(ws, w)
		}
	}
	trims, err := db.overdue(ctx, now)
	if err != nil {
		return nil, err
	}
	ws = append(ws, trims...)
	slices.SortFunc(ws, func(a, b storage.Work) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Table, b.Table)) })
	return ws, nil
}

// dropping reports whether a table is to be removed: it is DELETING, or its
// load ended without anybody being able to say so in the database.
func (db *DB) dropping(e *entry) bool {
	return e.status == storage.Deleting || e.status == storage.Creating && !db.loads.has(e.id)
}

// tell reports whether it is news that w cannot be done.
func (c *claims) tell(w storage.Work) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, told := c.told[w]
	if c.told == nil {
		c.told = map[storage.Work]struct{}{}
	}
	c.told[w] = struct{}{}
	return !told
}

func (c *claims) has(w storage.Work) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, held := c.held[w]
	return held
}

// Claim implements storage.Maintainer.
func (db *DB) Claim(ctx context.Context, w storage.Work) (storage.Lease, error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &lease{db: db, w: w}
	e, err := l.entry()
	if err != nil {
		return nil, err
	}
	switch w.Kind {
	case storage.TableDrop:
		l.step = (&drop{db: db, id: e.id}).step
	case storage.Statistics:
		if _, err := e.table(); err != nil { // it stays like that: to be told once
			if db.work.tell(w) {
				db.o.Log.ErrorContext(ctx, "a table cannot be used", "err", err)
			}
			return nil, storage.ErrNoWork
		}
		l.step = (&count{db: db, id: e.id, before: db.stats.changes(e.id)}).step
	case storage.TokenExpiry, storage.RecordTrim:
		l.step = (&trim{db: db, kind: w.Kind}).step
	}
	db.work.mu.Lock()
	defer db.work.mu.Unlock()
	if _, held := db.work.held[w]; held {
		return nil, storage.ErrClaimed
	}
	db.work.held[w] = struct{}{}
	return l, nil
}

// OnWork implements storage.Maintainer. One process owns the database, and no
// snapshot holds a table: work becomes due through calls alone.
func (db *DB) OnWork(func()) {}

// lease is one claim.
type lease struct {
	db   *DB
	w    storage.Work
	step func(ctx context.Context, now time.Time) (storage.Progress, error)
	once sync.Once
}

// entry returns the table if there is still such work on it; nil when the work
// is of none, which is there at any time.
func (l *lease) entry() (*entry, error) {
	if l.w.Kind == storage.TokenExpiry || l.w.Kind == storage.RecordTrim {
		return nil, nil
	}
	t := l.db.cat.Load().byID[l.w.Table]
	if t != nil && (l.w.Kind == storage.TableDrop && l.db.dropping(t) || l.w.Kind == storage.Statistics && t.status == storage.Active) {
		return t, nil
	}
	return nil, storage.ErrNoWork
}

// Step implements storage.Lease.
func (l *lease) Step(ctx context.Context, now time.Time) (storage.Progress, error) {
	if err := l.db.life.Enter(); err != nil {
		return storage.Progress{}, err
	}
	defer l.db.life.Leave()
	if _, err := l.entry(); err != nil {
		return storage.Progress{}, err
	}
	p, err := l.step(ctx, now)
	if errors.Is(err, storage.ErrTableNotFound) { // it went meanwhile
		err = storage.ErrNoWork
	}
	return p, err
}

// Release implements storage.Lease.
func (l *lease) Release() error {
	l.once.Do(func() {
		l.db.work.mu.Lock()
		defer l.db.work.mu.Unlock()
		delete(l.db.work.held, l.w)
	})
	return nil
}

// drop removes a DELETING table: entries, rows, then in one transaction with
// the last of them the catalog row. How far it is, the storage itself tells. The
// table's definition is not asked for: it may be damaged.
type drop struct {
	db      *DB
	id      storage.TableID
	indexes []storage.IndexID // nil: not read yet
}

func (d *drop) step(ctx context.Context, _ time.Time) (p storage.Progress, err error) {
	err = d.db.change(ctx, true, func(tx *tx) (err error) {
		p, err = d.some(tx)
		if d.db.o.hooks.step != nil {
			d.db.o.hooks.step()
		}
		return err
	})
	if err != nil {
		return storage.Progress{}, err
	}
	return p, nil
}

// some removes what fits into a step.
func (d *drop) some(tx *tx) (storage.Progress, error) {
	e := tx.cat.byID[d.id]
	switch {
	case e == nil:
		return storage.Progress{}, storage.ErrNoWork
	case e.status == storage.Creating:
		return storage.Progress{}, tx.forsake(e, 0)
	}
	done, total, err := tx.left(d.id)
	if err != nil {
		return storage.Progress{}, err
	}
	if d.indexes == nil {
		if d.indexes, err = tx.indexes(d.id); err != nil {
			return storage.Progress{}, err
		}
	}
	clk, removed, bytes, size := d.db.o.Clock, 0, 0, 0
	begin := clk.Now()
	more := true
	for more && removed < dropRows && bytes < dropBytes && clk.Now().Sub(begin) < stepTime {
		if removed > 0 && tx.w.awaited() { // a page is a tenth of a step: clients hardly notice
			break
		}
		n := 0
		if n, size, err = d.page(tx); err != nil {
			return storage.Progress{}, err
		}
		more = n > 0
		removed += n
		bytes += size
	}
	done += int64(removed)
	if total != 0 {
		total = max(total, done)
	}
	p := storage.Progress{Done: done, Total: total, Finished: !more}
	if more {
		return p, tx.run(sqlDropped, done, total, int64(d.id))
	}
	for _, sql := range forget() {
		if err := tx.run(sql, int64(d.id)); err != nil {
			return storage.Progress{}, err
		}
	}
	tx.setCatalog(tx.cat.without(e))
	tx.onCommit(func() { d.db.stats.forget(d.id) })
	return p, nil
}

// indexes lists those that the catalog has of a table.
func (tx *tx) indexes(id storage.TableID) ([]storage.IndexID, error) {
	st, err := tx.w.s.stmt(sqlIndexes)
	if err != nil {
		return nil, err
	}
	st.bindInt(1, int64(id))
	ids := []storage.IndexID{}
	for {
		more, err := st.step()
		if err != nil || !more {
			return ids, err
		}
		ids = append(ids, storage.IndexID(st.colInt(0)))
	}
}

func (tx *tx) left(id storage.TableID) (done, total int64, err error) {
	st, err := tx.w.s.stmt(sqlLeft)
	if err != nil {
		return 0, 0, err
	}
	st.bindInt(1, int64(id))
	found, err := st.step()
	if err != nil {
		return 0, 0, err
	}
	if !found {
		return 0, 0, &damage{"a table to drop is not listed"}
	}
	defer st.reset()
	return st.colInt(0), st.colInt(1), nil
}

// page removes some entries, or rows when no entry is left; n is 0 at the end.
func (d *drop) page(tx *tx) (n, bytes int, err error) {
	for _, ix := range d.indexes {
		if n, err = tx.dropEntries(ix); n > 0 || err != nil {
			return n, 0, err
		}
	}
	st, err := tx.w.s.stmt(sqlFirstRows)
	if err != nil {
		return 0, 0, err
	}
	st.bindInt(1, int64(d.id))
	st.bindInt(2, dropPage)
	ids := make([]int64, 0, dropPage)
	for {
		more, err := st.step()
		if err != nil {
			return 0, 0, err
		}
		if !more {
			break
		}
		ids = append(ids, st.colInt(0))
		if bytes += int(st.colInt(1)); bytes >= dropBytes {
			st.reset()
			break
		}
	}
	for _, id := range ids {
		if err := tx.run(sqlDelete, id); err != nil {
			return 0, 0, err
		}
	}
	return len(ids), bytes, nil
}

// dropEntries removes the first entries of an index.
func (tx *tx) dropEntries(ix storage.IndexID) (int, error) {
	st, err := tx.w.s.stmt(sqlEntryAt)
	if err != nil {
		return 0, err
	}
	st.bindInt(1, int64(ix))
	st.bindInt(2, dropPage-1)
	found, err := st.step()
	switch {
	case err != nil:
		return 0, err
	case !found:
		err = tx.run(sqlAllEntries, int64(ix))
	default:
		p, s, pk, sk := slices.Clone(st.colBlob(0)), slices.Clone(st.colBlob(1)), slices.Clone(st.colBlob(2)), slices.Clone(st.colBlob(3))
		st.reset()
		err = tx.run(sqlFirstEntry, int64(ix), p, s, pk, sk)
	}
	if err != nil {
		return 0, err
	}
	return tx.w.s.c.changes(), nil
}

// count walks the keys of a table and its indexes, some at a time, adding up
// and keeping a sample of each. It is only in memory: after a crash the table
// is due again and the walk, which costs about a second per million rows,
// begins anew.
type count struct {
	db      *DB
	id      storage.TableID
	before  int64 // changes when it began
	stats   storage.Stats
	samples []walked
	target  int // 0 the table, then its indexes
	after   *storage.Position
	thin    storage.Thinner
	items   int64 // of the target
	bytes   int64
	done    int64
}

type walked struct {
	ix        storage.IndexID
	positions []storage.Position
}

func (c *count) step(ctx context.Context, now time.Time) (storage.Progress, error) {
	t, err := c.db.cat.Load().usable(c.id)
	if err != nil {
		return storage.Progress{}, err
	}
	begin, limit := c.db.o.Clock.Now(), c.done+countRows
	for c.target <= len(t.Indexes) {
		ended, err := c.walk(ctx, t, begin, limit)
		if err != nil && !errors.Is(err, storage.ErrStale) { // the next step takes the new definition
			return storage.Progress{}, err
		}
		if !ended {
			return storage.Progress{Done: c.done, Total: max(c.done, c.db.stats.total(c.id))}, nil
		}
		c.next(t)
	}
	if err := c.store(ctx, now); err != nil {
		return storage.Progress{}, err
	}
	return storage.Progress{Done: c.done, Total: c.done, Finished: true}, nil
}

// walk goes on in the current target; ended tells that it has come to its end.
func (c *count) walk(ctx context.Context, t *storage.Table, begin time.Time, limit int64) (ended bool, err error) {
	const look = 256 // at the clock
	r := storage.Range{Index: c.index(t), Want: storage.Sizes, After: c.after}
	for row, err := range c.db.Range(ctx, t, r) {
		if err != nil {
			return false, err
		}
		c.thin.Add(row)
		c.items++
		c.bytes += int64(row.Size)
		if c.done++; c.done >= limit || c.done%look == 0 && c.db.o.Clock.Now().Sub(begin) >= stepTime {
			pos := row.Clone().Position()
			c.after = &pos
			return false, nil
		}
	}
	return true, nil
}

func (c *count) index(t *storage.Table) storage.IndexID {
	if c.target == 0 {
		return 0
	}
	return t.Indexes[c.target-1].ID
}

// next turns to the next target.
func (c *count) next(t *storage.Table) {
	ix := c.index(t)
	if ix == 0 {
		c.stats = storage.Stats{Items: c.items, Bytes: c.bytes, Indexes: map[storage.IndexID]storage.IndexStats{}}
	} else {
		c.stats.Indexes[ix] = storage.IndexStats{Items: c.items, Bytes: c.bytes}
	}
	c.samples = append(c.samples, walked{ix, c.thin.Sample()})
	c.target++
	c.after, c.items, c.bytes, c.thin = nil, 0, 0, storage.Thinner{}
}

// store makes the statistics known, and those samples that no scan holds.
func (c *count) store(ctx context.Context, now time.Time) error {
	k := c.db.stats
	defer k.store(c.id)()
	return c.db.change(ctx, false, func(tx *tx) error {
		if _, err := tx.cat.usable(c.id); err != nil {
			return err
		}
		id := int64(c.id)
		changed := k.changes(c.id) - c.before
		if err := tx.run(sqlSetStats, id, c.stats.Items, c.stats.Bytes, millis(now), changed); err != nil {
			return err
		}
		for ix, s := range c.stats.Indexes {
			if err := tx.run(sqlSetIxStats, int64(ix), id, s.Items, s.Bytes); err != nil {
				return err
			}
		}
		later := false
		for _, s := range c.samples {
			kept, empty, err := tx.keepsSample(c.id, s.ix, now)
			if err != nil {
				return err
			}
			if kept {
				later = later || empty && len(s.positions) > 0
				continue
			}
			if err := tx.run(sqlSetSample, id, int64(s.ix), storage.EncodeSample(s.positions)); err != nil {
				return err
			}
			tx.onCommit(func() { k.uncache(c.id, s.ix) })
		}
		tx.onCommit(func() { k.counted(c.id, c.stats, now, c.before, later) })
		return nil
	})
}

// keepsSample reports whether scans hold the sample of an index, and whether
// it has no position or does not exist: then all is in their first segment.
func (tx *tx) keepsSample(id storage.TableID, ix storage.IndexID, now time.Time) (kept, empty bool, err error) {
	k := tx.w.db.stats
	if !k.held(id, ix, now) {
		return false, false, nil
	}
	st, err := tx.w.s.stmt(sqlSample)
	if err != nil {
		return false, false, err
	}
	st.bindInt(1, int64(id))
	st.bindInt(2, int64(ix))
	found, err := st.step()
	if err != nil {
		return false, false, err
	}
	if found {
		defer st.reset()
	}
	return true, !found || len(st.colBlob(0)) == 0, nil
}
