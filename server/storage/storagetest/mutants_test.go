// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// mutant is the reference engine with one fault, and the check that must find
// it.
type mutant struct {
	name   string
	by     string
	damage func(s *Stub, m *Memory)
}

// attempts is how often a check may miss a race that takes a microsecond.
const attempts = 100

// TestMutants: the suite fails engines that are not sound.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, x := range slices.Concat(readMutants(), writeMutants(), catalogMutants(), workMutants(), snapshotMutants(), loadingMutants(), streamMutants(), trimMutants(), severalMutants()) {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(checks(), func(c check) bool { return c.name == x.by })
			if i < 0 {
				t.Fatalf("there is no check %q", x.by)
			}
			for range attempts {
				if fs := record(t, checks()[i], x.harness()); len(fs) > 0 {
					return
				}
			}
			t.Errorf("%q passes", x.by)
		})
	}
}

// TestRecorder: the same way of running a check passes a sound engine.
func TestRecorder(t *testing.T) {
	t.Parallel()
	whole := mutant{damage: func(*Stub, *Memory) {}}
	for _, c := range checks() {
		if c.name == "model/seed 0" {
			break // the rest takes long and shows nothing new
		}
		if fs := record(t, c, whole.harness()); len(fs) > 0 {
			t.Errorf("%s: %q", c.name, fs)
		}
	}
}

// harness wraps the reference engine, again after each restart.
func (x mutant) harness() Harness {
	m := NewMemory(20)
	wrap := func(m *Memory) storage.Engine {
		s := &Stub{Engine: m}
		x.damage(s, m)
		return s
	}
	return Harness{
		Engine: wrap(m), MaxTables: 20, Snapshots: m.snapshots(), moment: 300 * time.Millisecond,
		Reopen: func() storage.Engine {
			m = m.Reopen()
			return wrap(m)
		},
		Second: func() storage.Engine { return wrap(m.Second()) },
	}
}

// ranged changes what a range is asked for.
func ranged(change func(r *storage.Range)) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		s.OnRange = func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
			change(&r)
			return m.Range(ctx, t, r)
		}
	}
}

// yielded changes what a range yields.
func yielded(change func(r storage.Range, row *storage.Row)) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		s.OnRange = func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
			return func(yield func(*storage.Row, error) bool) {
				for row, err := range m.Range(ctx, t, r) {
					if err == nil {
						change(r, row)
					}
					if !yield(row, err) {
						return
					}
				}
			}
		}
	}
}

// newest replaces an outdated definition, as an engine does that does not
// look whether the one it was given still holds.
func (m *Memory) newest(t *storage.Table) *storage.Table {
	if now, err := m.Table(context.Background(), t.Account, t.Name()); err == nil {
		return now
	}
	return t
}

func readMutants() []mutant {
	return []mutant{
		{"ties are skipped", "paging/ties", ranged(func(r *storage.Range) {
			if r.After != nil && r.Index != 0 {
				after := storage.Position{P: r.After.P, S: r.After.S}
				if !r.Reverse {
					after.PK = []byte{0xFF}
				}
				r.After = &after
			}
		})},
		{"ties come again", "paging/ties", ranged(func(r *storage.Range) {
			if r.After != nil && r.Index != 0 {
				r.After = &storage.Position{P: r.After.P, S: r.After.S}
			}
		})},
		{"reverse is ignored", "paging/ties", ranged(func(r *storage.Range) { r.Reverse = false })},
		{"From is excluded", "paging/sort key bounds", ranged(func(r *storage.Range) {
			if len(r.From) > 0 {
				r.From = append(slices.Clone(r.From), 0)
			}
		})},
		{"To is included", "paging/sort key bounds", ranged(func(r *storage.Range) {
			if r.To != nil {
				r.To = append(slices.Clone(r.To), 0)
			}
		})},
		{"segments overlap", "paging/segments", ranged(func(r *storage.Range) {
			if r.End != nil {
				end := *r.End
				end.SK = append(slices.Clone(end.SK), 0)
				r.End = &end
			}
		})},
		{"segments have gaps", "paging/segments", ranged(func(r *storage.Range) {
			if r.Start != nil {
				start := *r.Start
				start.SK = append(slices.Clone(start.SK), 0)
				r.Start = &start
			}
		})},
		{"Rows is a limit", "paging/large", func(s *Stub, m *Memory) {
			s.OnRange = func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
				return func(yield func(*storage.Row, error) bool) {
					n := 0
					for row, err := range m.Range(ctx, t, r) {
						if n++; !yield(row, err) || n == r.Rows {
							return
						}
					}
				}
			}
		}},
		{"a long key without its item", "keys/KEYS_ONLY with long keys", yielded(func(r storage.Range, row *storage.Row) {
			if r.Want == storage.Keys {
				row.Item = nil
			}
		})},
		{"the row's size in an index", "paging/want", yielded(func(r storage.Range, row *storage.Row) {
			if r.Want == storage.Sizes && r.Index != 0 {
				row.Size += 5
			}
		})},
		{"text ends at NUL", "rows/bytes stored are bytes served", yielded(func(_ storage.Range, row *storage.Row) {
			if i := slices.Index(row.Item, '\\'); i > 0 {
				row.Item = row.Item[:i]
			}
		})},
		{"stale readers are served", "stale/readers", func(s *Stub, m *Memory) {
			s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
				return m.Get(ctx, m.newest(t), k)
			}
		}},
		{"stale ranges are served", "stale/readers", func(s *Stub, m *Memory) {
			s.OnRange = func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
				return m.Range(ctx, m.newest(t), r)
			}
		}},
		{"readers of a dropped table get the next", "stale/re-created", func(s *Stub, m *Memory) {
			s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
				return m.Get(ctx, m.newest(t), k)
			}
		}},
		{"rows of many instants", "instant/pairs", func(s *Stub, m *Memory) {
			s.OnRange = func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
				return onePerStep(ctx, m, t, r)
			}
		}},
		{"keys of many instants", "instant/pairs", func(s *Stub, m *Memory) {
			s.OnGetAll = func(ctx context.Context, ks []storage.TableKey, _ int) (rows []*storage.Row, err error) {
				for _, k := range ks {
					row, err := m.Get(ctx, k.Table, k.Key)
					if err != nil {
						return nil, err
					}
					rows = append(rows, row)
				}
				return rows, nil
			}
		}},
		{"the budget is ignored", "iterate/budget", func(s *Stub, m *Memory) {
			s.OnGetAll = func(ctx context.Context, ks []storage.TableKey, _ int) ([]*storage.Row, error) {
				return m.GetAll(ctx, ks, 0)
			}
		}},
		{"rows are shared", "rows/own copies", func(s *Stub, m *Memory) {
			s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
				mt, err := m.current(t)
				if err != nil {
					return nil, err
				}
				if i, found := mt.row(k); found {
					row := mt.rows[i].row
					return &row, nil
				}
				return nil, nil
			}
		}},
		{"abandoned iterators leak", "iterate/abandoned", func(s *Stub, m *Memory) {
			free := make(chan struct{}, 8)
			s.OnRange = func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
				return func(yield func(*storage.Row, error) bool) {
					select {
					case free <- struct{}{}:
					default:
						yield(nil, storage.ErrUnavailable)
						return
					}
					for row, err := range m.Range(ctx, t, r) {
						if !yield(row, err) {
							return // without <-free
						}
					}
					<-free
				}
			}
		}},
		{"cancelled readers go on", "iterate/cancelled before", func(s *Stub, m *Memory) {
			s.OnRange = func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
				return m.Range(context.WithoutCancel(ctx), t, r)
			}
		}},
		{"cancelled ranges end early", "iterate/cancelled during", func(s *Stub, m *Memory) {
			s.OnRange = func(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
				return func(yield func(*storage.Row, error) bool) {
					for row, err := range m.Range(ctx, t, r) {
						if errors.Is(err, context.Canceled) || !yield(row, err) {
							return
						}
					}
				}
			}
		}},
		{"closed engines answer", "life/closed", func(s *Stub, m *Memory) {
			s.OnClose = func() error { return nil }
		}},
		{"a deleting table is read", "stale/deleting", func(s *Stub, m *Memory) {
			s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
				row, err := m.Get(ctx, t, k)
				if errors.Is(err, storage.ErrTableNotFound) {
					err = nil
				}
				return row, err
			}
		}},
		{"reads lag behind", "instant/acknowledged is visible", func(s *Stub, m *Memory) {
			cache := map[string]*storage.Row{}
			lock := make(chan struct{}, 1)
			s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
				lock <- struct{}{}
				defer func() { <-lock }()
				id := place(tablePosition(k))
				if cache[id] == nil {
					row, err := m.Get(ctx, t, k)
					if err != nil || row == nil {
						return row, err
					}
					cache[id] = row
				}
				return cache[id].Clone(), nil
			}
		}},
	}
}

// onePerStep reads a range in steps of one row each.
func onePerStep(ctx context.Context, m *Memory, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		for {
			var found *storage.Row
			for row, err := range m.Range(ctx, t, r) {
				if err != nil {
					yield(nil, err)
					return
				}
				found = row
				break
			}
			if found == nil || !yield(found, nil) {
				return
			}
			pos := found.Clone().Position()
			r.After = &pos
		}
	}
}

func catalogMutants() []mutant {
	return []mutant{
		{"a created table lacks its instant's zone", "catalog/create", func(s *Stub, m *Memory) {
			s.OnCreateTable = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
				t, err := m.CreateTable(ctx, account, def, at)
				if err == nil {
					c := *t
					c.Created = at
					t = &c
				}
				return t, err
			}
		}},
		{"tables replace each other", "catalog/create twice", func(s *Stub, m *Memory) {
			s.OnCreateTable = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
				m.mu.Lock()
				delete(m.disk.tables[account], def.TableName)
				m.mu.Unlock()
				return m.CreateTable(ctx, account, def, at)
			}
		}},
		{"accounts share their tables", "catalog/create", func(s *Stub, m *Memory) {
			s.OnTable = func(ctx context.Context, _, name string) (*storage.Table, error) { return m.Table(ctx, account, name) }
		}},
		{"the limit of tables is not kept", "catalog/too many tables", func(_ *Stub, m *Memory) { m.disk.maxTables = 1000 }},
		{"lists ignore where they go on", "catalog/list", func(s *Stub, m *Memory) {
			s.OnTables = func(ctx context.Context, account, _ string, limit int) ([]string, bool, error) {
				return m.Tables(ctx, account, "", limit)
			}
		}},
		{"lists lack deleting tables", "catalog/list", func(s *Stub, m *Memory) {
			s.OnTables = func(ctx context.Context, account, after string, limit int) ([]string, bool, error) {
				names, more, err := m.Tables(ctx, account, after, 100)
				names = slices.DeleteFunc(names, func(name string) bool {
					t, err := m.Table(ctx, account, name)
					return err != nil || t.Status == storage.Deleting
				})
				if len(names) > limit {
					return names[:limit], true, err
				}
				return names, more, err
			}
		}},
		{"updates keep the version", "catalog/update", func(s *Stub, m *Memory) {
			s.OnUpdateTable = func(ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error)) (*storage.Table, error) {
				t, err := m.UpdateTable(ctx, account, name, change)
				if err == nil {
					t.Version--
				}
				return t, err
			}
		}},
		{"updates get lost", "catalog/update by many", func(s *Stub, m *Memory) {
			s.OnUpdateTable = func(ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error)) (*storage.Table, error) {
				t, err := m.Table(ctx, account, name)
				if err != nil {
					return nil, err
				}
				def, err := change(t)
				if err != nil {
					return nil, err
				}
				yieldAWhile()
				return m.UpdateTable(ctx, account, name, func(*storage.Table) (ddb.TableDefinition, error) { return def, nil })
			}
		}},
		{"definitions are not kept", "life/reopen", func(_ *Stub, m *Memory) {
			for _, mt := range m.disk.all() {
				c := *mt.def
				c.Def.DeletionProtection = false
				mt.def = &c
			}
		}},
		{"a refused drop is done", "catalog/drop", func(s *Stub, m *Memory) {
			s.OnDropTable = func(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error) {
				t, err := m.DropTable(ctx, account, name, func(*storage.Table) error { return nil })
				if err == nil {
					err = check(t)
				}
				return t, err
			}
		}},
		{"rows are not kept", "life/reopen", func(_ *Stub, m *Memory) {
			for _, mt := range m.disk.all() {
				mt.rows = nil
			}
		}},
	}
}
