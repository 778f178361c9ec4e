// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
)

// watchedWriter is a connection that tells when something is written to it.
type watchedWriter struct {
	nullWriter
	deadline time.Time // of writes
	write    func(n int)
}

func (w *watchedWriter) SetWriteDeadline(t time.Time) error { w.deadline = t; return nil }
func (w *watchedWriter) Write(b []byte) (int, error)        { w.write(len(b)); return len(b), nil }

// laborious is an operation that works with as many bytes as it answers.
func laborious(_ context.Context, _ auth.Identity, in *probeInput, out *api.Body) error {
	if !out.Work.Try(int(*in.Size)) {
		return api.Unavailable()
	}
	out.B = append(out.B, make([]byte, int(*in.Size))...)
	return nil
}

func answering(t *testing.T, h *Handler, w *watchedWriter, size int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", strings.NewReader(fmt.Sprintf(`{"Size":%d}`, size)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", target+"Probe")
	r.Header.Set("Content-Type", plainJSON)
	w.header = http.Header{}
	h.ServeHTTP(w, r)
}

// TestSlowReaders: a response that counts must be read, also a small one.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(1_000_000, 0))
	h := newHandler(probes(), Options{Clock: fake, Log: slog.New(slog.DiscardHandler), Stall: 7 * time.Second})
	for _, c := range []struct {
		size  int
		stall time.Duration // 0: as long as an operation and its answer may take
	}{
		{size: freeResponse - 100},
		{freeResponse + 1, 7 * time.Second},
		{writeStep - 100, 7 * time.Second},
		{3 * writeStep, 7 * time.Second},
	} {
		w := &watchedWriter{}
		w.write = func(int) {
			var want time.Time
			if c.stall > 0 {
				want = fake.Now().Add(c.stall)
			}
			if !w.deadline.Equal(want) {
				t.Errorf("%d bytes: deadline %v, want %v", c.size, w.deadline, want)
			}
			fake.Advance(time.Second)
		}
		answering(t, h, w, c.size)
	}
}

// TestAnswersLeaveWork: what is on its way out is in nobody's way who works, as
// long as there is room among the responses.
func TestAnswersLeaveWork(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	h := newHandler(map[string]operation{target + "Probe": op(laborious)}, Options{Clock: clock.NewFake(time.Unix(0, 0)), Log: slog.New(slog.DiscardHandler)})
	for _, full := range []bool{false, true} {
		written := false
		w := &watchedWriter{write: func(int) {
			written = true
			if works := h.working.used() >= size-freeResponse; works != full {
				t.Errorf("responses full: %v: %d bytes of those who work are taken", full, h.working.used())
			}
		}}
		others := int64(0)
		if full {
			others = h.responses.size
		}
		h.responses.force(others)
		answering(t, h, w, size)
		h.responses.give(nil, others)
		if !written || h.working.used() != 0 || h.responses.used() != 0 {
			t.Errorf("written %v, left %d and %d bytes", written, h.working.used(), h.responses.used())
		}
	}
}
