// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"sync"
	"time"
)

// Fake is a clock that a test moves by hand.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*fakeTimer]struct{}
	added  chan struct{} // closed and replaced whenever a timer is added
}

type fakeTimer struct {
	at time.Time
	c  chan time.Time
}

// NewFake returns a clock that stands at now.
func NewFake(now time.Time) *Fake {
	return &Fake{now: now, timers: map[*fakeTimer]struct{}{}, added: make(chan struct{})}
}

// Now returns the time the clock stands at.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// After fires once the clock was moved by d.
func (f *Fake) After(d time.Duration) (<-chan time.Time, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{f.now.Add(d), make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- f.now
		return t.c, func() {}
	}
	f.timers[t] = struct{}{}
	close(f.added)
	f.added = make(chan struct{})
	return t.c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.timers, t)
	}
}

// Advance moves the clock and fires what is due.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	for t := range f.timers {
		if !t.at.After(f.now) {
			t.c <- f.now
			delete(f.timers, t)
		}
	}
}

// WaitTimers blocks until at least n sleepers wait on the clock.
func (f *Fake) WaitTimers(n int) {
	for {
		f.mu.Lock()
		have, added := len(f.timers), f.added
		f.mu.Unlock()
		if have >= n {
			return
		}
		<-added
	}
}
