// SPDX-License-Identifier: Apache-2.0

// Package jobs carries out the background work that the catalog says is due:
// it claims it, steps it and gives it up. Work survives crashes because it
// stays in the catalog until it is done; at the start it is simply found there.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// Options say what a Runner works with. Zero durations and numbers stand for
// the defaults.
type Options struct {
	Maintainer storage.Maintainer
	Clock      clock.Clock
	Log        *slog.Logger

	Poll     time.Duration // the catalog is read again after so long without a Wake; default 30 s
	Parallel int           // pieces of work of one kind that take turns; default 4
	MinRetry time.Duration // after the first failure of a piece of work, which doubles, and while it is held; default 1 s
	MaxRetry time.Duration // and no longer than that; default 5 min
}

const (
	defaultPoll     = 30 * time.Second
	defaultParallel = 4
	defaultMinRetry = time.Second
	defaultMaxRetry = 5 * time.Minute
)

// Runner steps work, one step at a time. Kinds take turns, and within a kind
// the claimed pieces do: counting a large table never delays a drop by more
// than a step, nor do many pieces of one kind starve another kind.
type Runner struct {
	o    Options
	wake chan struct{}

	// Of Run alone.
	kinds   []*lane
	retries map[storage.Work]*retry
}

// lane is the work of one kind.
type lane struct {
	kind    storage.WorkKind
	due     []storage.Work // not claimed yet
	running []*job
	turn    int // of running
}

type job struct {
	work  storage.Work
	lease storage.Lease
	since time.Time
}

// retry is when a piece of work is tried again, most often because it failed.
type retry struct {
	failures int
	holder   *string // of what it waits for, as told of in the log; nil: it does not wait
	at       time.Time
}

// New returns a Runner.
func New(o Options) *Runner {
	if o.Poll == 0 {
		o.Poll = defaultPoll
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	if o.MinRetry == 0 {
		o.MinRetry = defaultMinRetry
	}
	if o.MaxRetry == 0 {
		o.MaxRetry = defaultMaxRetry
	}
	return &Runner{o: o, wake: make(chan struct{}, 1), retries: map[storage.Work]*retry{}}
}

// Wake tells that the catalog holds new work. It never blocks.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Run works until ctx ends; then it gives up what it holds and returns. It must
// not be called twice.
func (r *Runner) Run(ctx context.Context) {
	defer r.releaseAll(ctx)
	for ctx.Err() == nil {
		r.look(ctx)
		if r.work(ctx) {
			continue // what has ended may have made room or new work
		}
		c, stop := r.o.Clock.After(r.nap())
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-c:
		}
		stop()
	}
}

// work steps until nothing is left or it is time to look again. It reports
// whether it did anything.
func (r *Runner) work(ctx context.Context) bool {
	until := r.o.Clock.Now().Add(r.nap())
	did := false
	for ctx.Err() == nil {
		stepped := false
		for _, l := range r.kinds {
			stepped = r.stepLane(ctx, l) || stepped
		}
		if !stepped {
			return did
		}
		did = true
		if len(r.wake) > 0 {
			<-r.wake
			return true
		}
		if !r.o.Clock.Now().Before(until) {
			return true
		}
	}
	return did
}

// nap is how long to go without looking at the catalog, unless woken: until
// something that was put off is due.
func (r *Runner) nap() time.Duration {
	now := r.o.Clock.Now()
	d := r.o.Poll
	for _, again := range r.retries {
		if again.at.After(now) { // else it is in line already
			d = min(d, again.at.Sub(now))
		}
	}
	return d
}

// look reads what is due.
func (r *Runner) look(ctx context.Context) {
	now := r.o.Clock.Now()
	pending, err := r.o.Maintainer.Pending(ctx, now)
	if err != nil {
		if ctx.Err() == nil {
			r.o.Log.WarnContext(ctx, "reading pending work failed", "err", err)
		}
		return
	}
	for _, l := range r.kinds {
		l.due = l.due[:0]
	}
	listed := make(map[storage.Work]bool, len(pending))
	for _, w := range pending {
		listed[w] = true
		if again := r.retries[w]; again != nil && again.at.After(now) {
			continue
		}
		if l := r.lane(w.Kind); !l.runs(w) {
			l.due = append(l.due, w)
		}
	}
	for w := range r.retries {
		if !listed[w] { // done, or gone
			delete(r.retries, w)
		}
	}
}

func (r *Runner) lane(k storage.WorkKind) *lane {
	for _, l := range r.kinds {
		if l.kind == k {
			return l
		}
	}
	l := &lane{kind: k}
	r.kinds = append(r.kinds, l)
	return l
}

func (l *lane) runs(w storage.Work) bool {
	for _, j := range l.running {
		if j.work == w {
			return true
		}
	}
	return false
}

// stepLane claims what there is room for and does one step of the lane's next
// job; false when it has none.
func (r *Runner) stepLane(ctx context.Context, l *lane) bool {
	for len(l.running) < r.o.Parallel && len(l.due) > 0 && ctx.Err() == nil {
		w := l.due[0]
		l.due = l.due[1:]
		if j := r.claim(ctx, w); j != nil {
			l.running = append(l.running, j)
		}
	}
	if len(l.running) == 0 || ctx.Err() != nil {
		return false
	}
	l.turn %= len(l.running)
	if r.step(ctx, l.running[l.turn]) {
		l.turn++
	} else {
		l.running = append(l.running[:l.turn], l.running[l.turn+1:]...)
	}
	return true
}

// claim makes w ours; nil when it cannot be now.
func (r *Runner) claim(ctx context.Context, w storage.Work) *job {
	lease, err := r.o.Maintainer.Claim(ctx, w)
	switch {
	case err == nil:
		return &job{work: w, lease: lease, since: r.o.Clock.Now()}
	case errors.Is(err, storage.ErrNoWork):
		delete(r.retries, w)
	case errors.Is(err, storage.ErrClaimed): // its owner may die: look again later
		r.retries[w] = &retry{at: r.o.Clock.Now().Add(r.o.Poll)}
	default:
		r.failed(ctx, w, err)
	}
	return nil
}

// step does one step of j; false when j is over, for now at least.
func (r *Runner) step(ctx context.Context, j *job) bool {
	progress, err := safeStep(ctx, j.lease, r.o.Clock.Now())
	if err == nil && !progress.Finished {
		return true
	}
	if released := j.lease.Release(); err == nil {
		err = released
	}
	switch {
	case err == nil:
		r.finished(ctx, j, progress)
	case errors.Is(err, storage.ErrHeld):
		r.held(ctx, j.work, err)
	default:
		r.failed(ctx, j.work, err)
	}
	return false
}

func (r *Runner) finished(ctx context.Context, j *job, p storage.Progress) {
	// Should the catalog list it again at once, then not in a busy loop.
	r.retries[j.work] = &retry{at: r.o.Clock.Now().Add(r.o.MinRetry)}
	level := slog.LevelDebug // routine
	if j.work.Kind == storage.TableDrop {
		level = slog.LevelInfo
	}
	r.o.Log.Log(ctx, level, "job finished", append(named(j.work), "rows", p.Done, "took", r.o.Clock.Now().Sub(j.since))...)
}

// named is what the log says of a piece of work.
func named(w storage.Work) []any {
	if w.Table == 0 && w.Name == "" {
		return []any{"kind", w.Kind.String()}
	}
	return []any{"kind", w.Kind.String(), "account", w.Account, "table", w.Name}
}

// safeStep makes a panic of one job an error: the server and the other jobs
// live on.
func safeStep(ctx context.Context, l storage.Lease, now time.Time) (p storage.Progress, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v\n%s", x, debug.Stack())
		}
	}()
	return l.Step(ctx, now)
}

// putOff returns what is known of earlier tries of w.
func (r *Runner) putOff(w storage.Work) *retry {
	again := r.retries[w]
	if again == nil {
		again = &retry{}
		r.retries[w] = again
	}
	return again
}

// held puts w off while somebody holds what it needs: that is no failure,
// however long it takes.
func (r *Runner) held(ctx context.Context, w storage.Work, err error) {
	again, holder := r.putOff(w), ""
	if h := (*storage.Held)(nil); errors.As(err, &h) {
		holder = h.Holder
	}
	again.at = r.o.Clock.Now().Add(r.o.MinRetry)
	if again.holder == nil || *again.holder != holder {
		again.holder = &holder
		r.o.Log.InfoContext(ctx, "job waits", append(named(w), "reason", err)...)
	}
}

// failed puts w off: longer each time, until it succeeds.
func (r *Runner) failed(ctx context.Context, w storage.Work, err error) {
	if ctx.Err() != nil {
		return // we are stopping; that is no failure
	}
	again := r.putOff(w)
	again.holder = nil
	wait := r.o.MaxRetry
	if again.failures < 30 { // no overflow
		wait = min(r.o.MinRetry<<again.failures, r.o.MaxRetry)
	}
	again.failures++
	again.at = r.o.Clock.Now().Add(wait)
	r.o.Log.WarnContext(ctx, "job failed", append(named(w), "failures", again.failures, "retry_in", wait, "err", err)...)
}

func (r *Runner) releaseAll(ctx context.Context) {
	for _, l := range r.kinds {
		for _, j := range l.running {
			if err := j.lease.Release(); err != nil {
				r.o.Log.WarnContext(ctx, "releasing a job failed", append(named(j.work), "err", err)...)
			}
		}
		l.running = nil
	}
}
