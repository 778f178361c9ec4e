// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
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

// MinBudget is the smallest byte budget: what one body of the largest size can
// need while it grows, several times over.
const MinBudget = 64 << 20

// share is a part of the byte budget. Who cannot have what he asks for waits in
// line; nobody overtakes.
//
// Request bodies hold some bytes while they ask for more, so that a share of
// them can be used up by bodies of which none is complete: by accident, or by
// clients that send slowly on purpose. Therefore a waiter that got nothing for a
// while makes the oldest unfinished body give up (it may be his own). Honest
// clients finish in milliseconds and are never the oldest for long.
type share struct {
	clock    clock.Clock
	patience time.Duration // before the oldest unfinished body is given up
	limit    time.Duration // before a waiter is

	mu      sync.Mutex
	free    int64 // negative when forced
	size    int64
	waiting []*waiter
	oldest  *intake // of a doubly linked list, by age
	newest  *intake
}

type waiter struct {
	n       int64
	granted chan struct{}
}

// intake is a request body that is being read. All but gone belongs to the lock
// of its share.
type intake struct {
	abort      func() // makes a pending read fail at once; called under the lock
	gone       atomic.Bool
	evicted    chan struct{}
	prev, next *intake
}

func newShare(size int64, c clock.Clock, patience, limit time.Duration) *share {
	return &share{clock: c, patience: patience, limit: limit, free: size, size: size}
}

// tryTake takes n bytes if they are there and nobody waits for any.
func (s *share) tryTake(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(n)
}

func (s *share) takeLocked(n int64) bool {
	if len(s.waiting) > 0 || s.free < n {
		return false
	}
	s.free -= n
	return true
}

// force takes n bytes whether they are there or not: they are in use already.
func (s *share) force(n int64) {
	s.mu.Lock()
	s.free -= n
	s.mu.Unlock()
}

// give returns n bytes.
func (s *share) give(n int64) {
	s.mu.Lock()
	s.free += n
	s.grantLocked()
	s.mu.Unlock()
}

func (s *share) grantLocked() {
	for len(s.waiting) > 0 && s.free >= s.waiting[0].n {
		s.free -= s.waiting[0].n
		close(s.waiting[0].granted)
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
	}
}

// begin starts in with its first n bytes. Its abort is called at most once,
// before end returns.
func (s *share) begin(ctx context.Context, in *intake, n int64) error {
	s.mu.Lock()
	in.evicted, in.prev, in.next = nil, s.newest, nil
	in.gone.Store(false)
	if s.newest != nil {
		s.newest.next = in
	} else {
		s.oldest = in
	}
	s.newest = in
	ok := s.takeLocked(n)
	s.mu.Unlock()
	if ok {
		return nil
	}
	return s.wait(ctx, in, n)
}

// take takes n bytes, waiting in line for them. in is nil when no body is read.
func (s *share) take(ctx context.Context, in *intake, n int64) error {
	if s.tryTake(n) {
		return nil
	}
	return s.wait(ctx, in, n)
}

func (s *share) wait(ctx context.Context, in *intake, n int64) error {
	w := &waiter{n: n, granted: make(chan struct{})}
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
	s.waiting = append(s.waiting, w)
	s.grantLocked() // room may have come since the caller looked
	s.mu.Unlock()

	end, stop := s.clock.After(s.limit)
	defer stop()
	for {
		again, stopAgain := s.clock.After(s.patience)
		err := errBusy
		select {
		case <-w.granted:
			stopAgain()
			return nil
		case <-again:
			s.evictOldest()
			continue
		case <-evicted:
			err = errEvicted
		case <-ctx.Done():
			err = ctx.Err()
		case <-end:
		}
		stopAgain()
		s.leave(w)
		return err
	}
}

// leave takes w out of the line, or returns what it was granted meanwhile.
func (s *share) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.waiting {
		if other == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			s.grantLocked() // those behind may have been waiting for less
			return
		}
	}
	s.free += w.n
	s.grantLocked()
}

// evictOldest gives up the oldest unfinished body. Its reader returns the bytes.
func (s *share) evictOldest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.oldest
	if in == nil {
		return
	}
	s.unlinkLocked(in)
	in.abort()
	if in.evicted != nil {
		close(in.evicted)
	}
}

// end ends the reading of a body, however it went; its bytes stay taken. It
// reports whether the body was given up.
func (s *share) end(in *intake) (evicted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.gone.Load() {
		return true
	}
	s.unlinkLocked(in)
	return false
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
