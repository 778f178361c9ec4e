// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func names(b *Board) []string {
	var out []string
	for _, e := range b.Jobs() {
		out = append(out, e.Job+" "+string(e.State))
	}
	return out
}

func want(t *testing.T, b *Board, jobs ...string) {
	t.Helper()
	if got := names(b); !slices.Equal(got, jobs) {
		t.Errorf("the board shows %q, want %q", got, jobs)
	}
}

func TestBoard(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(start)
	b := NewBoard(c, time.Minute)
	if jobs := b.Jobs(); jobs == nil || len(jobs) != 0 {
		t.Errorf("an empty board shows %v, want an empty list", jobs)
	}
	at := func(sec int) time.Time { return start.Add(time.Duration(sec) * time.Second) }
	b.Publish(Event{Job: "b", State: Waiting, Started: at(2), At: at(2)})
	b.Publish(Event{Job: "c", State: Running, Started: at(1), At: at(3)})
	b.Publish(Event{Job: "a", State: Running, Started: at(2), At: at(2)})
	want(t, b, "c running", "a running", "b waiting")

	c.Advance(4 * time.Second)
	b.Publish(Event{Job: "c", State: Done, Started: at(1), At: at(4)})
	b.Publish(Event{Job: "c", State: Running, Started: at(1), At: at(5)}) // too late
	b.Publish(Event{Job: "a", State: Failed, Started: at(2), At: at(6)})
	b.Publish(Event{Job: "d", State: Cancelled, Started: at(2), At: at(6)})
	b.Publish(Event{Job: "b", State: Running, Started: at(2), At: at(6)})
	want(t, b, "b running", "a failed", "d cancelled", "c done")

	c.Advance(time.Minute - 1)
	want(t, b, "b running", "a failed", "d cancelled", "c done")
	c.Advance(1)
	want(t, b, "b running", "a failed", "d cancelled")
	c.Advance(time.Hour)
	want(t, b, "b running")
}

func TestBoardIsBounded(t *testing.T) {
	t.Parallel()
	b := NewBoard(clock.NewFake(start), time.Hour)
	b.Publish(Event{Job: "old", State: Running, At: start.Add(-time.Hour)})
	b.Publish(Event{Job: "over", State: Done, At: start})
	for i := range maxJobs - 2 {
		b.Publish(Event{Job: fmt.Sprint(i), State: Running, At: start.Add(time.Duration(i))})
	}
	if got := len(b.Jobs()); got != maxJobs {
		t.Errorf("a full board shows %d jobs, want %d", got, maxJobs)
	}
	b.Publish(Event{Job: "0", State: Waiting, At: start.Add(time.Second)}) // known: needs no room
	for _, gone := range []string{"over", "old", "1"} {
		if !slices.ContainsFunc(b.Jobs(), func(e Event) bool { return e.Job == gone }) {
			t.Errorf("%s left the board too early", gone)
		}
		b.Publish(Event{Job: "instead of " + gone, State: Running, At: start.Add(time.Minute)})
		if slices.ContainsFunc(b.Jobs(), func(e Event) bool { return e.Job == gone }) || len(b.Jobs()) != maxJobs {
			t.Errorf("%s is still on a full board, which shows %d jobs", gone, len(b.Jobs()))
		}
	}
}
