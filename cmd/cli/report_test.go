// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
)

func TestTextLine(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_757_500_000, 0)
	for _, c := range []struct {
		want string
		e    progress.Event
	}{
		{"backup music: data 40%, 1,234 items, 1.5 MiB, 1m05s, 1m38s left", progress.Event{Kind: progress.Backup,
			State: progress.Running, Table: "music", Phase: "data", Done: 4, Total: new(int64(10)), Items: 1234, Bytes: 3 << 19,
			Started: start, At: start.Add(65 * time.Second)}},
		{"backup music: data, 1 item, 0s", progress.Event{Kind: progress.Backup, State: progress.Running, Table: "music",
			Phase: "data", Done: 1, Items: 1, Started: start, At: start}},
		{"restore x: load 99%, 10s", progress.Event{Kind: progress.Restore, State: progress.Running, Table: "x", Phase: "load",
			Done: 10, Total: new(int64(10)), Started: start, At: start.Add(10 * time.Second)}},
		{"restore x: done, 10s", progress.Event{Kind: progress.Restore, State: progress.Done, Table: "x", Phase: "index",
			Total: new(int64(10)), Started: start, At: start.Add(10 * time.Second)}},
		{"backup music: waiting for a slot", progress.Event{Kind: progress.Backup, State: progress.Waiting, Table: "music",
			WaitingFor: "a slot"}},
		{"backup mus\uFFFDic: failed", progress.Event{Kind: progress.Backup, State: progress.Failed, Table: "mus\aic",
			Error: "it\nbroke"}},
		{"backup music: cancelled", progress.Event{Kind: progress.Backup, State: progress.Cancelled, Table: "music"}},
	} {
		if got := textLine(c.e, c.e.At.Sub(c.e.Started)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestJSONLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	got := jsonLine(progress.Event{Job: "j", Kind: progress.Backup, State: progress.Running, Table: "t", Started: at, At: at}, 0)
	want := `{"message_type":"progress","job":"j","kind":"backup","state":"running","table":"t","done":0,"total":null,"items":0,` +
		`"bytes":0,"started":"2026-11-29T10:00:00Z","at":"2026-11-29T10:00:00Z"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid([]byte(jsonLine(progress.Event{At: time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)}, 0))) {
		t.Error("a time that JSON has no text for makes an invalid line")
	}
}

// rig is a reporter whose lines are the number of units done.
type rig struct {
	*reporter
	clk  *clock.Fake
	out  bytes.Buffer
	asks chan os.Signal
	mu   sync.Mutex
}

func newRig(phases bool) *rig {
	g := &rig{clk: clock.NewFake(time.Unix(1, 0)), asks: make(chan os.Signal)}
	g.reporter = &reporter{w: g, clock: g.clk, every: time.Minute, phases: phases, line: func(e progress.Event, _ time.Duration) string {
		return strings.TrimSpace(string(e.State)[:1] + e.Phase + " " + string(rune('0'+e.Done)))
	}}
	g.start(g.asks)
	return g
}

func (g *rig) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.out.Write(p)
}

// told is what was told since the last call.
func (g *rig) since() string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.out.Reset()
	return strings.ReplaceAll(strings.TrimSpace(g.out.String()), "\n", "|")
}

func TestReporterTellsChangesAndTenths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, full := newRig(false), newRig(true)
		defer g.close()
		defer full.close()
		event := func(state progress.State, phase string, done int64) progress.Event {
			return progress.Event{Job: "1", State: state, Phase: phase, Done: done, Total: new(int64(40))}
		}
		for i, c := range []struct {
			e    progress.Event
			want string
			full string // with phases, when it differs
		}{
			{event(progress.Waiting, "", 0), "w 0", ""},
			{event(progress.Waiting, "", 0), "", ""},
			{event(progress.Running, "a", 0), "ra 0", ""},
			{event(progress.Running, "a", 3), "", ""},
			{event(progress.Running, "a", 4), "ra 4", ""},
			{event(progress.Running, "a", 5), "", ""},
			{event(progress.Running, "b", 5), "", "rb 5"},
			{event(progress.Running, "b", 9), "rb 9", ""},
			{event(progress.Done, "b", 9), "db 9", ""},
		} {
			g.sink(c.e)
			if got := g.since(); got != c.want {
				t.Errorf("event %d: told %q, want %q", i, got, c.want)
			}
			full.sink(c.e)
			if got, want := full.since(), cmp.Or(c.full, c.want); got != want {
				t.Errorf("event %d: told %q, want %q with phases", i, got, want)
			}
		}
	})
}

// TestReporterForgetsWaiting: what is left is told from the time of the work.
func TestReporterForgetsWaiting(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_757_500_000, 0)
	var out bytes.Buffer
	r := &reporter{w: &out, clock: clock.NewFake(start), line: textLine}
	for _, c := range []struct {
		state progress.State
		after time.Duration
		done  int64
	}{{progress.Waiting, 0, 0}, {progress.Running, 40 * time.Second, 0}, {progress.Running, 50 * time.Second, 10}} {
		r.sink(progress.Event{Job: "1", Kind: progress.Backup, Table: "t", State: c.state, WaitingFor: "a slot", Phase: "data",
			Done: c.done, Total: new(int64(20)), Started: start, At: start.Add(c.after)})
	}
	want := "backup t: waiting for a slot\nbackup t: data 0%, 40s\nbackup t: data 50%, 50s, 10s left\n"
	if out.String() != want {
		t.Errorf("told\n%swant\n%s", out.String(), want)
	}
}

func TestReporterIsSilentUntilAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(true)
		g.silent = true
		defer g.close()
		g.sink(progress.Event{Job: "1", State: progress.Running, Done: 1})
		g.clk.Advance(time.Hour)
		if got := g.since(); got != "" {
			t.Errorf("told %q", got)
		}
		g.asks <- syscall.SIGTERM
		if got := g.since(); got != "r 1" {
			t.Errorf("asked, it told %q", got)
		}
	})
}

func TestReporterGivesSignsOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(false)
		g.sink(progress.Event{Job: "1", State: progress.Running, Done: 1})
		g.sink(progress.Event{Job: "2", State: progress.Running, Done: 2})
		g.sink(progress.Event{Job: "2", State: progress.Running, Done: 3})
		if got := g.since(); got != "r 1|r 2" {
			t.Fatalf("told %q", got)
		}
		g.clk.Advance(time.Minute - 1)
		if got := g.since(); got != "" {
			t.Errorf("told %q before the interval was over", got)
		}
		g.clk.Advance(1)
		if got := g.since(); got != "r 1|r 3" {
			t.Errorf("told %q after a silent minute", got)
		}
		g.sink(progress.Event{Job: "2", State: progress.Done, Done: 3})
		_ = g.since()
		g.asks <- syscall.SIGTERM // which one does not matter here
		if got := g.since(); got != "r 1" {
			t.Errorf("asked, it told %q, want only what runs", got)
		}
		g.close()
		g.clk.Advance(time.Hour)
		if got := g.since(); got != "" {
			t.Errorf("told %q after its end", got)
		}
	})
}
