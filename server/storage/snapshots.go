// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// OpenSnapshots are the snapshots of an engine that are in use, at most so
// many.
type OpenSnapshots struct {
	bound int

	mu   sync.Mutex
	open map[Snapshot]TableID // 0 until it is known
}

// NewOpenSnapshots returns an empty register.
func NewOpenSnapshots(bound int) *OpenSnapshots {
	return &OpenSnapshots{bound: bound, open: map[Snapshot]TableID{}}
}

// Enter takes a place for s: ErrTooManySnapshots when there is none.
func (x *OpenSnapshots) Enter(s Snapshot) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) >= x.bound {
		return ErrTooManySnapshots
	}
	x.open[s] = 0
	return nil
}

// Holds tells which table it is that s holds.
func (x *OpenSnapshots) Holds(s Snapshot, id TableID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open[s] = id
}

// Leave gives the place of s back. freed reports whether it was the last one
// that held its table, idle whether it was the last of all.
func (x *OpenSnapshots) Leave(s Snapshot) (freed, idle bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id := x.open[s]
	delete(x.open, s)
	freed = id != 0
	for _, other := range x.open {
		freed = freed && other != id
	}
	return freed, len(x.open) == 0
}

// Len is how many are open.
func (x *OpenSnapshots) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.open)
}

// Close closes those that are open; they leave by themselves. No other may
// enter any more.
func (x *OpenSnapshots) Close() {
	x.mu.Lock()
	open := make([]Snapshot, 0, len(x.open))
	for s := range x.open {
		open = append(open, s)
	}
	x.mu.Unlock()
	var all sync.WaitGroup // one whose connection is silent takes its time
	for _, s := range open {
		all.Go(func() { _ = s.Close() }) // never fails
	}
	all.Wait()
}

// SnapshotReader is what reading a Snapshot is the same in for all engines. The
// zero value is ready.
type SnapshotReader struct {
	begun, closed atomic.Bool
	check         StoredRows
}

// Begin reports whether this is the first call of Rows; others yield their
// error.
func (r *SnapshotReader) Begin(yield func(*Row, error) bool) bool {
	if r.begun.CompareAndSwap(false, true) {
		return true
	}
	yield(nil, fmt.Errorf("%w: the rows of a snapshot are read twice", ErrInvalid))
	return false
}

// Each yields the rows of s that fill reads ahead, into an empty buffer each
// time, until that tells that there are no more. The error is what ended it
// before, and was not yielded.
func (r *SnapshotReader) Each(ctx context.Context, s Snapshot, fill func(*RowBuffer) (more bool, err error), yield func(*Row, error) bool) error {
	t, ordered := s.Table(), s.KeyOrdered()
	var ahead RowBuffer
	for more := true; more; {
		ahead.Reset()
		var err error
		if more, err = fill(&ahead); err != nil {
			if alive := r.Alive(ctx); alive != nil {
				return alive // that is why
			}
			return err
		}
		var row Row
		for i := range ahead.Len() {
			if err := r.Alive(ctx); err != nil {
				return err
			}
			ahead.Row(i, &row)
			if err := r.check.Check(t, &row, ordered); err != nil {
				return err
			}
			if !yield(&row, nil) {
				return nil
			}
		}
	}
	return nil
}

// Alive tells why no more row may be read or yielded.
func (r *SnapshotReader) Alive(ctx context.Context) error {
	if r.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// Close ends Each before its next row.
func (r *SnapshotReader) Close() { r.closed.Store(true) }
