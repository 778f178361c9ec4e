// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

// maxJobs bounds a board. Unfinished jobs are far fewer: whoever runs them
// bounds the queue.
const maxJobs = 1000

// Board keeps the latest event of each job: of one that is over for a while
// longer. It is safe for concurrent use.
type Board struct {
	clock clock.Clock
	keep  time.Duration

	mu   sync.Mutex
	jobs map[string]Event
}

// NewBoard returns an empty board that keeps finished jobs for keep.
func NewBoard(c clock.Clock, keep time.Duration) *Board {
	return &Board{clock: c, keep: keep, jobs: map[string]Event{}}
}

// Publish is a Sink. An event of a job that is over changes nothing.
func (b *Board) Publish(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.jobs[e.Job]
	if known && old.State.Final() {
		return
	}
	if !known {
		b.expire()
		b.evict()
	}
	b.jobs[e.Job] = e
}

// Jobs returns the latest events: jobs that are not over by their start, then
// the others, those that ended last first.
func (b *Board) Jobs() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	jobs := make([]Event, 0, len(b.jobs))
	for _, e := range b.jobs {
		jobs = append(jobs, e)
	}
	slices.SortFunc(jobs, func(a, b Event) int {
		switch over := a.State.Final(); {
		case over != b.State.Final():
			if over {
				return 1
			}
			return -1
		case over:
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Job, b.Job))
		}
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Job, b.Job))
	})
	return jobs
}

// expire drops what was kept long enough.
func (b *Board) expire() {
	now := b.clock.Now()
	for id, e := range b.jobs {
		if e.State.Final() && now.Sub(e.At) >= b.keep {
			delete(b.jobs, id)
		}
	}
}

// evict makes room on a full board: it drops what has been without news for
// longest, a finished job if there is one.
func (b *Board) evict() {
	if len(b.jobs) < maxJobs {
		return
	}
	var out *Event
	for _, e := range b.jobs {
		switch over := e.State.Final(); {
		case out == nil, over && !out.State.Final(), over == out.State.Final() && e.At.Before(out.At):
			out = &e
		}
	}
	delete(b.jobs, out.Job)
}
