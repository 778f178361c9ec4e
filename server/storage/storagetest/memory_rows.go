// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"context"
	"iter"
	"sort"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

const tokenLife = 10 * time.Minute

// Write implements storage.Writer.
func (m *Memory) Write(ctx context.Context, w storage.Write) (storage.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
		return storage.Result{Table: w.Table, Err: err}, err
	}
	mt, next, err := m.decide(w)
	if err == nil {
		err = m.record(mt, w, next)
	}
	if err != nil {
		return storage.Result{Table: tableOf(mt, w), Err: err}, err
	}
	m.apply(mt, w.Key, next)
	return storage.Result{Table: mt.def}, nil
}

func tableOf(mt *memTable, w storage.Write) *storage.Table {
	if mt == nil {
		return w.Table
	}
	return mt.def
}

// decide runs the Decide of w; the table is nil when it is not there.
func (m *Memory) decide(w storage.Write) (*memTable, *storage.Next, error) {
	mt, err := m.current(w.Table)
	if err != nil {
		return nil, nil, err
	}
	var cur *storage.Row
	if i, found := mt.row(w.Key); found {
		cur = mt.rows[i].row.Clone()
	}
	next, err := w.Decide(mt.def, cur)
	return mt, next, err
}

func (m *Memory) apply(mt *memTable, k storage.Key, next *storage.Next) {
	if next == storage.Unchanged {
		return
	}
	m.disk.lastVer++
	mt.apply(k, next, m.disk.lastVer)
}

// WriteEach implements storage.Writer.
func (m *Memory) WriteEach(ctx context.Context, ws []storage.Write) []storage.Result {
	results := make([]storage.Result, len(ws))
	for i, w := range ws {
		results[i], _ = m.Write(ctx, w)
	}
	return results
}

// WriteAll implements storage.Writer.
func (m *Memory) WriteAll(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	if err := m.seen(token); err != nil {
		return nil, err
	}
	for _, w := range ws {
		if _, err := m.current(w.Table); err != nil {
			return nil, err
		}
	}
	results := make([]storage.Result, len(ws))
	tables, nexts := make([]*memTable, len(ws)), make([]*storage.Next, len(ws))
	reasons, refused := make([]error, len(ws)), false
	for i, w := range ws {
		tables[i], nexts[i], reasons[i] = m.decide(w)
		results[i] = storage.Result{Table: tables[i].def, Err: reasons[i]}
		refused = refused || reasons[i] != nil
	}
	if refused {
		return results, &storage.Cancelled{Reasons: reasons}
	}
	for i, w := range ws {
		if err := m.record(tables[i], w, nexts[i]); err != nil {
			return nil, err
		}
	}
	for i, w := range ws {
		m.apply(tables[i], w.Key, nexts[i])
	}
	if token != nil {
		m.disk.tokens[[2]string{token.Account, token.Token}] = memToken{token.Digest, token.Now}
	}
	return results, nil
}

func (m *Memory) seen(token *storage.Token) error {
	if token == nil {
		return nil
	}
	old, ok := m.disk.tokens[[2]string{token.Account, token.Token}]
	switch {
	case !ok || !token.Now.Before(old.at.Add(tokenLife)):
		return nil
	case old.digest == token.Digest:
		return storage.ErrReplayed
	}
	return storage.ErrTokenMismatch
}

// readable returns the table of a reader's definition.
func (m *Memory) readable(ctx context.Context, t *storage.Table) (*memTable, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	mt, err := m.current(t)
	if err == nil && mt.def.Version != t.Version {
		err = storage.ErrStale
	}
	return mt, err
}

// Get implements storage.Reader.
func (m *Memory) Get(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
	rows, err := m.GetAll(ctx, []storage.TableKey{{Table: t, Key: k}}, 0)
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// GetAll implements storage.Reader.
func (m *Memory) GetAll(ctx context.Context, ks []storage.TableKey, budget int) (rows []*storage.Row, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	for _, k := range ks {
		if _, err := m.readable(ctx, k.Table); err != nil {
			return nil, err
		}
	}
	size := 0
	for _, k := range ks {
		if budget > 0 && size >= budget {
			break
		}
		mt, _ := m.readable(ctx, k.Table)
		i, found := mt.row(k.Key)
		if !found {
			rows = append(rows, nil)
			continue
		}
		rows = append(rows, mt.rows[i].row.Clone())
		size += len(mt.rows[i].row.Item)
	}
	return rows, nil
}

// Range implements storage.Reader.
func (m *Memory) Range(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		v, err := m.view(ctx, t, r.Index)
		if err != nil {
			yield(nil, err)
			return
		}
		defer m.running.Done()
		lo, hi := v.bounds(r)
		for lo < hi {
			i := lo
			if r.Reverse {
				hi--
				i = hi
			} else {
				lo++
			}
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(v.at(i), nil) {
				return
			}
		}
	}
}

// view is a table or an index as it is at one instant.
type view struct {
	n   int
	pos func(i int) storage.Position
	at  func(i int) *storage.Row
}

// view must be followed by m.running.Done.
func (m *Memory) view(ctx context.Context, t *storage.Table, ix storage.IndexID) (view, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	mt, err := m.readable(ctx, t)
	if err != nil {
		return view{}, err
	}
	m.running.Add(1)
	return mt.view(ix), nil
}

func (mt *memTable) view(ix storage.IndexID) view {
	if ix == 0 {
		rows := mt.rows
		return view{
			len(rows),
			func(i int) storage.Position { return tablePosition(rows[i].row.Key) },
			func(i int) *storage.Row { return rows[i].row.Clone() },
		}
	}
	entries := mt.entries[ix]
	return view{
		len(entries),
		func(i int) storage.Position { return entries[i].pos },
		func(i int) *storage.Row {
			e := entries[i]
			row := e.row.row.Clone()
			row.P, row.S, row.Size = bytes.Clone(e.pos.P), bytes.Clone(e.pos.S), e.size
			return row
		},
	}
}

// bounds returns the half-open interval of what r selects.
func (v view) bounds(r storage.Range) (lo, hi int) {
	from := func(below func(storage.Position) bool) int {
		return sort.Search(v.n, func(i int) bool { return !below(v.pos(i)) })
	}
	lo, hi = 0, v.n
	if r.P != nil {
		place := func(p storage.Position) (part, sort []byte) {
			if r.Index == 0 {
				return p.PK, p.SK
			}
			return p.P, p.S
		}
		lo = from(func(pos storage.Position) bool {
			p, s := place(pos)
			c := bytes.Compare(p, r.P)
			return c < 0 || c == 0 && bytes.Compare(s, r.From) < 0
		})
		hi = from(func(pos storage.Position) bool {
			p, s := place(pos)
			c := bytes.Compare(p, r.P)
			return c < 0 || c == 0 && (r.To == nil || bytes.Compare(s, r.To) < 0)
		})
	} else {
		if r.Start != nil {
			lo = from(func(pos storage.Position) bool { return pos.Compare(*r.Start) < 0 })
		}
		if r.End != nil {
			hi = from(func(pos storage.Position) bool { return pos.Compare(*r.End) < 0 })
		}
	}
	switch {
	case r.After != nil && r.Reverse:
		hi = min(hi, from(func(pos storage.Position) bool { return pos.Compare(*r.After) < 0 }))
	case r.After != nil:
		lo = max(lo, from(func(pos storage.Position) bool { return pos.Compare(*r.After) <= 0 }))
	}
	return lo, hi
}
