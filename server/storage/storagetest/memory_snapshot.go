// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	memBound = 4   // snapshots at a time
	memPage  = 100 // rows read at a time
)

// memSnapshots are those in use.
type memSnapshots struct {
	mu   sync.Mutex
	open map[*memSnapshot]struct{}
}

func (x *memSnapshots) enter(s *memSnapshot) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) >= memBound {
		return storage.ErrTooManySnapshots
	}
	if x.open == nil {
		x.open = map[*memSnapshot]struct{}{}
	}
	x.open[s] = struct{}{}
	return nil
}

func (x *memSnapshots) leave(s *memSnapshot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, s)
}

func (x *memSnapshots) close() {
	x.mu.Lock()
	var open []*memSnapshot
	for s := range x.open {
		open = append(open, s)
	}
	x.mu.Unlock()
	for _, s := range open {
		_ = s.Close() // never fails
	}
}

// snapped reports whether a snapshot of the table is open; the lock is held.
func (d *disk) snapped(id storage.TableID) bool {
	for _, m := range d.open {
		m.snaps.mu.Lock()
		defer m.snaps.mu.Unlock()
		for s := range m.snaps.open {
			if s.t != nil && s.t.ID == id {
				return true
			}
		}
	}
	return false
}

// ended gives the place of a snapshot back, and tells who waits for it.
func (m *Memory) ended(s *memSnapshot) {
	m.snaps.leave(s)
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, o := range m.disk.open {
		if m.disk.dropWaits && o.wake != nil {
			o.wake()
		}
	}
}

// memSnapshot holds on to the rows of an instant, which nobody changes in
// place, and copies them page by page.
type memSnapshot struct {
	m       *Memory
	t       *storage.Table
	ordered bool
	rows    []*memRow // not yet read; used by Rows alone
	begun   atomic.Bool
	closed  atomic.Bool
	free    func() // gives the place back, once
}

// Snapshot implements storage.Snapshotter.
func (m *Memory) Snapshot(ctx context.Context, account, table string) (storage.Snapshot, error) {
	s, err := m.snapshot(func(s *memSnapshot) error { return s.start(ctx, account, table) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// snapshot takes a place and fills in the rest.
func (m *Memory) snapshot(start func(s *memSnapshot) error) (*memSnapshot, error) {
	s := &memSnapshot{m: m}
	s.free = sync.OnceFunc(func() { m.ended(s) }) // before the engine's Close can find it
	if err := m.snaps.enter(s); err != nil {
		return nil, err
	}
	if err := start(s); err != nil {
		s.free()
		return nil, err
	}
	return s, nil
}

func (s *memSnapshot) start(ctx context.Context, account, table string) error {
	if err := s.fix(ctx, account, table); err != nil {
		return err
	}
	s.m.disk.probe.AfterDefinition()
	s.m.disk.probe.BeforeItems()
	return ctx.Err()
}

// fix takes the table as it is.
func (s *memSnapshot) fix(ctx context.Context, account, table string) error {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	mt, err := s.m.named(ctx, account, table)
	switch {
	case err != nil:
		return err
	case mt.def.Status == storage.Deleting:
		return storage.ErrTableNotFound
	case mt.def.Status != storage.Active:
		return storage.ErrTableNotActive
	}
	s.t, s.ordered, s.rows = mt.def, !mt.long, mt.rows
	return nil
}

// Table implements storage.Snapshot.
func (s *memSnapshot) Table() *storage.Table { return s.t }

// Marker implements storage.Snapshot.
func (s *memSnapshot) Marker() (kind, value string) { return "memory", "" }

// KeyOrdered implements storage.Snapshot.
func (s *memSnapshot) KeyOrdered() bool { return s.ordered }

// Close implements storage.Snapshot.
func (s *memSnapshot) Close() error {
	s.closed.Store(true)
	s.free()
	return nil
}

// Rows implements storage.Snapshot.
func (s *memSnapshot) Rows(ctx context.Context) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		if !s.begun.CompareAndSwap(false, true) {
			yield(nil, fmt.Errorf("%w: the rows of a snapshot are read twice", storage.ErrInvalid))
			return
		}
		defer s.free()
		for {
			if err := s.alive(ctx); err != nil {
				s.free()
				yield(nil, err)
				return
			}
			for _, row := range s.page() {
				if err := s.check(ctx, row); err != nil {
					s.free()
					yield(nil, err)
					return
				}
				if !yield(row, nil) {
					return
				}
			}
			if len(s.rows) == 0 {
				return
			}
		}
	}
}

// page copies the next rows.
func (s *memSnapshot) page() []*storage.Row {
	n := memPage
	if size := s.m.disk.probe.FetchSize(); size > 0 {
		n = size
	}
	n = min(n, len(s.rows))
	page := make([]*storage.Row, n)
	for i, r := range s.rows[:n] {
		page[i] = r.row.Clone()
	}
	s.rows = s.rows[n:]
	s.m.disk.probe.Fetched()
	return page
}

// alive tells why nothing more may be yielded.
func (s *memSnapshot) alive(ctx context.Context) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// check tells why a row may not be yielded.
func (s *memSnapshot) check(ctx context.Context, row *storage.Row) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if _, err := ddb.ParseItem(row.Item); err != nil {
		return fmt.Errorf("%w: an item of table %q: %w", storage.ErrCorrupt, s.t.Name(), err)
	}
	return nil
}

// snapshots tells the suite what the snapshots of this engine are like.
func (m *Memory) snapshots() Snapshots {
	d := m.disk
	return Snapshots{Bound: memBound, Probe: &d.probe, DropWaits: d.dropWaits, Damage: func(t *storage.Table, k storage.Key) {
		mt := d.tables[t.Account][t.Name()]
		i, _ := mt.row(k)
		mt.rows[i].row.Item = []byte("{")
	}}
}
