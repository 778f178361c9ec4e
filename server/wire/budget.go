// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

var (
	// errBusy: there was no room for too long.
	errBusy = errors.New("no room in the byte budget")
	// errEvicted: the body was given up so that others could go on.
	errEvicted = errors.New("body given up to make room")
)

const (
	// MinBudget is the smallest byte budget: what one body of the largest size
	// can need while it grows, several times over.
	MinBudget = 64 << 20
	// small is the most that is asked for before those who want more: clients
	// with small requests do not wait for large ones.
	small = 64 << 10
)

// share is a part of the byte budget. Who cannot have what he asks for waits in
// line; those who ask for little have a line of their own that is served first.
//
// Request bodies hold bytes while they ask for more, so that a share of them
// can be used up by bodies of which none is complete: by accident, or by clients
// that send slowly on purpose. Therefore who has waited a while makes the oldest
// unfinished bodies give up, no more than needed. Honest clients are done in
// milliseconds and never the oldest for long.
type share struct {
	clock    clock.Clock
	patience time.Duration // before unfinished bodies are given up
	limit    time.Duration // before a waiter is

	mu     sync.Mutex
	size   int64
	spare  int64        // of size, for those who ask for little
	free   int64        // negative when forced
	coming int64        // held by bodies that were given up
	lines  [2][]*waiter // for little, for much
	oldest *intake      // of a doubly linked list, by age
	newest *intake
}

type waiter struct {
	n       int64
	in      *intake // nil when no body is read
	granted chan struct{}
}

// intake is a request body that is being read. abort, which makes a pending read
// fail at once, is called under the lock, at most once, and before end returns;
// gone may be read any time; the rest belongs to the lock of the share.
type intake struct {
	abort      func() // nil when no read is pending
	gone       atomic.Bool
	held       int64
	evicted    chan struct{}
	prev, next *intake
}

func newShare(size int64, c clock.Clock, patience, limit time.Duration) *share {
	return &share{clock: c, patience: patience, limit: limit, free: size, size: size}
}

// line is the line for n bytes.
func line(n int64) int {
	if n <= small {
		return 0
	}
	return 1
}

// tryTake takes n bytes if they are there and nobody is before us.
func (s *share) tryTake(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(nil, n)
}

func (s *share) takeLocked(in *intake, n int64) bool {
	if !s.fitsLocked(n) || len(s.lines[0]) > 0 || line(n) == 1 && len(s.lines[1]) > 0 {
		return false
	}
	s.free -= n
	if in != nil {
		in.held += n
	}
	return true
}

// fitsLocked reports whether there is room for n bytes.
func (s *share) fitsLocked(n int64) bool {
	if line(n) == 1 {
		n += s.spare
	}
	return s.free >= n
}

// force takes n bytes whether they are there or not: they are in use already.
func (s *share) force(n int64) {
	s.mu.Lock()
	s.free -= n
	s.mu.Unlock()
}

// give returns n bytes; those of a body that is being read when in is not nil.
func (s *share) give(in *intake, n int64) {
	s.mu.Lock()
	if in != nil {
		in.held -= n
		if in.gone.Load() {
			s.coming -= n
		}
	}
	s.free += n
	s.grantLocked()
	s.mu.Unlock()
}

func (s *share) grantLocked() {
	for i := range s.lines {
		for len(s.lines[i]) > 0 {
			w := s.lines[i][0]
			if !s.fitsLocked(w.n) {
				return
			}
			s.free -= w.n
			if w.in != nil {
				w.in.held += w.n
				if w.in.gone.Load() {
					s.coming += w.n
				}
			}
			close(w.granted)
			s.lines[i] = slices.Delete(s.lines[i], 0, 1)
		}
	}
}

// begin starts in, with its first n bytes. End it, whatever begin returns.
func (s *share) begin(ctx context.Context, in *intake, n int64) error {
	s.mu.Lock()
	s.linkLocked(in, 0)
	in.evicted = nil
	ok := s.takeLocked(in, n)
	s.mu.Unlock()
	if ok {
		return nil
	}
	return s.wait(ctx, in, n)
}

// park makes a complete body that holds bytes one that may be given up, for as
// long as it waits for something else; end ends that.
func (s *share) park(in *intake, held int64) (evicted <-chan struct{}) {
	in.evicted = make(chan struct{})
	s.mu.Lock()
	s.linkLocked(in, held)
	s.mu.Unlock()
	return in.evicted
}

func (s *share) linkLocked(in *intake, held int64) {
	in.gone.Store(false)
	in.held, in.prev, in.next = held, s.newest, nil
	if s.newest != nil {
		s.newest.next = in
	} else {
		s.oldest = in
	}
	s.newest = in
}

// take takes n bytes, waiting in line for them. in is nil when no body is read.
func (s *share) take(ctx context.Context, in *intake, n int64) error {
	s.mu.Lock()
	gone := in != nil && in.gone.Load()
	ok := !gone && s.takeLocked(in, n)
	s.mu.Unlock()
	switch {
	case ok:
		return nil
	case gone:
		return errEvicted
	}
	return s.wait(ctx, in, n)
}

func (s *share) wait(ctx context.Context, in *intake, n int64) error {
	w := &waiter{n: n, in: in, granted: make(chan struct{})}
	var evicted <-chan struct{}
	s.mu.Lock()
	if in != nil {
		if in.gone.Load() {
			s.mu.Unlock()
			return errEvicted
		}
		in.evicted = make(chan struct{})
		evicted = in.evicted
	}
	s.lines[line(n)] = append(s.lines[line(n)], w)
	s.grantLocked() // room may have come since the caller looked
	s.mu.Unlock()

	end, stop := s.clock.After(s.limit)
	defer stop()
	for {
		again, stopAgain := s.clock.After(s.patience)
		var err error
		select {
		case <-w.granted:
			stopAgain()
			return nil
		case <-again:
			s.makeRoom(w)
			continue
		case <-evicted:
			err = errEvicted
		case <-ctx.Done():
			err = ctx.Err()
		case <-end:
			err = errBusy
		}
		stopAgain()
		s.leave(w)
		return err
	}
}

// leave takes w out of its line, or returns what it was granted meanwhile.
func (s *share) leave(w *waiter) {
	s.mu.Lock()
	l := &s.lines[line(w.n)]
	i := slices.Index(*l, w)
	if i >= 0 {
		*l = slices.Delete(*l, i, i+1)
		s.grantLocked() // those behind may have been waiting for less
	}
	s.mu.Unlock()
	if i < 0 {
		s.give(w.in, w.n)
	}
}

// makeRoom gives up the oldest unfinished bodies for w: as many as all need who
// wait for little, or as w needs when it is the first in line for much.
func (s *share) makeRoom(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	need := int64(0)
	for _, other := range s.lines[0] {
		need += other.n
	}
	if line(w.n) == 1 {
		if need > 0 || len(s.lines[1]) == 0 || s.lines[1][0] != w {
			return
		}
		need = w.n + s.spare
	}
	for in := s.oldest; in != nil && s.free+s.coming < need; {
		next := in.next
		if in != w.in && in.held > 0 {
			s.evictLocked(in)
		}
		in = next
	}
}

// evictLocked gives a body up. Its reader returns the bytes.
func (s *share) evictLocked(in *intake) {
	s.unlinkLocked(in)
	s.coming += in.held
	if in.abort != nil {
		in.abort()
	}
	if in.evicted != nil {
		close(in.evicted)
	}
}

// end ends the reading of a body. It returns what the body holds, now the
// caller's to give; when the body was given up, that is given already.
func (s *share) end(in *intake) (held int64, evicted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !in.gone.Load() {
		s.unlinkLocked(in)
		return in.held, false
	}
	s.coming -= in.held
	s.free += in.held
	in.held = 0
	s.grantLocked()
	return 0, true
}

func (s *share) unlinkLocked(in *intake) {
	in.gone.Store(true)
	if in.prev != nil {
		in.prev.next = in.next
	} else {
		s.oldest = in.next
	}
	if in.next != nil {
		in.next.prev = in.prev
	} else {
		s.newest = in.prev
	}
	in.prev, in.next = nil, nil
}

// used is the number of bytes taken.
func (s *share) used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free
}
