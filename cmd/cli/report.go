// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
)

// reporter tells how far jobs are, a line now and then: when a job begins,
// waits or ends, at each tenth of it, when so long nothing was told, and when
// somebody asks.
type reporter struct {
	w     io.Writer
	clock clock.Clock
	every time.Duration
	line  func(e progress.Event, working time.Duration) string // without what it waited
	// phases: another phase is told at once too. People need not know.
	phases bool
	silent bool // tells only when somebody asks

	mu   sync.Mutex
	jobs []*told // in the order they began

	quit chan struct{}
	over chan struct{}
}

// told is what was told of one job last.
type told struct {
	last  progress.Event // known, perhaps not told
	said  progress.Event
	tenth int
	at    time.Time
	begun time.Time // to work: when it last ended to wait
}

// start begins to give signs of life; asks may be nil. close ends that.
func (r *reporter) start(asks <-chan os.Signal) {
	r.quit, r.over = make(chan struct{}), make(chan struct{})
	go r.watch(asks)
}

// sink takes the news of a job.
func (r *reporter) sink(e progress.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.of(e.Job)
	if e.State == progress.Waiting || t.begun.IsZero() || t.last.State == progress.Waiting {
		t.begun = e.At
	}
	t.last = e
	tenth := -1
	if p, ok := e.Percent(); ok {
		tenth = int(p / 10)
	}
	if r.silent {
		return
	}
	if e.State != t.said.State || r.phases && e.Phase != t.said.Phase || e.WaitingFor != t.said.WaitingFor || tenth > t.tenth {
		t.tenth = tenth
		r.tell(t)
	}
}

func (r *reporter) of(id string) *told {
	for _, t := range r.jobs {
		if t.last.Job == id {
			return t
		}
	}
	t := &told{tenth: -1}
	r.jobs = append(r.jobs, t)
	return t
}

func (r *reporter) tell(t *told) {
	t.said, t.at = t.last, r.clock.Now()
	fmt.Fprintf(r.w, "%s\n", r.line(t.last, t.last.At.Sub(t.begun)))
}

// watch tells what the jobs themselves do not: that they are alive.
func (r *reporter) watch(asks <-chan os.Signal) {
	defer close(r.over)
	for {
		tick, stop := r.clock.After(r.every)
		select {
		case <-r.quit:
			stop()
			return
		case <-asks:
			stop()
			r.tellAll(0)
		case <-tick:
			if !r.silent {
				r.tellAll(r.every)
			}
		}
	}
}

// tellAll tells of the jobs under way of which nothing was told for so long.
func (r *reporter) tellAll(silent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.jobs {
		if !t.last.State.Final() && r.clock.Now().Sub(t.at) >= silent {
			r.tell(t)
		}
	}
}

// close ends it; nothing is written after.
func (r *reporter) close() {
	close(r.quit)
	<-r.over
}

// textLine is an event for people: "backup music: data 40%, 1,234 items, 12.3
// MiB, 1m05s, 20s left". What is left is guessed from the time it worked.
func textLine(e progress.Event, working time.Duration) string {
	head := fmt.Sprintf("%s %s: ", e.Kind, printable(e.Table))
	switch e.State {
	case progress.Waiting:
		return head + "waiting for " + printable(e.WaitingFor)
	case progress.Failed, progress.Cancelled: // the command says why
		return head + string(e.State)
	case progress.Running, progress.Done:
	}
	var parts []string
	percent, known := e.Percent()
	what := e.Phase
	switch {
	case e.State == progress.Done:
		what = "done"
	case known:
		what = strings.TrimSpace(fmt.Sprintf("%s %d%%", what, int(percent)))
	}
	if what != "" {
		parts = append(parts, what)
	}
	if e.Items > 0 {
		parts = append(parts, plural(e.Items, "item", "items"))
	}
	if e.Bytes > 0 {
		parts = append(parts, iec(e.Bytes))
	}
	parts = append(parts, short(e.At.Sub(e.Started)))
	if left := remaining(percent, working); known && left >= time.Second && e.State != progress.Done {
		parts = append(parts, short(left)+" left")
	}
	return head + strings.Join(parts, ", ")
}

// remaining guesses what is left of work that is so far; 0: no guess yet.
func remaining(percent float64, took time.Duration) time.Duration {
	if percent < 1 || took < 5*time.Second {
		return 0
	}
	return time.Duration(float64(took) / percent * (100 - percent))
}

// jsonLine is an event for programs.
func jsonLine(e progress.Event, _ time.Duration) string {
	line, err := json.Marshal(struct {
		Type string `json:"message_type"`
		progress.Event
	}{"progress", e})
	if err != nil {
		return `{"message_type":"progress"}` // a time beyond the year 9999
	}
	return string(line)
}
