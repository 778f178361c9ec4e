// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
)

// vastBody is small, but takes far more than MinBudget when it is read.
func vastBody() string {
	level := `{"M":{"a":`
	deep := strings.Repeat(level, 29) + `{"NULL":true}` + strings.Repeat(`}}`, 29) + `,`
	return `{"Item":{"l":{"L":[` + strings.Repeat(deep, 1<<20/len(deep)) + `{"N":"1"}]}}}`
}

// holding is an operation that tells when it runs and ends when it may.
func holding() (ops map[string]operation, running chan string, finish chan struct{}) {
	running, finish = make(chan string), make(chan struct{})
	ops = map[string]operation{target + "Probe": op(func(_ context.Context, _ auth.Identity, in *api.PutItemInput, out *api.Body) error {
		name := "small"
		if len(in.Item.Item) > 0 {
			name = "vast"
		}
		running <- name
		<-finish
		out.Raw("{}")
		return nil
	})}
	return ops, running, finish
}

func TestOneVastRequestAtATime(t *testing.T) {
	t.Parallel()
	ops, running, finish := holding()
	e := start(t, ops, Options{Budget: MinBudget, Wait: time.Minute})
	body := vastBody()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { e.call("Probe", body).check(t, 200, "{}") })
	}
	wg.Go(func() { e.call("Probe", "{}").check(t, 200, "{}") })
	vast, small := 0, 0
	for range 2 { // one that is vast, and the small one
		if <-running == "vast" {
			vast++
		} else {
			small++
		}
	}
	if vast != 1 || small != 1 {
		t.Errorf("%d vast requests and %d small ones run together", vast, small)
	}
	finish <- struct{}{}
	finish <- struct{}{}
	for range 2 {
		<-running
		finish <- struct{}{}
	}
	wg.Wait()
	e.settled(4)
}

func TestVastRequestsWaitNoLongerThanOthers(t *testing.T) {
	t.Parallel()
	ops, running, finish := holding()
	fake := clock.NewFake(time.Now())
	e := start(t, ops, Options{Budget: MinBudget, Clock: fake})
	var wg sync.WaitGroup
	wg.Go(func() { e.call("Probe", vastBody()).check(t, 200, "{}") })
	<-running
	wg.Go(func() {
		if a := e.call("Probe", vastBody()); a.status != 503 {
			t.Errorf("answer %d", a.status)
		}
	})
	fake.WaitTimers(1)
	fake.Advance(defaultStall)
	<-e.done
	finish <- struct{}{}
	wg.Wait()
	e.settled(1)
	if e.log.String() != "" {
		t.Errorf("log holds %s", e.log)
	}
}

// TestWaitingVastRequestsMakeRoom: what waits for its turn is given up when
// others need what it holds.
func TestWaitingVastRequestsMakeRoom(t *testing.T) {
	t.Parallel()
	ops, _, _ := holding()
	fake := clock.NewFake(time.Now())
	e := start(t, ops, Options{Budget: MinBudget, Clock: fake})
	e.vast <- struct{}{}
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := e.call("Probe", vastBody()); a.status != 503 {
			t.Errorf("answer %d", a.status)
		}
	})
	fake.WaitTimers(1) // it holds all there is by now
	wg.Go(func() {
		in := intake{}
		if err := e.requests.begin(t.Context(), &in, 1<<20); err != nil {
			t.Error(err)
		}
		held, _ := e.requests.end(&in)
		e.requests.give(nil, held)
	})
	fake.WaitTimers(3)
	fake.Advance(defaultPatience)
	wg.Wait()
	<-e.vast
	e.settled(1)
}
