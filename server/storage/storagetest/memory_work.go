// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

const (
	statisticsEvery = 6 * time.Hour
	sampleHeld      = time.Hour // after the last use
	sampleSize      = 4096
	dropStep        = 64 // rows
)

type memSample struct {
	positions []storage.Position
	used      time.Time
}

// Sample implements storage.Reader.
func (m *Memory) Sample(ctx context.Context, t *storage.Table, ix storage.IndexID, now time.Time) ([]storage.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt, err := m.readable(ctx, t)
	if err != nil {
		return nil, err
	}
	s := mt.samples[ix]
	if s == nil { // an empty one, which is held like any other
		s = &memSample{}
		mt.samples[ix] = s
	}
	if now.After(s.used) {
		s.used = now
	}
	return slices.Clone(s.positions), nil
}

// Pending implements storage.Maintainer.
func (m *Memory) Pending(ctx context.Context, now time.Time) ([]storage.Work, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	m.disk.dropLoads()
	var due []storage.Work
	for _, mt := range m.disk.all() {
		w := storage.Work{Table: mt.def.ID, Account: mt.def.Account, Name: mt.def.Name()}
		switch {
		case mt.def.Status == storage.Deleting:
			w.Kind = storage.TableDrop
		case mt.def.Status == storage.Creating: // its load is under way
			continue
		case mt.counted.IsZero() || !now.Before(mt.counted.Add(statisticsEvery)):
			w.Kind = storage.Statistics
		default:
			continue
		}
		due = append(due, w)
	}
	for _, k := range []storage.WorkKind{storage.TokenExpiry, storage.RecordTrim} {
		if over := m.disk.trim(k, now, 0); over > 0 {
			due = append(due, storage.Work{Kind: k})
		}
	}
	return due, nil
}

// trim removes at most limit of the tokens or records that are over, and
// returns how many there were.
func (d *disk) trim(k storage.WorkKind, now time.Time, limit int) (over int) {
	due := func(at time.Time, life time.Duration) bool {
		if now.Before(at.Add(life)) {
			return false
		}
		over++
		return over <= limit
	}
	if k == storage.TokenExpiry {
		maps.DeleteFunc(d.tokens, func(_ [2]string, t memToken) bool { return due(t.at, tokenLife) })
	} else {
		d.records = slices.DeleteFunc(d.records, func(r *storage.Record) bool { return due(r.At, storage.RecordLife) })
	}
	return over
}

// work returns the table w is to be done on; nil when it is of none, which is
// there at any time.
func (m *Memory) work(w storage.Work) (*memTable, error) {
	if w.Kind == storage.TokenExpiry || w.Kind == storage.RecordTrim {
		return nil, nil
	}
	mt := m.disk.tables[w.Account][w.Name]
	if mt == nil || mt.def.ID != w.Table || mt.def.Status == storage.Creating ||
		(mt.def.Status == storage.Deleting) != (w.Kind == storage.TableDrop) {
		return nil, storage.ErrNoWork
	}
	return mt, nil
}

// Claim implements storage.Maintainer.
func (m *Memory) Claim(ctx context.Context, w storage.Work) (storage.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	if _, err := m.work(w); err != nil {
		return nil, err
	}
	if m.disk.claims[w] != nil {
		return nil, storage.ErrClaimed
	}
	m.disk.claims[w] = m
	return &memLease{m: m, w: w}, nil
}

// OnWork implements storage.Maintainer.
func (m *Memory) OnWork(wake func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wake = wake
}

type memLease struct {
	m        *Memory
	w        storage.Work
	released bool
	done     int64
}

// Step implements storage.Lease.
func (l *memLease) Step(ctx context.Context, now time.Time) (storage.Progress, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if err := l.m.enter(ctx); err != nil {
		return storage.Progress{}, err
	}
	mt, err := l.m.work(l.w)
	if err != nil {
		return storage.Progress{}, err
	}
	if mt == nil {
		over := l.m.disk.trim(l.w.Kind, now, dropStep)
		n := min(over, dropStep)
		l.done += int64(n)
		return storage.Progress{Done: l.done, Total: l.done + int64(over-n), Finished: over == n}, nil
	}
	if l.w.Kind == storage.Statistics {
		mt.count(now)
		return storage.Progress{Done: mt.stats.Items, Total: mt.stats.Items, Finished: true}, nil
	}
	if l.m.disk.dropWaits && l.m.disk.snapped(mt.def.ID) {
		return storage.Progress{}, &storage.Held{Holder: "a snapshot"}
	}
	n := min(dropStep, len(mt.rows))
	for range n {
		mt.apply(mt.rows[0].row.Key, nil, 0)
	}
	l.done += int64(n)
	p := storage.Progress{Done: l.done, Total: l.done + int64(len(mt.rows)), Finished: len(mt.rows) == 0}
	if p.Finished {
		delete(l.m.disk.tables[l.w.Account], l.w.Name)
	}
	return p, nil
}

// Release implements storage.Lease.
func (l *memLease) Release() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if !l.released {
		l.released = true
		if l.m.disk.claims[l.w] == l.m {
			delete(l.m.disk.claims, l.w)
		}
	}
	return nil
}

// count takes statistics and samples.
func (mt *memTable) count(now time.Time) {
	mt.stats, mt.counted = mt.tally(), now
	mt.sample(0, now)
	for _, ix := range mt.def.Indexes {
		mt.sample(ix.ID, now)
	}
}

// tally counts rows and entries.
func (mt *memTable) tally() storage.Stats {
	stats := storage.Stats{Items: int64(len(mt.rows)), Indexes: map[storage.IndexID]storage.IndexStats{}}
	for _, r := range mt.rows {
		stats.Bytes += int64(r.row.Size)
	}
	for _, ix := range mt.def.Indexes {
		s := storage.IndexStats{Items: int64(len(mt.entries[ix.ID]))}
		for _, e := range mt.entries[ix.ID] {
			s.Bytes += int64(e.size)
		}
		stats.Indexes[ix.ID] = s
	}
	return stats
}

func (mt *memTable) sample(ix storage.IndexID, now time.Time) {
	if old := mt.samples[ix]; old != nil && now.Sub(old.used) < sampleHeld {
		return
	}
	v, s := mt.view(ix), &memSample{}
	n := min(v.n, sampleSize)
	for i := range n {
		s.positions = append(s.positions, v.pos(i*v.n/n))
	}
	mt.samples[ix] = s
}
