// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// written replaces Write, and WriteEach by one Write after the other.
func written(s *Stub, write func(ctx context.Context, w storage.Write) (storage.Result, error)) {
	s.OnWrite = write
	s.OnWriteEach = func(ctx context.Context, ws []storage.Write) (results []storage.Result) {
		for _, w := range ws {
			r, err := write(ctx, w)
			r.Err = err
			results = append(results, r)
		}
		return results
	}
}

// nexts changes what a Decide returned before the engine acts on it.
func nexts(change func(next *storage.Next) *storage.Next) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
			decide := w.Decide
			w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
				next, err := decide(t, cur)
				if err == nil && next != nil && next != storage.Unchanged {
					c := *next
					next = change(&c)
				}
				return next, err
			}
			return m.Write(ctx, w)
		})
	}
}

// fixed is a write of what a Decide returned before.
func fixed(w storage.Write, next *storage.Next) storage.Write {
	w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return next, nil }
	return w
}

// unlocked decides on a row that was read before, without looking again.
func unlocked(m *Memory) func(ctx context.Context, w storage.Write) (storage.Result, error) {
	return func(ctx context.Context, w storage.Write) (storage.Result, error) {
		t := m.newest(w.Table)
		cur, err := m.Get(ctx, t, w.Key)
		if err != nil {
			return storage.Result{Table: t, Err: err}, err
		}
		next, err := w.Decide(t, cur)
		if err != nil {
			return storage.Result{Table: t, Err: err}, err
		}
		yieldAWhile()
		return m.Write(ctx, fixed(w, next))
	}
}

// oneByOne decides on all rows first, and after a pause writes them one after
// the other.
func oneByOne(m *Memory, pause func()) func(ctx context.Context, ws []storage.Write, _ *storage.Token) ([]storage.Result, error) {
	return func(ctx context.Context, ws []storage.Write, _ *storage.Token) ([]storage.Result, error) {
		next, reasons, refused := make([]*storage.Next, len(ws)), make([]error, len(ws)), false
		for i, w := range ws {
			t := m.newest(w.Table)
			cur, err := m.Get(ctx, t, w.Key)
			if err != nil {
				return nil, err
			}
			next[i], reasons[i] = w.Decide(t, cur)
			refused = refused || reasons[i] != nil
		}
		if refused {
			return nil, &storage.Cancelled{Reasons: reasons}
		}
		pause()
		results := make([]storage.Result, len(ws))
		for i, w := range ws {
			var err error
			if results[i], err = m.Write(ctx, fixed(w, next[i])); err != nil {
				return nil, err
			}
			yieldAWhile()
		}
		return results, nil
	}
}

// overtaken lets somebody read, if anybody is about to, between the decisions of
// a transaction and its writes.
func overtaken(s *Stub, m *Memory) {
	const patience = 10_000
	var reads atomic.Int64
	s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
		defer reads.Add(1)
		return m.Get(ctx, t, k)
	}
	s.OnWriteAll = oneByOne(m, func() {
		before := reads.Load()
		for i := 0; i < patience && reads.Load() == before; i++ {
			runtime.Gosched()
		}
	})
}

// tokens changes the token of a transaction.
func tokens(change func(token *storage.Token)) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		s.OnWriteAll = func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
			if token != nil {
				c := *token
				change(&c)
				token = &c
			}
			return m.WriteAll(ctx, ws, token)
		}
	}
}

// answered changes the error of a transaction.
func answered(change func(m *Memory, token *storage.Token, err error) error) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		s.OnWriteAll = func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
			rs, err := m.WriteAll(ctx, ws, token)
			return rs, change(m, token, err)
		}
	}
}

func writeMutants() []mutant {
	lose := func(s *Stub, m *Memory) { written(s, unlocked(m)) }
	apart := func(s *Stub, m *Memory) { s.OnWriteAll = oneByOne(m, yieldAWhile) }
	return slices.Concat(tokenMutants(), entryMutants(), []mutant{
		{"updates get lost between read and write", "rows/counter", lose},
		{"two insert the same", "rows/insert if absent", lose},
		{"transactions lose updates", "many/transfers", apart},
		{"write skew", "many/write skew", apart},
		{"write skew of absent rows", "many/write skew of absent rows", apart},
		{"plain writes come between", "many/write skew with plain writes", overtaken},
		{"transactions are seen half done", "instant/pairs", apart},
		{"plain writes get into transactions", "many/all ways at once", apart},
		{"versions are those of contents", "rows/versions never repeat", func(s *Stub, m *Memory) {
			s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
				row, err := m.Get(ctx, t, k)
				if row != nil {
					row.Ver = int64(len(row.Item))
				}
				return row, err
			}
		}},
		{"versions begin again after a delete", "rows/versions never repeat", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				m.mu.Lock()
				if mt, err := m.current(w.Table); err == nil {
					if _, found := mt.row(w.Key); !found {
						m.disk.lastVer = 0
					}
				}
				m.mu.Unlock()
				return m.Write(ctx, w)
			})
		}},
		{"versions begin again after a restart", "rows/versions never repeat", func(_ *Stub, m *Memory) { m.disk.lastVer = 0 }},
		{"unchanged rows are written", "rows/unchanged", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				decide := w.Decide
				w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
					next, err := decide(t, cur)
					if next == storage.Unchanged && cur != nil {
						next = &storage.Next{Item: slices.Clone(cur.Item), Size: cur.Size}
					}
					return next, err
				}
				return m.Write(ctx, w)
			})
		}},
		{"refused writes are done", "rows/refusal", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				decide := w.Decide
				var refused error
				w.Decide = func(t *storage.Table, cur *storage.Row) (next *storage.Next, err error) {
					next, refused = decide(t, cur)
					return next, nil
				}
				r, err := m.Write(ctx, w)
				return r, errors.Join(refused, err)
			})
		}},
		{"deletes are forgotten", "rows/put get delete", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				decide := w.Decide
				w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
					next, err := decide(t, cur)
					if next == nil {
						next = storage.Unchanged
					}
					return next, err
				}
				return m.Write(ctx, w)
			})
		}},
		{"acknowledged writes get lost", "rows/many keys at once", func(s *Stub, m *Memory) {
			var n atomic.Int64
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				if n.Add(1)%25 == 0 {
					decide := w.Decide
					w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
						_, err := decide(t, cur)
						return storage.Unchanged, err
					}
				}
				return m.Write(ctx, w)
			})
		}},
		{"one refusal is everybody's", "many/write each", func(s *Stub, m *Memory) {
			s.OnWriteEach = func(ctx context.Context, ws []storage.Write) []storage.Result {
				rs := m.WriteEach(ctx, ws)
				for _, r := range rs {
					if r.Err != nil {
						for i := range rs {
							rs[i].Err = r.Err
						}
					}
				}
				return rs
			}
		}},
		{"the writer's slice is kept", "rows/own copies", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				var passed *storage.Next
				decide := w.Decide
				w.Decide = func(t *storage.Table, cur *storage.Row) (next *storage.Next, err error) {
					passed, err = decide(t, cur)
					return passed, err
				}
				r, err := m.Write(ctx, w)
				if mt, cerr := m.current(w.Table); cerr == nil && err == nil && passed != nil {
					if i, found := mt.row(w.Key); found {
						mt.rows[i].row.Item = passed.Item
					}
				}
				return r, err
			})
		}},
		{"refused transactions are done in part", "many/write all refused", func(s *Stub, m *Memory) {
			s.OnWriteAll = func(ctx context.Context, ws []storage.Write, _ *storage.Token) ([]storage.Result, error) {
				rs := m.WriteEach(ctx, ws)
				reasons := make([]error, len(ws))
				for i := range rs {
					reasons[i] = rs[i].Err
				}
				return rs, &storage.Cancelled{Reasons: reasons}
			}
		}},
		{"the first refusal ends a transaction", "many/write all refused", answered(func(_ *Memory, _ *storage.Token, err error) error {
			if c := new(storage.Cancelled); errors.As(err, &c) {
				i := slices.IndexFunc(c.Reasons, func(r error) bool { return r != nil })
				clear(c.Reasons[i+1:])
			}
			return err
		})},
		{"reasons in another order", "many/write all refused", answered(func(_ *Memory, _ *storage.Token, err error) error {
			if c := new(storage.Cancelled); errors.As(err, &c) {
				c.Reasons = append(c.Reasons[1:], c.Reasons[0])
			}
			return err
		})},
		{"writers keep their outdated definition", "stale/writers", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				decide, old := w.Decide, w.Table
				w.Decide = func(_ *storage.Table, cur *storage.Row) (*storage.Next, error) { return decide(old, cur) }
				return m.Write(ctx, w)
			})
		}},
		{"writers of a dropped table get the next", "stale/re-created", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				w.Table = m.newest(w.Table)
				return m.Write(ctx, w)
			})
		}},
		{"a deleting table is written", "stale/deleting", func(s *Stub, m *Memory) {
			s.OnWrite = func(ctx context.Context, w storage.Write) (storage.Result, error) {
				r, err := m.Write(ctx, w)
				if errors.Is(err, storage.ErrTableNotFound) {
					return storage.Result{Table: w.Table}, nil
				}
				return r, err
			}
		}},
		{"cancelled writes are done", "iterate/cancelled before", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				return m.Write(context.WithoutCancel(ctx), w)
			})
		}},
		{"a cancelled write is acknowledged and lost", "iterate/cancelled during", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				decide := w.Decide
				w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
					next, err := decide(t, cur)
					if ctx.Err() != nil {
						next = storage.Unchanged
					}
					return next, err
				}
				return m.Write(ctx, w)
			})
		}},
	})
}

// entryMutants do not keep rows and entries together.
func entryMutants() []mutant {
	leak := func(s *Stub, m *Memory) { // entries of before stay
		written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
			m.mu.Lock()
			if mt, err := m.current(w.Table); err == nil {
				if i, found := mt.row(w.Key); found {
					mt.rows[i].entries = nil
				}
			}
			m.mu.Unlock()
			return m.Write(ctx, w)
		})
	}
	return []mutant{
		{"entries stay behind a delete", "rows/put get delete", leak},
		{"entries stay behind a move", "indexes/key change", leak},
		{"sparse items stay in", "indexes/sparse", leak},
		{"entries stay, found by the model", "model/seed 0", leak},
		{"the last entry is not written", "indexes/sparse", nexts(func(n *storage.Next) *storage.Next {
			n.Entries = n.Entries[:max(0, len(n.Entries)-1)]
			return n
		})},
		{"entries have the row's size", "indexes/sparse", nexts(func(n *storage.Next) *storage.Next {
			n.Entries = slices.Clone(n.Entries)
			for i := range n.Entries {
				n.Entries[i].Size = n.Size
			}
			return n
		})},
		{"sort keys are cut", "keys/longest", nexts(func(n *storage.Next) *storage.Next {
			n.Entries = slices.Clone(n.Entries)
			for i, e := range n.Entries {
				n.Entries[i].S = e.S[:min(len(e.S), 1000)]
			}
			return n
		})},
		{"the mark of a long key is lost", "keys/crafted", nexts(func(n *storage.Next) *storage.Next {
			n.Entries = slices.Clone(n.Entries)
			for i, e := range n.Entries {
				n.Entries[i].P = e.P[:len(e.P)-1]
			}
			return n
		})},
		{"flags are lost", "rows/bytes stored are bytes served", nexts(func(n *storage.Next) *storage.Next {
			n.Flags = 0
			return n
		})},
		{"indexes of one name are one", "indexes/apart", nexts(func(n *storage.Next) *storage.Next {
			n.Entries = slices.Clone(n.Entries)
			for i := range n.Entries {
				n.Entries[i].Index = n.Entries[0].Index
			}
			return n
		})},
	}
}

func workMutants() []mutant {
	// done makes the step of a lease what f says.
	done := func(kind storage.WorkKind, f func(m *Memory, l storage.Lease, w storage.Work, now time.Time) (storage.Progress, error)) func(s *Stub, m *Memory) {
		return func(s *Stub, m *Memory) {
			s.OnClaim = func(ctx context.Context, w storage.Work) (storage.Lease, error) {
				l, err := m.Claim(ctx, w)
				if err != nil || w.Kind != kind {
					return l, err
				}
				return &mutantLease{l, func(now time.Time) (storage.Progress, error) { return f(m, l, w, now) }}, nil
			}
		}
	}
	return []mutant{
		{"everybody owns the work", "work/claims", func(s *Stub, m *Memory) {
			s.OnClaim = func(ctx context.Context, w storage.Work) (storage.Lease, error) {
				m.mu.Lock()
				delete(m.disk.claims, w)
				m.mu.Unlock()
				return m.Claim(ctx, w)
			}
		}},
		{"claims outlive their process", "work/drop resumed", func(s *Stub, m *Memory) {
			s.OnPending = func(ctx context.Context, now time.Time) ([]storage.Work, error) {
				ws, err := m.Pending(ctx, now)
				return slices.DeleteFunc(ws, func(w storage.Work) bool {
					i, found := m.disk.tables[w.Account][w.Name].row(storage.Key{})
					return w.Kind == storage.TableDrop && !found && i == 0 && len(m.disk.tables[w.Account][w.Name].rows) < manyRows
				}), err
			}
		}},
		{"a drop leaves its table", "work/drop", done(storage.TableDrop, func(*Memory, storage.Lease, storage.Work, time.Time) (storage.Progress, error) {
			return storage.Progress{Finished: true}, nil
		})},
		{"a drop takes others along", "work/drop", done(storage.TableDrop, func(m *Memory, l storage.Lease, _ storage.Work, now time.Time) (storage.Progress, error) {
			p, err := l.Step(context.Background(), now)
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, mt := range m.disk.all() {
				if len(mt.rows) > 1 && mt.def.Status == storage.Active {
					mt.apply(mt.rows[0].row.Key, nil, 0)
				}
			}
			return p, err
		})},
		{"a drop brings the table back", "work/drop resumed", func(_ *Stub, m *Memory) {
			for _, mt := range m.disk.all() {
				mt.def.Status = storage.Active
			}
		}},
		{"steps ignore the context", "work/cancelled step", done(storage.Statistics, func(_ *Memory, l storage.Lease, _ storage.Work, now time.Time) (storage.Progress, error) {
			return l.Step(context.Background(), now)
		})},
		{"statistics miss a row", "work/statistics", done(storage.Statistics, func(m *Memory, l storage.Lease, w storage.Work, now time.Time) (storage.Progress, error) {
			p, err := l.Step(context.Background(), now)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.disk.tables[w.Account][w.Name].stats.Items--
			return p, err
		})},
		{"statistics know no indexes", "work/statistics", done(storage.Statistics, func(m *Memory, l storage.Lease, w storage.Work, now time.Time) (storage.Progress, error) {
			p, err := l.Step(context.Background(), now)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.disk.tables[w.Account][w.Name].stats.Indexes = nil
			return p, err
		})},
		{"statistics are always due", "work/statistics", func(s *Stub, m *Memory) {
			s.OnPending = func(ctx context.Context, now time.Time) ([]storage.Work, error) {
				return m.Pending(ctx, now.Add(1000*time.Hour))
			}
		}},
		{"statistics are not kept", "work/statistics", func(_ *Stub, m *Memory) {
			for _, mt := range m.disk.all() {
				mt.stats = storage.Stats{}
			}
		}},
		{"samples are of the beginning", "work/sample", func(s *Stub, m *Memory) {
			s.OnSample = func(ctx context.Context, t *storage.Table, ix storage.IndexID, now time.Time) ([]storage.Position, error) {
				ps, err := m.Sample(ctx, t, ix, now)
				return ps[:min(len(ps), 20)], err
			}
		}},
		{"samples are always renewed", "work/sample is held", func(s *Stub, m *Memory) {
			s.OnSample = func(ctx context.Context, t *storage.Table, ix storage.IndexID, _ time.Time) ([]storage.Position, error) {
				return m.Sample(ctx, t, ix, start)
			}
		}},
		{"the first sample does not wait", "work/first sample waits", func(s *Stub, m *Memory) {
			s.OnSample = func(ctx context.Context, t *storage.Table, ix storage.IndexID, _ time.Time) ([]storage.Position, error) {
				return m.Sample(ctx, t, ix, start)
			}
		}},
		{"samples are never renewed", "work/sample is held", func(s *Stub, m *Memory) {
			s.OnSample = func(ctx context.Context, t *storage.Table, ix storage.IndexID, now time.Time) ([]storage.Position, error) {
				return m.Sample(ctx, t, ix, now.Add(10_000*time.Hour))
			}
		}},
		{"samples are not kept", "work/sample is held", func(_ *Stub, m *Memory) {
			for _, mt := range m.disk.all() {
				clear(mt.samples)
			}
		}},
	}
}

type mutantLease struct {
	storage.Lease
	step func(now time.Time) (storage.Progress, error)
}

func (l *mutantLease) Step(_ context.Context, now time.Time) (storage.Progress, error) {
	return l.step(now)
}
