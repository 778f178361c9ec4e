// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
)

// workers returns a handler with the smallest budget, and so a share of 8 MiB
// to work with, 1 MiB of it spare.
func workers() (*Handler, *clock.Fake) {
	fake := clock.NewFake(time.Unix(0, 0))
	return newHandler(nil, Options{Clock: fake, Budget: MinBudget, Patience: patience, Wait: limit}), fake
}

// worker is the work of a call of its own; what ends it releases the call.
func worker(ctx context.Context, h *Handler) (w work, end func()) {
	c := newCall(h)
	c.begin(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	return work{c}, c.release
}

// wantUsed finds so much of the share taken.
func wantUsed(t *testing.T, h *Handler, what string, want int64) {
	t.Helper()
	if used := h.working.used(); used != want {
		t.Errorf("%s: %d bytes are taken, want %d", what, used, want)
	}
}

func TestWorkIsGivenBack(t *testing.T) {
	t.Parallel()
	h, _ := workers()
	w, end := worker(t.Context(), h)
	if !w.Try(3<<20) || !w.Try(1<<20) || w.Try(4<<20) {
		t.Error("more than there is is given, or less")
	}
	wantUsed(t, h, "two tries", 4<<20)
	w.Keep(5 << 20) // more than there is
	wantUsed(t, h, "all kept", 4<<20)
	w.Keep(1 << 20)
	wantUsed(t, h, "some kept", 1<<20)
	if whole, err := w.Await(2 << 20); whole || err != nil { // in place of the rest
		t.Errorf("whole %v, %v", whole, err)
	}
	wantUsed(t, h, "after a wait", 2<<20)
	end()
	wantUsed(t, h, "released", 0)
}

// TestWorkInOrder: those who ask for little come before those who ask for much,
// who get theirs in the order in which they came, and are overtaken by no try.
func TestWorkInOrder(t *testing.T) {
	t.Parallel()
	h, fake := workers()
	holder, end := worker(t.Context(), h)
	for n := h.working.size; n > 0; n -= small { // with the spare
		if !holder.Try(small) {
			t.Fatal("no room in an empty share")
		}
	}
	var (
		mu     sync.Mutex
		order  []string
		served = make(chan struct{}, 3)
	)
	await := func(name string, n int) {
		w, end := worker(t.Context(), h)
		go func() {
			defer end()
			if _, err := w.Await(n); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			served <- struct{}{}
		}()
	}
	for i, name := range []string{"much", "as much", "little"} {
		n := 4 << 20
		if name == "little" {
			n = small
		}
		await(name, n)
		h.working.waiters(fake, i+1)
	}
	late, over := worker(t.Context(), h)
	holder.Keep(int(h.working.size) - small) // for one
	<-served
	if late.Try(1 << 20) {
		t.Error("overtook who waits in line")
	}
	end()
	<-served
	<-served
	if fmt.Sprint(order) != "[little much as much]" {
		t.Errorf("order %v", order)
	}
	over()
	wantUsed(t, h, "all served", 0)
}

// TestWorkBeyondAll: who wants more than there is gets what anybody can get, and
// is the only one; those who want little are served beside it.
func TestWorkBeyondAll(t *testing.T) {
	t.Parallel()
	h, fake := workers()
	vast, end := worker(t.Context(), h)
	if whole, err := vast.Await(1 << 40); !whole || err != nil {
		t.Fatalf("whole %v, %v", whole, err)
	}
	wantUsed(t, h, "vast", h.working.size-2*h.working.spare)
	if vast.Try(2 << 20) {
		t.Error("and got more")
	}
	little, done := worker(t.Context(), h)
	if !little.Try(small) {
		t.Error("nothing is left for those who want little")
	}
	done()
	second := async(func() error {
		w, end := worker(t.Context(), h)
		defer end()
		_, err := w.Await(1 << 40)
		return err
	})
	h.working.waiters(fake, 1)
	select {
	case err := <-second:
		t.Fatalf("two at a time (%v)", err)
	default:
	}
	end()
	if err := <-second; err != nil {
		t.Error(err)
	}
	wantUsed(t, h, "released", 0)
}

// TestWorkGivenUp: who goes, or waits for too long, holds nothing and stands in
// nobody's way.
func TestWorkGivenUp(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"cancelled", "too long"} {
		h, fake := workers()
		holder, end := worker(t.Context(), h)
		if !holder.Try(5 << 20) {
			t.Fatal("no room in an empty share")
		}
		ctx, cancel := context.WithCancel(t.Context())
		w, over := worker(ctx, h)
		if !w.Try(1 << 20) {
			t.Fatal("no room beside 5 MiB")
		}
		gone := async(func() error { _, err := w.Await(4 << 20); return err })
		h.working.waiters(fake, 1)
		wantUsed(t, h, "waiting", 5<<20) // it holds nothing of its own
		if cancel(); reason == "too long" {
			fake.Advance(limit)
		}
		var refused *api.Error
		if err := <-gone; !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: %v", reason, err)
		}
		next, last := worker(t.Context(), h)
		if !next.Try(1 << 20) {
			t.Errorf("%s: who has gone is still in line", reason)
		}
		last()
		over()
		end()
		wantUsed(t, h, reason, 0)
	}
}

// TestWorkOfOperations: whatever becomes of an operation, its part comes back.
func TestWorkOfOperations(t *testing.T) {
	t.Parallel()
	ops := map[string]operation{target + "Probe": op(func(_ context.Context, _ auth.Identity, in *probeInput, out *api.Body) error {
		if !out.Work.Try(1 << 20) {
			return errors.New("no room")
		}
		if _, err := out.Work.Await(2 << 20); err != nil {
			return err
		}
		switch *in.Text {
		case "panic":
			panic("boom")
		case "error":
			return errors.New("boom")
		}
		out.Raw("{}")
		return nil
	})}
	for text, status := range map[string]int{"fine": 200, "error": 500, "panic": 500} {
		e := start(t, ops, Options{Budget: MinBudget})
		if a := e.call("Probe", `{"Text":"`+text+`"}`); a.status != status {
			t.Errorf("%s: %d %s", text, a.status, a.body)
		}
		<-e.done
		wantUsed(t, e.Handler, text, 0)
	}
}

// TestWorkLeaksNothing under all that may happen at once.
func TestWorkLeaksNothing(t *testing.T) {
	t.Parallel()
	h := newHandler(nil, Options{Clock: clock.Real{}, Budget: MinBudget, Patience: time.Millisecond, Wait: 20 * time.Millisecond})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(2000))*time.Microsecond)
				w, end := worker(ctx, h)
				for range r.IntN(4) {
					switch n := r.IntN(10 << 20); r.IntN(4) {
					case 0:
						w.Try(n)
					case 1:
						w.Try(n % small)
					case 2:
						_, _ = w.Await(n)
					case 3:
						w.Keep(n)
					}
				}
				end()
				cancel()
			}
		})
	}
	all.Wait()
	wantUsed(t, h, "all released", 0)
	if n := len(h.working.lines[0]) + len(h.working.lines[1]); n > 0 {
		t.Errorf("%d wait still", n)
	}
}
