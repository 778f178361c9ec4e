// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// severalMutants do not see, or do not mind, what others do to their database.
func severalMutants() []mutant {
	forever := func(s *Stub, m *Memory) { // the first definition is kept
		var first sync.Map
		s.OnTable = func(ctx context.Context, account, name string) (*storage.Table, error) {
			if t, ok := first.Load(name); ok {
				return t.(*storage.Table), nil
			}
			t, err := m.Table(ctx, account, name)
			if err == nil {
				first.Store(name, t)
			}
			return t, err
		}
	}
	outdated := func(s *Stub, m *Memory) { // writers decide with what they were given
		written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
			_, err := m.Write(ctx, w)
			return storage.Result{Table: w.Table, Err: err}, err
		})
	}
	byName := func(s *Stub, m *Memory) { // whatever has the name is the table
		written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
			given := w.Table
			if t, _, err := m.Describe(ctx, w.Table.Account, w.Table.Name()); err == nil {
				w.Table = t
			}
			r, err := m.Write(ctx, w)
			r.Table = given
			return r, err
		})
	}
	alone := func(s *Stub, m *Memory) { // claims are known to the engine alone
		s.OnClaim = func(ctx context.Context, w storage.Work) (storage.Lease, error) {
			m.locked(func(d *disk) {
				maps.DeleteFunc(d.claims, func(c storage.Work, owner *Memory) bool { return c == w && owner != m })
			})
			return m.Claim(ctx, w)
		}
	}
	return []mutant{
		{"a cached definition is kept for ever", "several/definition changed", forever},
		{"a cached definition is the caller's", "several/definition changed", outdated},
		{"readers do not mind the definition", "several/definition changed", func(s *Stub, m *Memory) {
			s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
				if now, _, err := m.Describe(ctx, t.Account, t.Name()); err == nil && now.ID == t.ID {
					t = now
				}
				return m.Get(ctx, t, k)
			}
		}},
		{"a table that is gone stays in the cache", "several/dropped", forever},
		{"a drop elsewhere is not seen", "several/dropped", func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				r, err := m.Write(ctx, w)
				if err == storage.ErrTableNotFound { //nolint:errorlint // as Memory returns it
					return storage.Result{Table: w.Table}, nil
				}
				return r, err
			})
		}},
		{"the new table is taken for the old", "several/re-created", byName},
		{"the old table hides the new", "several/re-created", forever},
		{"a name leads to the wrong table", "several/re-created at once", byName},
		{"updates by two get lost", "several/counter", func(s *Stub, m *Memory) { written(s, unlocked(m)) }},
		{"updates get lost while the definition changes", "several/definition changed at once", func(s *Stub, m *Memory) { written(s, unlocked(m)) }},
		{"each engine has its horizon", "several/streams", outOfStep(false)},
		{"each engine has its claims", "several/claims", alone},
		{"claims outlive their owner", "several/claims die with their owner", func(s *Stub, m *Memory) {
			s.OnClose = func() error {
				var held map[storage.Work]*Memory
				m.locked(func(d *disk) { held = maps.Clone(d.claims) })
				err := m.Close()
				m.locked(func(d *disk) { maps.Copy(d.claims, held) })
				return err
			}
		}},
		{"nobody is told of work", "several/work is heard of", func(s *Stub, _ *Memory) { s.OnOnWork = func(func()) {} }},
		{"loads of others are dropped", "several/load", func(s *Stub, m *Memory) {
			s.OnPending = func(ctx context.Context, now time.Time) ([]storage.Work, error) {
				m.locked(func(d *disk) {
					for _, mt := range d.all() {
						if mt.def.Status == storage.Creating && mt.loader != m {
							_ = mt.redefine(storage.Deleting, mt.def.Def)
						}
					}
				})
				return m.Pending(ctx, now)
			}
		}},
		{"loads outlive their engine", "several/loader dies", func(s *Stub, m *Memory) {
			s.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
				l, err := m.Load(ctx, account, def, at)
				m.locked(func(d *disk) { d.tables[account][def.TableName].loader = &Memory{} })
				return l, err
			}
		}},
		{"a drop takes the rows of snapshots", "several/snapshot and drop", func(s *Stub, m *Memory) {
			s.OnDropTable = func(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error) {
				m.locked(func(d *disk) {
					for _, o := range d.open {
						for s := range o.snaps.open {
							s.rows = slices.Clip(s.rows[:len(s.rows)/2])
						}
					}
				})
				return m.DropTable(ctx, account, name, check)
			}
		}},
	}
}
