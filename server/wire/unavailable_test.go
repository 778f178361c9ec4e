// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

// TestStorageUnavailable checks what SDKs try again on, and that the log tells
// why without being filled by it.
func TestStorageUnavailable(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	for range 3 {
		e.call("Probe", `{"Fail":"unavailable"}`).check(t, 503,
			`{"__type":"com.amazonaws.dynamodb.v20120810#ServiceUnavailable","message":"The service is temporarily unavailable, try again"}`)
	}
	if log := e.log.String(); !strings.Contains(log, `level=WARN msg="operation failed" operation=Probe`) || !strings.Contains(log, `err="disk is full"`) {
		t.Errorf("log: %s", log)
	}
}

func TestUnavailableIsLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC))
	h := newHandler(probes(), Options{Clock: fake})
	for i, c := range []struct {
		after time.Duration
		want  slog.Level
	}{
		{0, slog.LevelWarn},
		{0, slog.LevelDebug},
		{time.Second - 1, slog.LevelDebug},
		{1, slog.LevelWarn},
		{time.Hour, slog.LevelWarn},
		{0, slog.LevelDebug},
	} {
		fake.Advance(c.after)
		if got := h.unavailableLevel(); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}
