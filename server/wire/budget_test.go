// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

const (
	patience = time.Second
	limit    = 10 * time.Second
)

func testShare(size int64) (*share, *clock.Fake) {
	c := clock.NewFake(time.Unix(0, 0))
	return newShare(size, c, patience, limit), c
}

// waiters blocks until n callers wait in line.
func (s *share) waiters(c *clock.Fake, n int) { c.WaitTimers(2 * n) }

func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func TestShareCounts(t *testing.T) {
	t.Parallel()
	s, _ := testShare(10)
	if !s.tryTake(10) || s.tryTake(1) {
		t.Fatal("takes more than there is, or less")
	}
	s.give(4)
	s.force(7) // in use, asked or not
	if s.used() != 13 || s.tryTake(1) {
		t.Errorf("%d bytes used", s.used())
	}
	s.give(13)
	if s.used() != 0 {
		t.Errorf("%d bytes used", s.used())
	}
}

func TestShareServesInOrder(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, c := testShare(10)
	s.force(10)
	big := async(func() error { return s.take(ctx, nil, 8) })
	s.waiters(c, 1)
	small := async(func() error { return s.take(ctx, nil, 1) })
	s.waiters(c, 2)
	s.give(5)
	if s.tryTake(1) {
		t.Error("overtook those in line")
	}
	select {
	case <-big:
		t.Fatal("was given 8 bytes of 5")
	case <-small:
		t.Fatal("overtook the first in line")
	default:
	}
	s.give(5)
	if err := errors.Join(<-big, <-small); err != nil {
		t.Error(err)
	}
	if s.used() != 9 {
		t.Errorf("%d bytes used", s.used())
	}
}

func TestShareGivesUpWaiting(t *testing.T) {
	t.Parallel()
	s, c := testShare(10)
	s.force(10)
	ctx, cancel := context.WithCancel(t.Context())
	left := async(func() error { return s.take(ctx, nil, 8) })
	s.waiters(c, 1)
	behind := async(func() error { return s.take(t.Context(), nil, 3) })
	s.waiters(c, 2)
	s.give(3)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := <-behind; err != nil { // there was room for him all the time
		t.Error(err)
	}
	busy := async(func() error { return s.take(t.Context(), nil, 1) })
	for range limit / patience {
		s.waiters(c, 1)
		c.Advance(patience)
	}
	if err := <-busy; !errors.Is(err, errBusy) {
		t.Errorf("got %v", err)
	}
	if s.used() != 10 {
		t.Errorf("%d bytes used", s.used())
	}
}

// body is an unfinished body of a test.
type body struct {
	intake
	aborted chan struct{}
}

func (s *share) body(t *testing.T, n int64) *body {
	t.Helper()
	b := &body{aborted: make(chan struct{})}
	b.abort = func() { close(b.aborted) }
	if err := s.begin(t.Context(), &b.intake, n); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestShareEvictsTheOldest(t *testing.T) {
	t.Parallel()
	s, c := testShare(10)
	first, second, third := s.body(t, 3), s.body(t, 3), s.body(t, 4)
	if s.end(&second.intake) {
		t.Error("a finished body is said to be given up")
	}
	more := async(func() error { return s.take(t.Context(), &third.intake, 3) })
	s.waiters(c, 1)
	c.Advance(patience)
	<-first.aborted
	if !s.end(&first.intake) {
		t.Error("a body that was given up does not know")
	}
	s.give(3) // what its reader does then
	if err := <-more; err != nil {
		t.Fatal(err)
	}
	if third.gone.Load() || second.gone.Load() != true {
		t.Error("the wrong body was given up")
	}
	select {
	case <-second.aborted:
		t.Error("a finished body was given up")
	default:
	}
}

func TestShareEvictsTheOneWhoWaits(t *testing.T) {
	t.Parallel()
	s, c := testShare(10)
	only := s.body(t, 10)
	more := async(func() error { return s.take(t.Context(), &only.intake, 1) })
	s.waiters(c, 1)
	c.Advance(patience)
	if err := <-more; !errors.Is(err, errEvicted) {
		t.Errorf("got %v", err)
	}
	s.force(1)
	if err := s.take(t.Context(), &only.intake, 1); !errors.Is(err, errEvicted) {
		t.Errorf("a body that was given up waits: %v", err)
	}
	if !s.end(&only.intake) {
		t.Error("a body that was given up does not know")
	}
	s.give(11)
	if s.used() != 0 {
		t.Errorf("%d bytes used", s.used())
	}
}

func TestShareBeginWaits(t *testing.T) {
	t.Parallel()
	s, c := testShare(10)
	s.force(10)
	var in intake
	ctx, cancel := context.WithCancel(t.Context())
	begun := async(func() error { return s.begin(ctx, &in, 5) })
	s.waiters(c, 1)
	cancel()
	if err := <-begun; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.end(&in)
	if s.oldest != nil || s.newest != nil || len(s.waiting) != 0 {
		t.Error("a body that never began is still listed")
	}
}

// TestShareStress grows bodies at random, several times the share at once.
func TestShareStress(t *testing.T) {
	t.Parallel()
	const size = 1000
	s := newShare(size, clock.Real{}, time.Millisecond, time.Minute)
	var wg sync.WaitGroup
	var mu sync.Mutex
	finished := 0
	for w := range 16 {
		rnd := rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for range 50 {
				in := intake{abort: func() {}}
				held := int64(0)
				err := s.begin(t.Context(), &in, 50)
				for err == nil {
					held += 50
					if used := s.used(); used > size {
						t.Errorf("%d bytes of %d used", used, size)
					}
					if held > 200 && rnd.IntN(10) == 0 {
						break
					}
					if held+50 > size {
						break
					}
					err = s.take(t.Context(), &in, 50)
				}
				if err != nil && !errors.Is(err, errEvicted) {
					t.Error(err)
				}
				s.end(&in)
				s.give(held)
				if err == nil {
					mu.Lock()
					finished++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if s.used() != 0 || s.oldest != nil || len(s.waiting) != 0 {
		t.Errorf("%d bytes used, waiting %d", s.used(), len(s.waiting))
	}
	if finished == 0 {
		t.Error("no body was ever complete")
	}
}

func TestPagesReserveRoom(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{Wait: time.Millisecond})
	e.responses.force(e.responses.size)
	const busy = `{"__type":"com.amazonaws.dynamodb.v20120810#ServiceUnavailable","message":"The server is busy, try again"}`
	e.call("Page", "{}").check(t, 503, busy)
	e.call("Probe", "{}").check(t, 200, `{"Text":"x"}`)
	e.responses.give(e.responses.size)
	e.call("Page", "{}").check(t, 200, `{"Text":"x"}`)
	e.settled(3)
}

func TestBodiesWaitForRoom(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{Wait: time.Millisecond})
	e.requests.force(e.requests.size)
	a := e.call("Probe", `{}`)
	if a.status != 503 || !strings.Contains(a.body, "#ServiceUnavailable") {
		t.Errorf("%d %s", a.status, a.body)
	}
	e.requests.give(e.requests.size)
	e.call("Probe", "{}").check(t, 200, `{"Text":"x"}`)
	e.settled(2)
}

func TestGrowNeverWaits(t *testing.T) {
	t.Parallel()
	h := newHandler(nil, Options{Clock: clock.Real{}, Budget: MinBudget})
	total := h.responses.size
	c := newCall(h)
	c.room = freeResponse
	for _, step := range []struct {
		n    int
		ok   bool
		used int64
	}{
		{freeResponse, true, 0},
		{1, true, growStep},
		{growStep - 1, true, growStep},
		{1, true, 2 * growStep},
		{int(total), false, 2 * growStep},
		{int(total - 2*growStep), true, total},
		{growStep, false, total},
		{1, true, total},
	} {
		if ok := c.out.Room(step.n); ok != step.ok || h.responses.used() != step.used {
			t.Errorf("%d more: %v with %d charged, want %v with %d", step.n, ok, h.responses.used(), step.ok, step.used)
		}
	}
	c.settle() // nothing was written
	if h.responses.used() != 0 {
		t.Errorf("%d bytes are charged for nothing", h.responses.used())
	}
	c.out.B = make([]byte, 100<<10)
	c.settle()
	if want := int64(100<<10 - freeResponse); h.responses.used() != want {
		t.Errorf("%d bytes are charged, want %d", h.responses.used(), want)
	}
}

func TestLargeBuffersAreNotKept(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	for range 20 {
		e.call("Probe", fmt.Sprintf(`{"Size":%d,"Unknown":"%s"}`, 300<<10, strings.Repeat("z", 300<<10)), "Accept-Encoding", "gzip")
	}
	e.settled(20)
	for range 20 {
		if c := e.calls.Get().(*call); cap(c.body) > keepBuffer || cap(c.out.B) > keepBuffer || c.zip.Cap() > keepBuffer {
			t.Fatalf("buffers of %d, %d and %d bytes were kept", cap(c.body), cap(c.out.B), c.zip.Cap())
		}
	}
}
