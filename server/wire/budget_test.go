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

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
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
	s.give(nil, 4)
	s.force(7) // in use, asked or not
	if s.used() != 13 || s.tryTake(1) {
		t.Errorf("%d bytes used", s.used())
	}
	s.give(nil, 13)
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
	s.give(nil, 5)
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
	s.give(nil, 5)
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
	s.give(nil, 3)
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

// gives checks what end says.
func (s *share) ends(t *testing.T, b *body, held int64, evicted bool) {
	t.Helper()
	if h, e := s.end(&b.intake); h != held || e != evicted {
		t.Errorf("ended with %d bytes, given up %v; want %d, %v", h, e, held, evicted)
	}
}

func (b *body) kept(t *testing.T, name string) {
	t.Helper()
	select {
	case <-b.aborted:
		t.Errorf("%s was given up", name)
	default:
	}
}

func TestShareEvictsTheOldest(t *testing.T) {
	t.Parallel()
	s, c := testShare(10)
	finished, first, second, third := s.body(t, 2), s.body(t, 2), s.body(t, 3), s.body(t, 3)
	s.ends(t, finished, 2, false)
	more := async(func() error { return s.take(t.Context(), &third.intake, 2) })
	s.waiters(c, 1)
	c.Advance(patience)
	<-first.aborted // holds enough
	s.waiters(c, 1)
	c.Advance(patience) // its bytes are on the way: nobody else goes
	if err := s.take(t.Context(), &first.intake, 1); !errors.Is(err, errEvicted) {
		t.Errorf("a body that was given up takes more: %v", err)
	}
	s.ends(t, first, 0, true)
	if err := <-more; err != nil {
		t.Fatal(err)
	}
	finished.kept(t, "a finished body")
	second.kept(t, "a younger body")
	third.kept(t, "the body that needs the room")
	s.ends(t, second, 3, false)
	s.ends(t, third, 5, false)
	if s.used() != 10 || s.coming != 0 {
		t.Errorf("%d bytes used, %d coming", s.used(), s.coming)
	}
}

func TestShareEvictsNobodyInVain(t *testing.T) {
	t.Parallel()
	s, c := testShare(10)
	empty := &body{intake: intake{abort: func() { t.Error("a body that holds nothing was given up") }}}
	s.force(5)
	only := s.body(t, 5)
	begun := async(func() error { return s.begin(t.Context(), &empty.intake, 1) })
	s.waiters(c, 1)
	more := async(func() error { return s.take(t.Context(), &only.intake, 1) })
	s.waiters(c, 2)
	s.give(nil, 1) // for the first
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	s.ends(t, empty, 1, false)
	for range limit / patience {
		s.waiters(c, 1)
		c.Advance(patience)
	}
	if err := <-more; !errors.Is(err, errBusy) {
		t.Errorf("got %v", err)
	}
	only.kept(t, "the only body, for itself")
	s.ends(t, only, 5, false)
}

func TestShareEvictsWhileItWaits(t *testing.T) {
	t.Parallel()
	s, c := testShare(10)
	old := s.body(t, 10)
	more := async(func() error { return s.take(t.Context(), &old.intake, 1) })
	s.waiters(c, 1)
	young := &body{intake: intake{abort: func() {}}}
	begun := async(func() error { return s.begin(t.Context(), &young.intake, 4) })
	s.waiters(c, 2)
	c.Advance(patience)
	if err := <-more; !errors.Is(err, errEvicted) {
		t.Errorf("got %v", err)
	}
	s.ends(t, old, 0, true)
	if err := <-begun; err != nil {
		t.Error(err)
	}
	s.ends(t, young, 4, false)
	if s.used() != 4 || s.coming != 0 {
		t.Errorf("%d bytes used, %d coming", s.used(), s.coming)
	}
}

func TestShareServesLittleFirst(t *testing.T) {
	t.Parallel()
	const much = small + 1
	s, c := testShare(2 * much)
	a, b := s.body(t, much), s.body(t, much)
	large := async(func() error { return s.take(t.Context(), nil, much) })
	s.waiters(c, 1)
	behind := async(func() error { return s.take(t.Context(), nil, much) })
	s.waiters(c, 2)
	little := async(func() error { return s.take(t.Context(), nil, 3) })
	s.waiters(c, 3)
	if s.tryTake(0) {
		t.Error("overtook those in line")
	}
	held, _ := s.end(&a.intake)
	s.give(nil, 2)
	held -= 2
	s.give(nil, 1)
	held--
	if err := <-little; err != nil {
		t.Error(err)
	}
	s.waiters(c, 2)
	s.give(nil, held)
	s.give(nil, 3) // what little was
	if err := <-large; err != nil {
		t.Error(err)
	}
	s.waiters(c, 1)
	c.Advance(patience)
	<-b.aborted
	s.ends(t, b, 0, true)
	if err := <-behind; err != nil {
		t.Error(err)
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
	if held, evicted := s.end(&in); held != 0 || evicted {
		t.Errorf("holds %d bytes, given up %v", held, evicted)
	}
	if s.oldest != nil || s.newest != nil || len(s.lines[0]) != 0 {
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
				rest, evicted := s.end(&in)
				if !evicted && rest != held {
					t.Errorf("holds %d bytes, not %d", rest, held)
				}
				s.give(nil, rest)
				if err == nil {
					mu.Lock()
					finished++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if s.used() != 0 || s.coming != 0 || s.oldest != nil || len(s.lines[0]) != 0 {
		t.Errorf("%d bytes used, %d coming, %d waiting", s.used(), s.coming, len(s.lines[0]))
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
	e.responses.give(nil, e.responses.size)
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
	e.requests.give(nil, e.requests.size)
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

// TestPagesUnderPressure answers many pages at once that all want far more than
// there is: they end early, and nothing stands still.
func TestPagesUnderPressure(t *testing.T) {
	t.Parallel()
	row := strings.Repeat("r", 64<<10)
	ops := probes()
	ops[target+"Rows"] = paged(op(func(_ context.Context, _ auth.Identity, _ *probeInput, out *api.Body) error {
		for n := 0; n < 4<<20 && (out.Room(len(row)) || n == 0); n += len(row) {
			out.Raw(row)
		}
		return nil
	}))
	e := start(t, ops, Options{Budget: MinBudget, Wait: time.Minute})
	const clients, each = 40, 2
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				if a := e.call("Rows", "{}"); a.status != 200 || len(a.body) < pageReserve || len(a.body)%len(row) != 0 {
					t.Errorf("%d with %d bytes", a.status, len(a.body))
				}
			}
		})
	}
	wg.Wait()
	e.settled(clients * each)
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
