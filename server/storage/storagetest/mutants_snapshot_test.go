// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

type rowSeq = iter.Seq2[*storage.Row, error]

// snapped changes snapshots that are opened soundly.
func snapped(change func(m *Memory, s *memSnapshot, x *StubSnapshot)) func(*Stub, *Memory) {
	return func(stub *Stub, m *Memory) {
		stub.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
			s, err := m.snapshot(func(s *memSnapshot) error { return s.start(ctx, account, table) })
			if err != nil {
				return nil, err
			}
			x := &StubSnapshot{Snapshot: s}
			change(m, s, x)
			return x, nil
		}
	}
}

// started opens snapshots otherwise.
func started(start func(ctx context.Context, s *memSnapshot, account, table string) error) func(*Stub, *Memory) {
	return func(stub *Stub, m *Memory) {
		stub.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
			s, err := m.snapshot(func(s *memSnapshot) error { return start(ctx, s, account, table) })
			if err != nil {
				return nil, err
			}
			return s, nil
		}
	}
}

// reordered changes the rows a snapshot holds.
func reordered(change func(rows []*memRow, page int) []*memRow) func(*Stub, *Memory) {
	return snapped(func(m *Memory, s *memSnapshot, _ *StubSnapshot) {
		s.rows = change(slices.Clone(s.rows), max(1, m.disk.probe.FetchSize()))
	})
}

// live yields pages of the table as it is at the moment of each.
func live(m *Memory, s *memSnapshot, page func(rows []*memRow, seen int, last *storage.Key, n int) []*memRow) rowSeq {
	return func(yield func(*storage.Row, error) bool) {
		defer s.free()
		var last *storage.Key
		for seen := 0; ; {
			m.mu.RLock()
			var rows []*memRow
			if mt := m.disk.tables[account][s.t.Name()]; mt != nil {
				rows = page(mt.rows, seen, last, max(1, m.disk.probe.FetchSize()))
			}
			m.mu.RUnlock()
			m.disk.probe.Fetched()
			for _, r := range rows {
				if !yield(r.row.Clone(), nil) {
					return
				}
				k := r.row.Clone().Key
				last, seen = &k, seen+1
			}
			if len(rows) == 0 {
				return
			}
		}
	}
}

// byKey is the next page behind the last key.
func byKey(rows []*memRow, _ int, last *storage.Key, n int) []*memRow {
	if last != nil {
		i, _ := slices.BinarySearchFunc(rows, *last, func(r *memRow, k storage.Key) int {
			if tablePosition(r.row.Key).Compare(tablePosition(k)) <= 0 {
				return -1
			}
			return 1
		})
		rows = rows[i:]
	}
	return rows[:min(n, len(rows))]
}

// byOffset is the next page behind as many rows.
func byOffset(rows []*memRow, seen int, _ *storage.Key, n int) []*memRow {
	rows = rows[min(seen, len(rows)):]
	return rows[:min(n, len(rows))]
}

// watched calls end with how the reading of a snapshot ended: an error, or
// left early.
func watched(end func(m *Memory, err error, left bool)) func(*Stub, *Memory) {
	return snapped(func(m *Memory, s *memSnapshot, x *StubSnapshot) {
		x.OnRows = func(ctx context.Context) rowSeq {
			return func(yield func(*storage.Row, error) bool) {
				for row, err := range s.Rows(ctx) {
					if err != nil {
						end(m, err, false)
					}
					if !yield(row, err) {
						end(m, nil, true)
						return
					}
				}
			}
		}
	})
}

// leak takes a place that nobody gives back.
func leak(m *Memory) { _ = m.snaps.enter(&memSnapshot{free: func() {}}) }

// leaking takes one when an opening fails.
func leaking(with error) func(*Stub, *Memory) {
	return func(stub *Stub, m *Memory) {
		stub.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
			s, err := m.Snapshot(ctx, account, table)
			if errors.Is(err, with) {
				leak(m)
			}
			return s, err
		}
	}
}

func snapshotMutants() []mutant {
	return slices.Concat(snapshotInstantMutants(), snapshotRowMutants(), snapshotEndMutants(), snapshotOpenMutants())
}

func snapshotInstantMutants() []mutant {
	perPage := snapped(func(m *Memory, s *memSnapshot, x *StubSnapshot) {
		x.OnRows = func(context.Context) rowSeq { return live(m, s, byKey) }
	})
	return []mutant{
		{"a snapshot per page", "snapshot/consistency", perPage},
		{"rows of many snapshots", "snapshot/changed together", perPage},
		{"a snapshot ends with its table", "snapshot/dropped meanwhile", perPage},
		{"pages by offset", "snapshot/consistency", snapped(func(m *Memory, s *memSnapshot, x *StubSnapshot) {
			x.OnRows = func(context.Context) rowSeq { return live(m, s, byOffset) }
		})},
		{"all is read in the opening", "snapshot/consistency", snapped(func(m *Memory, s *memSnapshot, x *StubSnapshot) {
			var rows []*storage.Row
			for row := range s.Rows(context.Background()) {
				rows = append(rows, row)
			}
			x.OnRows = func(context.Context) rowSeq {
				return func(yield func(*storage.Row, error) bool) {
					for _, row := range rows {
						if !yield(row, nil) {
							return
						}
					}
				}
			}
		})},
		{"the items are newer", "snapshot/consistency", snapped(func(m *Memory, s *memSnapshot, x *StubSnapshot) {
			x.OnRows = func(ctx context.Context) rowSeq {
				return func(yield func(*storage.Row, error) bool) {
					for row, err := range s.Rows(ctx) {
						if now, nerr := m.Get(ctx, m.newest(s.t), row.Key); now != nil && nerr == nil {
							row = now
						}
						if !yield(row, err) {
							return
						}
					}
				}
			}
		})},
		{"the definition follows the table", "snapshot/consistency", snapped(func(m *Memory, s *memSnapshot, x *StubSnapshot) {
			x.OnTable = func() *storage.Table { return m.newest(s.t) }
		})},
		{"pauses before the instant", "snapshot/one instant", started(func(ctx context.Context, s *memSnapshot, account, table string) error {
			s.m.disk.probe.AfterDefinition()
			s.m.disk.probe.BeforeItems()
			return s.fix(ctx, account, table)
		})},
		{"no pauses", "snapshot/one instant", started(func(ctx context.Context, s *memSnapshot, account, table string) error {
			return s.fix(ctx, account, table)
		})},
		{"the definition of a later instant", "snapshot/one instant", started(func(ctx context.Context, s *memSnapshot, account, table string) error {
			err := s.start(ctx, account, table)
			if err == nil {
				s.t = s.m.newest(s.t)
			}
			return err
		})},
		{"the rows of a later instant", "snapshot/one instant", started(func(ctx context.Context, s *memSnapshot, account, table string) error {
			if err := s.fix(ctx, account, table); err != nil {
				return err
			}
			t := s.t
			s.m.disk.probe.AfterDefinition()
			err := s.fix(ctx, account, table)
			s.m.disk.probe.BeforeItems()
			s.t = t
			return err
		})},
	}
}

func snapshotRowMutants() []mutant {
	pages := func(change func(page []*memRow, next *memRow) []*memRow) func(*Stub, *Memory) {
		return reordered(func(rows []*memRow, n int) (changed []*memRow) {
			for page := range slices.Chunk(rows, n) {
				var next *memRow
				if i := len(changed) + len(page); i < len(rows) {
					next = rows[i]
				}
				changed = append(changed, change(page, next)...)
			}
			return changed
		})
	}
	return []mutant{
		{"a page begins with the last row of the one before", "snapshot/consistency", pages(func(page []*memRow, _ *memRow) []*memRow {
			return append(slices.Clone(page), page[len(page)-1])
		})},
		{"pages behind a partition key", "snapshot/key shapes", reordered(func(rows []*memRow, n int) (kept []*memRow) {
			for len(rows) > 0 {
				k := min(n, len(rows))
				kept = append(kept, rows[:k]...)
				last := string(rows[k-1].row.Key.PK)
				for rows = rows[k:]; len(rows) > 0 && string(rows[0].row.Key.PK) == last; {
					rows = rows[1:]
				}
			}
			return kept
		})},
		{"a short page is lost", "snapshot/key shapes", reordered(func(rows []*memRow, n int) []*memRow { return rows[:len(rows)-len(rows)%n] })},
		{"a full last page is lost", "snapshot/key shapes", reordered(func(rows []*memRow, n int) []*memRow {
			if len(rows)%n == 0 {
				return rows[:max(0, len(rows)-n)]
			}
			return rows
		})},
		{"rows as they were written", "snapshot/key shapes", reordered(func(rows []*memRow, _ int) []*memRow {
			slices.SortFunc(rows, func(a, b *memRow) int { return int(a.row.Ver - b.row.Ver) })
			return rows
		})},
		{"rows in the order of their text", "snapshot/key shapes", reordered(func(rows []*memRow, _ int) []*memRow {
			slices.SortFunc(rows, func(a, b *memRow) int { return slices.Compare(a.row.Item, b.row.Item) })
			return rows
		})},
		{"no end", "snapshot/consistency", snapped(func(_ *Memory, s *memSnapshot, x *StubSnapshot) {
			all := s.rows
			x.OnRows = func(ctx context.Context) rowSeq {
				return func(yield func(*storage.Row, error) bool) {
					for {
						s.rows = all
						s.begun.Store(false)
						for row, err := range s.Rows(ctx) {
							if !yield(row, err) {
								return
							}
						}
					}
				}
			}
		})},
		{"no marker", "snapshot/consistency", snapped(func(_ *Memory, _ *memSnapshot, x *StubSnapshot) {
			x.OnMarker = func() (kind, value string) { return "", "" }
		})},
		{"order is always claimed", "snapshot/long keys", snapped(func(_ *Memory, _ *memSnapshot, x *StubSnapshot) {
			x.OnKeyOrdered = func() bool { return true }
		})},
		{"order is never claimed", "snapshot/consistency", snapped(func(_ *Memory, _ *memSnapshot, x *StubSnapshot) {
			x.OnKeyOrdered = func() bool { return false }
		})},
		{"unreadable items are served", "snapshot/unreadable", snapped(func(_ *Memory, s *memSnapshot, x *StubSnapshot) {
			x.OnRows = func(context.Context) rowSeq {
				return func(yield func(*storage.Row, error) bool) {
					defer s.free()
					for _, r := range s.rows {
						if !yield(r.row.Clone(), nil) {
							return
						}
					}
				}
			}
		})},
		{"unreadable items are left out", "snapshot/unreadable", reordered(func(rows []*memRow, _ int) []*memRow {
			return slices.DeleteFunc(rows, func(r *memRow) bool { _, err := ddb.ParseItem(r.row.Item); return err != nil })
		})},
		{"rows after an error", "snapshot/unreadable", snapped(func(_ *Memory, s *memSnapshot, x *StubSnapshot) {
			first := s.rows[0]
			x.OnRows = func(ctx context.Context) rowSeq {
				return func(yield func(*storage.Row, error) bool) {
					for row, err := range s.Rows(ctx) {
						if !yield(row, err) || err != nil && !yield(first.row.Clone(), nil) {
							return
						}
					}
				}
			}
		})},
	}
}

func snapshotEndMutants() []mutant {
	return []mutant{
		{"a place is free only after Close", "snapshot/freed", snapped(func(_ *Memory, s *memSnapshot, x *StubSnapshot) {
			free := s.free
			s.free = func() {}
			x.OnClose = func() error {
				s.closed.Store(true)
				free()
				return nil
			}
		})},
		{"a place is lost with an error", "snapshot/freed", watched(func(m *Memory, err error, _ bool) {
			if err != nil {
				leak(m)
			}
		})},
		{"a place is lost with an unreadable item", "snapshot/unreadable", watched(func(m *Memory, err error, _ bool) {
			if errors.Is(err, storage.ErrCorrupt) {
				leak(m)
			}
		})},
		{"a place is lost when a reader leaves", "snapshot/freed", watched(func(m *Memory, _ error, left bool) {
			if left {
				leak(m)
			}
		})},
		{"Close gives a place back twice", "snapshot/freed", snapped(func(m *Memory, _ *memSnapshot, x *StubSnapshot) {
			x.OnClose = func() error {
				m.snaps.mu.Lock()
				defer m.snaps.mu.Unlock()
				for other := range m.snaps.open {
					delete(m.snaps.open, other)
					break
				}
				return nil
			}
		})},
		{"Close is not heard", "snapshot/freed", snapped(func(_ *Memory, s *memSnapshot, x *StubSnapshot) {
			x.OnClose = func() error {
				s.free()
				return nil
			}
		})},
		{"a second Close fails", "snapshot/freed", snapped(func(_ *Memory, s *memSnapshot, x *StubSnapshot) {
			x.OnClose = func() error {
				if s.closed.Load() {
					return storage.ErrClosed
				}
				return s.Close()
			}
		})},
		{"cancelled readers of a snapshot go on", "snapshot/freed", snapped(func(_ *Memory, s *memSnapshot, x *StubSnapshot) {
			x.OnRows = func(ctx context.Context) rowSeq { return s.Rows(context.WithoutCancel(ctx)) }
		})},
		{"snapshots outlive the engine", "snapshot/engine is closed", func(s *Stub, m *Memory) {
			s.OnClose = func() error {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.closed = true
				return nil
			}
		}},
	}
}

func snapshotOpenMutants() []mutant {
	whatever := func(status storage.Status) func(*Stub, *Memory) {
		return started(func(ctx context.Context, s *memSnapshot, account, table string) error {
			err := s.start(ctx, account, table)
			s.m.mu.RLock()
			defer s.m.mu.RUnlock()
			if mt := s.m.disk.tables[account][table]; err != nil && mt != nil && mt.def.Status == status {
				s.t, s.rows, err = mt.def, mt.rows, nil
			}
			return err
		})
	}
	return []mutant{
		{"a cancelled opening keeps its place", "snapshot/open fails", leaking(context.Canceled)},
		{"an opening without a table keeps its place", "snapshot/open fails", leaking(storage.ErrTableNotFound)},
		{"a cancelled opening succeeds", "snapshot/open fails", func(s *Stub, m *Memory) {
			s.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
				return m.Snapshot(context.WithoutCancel(ctx), account, table)
			}
		}},
		{"snapshots of DELETING tables", "snapshot/refusals", whatever(storage.Deleting)},
		{"snapshots of CREATING tables", "snapshot/refusals", whatever(storage.Creating)},
		{"accounts share snapshots", "snapshot/refusals", func(s *Stub, m *Memory) {
			s.OnSnapshot = func(ctx context.Context, _, table string) (storage.Snapshot, error) {
				return m.Snapshot(ctx, account, table)
			}
		}},
		{"snapshots without bound", "snapshot/bound", snapped(func(_ *Memory, s *memSnapshot, _ *StubSnapshot) { s.free() })},
		{"a bound that is less", "snapshot/bound", func(_ *Stub, m *Memory) { leak(m) }},
		{"beyond the bound it waits", "snapshot/bound", func(s *Stub, m *Memory) {
			s.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
				for {
					s, err := m.Snapshot(ctx, account, table)
					if !errors.Is(err, storage.ErrTooManySnapshots) {
						return s, err
					}
					if ctx.Err() != nil {
						return nil, ctx.Err()
					}
					runtime.Gosched()
				}
			}
		}},
		{"readers wait for snapshots", "snapshot/bound", func(s *Stub, m *Memory) {
			s.OnGet = func(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
				m.snaps.mu.Lock()
				held := len(m.snaps.open)
				m.snaps.mu.Unlock()
				if held == memBound {
					return nil, storage.ErrUnavailable
				}
				return m.Get(ctx, t, k)
			}
		}},
	}
}

// TestNoSnapshots: an engine without snapshots passes when it says so, and
// only then.
func TestNoSnapshots(t *testing.T) {
	t.Parallel()
	none := mutant{damage: func(s *Stub, _ *Memory) {
		s.OnSnapshot = func(context.Context, string, string) (storage.Snapshot, error) { return nil, storage.ErrUnsupported }
	}}
	for _, c := range snapshotChecks() {
		for _, engine := range []struct {
			harness Harness
			says    bool
			passes  bool
		}{
			{none.harness(), true, true},
			{none.harness(), false, false},
			{memoryHarness(), true, false},
		} {
			h := engine.harness
			h.Snapshots.Unsupported = engine.says
			if fs := record(t, c, h); (len(fs) == 0) != engine.passes {
				t.Errorf("%s of an engine that says unsupported %v: %q", c.name, engine.says, fs)
			}
		}
	}
}
