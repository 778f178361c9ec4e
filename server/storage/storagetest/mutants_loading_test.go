// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// loads changes every load.
func loads(change func(l *StubLoading, m *Memory)) func(s *Stub, m *Memory) {
	return func(s *Stub, m *Memory) {
		s.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
			l, err := m.Load(ctx, account, def, at)
			if err != nil {
				return nil, err
			}
			x := &StubLoading{Loading: l}
			change(x, m)
			return x, nil
		}
	}
}

// adds changes the rows of every Add.
func adds(change func(rows []storage.LoadRow) []storage.LoadRow) func(s *Stub, m *Memory) {
	return loads(func(l *StubLoading, _ *Memory) {
		l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
			rows = slices.Clone(rows)
			for i := range rows {
				next := *rows[i].Next
				rows[i].Next = &next
			}
			return l.Loading.Add(ctx, change(rows))
		}
	})
}

// finished changes the table after every Finish that succeeds.
func finished(change func(mt *memTable)) func(s *Stub, m *Memory) {
	return loads(func(l *StubLoading, m *Memory) {
		l.OnFinish = func(ctx context.Context, progress func(done, total int64)) error {
			err := l.Loading.Finish(ctx, progress)
			if err == nil {
				m.meddle(l, change)
			}
			return err
		}
	})
}

// meddle changes the table of a load behind the back of everybody.
func (m *Memory) meddle(l storage.Loading, change func(mt *memTable)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mt := m.disk.tables[l.Table().Account][l.Table().Name()]; mt != nil && mt.def.ID == l.Table().ID {
		change(mt)
	}
}

func (mt *memTable) become(status storage.Status) { _ = mt.redefine(status, mt.def.Def) }

func loadingMutants() []mutant {
	return slices.Concat(loadedMutants(), stepMutants(), endMutants(), nameMutants())
}

// loadedMutants load something else than they were given.
func loadedMutants() []mutant {
	return []mutant{
		{"rows of a load get lost", "loading/loaded as written", adds(func(rows []storage.LoadRow) []storage.LoadRow {
			return rows[:max(len(rows)-1, 0)]
		})},
		{"entries of a load get lost", "loading/loaded as written", adds(func(rows []storage.LoadRow) []storage.LoadRow {
			for _, r := range rows {
				r.Next.Entries = r.Next.Entries[:len(r.Next.Entries)/2]
			}
			return rows
		})},
		{"flags of a load get lost", "loading/loaded as written", adds(func(rows []storage.LoadRow) []storage.LoadRow {
			for _, r := range rows {
				r.Next.Flags = 0
			}
			return rows
		})},
		{"loads must be in order", "loading/loaded as written", adds(func(rows []storage.LoadRow) []storage.LoadRow {
			return slices.DeleteFunc(rows, func(r storage.LoadRow) bool { return tablePosition(r.Key).Compare(tablePosition(rows[0].Key)) < 0 })
		})},
		{"a load keeps the caller's rows", "loading/loaded as written", loads(func(l *StubLoading, m *Memory) {
			l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
				err := l.Loading.Add(ctx, rows)
				m.meddle(l, func(mt *memTable) {
					for _, r := range rows {
						i, _ := mt.row(r.Key)
						mt.rows[i].row.Item = r.Next.Item
					}
				})
				return err
			}
		})},
		{"rows of a load have no version", "loading/loaded as written", finished(func(mt *memTable) {
			for _, r := range mt.rows {
				r.row.Ver = 1
			}
		})},
		{"a loaded table has no statistics", "loading/loaded as written", finished(func(mt *memTable) { mt.stats = storage.Stats{} })},
		{"a loaded table counts no entries", "loading/loaded as written", finished(func(mt *memTable) { mt.stats.Indexes = nil })},
		{"a loaded table is never sampled", "loading/loaded as written", finished(func(mt *memTable) { mt.counted = start.Add(1 << 60) })},
		{"bad index keys are indexed", "loading/bad index keys", adds(func(rows []storage.LoadRow) []storage.LoadRow {
			for _, r := range rows {
				for _, b := range r.Next.Bad {
					r.Next.Entries = append(slices.Clone(r.Next.Entries), storage.Entry{Index: b.Index.ID, P: []byte{1, 0}, S: []byte{}, Size: 1})
				}
			}
			return rows
		})},
		{"items with bad index keys are left out", "loading/bad index keys", adds(func(rows []storage.LoadRow) []storage.LoadRow {
			return slices.DeleteFunc(rows, func(r storage.LoadRow) bool { return len(r.Next.Bad) > 0 })
		})},
		{"long keys are cut", "loading/long keys", adds(func(rows []storage.LoadRow) []storage.LoadRow {
			for i := range rows {
				sk := rows[i].Key.SK
				rows[i].Key.SK = sk[:min(len(sk), 1000)]
			}
			return rows
		})},
	}
}

// stepMutants show a table that is not loaded yet.
func stepMutants() []mutant {
	return []mutant{
		{"a table is ACTIVE while it is loaded", "loading/out of sight", func(s *Stub, m *Memory) {
			loads(func(l *StubLoading, m *Memory) {
				l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
					err := l.Loading.Add(ctx, rows)
					if err == nil {
						m.meddle(l, func(mt *memTable) { mt.def = mt.as(storage.Active) })
					}
					return err
				}
			})(s, m)
		}},
		{"tables being loaded are not listed", "loading/out of sight", func(s *Stub, m *Memory) {
			s.OnTables = func(ctx context.Context, account, after string, limit int) ([]string, bool, error) {
				names, more, err := m.Tables(ctx, account, after, limit)
				return slices.DeleteFunc(names, func(name string) bool {
					t, err := m.Table(ctx, account, name)
					return err != nil || t.Status == storage.Creating
				}), more, err
			}
		}},
		{"tables being loaded are counted", "loading/out of sight", func(s *Stub, m *Memory) {
			s.OnPending = func(ctx context.Context, now time.Time) ([]storage.Work, error) {
				ws, err := m.Pending(ctx, now)
				if t, terr := m.Table(ctx, account, "t"); terr == nil && t.Status == storage.Creating {
					ws = append(ws, storage.Work{Kind: storage.Statistics, Table: t.ID, Account: account, Name: "t"})
				}
				return ws, err
			}
		}},
		{"a loaded table has its old version", "loading/out of sight", finished(func(mt *memTable) {
			c := *mt.def
			c.Version--
			mt.def = &c
		})},
		{"entries come after the table", "loading/one step", loads(func(l *StubLoading, m *Memory) {
			l.OnFinish = func(ctx context.Context, progress func(done, total int64)) error {
				var entries map[storage.IndexID][]*memEntry
				m.meddle(l, func(mt *memTable) { entries, mt.entries = mt.entries, map[storage.IndexID][]*memEntry{} })
				err := l.Loading.Finish(ctx, progress)
				yieldAWhile()
				m.meddle(l, func(mt *memTable) { mt.entries = entries; mt.stats = mt.tally() })
				return err
			}
		})},
		{"statistics come after the table", "loading/one step", loads(func(l *StubLoading, m *Memory) {
			l.OnFinish = func(ctx context.Context, progress func(done, total int64)) error {
				err := l.Loading.Finish(ctx, progress)
				var stats storage.Stats
				m.meddle(l, func(mt *memTable) { stats, mt.stats = mt.stats, storage.Stats{} })
				yieldAWhile()
				m.meddle(l, func(mt *memTable) { mt.stats = stats })
				return err
			}
		})},
		{"progress is not told", "loading/out of sight", loads(func(l *StubLoading, _ *Memory) {
			l.OnFinish = func(ctx context.Context, _ func(done, total int64)) error { return l.Loading.Finish(ctx, nil) }
		})},
	}
}

// as is the definition with another status.
func (mt *memTable) as(status storage.Status) *storage.Table {
	c := *mt.def
	c.Status = status
	return &c
}

// endMutants end loads wrongly.
func endMutants() []mutant {
	return []mutant{
		{"an aborted load stays", "loading/abort", loads(func(l *StubLoading, _ *Memory) { l.OnAbort = func() error { return nil } })},
		{"an aborted load is published", "loading/abort", loads(func(l *StubLoading, m *Memory) {
			l.OnAbort = func() error {
				m.meddle(l, func(mt *memTable) {
					if mt.def.Status == storage.Creating {
						mt.become(storage.Active)
					}
				})
				return nil
			}
		})},
		{"abort drops a loaded table", "loading/abort", loads(func(l *StubLoading, m *Memory) {
			l.OnAbort = func() error {
				m.meddle(l, func(mt *memTable) { mt.become(storage.Deleting) })
				return nil
			}
		})},
		{"abort goes by name", "loading/changed and dropped", loads(func(l *StubLoading, m *Memory) {
			l.OnAbort = func() error {
				_, err := m.DropTable(context.Background(), l.Table().Account, l.Table().Name(), agree)
				if errors.Is(err, storage.ErrTableNotFound) {
					err = nil
				}
				return err
			}
		})},
		{"a cancelled load says that it is done", "loading/cancelled", loads(func(l *StubLoading, _ *Memory) {
			l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
				err := l.Loading.Add(context.WithoutCancel(ctx), rows[:len(rows)/2])
				if err == nil && ctx.Err() == nil {
					err = l.Loading.Add(context.WithoutCancel(ctx), rows[len(rows)/2:])
				}
				return err
			}
		})},
		{"a dropped table is revived", "loading/changed and dropped", loads(func(l *StubLoading, m *Memory) {
			l.OnFinish = func(ctx context.Context, progress func(done, total int64)) error {
				m.meddle(l, func(mt *memTable) { mt.become(storage.Active) })
				return nil
			}
		})},
		{"rows go into a dropped table", "loading/changed and dropped", loads(func(l *StubLoading, _ *Memory) {
			l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
				if err := l.Loading.Add(ctx, rows); !errors.Is(err, storage.ErrTableNotFound) {
					return err
				}
				return nil
			}
		})},
		{"loads outlive their process", "loading/reopen", restarted(func(mt *memTable) { mt.def = mt.as(storage.Creating) })},
		{"half loads become ACTIVE", "loading/reopen", restarted(func(mt *memTable) { mt.def = mt.as(storage.Active) })},
		{"half loads vanish without a drop", "loading/reopen", func(_ *Stub, m *Memory) {
			for _, byName := range m.disk.tables {
				for name, mt := range byName {
					if mt.def.Status == storage.Deleting {
						delete(byName, name)
					}
				}
			}
		}},
		{"a closed engine goes on loading", "loading/closed", loads(func(l *StubLoading, _ *Memory) {
			l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
				if err := l.Loading.Add(ctx, rows); !errors.Is(err, storage.ErrClosed) {
					return err
				}
				return nil
			}
		})},
	}
}

// restarted changes the tables that are DELETING when the engine is opened.
func restarted(change func(mt *memTable)) func(s *Stub, m *Memory) {
	return func(_ *Stub, m *Memory) {
		for _, mt := range m.disk.all() {
			if mt.def.Status == storage.Deleting {
				change(mt)
			}
		}
	}
}

// nameMutants take keys and names for what they are not.
func nameMutants() []mutant {
	return []mutant{
		{"duplicates are passed over", "loading/duplicates", loads(func(l *StubLoading, m *Memory) {
			l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
				for _, r := range rows {
					there := false
					m.meddle(l, func(mt *memTable) { _, there = mt.row(r.Key) })
					if there {
						continue
					}
					if err := l.Loading.Add(ctx, []storage.LoadRow{r}); err != nil {
						return err
					}
				}
				return nil
			}
		})},
		{"duplicates are seen only next to each other", "loading/duplicates", loads(func(l *StubLoading, m *Memory) {
			l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
				for i, r := range rows {
					if i > 0 && r.Key.Equal(rows[i-1].Key) {
						return &storage.DuplicateKey{Row: i}
					}
					m.meddle(l, func(mt *memTable) { m.apply(mt, r.Key, r.Next) })
				}
				return nil
			}
		})},
		{"a duplicate is told by the row of its batch", "loading/duplicates", loads(func(l *StubLoading, _ *Memory) {
			l.OnAdd = func(ctx context.Context, rows []storage.LoadRow) error {
				for chunk := range slices.Chunk(rows, 500) {
					if err := l.Loading.Add(ctx, chunk); err != nil {
						return err
					}
				}
				return nil
			}
		})},
		{"a table being loaded is replaced", "loading/name taken", func(s *Stub, m *Memory) {
			s.OnCreateTable = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
				m.mu.Lock()
				if mt := m.disk.tables[account][def.TableName]; mt != nil && mt.def.Status == storage.Creating {
					delete(m.disk.tables[account], def.TableName)
				}
				m.mu.Unlock()
				return m.CreateTable(ctx, account, def, at)
			}
		}},
		{"a load replaces a DELETING table", "loading/name taken", func(s *Stub, m *Memory) {
			s.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
				m.mu.Lock()
				if mt := m.disk.tables[account][def.TableName]; mt != nil && mt.def.Status == storage.Deleting {
					delete(m.disk.tables[account], def.TableName)
				}
				m.mu.Unlock()
				return m.Load(ctx, account, def, at)
			}
		}},
		{"accounts share the names of loads", "loading/name taken", func(s *Stub, m *Memory) {
			s.OnLoad = func(ctx context.Context, _ string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
				return m.Load(ctx, account, def, at)
			}
		}},
		{"loads do not count as tables", "loading/too many tables", func(s *Stub, m *Memory) {
			s.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
				m.mu.Lock()
				m.disk.maxTables++
				m.mu.Unlock()
				return m.Load(ctx, account, def, at)
			}
		}},
	}
}
