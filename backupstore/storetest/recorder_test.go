// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
)

// recorder is a testing.TB that takes failures down instead of failing.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	failures []string
}

func (r *recorder) note(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, s)
}

func (r *recorder) Helper()                   {}
func (r *recorder) Context() context.Context  { return context.Background() }
func (r *recorder) Error(args ...any)         { r.note(fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(fmt.Sprintf(f, a...)) }

func (r *recorder) Fatal(args ...any) {
	r.note(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(f string, a ...any) {
	r.note(fmt.Sprintf(f, a...))
	runtime.Goexit()
}

// record runs a check to its end and returns its failures.
func record(t testing.TB, c check, s backupstore.Store) []string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.do(r, Harness{Store: s})
	}()
	<-done
	return r.failures
}
