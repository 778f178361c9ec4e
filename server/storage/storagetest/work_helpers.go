// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// yieldAWhile lets others get in between two steps.
func yieldAWhile() {
	for range 50 {
		runtime.Gosched()
	}
}

// together runs f(0) … f(n-1) at the same time and waits for all. What meets a
// conflict is done again.
func (e *env) together(n int, f func(i int) error) {
	e.Helper()
	e.busy.Add(1)
	defer e.busy.Add(-1)
	errs := make([]error, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			errs[i] = f(i)
		})
	}
	close(gate)
	wg.Wait()
	e.ok(errors.Join(errs...))
}

// pending looks work up; the zero Work when it is not due.
func (e *env) pending(kind storage.WorkKind, name string) storage.Work {
	e.Helper()
	ws, err := e.e.Pending(e.ctx, e.now)
	e.ok(err)
	i := slices.IndexFunc(ws, func(w storage.Work) bool { return w.Kind == kind && w.Account == account && w.Name == name })
	if i < 0 {
		return storage.Work{}
	}
	return ws[i]
}

func (e *env) claim(kind storage.WorkKind, name string) storage.Lease {
	e.Helper()
	w := e.pending(kind, name)
	if w.Kind == 0 {
		e.Fatalf("no %s of %q is due", kind, name)
	}
	l, err := e.e.Claim(e.ctx, w)
	e.ok(err)
	return l
}

// maxSteps bounds how long the suite waits for work to finish.
const maxSteps = 100_000

// finish claims a piece of work and does all of it.
func (e *env) finish(kind storage.WorkKind, name string) {
	e.Helper()
	l := e.claim(kind, name)
	e.complete(l)
	e.ok(l.Release())
}

func (e *env) complete(l storage.Lease) {
	e.Helper()
	for range maxSteps {
		if e.step(l).Finished {
			return
		}
	}
	e.Fatalf("not finished after %d steps", maxSteps)
}

// step does one step, as soon as nobody holds what it needs: an engine may be
// at work there itself for a moment.
func (e *env) step(l storage.Lease) (p storage.Progress) {
	e.Helper()
	var err error
	e.soon(func() bool {
		p, err = l.Step(e.ctx, e.now)
		return !errors.Is(err, storage.ErrHeld)
	})
	e.ok(err)
	return p
}

// statisticsDue is a time after which every engine counts a table again.
const statisticsDue = 48 * time.Hour

// count moves the suite's clock to where statistics are due and takes them.
func (e *env) count(name string) {
	e.Helper()
	e.now = e.now.Add(statisticsDue)
	e.finish(storage.Statistics, name)
}
