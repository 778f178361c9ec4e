// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// task is a piece of work of the fake catalog.
type task struct {
	storage.Work
	steps    int     // left until it is finished
	faults   []error // of the next steps; nil elements are successes
	claimErr error
	sticky   bool   // stays listed when finished
	onStep   func() // runs within each step
}

// fake is a catalog of work that notes what the runner does.
type fake struct {
	t       *testing.T
	mu      sync.Mutex
	tasks   []*task
	err     error    // of Pending
	log     []string // "step a", "release a" …
	claimed int
	most    int // claimed at once
	// released gets an element for each release.
	released chan struct{}
}

func (f *fake) Pending(context.Context, time.Time) ([]storage.Work, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, "pending")
	if f.err != nil {
		return nil, f.err
	}
	var due []storage.Work
	for _, k := range f.tasks {
		due = append(due, k.Work)
	}
	return due, nil
}

func (f *fake) Claim(_ context.Context, w storage.Work) (storage.Lease, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.tasks {
		if k.Work != w {
			continue
		}
		f.log = append(f.log, "claim "+w.Name)
		if k.claimErr != nil {
			return nil, k.claimErr
		}
		f.claimed++
		f.most = max(f.most, f.claimed)
		return &lease{f: f, task: k}, nil
	}
	return nil, storage.ErrNoWork
}

func (f *fake) OnWork(func()) {}

type lease struct {
	f        *fake
	task     *task
	released bool
}

func (l *lease) Step(ctx context.Context, _ time.Time) (storage.Progress, error) {
	l.f.mu.Lock()
	l.f.log = append(l.f.log, "step "+l.task.Name)
	hook := l.task.onStep
	l.f.mu.Unlock()
	if l.released {
		l.f.t.Error("a released job was stepped")
	}
	if hook != nil {
		hook()
	}
	if err := ctx.Err(); err != nil {
		return storage.Progress{}, err
	}
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if len(l.task.faults) > 0 {
		fault := l.task.faults[0]
		l.task.faults = l.task.faults[1:]
		if errors.Is(fault, errPanic) {
			panic(fault)
		}
		if fault != nil {
			return storage.Progress{}, fault
		}
	}
	l.task.steps--
	if l.task.steps > 0 {
		return storage.Progress{}, nil
	}
	if !l.task.sticky {
		l.f.tasks = slices.DeleteFunc(l.f.tasks, func(k *task) bool { return k == l.task })
	}
	return storage.Progress{Finished: true, Done: 7}, nil
}

func (l *lease) Release() error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if !l.released {
		l.released = true
		l.f.claimed--
		l.f.log = append(l.f.log, "release "+l.task.Name)
		l.f.released <- struct{}{}
	}
	return nil
}

var errPanic = errors.New("panic please")

func (f *fake) add(tasks ...*task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks = append(f.tasks, tasks...)
}

// events returns what happened since the last call, without the readings of
// the catalog.
func (f *fake) events() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := slices.DeleteFunc(f.log, func(s string) bool { return s == "pending" })
	f.log = nil
	return strings.Join(got, ", ")
}

func drop(name string, steps int) *task {
	return &task{Work: storage.Work{Kind: storage.TableDrop, Name: name}, steps: steps}
}

func statistics(name string, steps int) *task {
	return &task{Work: storage.Work{Kind: storage.Statistics, Name: name}, steps: steps}
}

// bench is a runner under test.
type bench struct {
	*fake
	*Runner
	clock *clock.Fake
	out   *bytes.Buffer
	stop  func()
}

// start runs a runner over tasks until it sleeps.
func start(t *testing.T, tasks ...*task) *bench {
	t.Helper()
	b := &bench{fake: &fake{t: t, tasks: tasks, released: make(chan struct{}, 100)}, clock: clock.NewFake(time.Unix(0, 0)), out: &bytes.Buffer{}}
	b.Runner = New(Options{Maintainer: b.fake, Clock: b.clock, Log: slog.New(slog.NewTextHandler(b.out, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	b.stop = func() { cancel(); <-done }
	t.Cleanup(func() {
		b.stop()
		if b.claimed != 0 {
			t.Errorf("%d leases were not released", b.claimed)
		}
	})
	return b
}

// asleep waits until the runner has nothing to do.
func (b *bench) asleep() { b.clock.WaitTimers(1) }

func (b *bench) want(t *testing.T, events string) {
	t.Helper()
	if got := b.events(); got != events {
		t.Errorf("got  %s\nwant %s", got, events)
	}
}

func TestRecoversAtStart(t *testing.T) {
	t.Parallel()
	b := start(t, drop("a", 2))
	b.asleep()
	b.want(t, "claim a, step a, step a, release a")
	b.stop()
	if log := b.out.String(); !strings.Contains(log, `msg="job finished" kind=table-drop`) || !strings.Contains(log, "rows=7") {
		t.Errorf("log: %s", log)
	}
}

func TestWake(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.asleep()
	b.want(t, "")
	b.add(drop("a", 1))
	for range 100 { // never blocks, not even when nobody listens
		b.Wake()
	}
	<-b.released
	b.want(t, "claim a, step a, release a")
}

func TestPollsForLostWakes(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.asleep()
	b.add(drop("a", 1))
	b.clock.Advance(defaultPoll - 1)
	b.want(t, "")
	b.clock.Advance(1)
	b.asleep()
	b.want(t, "claim a, step a, release a")
}

func TestKindsTakeTurns(t *testing.T) {
	t.Parallel()
	var tasks []*task
	for i := range 6 {
		tasks = append(tasks, statistics(fmt.Sprint("s", i), 100))
	}
	b := start(t, append(tasks, drop("d", 3))...)
	b.asleep()
	events := b.events()
	before, _, _ := strings.Cut(events, "release d")
	if n := strings.Count(before, "step s"); n != 3 {
		t.Errorf("%d steps of statistics before the drop was over", n)
	}
	if strings.Count(events, "step s") != 600 || b.most != defaultParallel+1 {
		t.Errorf("%d steps, %d claimed at once", strings.Count(events, "step s"), b.most)
	}
	// Four statistics take turns.
	if !strings.Contains(events, "step s0, step s1, step s2, step s3, step s0") {
		t.Errorf("the pieces of one kind do not take turns: %.300s", events)
	}
}

func TestNewWorkDuringLongWork(t *testing.T) {
	t.Parallel()
	long := statistics("long", 50)
	n := 0
	b := start(t)
	b.asleep()
	long.onStep = func() {
		if n++; n == 10 {
			b.add(drop("d", 2))
			b.Wake()
		}
	}
	b.add(long)
	b.clock.Advance(defaultPoll)
	b.asleep()
	before, after, _ := strings.Cut(b.events(), "release d")
	if early, late := strings.Count(before, "step long"), strings.Count(after, "step long"); early > 13 || early+late != 50 {
		t.Errorf("%d steps before the drop was over, %d after", early, late)
	}
}

func TestFailuresArePutOff(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	bad := drop("bad", 2)
	bad.faults = []error{boom, errPanic, boom, nil, boom}
	b := start(t, bad, drop("good", 1))
	b.asleep()
	b.want(t, "claim bad, claim good, step bad, release bad, step good, release good")
	for _, c := range []struct {
		wait   time.Duration
		events string
	}{
		{1 * time.Second, "claim bad, step bad, release bad"},
		{2 * time.Second, "claim bad, step bad, release bad"},
		{4 * time.Second, "claim bad, step bad, step bad, release bad"},
		{8 * time.Second, "claim bad, step bad, release bad"},
	} {
		b.clock.Advance(c.wait - 1)
		b.want(t, "")
		b.clock.Advance(1)
		b.asleep()
		b.want(t, c.events)
	}
	b.stop()
	log := b.out.String()
	if strings.Count(log, "job failed") != 4 || !strings.Contains(log, "err=boom") || !strings.Contains(log, "panic please") {
		t.Errorf("log: %s", log)
	}
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	r := New(Options{Clock: clock.NewFake(time.Unix(0, 0)), Log: slog.New(slog.DiscardHandler)})
	w := storage.Work{Kind: storage.TableDrop}
	for range 100 {
		r.failed(t.Context(), w, errors.New("no"))
	}
	if got := r.retries[w].at.Sub(time.Unix(0, 0)); got != defaultMaxRetry {
		t.Errorf("waits %v", got)
	}
}

func TestClaimedByOthers(t *testing.T) {
	t.Parallel()
	theirs, gone, broken := drop("theirs", 1), drop("gone", 1), drop("broken", 1)
	theirs.claimErr, gone.claimErr, broken.claimErr = storage.ErrClaimed, storage.ErrNoWork, storage.ErrUnavailable
	b := start(t, theirs, gone, broken)
	b.asleep()
	b.want(t, "claim theirs, claim gone, claim broken")
	b.mu.Lock()
	theirs.claimErr, gone.claimErr, broken.claimErr = nil, nil, nil // the owner died
	b.mu.Unlock()
	b.clock.Advance(defaultMinRetry)
	b.asleep()
	b.want(t, "claim gone, claim broken, step gone, release gone, step broken, release broken")
	b.clock.Advance(defaultPoll)
	b.asleep()
	b.want(t, "claim theirs, step theirs, release theirs")
	b.stop()
	if strings.Count(b.out.String(), "job failed") != 1 {
		t.Errorf("log: %s", b.out)
	}
}

// TestHeld: work that waits for somebody is tried every second for as long as
// it takes, told of once per holder, and is never a failure.
func TestHeld(t *testing.T) {
	t.Parallel()
	held := func(by string) error { return fmt.Errorf("detach: %w", &storage.Held{Holder: by}) }
	stuck := drop("stuck", 2)
	stuck.faults = []error{held("a dump"), held("a dump"), held("a dump"), held("a backup"), errors.New("boom"), held("a backup"), storage.ErrHeld}
	b := start(t, stuck)
	b.asleep()
	const try = "claim stuck, step stuck, release stuck"
	b.want(t, try)
	for range 6 {
		b.clock.Advance(defaultMinRetry - 1)
		b.want(t, "")
		b.clock.Advance(1)
		b.asleep()
		b.want(t, try)
	}
	b.clock.Advance(defaultMinRetry)
	b.asleep()
	b.want(t, "claim stuck, step stuck, step stuck, release stuck")
	b.stop()
	waits := []string{"a dump", "a backup", "a backup", ""} // told of again after a failure
	log := b.out.String()
	for i, line := range strings.Split(strings.TrimSpace(log), "\n") {
		if strings.Contains(line, "job waits") {
			if len(waits) == 0 || !strings.Contains(line, "level=INFO") || !strings.Contains(line, waits[0]) {
				t.Errorf("line %d is %s", i, line)
			} else {
				waits = waits[1:]
			}
		}
	}
	if len(waits) > 0 || strings.Count(log, "job failed") != 1 || !strings.Contains(log, "failures=1 retry_in=1s") {
		t.Errorf("%d waits are not told of in %s", len(waits), log)
	}
}

// TestWorkOfNoTable is logged without a table, quietly while all is well.
func TestWorkOfNoTable(t *testing.T) {
	t.Parallel()
	tokens := &task{Work: storage.Work{Kind: storage.TokenExpiry}, steps: 1, faults: []error{errors.New("boom")}}
	records := &task{Work: storage.Work{Kind: storage.RecordTrim}, steps: 1}
	b := start(t, tokens, records)
	b.asleep()
	b.clock.Advance(defaultMinRetry)
	b.asleep()
	b.stop()
	if log := b.out.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `msg="job failed" kind=token-expiry failures=1`) {
		t.Errorf("log: %s", log)
	}
	var out bytes.Buffer
	r := New(Options{Clock: clock.NewFake(time.Unix(0, 0)), Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	r.finished(t.Context(), &job{work: records.Work, since: time.Unix(0, 0)}, storage.Progress{Done: 3})
	if !strings.Contains(out.String(), `level=DEBUG msg="job finished" kind=record-trim rows=3`) {
		t.Errorf("log: %s", out.String())
	}
}

func TestUnreadableCatalog(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.asleep()
	b.add(drop("a", 1))
	b.mu.Lock()
	b.err = storage.ErrUnavailable
	b.mu.Unlock()
	b.clock.Advance(defaultPoll)
	b.asleep()
	b.want(t, "")
	b.mu.Lock()
	b.err = nil
	b.mu.Unlock()
	b.clock.Advance(defaultPoll)
	b.asleep()
	b.want(t, "claim a, step a, release a")
	b.stop()
	if !strings.Contains(b.out.String(), "reading pending work failed") {
		t.Errorf("log: %s", b.out)
	}
}

func TestFinishedWorkThatStaysListed(t *testing.T) {
	t.Parallel()
	odd := statistics("odd", 1)
	odd.sticky = true
	b := start(t, odd)
	b.asleep()
	b.want(t, "claim odd, step odd, release odd")
	b.clock.Advance(defaultMinRetry)
	b.asleep()
	b.want(t, "claim odd, step odd, release odd")
}

func TestStopsWithinAStep(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	endless := drop("endless", 1<<30)
	var once sync.Once
	endless.onStep = func() { once.Do(func() { close(reached) }) }
	other := statistics("other", 1<<30)
	b := start(t, endless, other)
	<-reached
	b.stop()
	events := b.events()
	for _, name := range []string{"endless", "other"} {
		if strings.Count(events, "claim "+name) != strings.Count(events, "release "+name) {
			t.Errorf("%s was not given up", name)
		}
	}
	if b.out.Len() > 0 {
		t.Errorf("stopping is logged as %s", b.out)
	}
}
