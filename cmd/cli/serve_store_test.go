// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

// hangs is a store in which one call hangs, whatever becomes of its context.
type hangs struct {
	call    string
	release chan struct{}
	err     error // of Validate
	closed  int
}

func (h *hangs) in(call string) {
	if call == h.call {
		<-h.release
	}
}

func (h *hangs) Validate(context.Context) error { h.in("Validate"); return h.err }
func (h *hangs) Close() error                   { h.closed++; return nil }

func (h *hangs) Sweep(context.Context, time.Time) (int, error) { h.in("Sweep"); return 0, nil }

// TestStoreThatHangs: neither the start nor the end of a server waits long for
// its backup store, and the store is closed when it comes back.
func TestStoreThatHangs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call       string
		start, end time.Duration
		err        error // of Validate
		fails      bool
		log        string
	}{
		{call: "", log: "level=INFO msg=\"backup store\""},
		{call: "", err: &backupstore.UnusableError{Text: "no store"}, fails: true},
		{call: "", err: errors.New("timed out"), log: "cannot be reached"},
		{call: "open", start: storeWindow, end: storeWindow, log: "does not answer"},
		{call: "Validate", start: storeWindow, end: storeWindow, log: "does not answer"},
		{call: "Sweep", end: storeWindow, log: "level=INFO msg=\"backup store\""},
	} {
		t.Run(c.call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &hangs{call: c.call, release: make(chan struct{}), err: c.err}
				var text bytes.Buffer
				ctx, cancel := context.WithCancel(t.Context())
				begin := time.Now()
				wait, err := prepareStore(ctx, "file:///store", slog.New(slog.NewTextHandler(&text, nil)), func() (servedStore, error) {
					h.in("open")
					return h, nil
				})
				if took := time.Since(begin); (err != nil) != c.fails || took != c.start {
					t.Errorf("ready after %v, error %v", took, err)
				}
				synctest.Wait() // what goes on in the background is over, or hangs
				if !strings.Contains(text.String(), c.log) {
					t.Errorf("log: %s", text.String())
				}
				cancel()
				begin = time.Now()
				if wait(); time.Since(begin) != c.end {
					t.Errorf("ended after %v", time.Since(begin))
				}
				close(h.release)
				synctest.Wait()
				if h.closed != 1 {
					t.Errorf("closed %d times", h.closed)
				}
			})
		})
	}
}
