// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/extenddb/extenddb/server/progress"
)

// screen is what was written, and tells when a text came.
type screen struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{} // closed and replaced whenever something comes
}

func newScreen() *screen { return &screen{more: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.more)
	s.more = make(chan struct{})
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// wait returns when the text was written.
func (s *screen) wait(t *testing.T, text string) {
	t.Helper()
	for {
		s.mu.Lock()
		found, more := strings.Contains(s.b.String(), text), s.more
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatalf("%q never came: %q", text, s.String())
		}
	}
}

func running(job string, done int64) progress.Event {
	return progress.Event{
		Job: job, Kind: progress.Backup, Table: "table-" + job, Phase: "data", State: progress.Running,
		Done: done, Total: new(int64(100)), Started: start, At: start.Add(time.Duration(done) * time.Second),
	}
}

func ended(job string, state progress.State) progress.Event {
	e := running(job, 100)
	e.State = state
	return e
}

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
)

// tidy checks that the terminal was left as it was found.
func tidy(t *testing.T, out string) {
	t.Helper()
	if strings.LastIndex(out, hideCursor) > strings.LastIndex(out, showCursor) {
		t.Errorf("the cursor stays hidden: %q", out)
	}
	for _, mode := range []string{"\x1b[?1049h", "\x1b[?2004h", "\x1b[?1000h", "\x1b[>", "\x1b[c"} {
		if strings.Contains(out, mode) {
			t.Errorf("%q was written: %q", mode, out)
		}
	}
}

var xterm = []string{"TERM=xterm-256color", "TTY_FORCE=1"}

func TestRunBar(t *testing.T) {
	t.Parallel()
	out, events, result := newScreen(), make(chan progress.Event), make(chan error, 1)
	go func() { result <- RunBar(t.Context(), out, events, BarOptions{Environ: xterm}) }()
	events <- running("a", 10)
	out.wait(t, "backup  table-a  data")
	events <- running("a", 20)
	events <- ended("a", progress.Done)
	out.wait(t, "table-a  \x1b[32mdone")
	events <- running("b", 30)
	events <- ended("b", progress.Cancelled)
	events <- running("c", 40) // its end is never told
	close(events)
	if err := <-result; err != nil {
		t.Error(err)
	}
	text := out.String()
	for _, want := range []string{"table-a  \x1b[32mdone\x1b[m  in 1m40s", "table-b  \x1b[33mcancelled\x1b[m", "table-c  data"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	tidy(t, text)
}

func TestRunBarWithoutColour(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{{"TERM=xterm-256color", "TTY_FORCE=1", "NO_COLOR=1"}, {"TERM=dumb", "TTY_FORCE=1"}, {"TERM=xterm-256color"}} {
		out, events := newScreen(), make(chan progress.Event, 10)
		events <- ended("a", progress.Done)
		close(events)
		if err := RunBar(t.Context(), out, events, BarOptions{Environ: environ, ASCII: true, Width: 60}); err != nil {
			t.Error(err)
		}
		if text := out.String(); strings.Contains(text, "\x1b[3") || !strings.Contains(text, "done") {
			t.Errorf("%s: %q", environ, text)
		}
	}
}

func TestRunBarOfNothing(t *testing.T) {
	t.Parallel()
	out, events := newScreen(), make(chan progress.Event)
	close(events)
	if err := RunBar(t.Context(), out, events, BarOptions{Environ: xterm}); err != nil {
		t.Error(err)
	}
	tidy(t, out.String())
}

func TestRunBarStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out, events, result := newScreen(), make(chan progress.Event), make(chan error, 1)
	go func() { result <- RunBar(ctx, out, events, BarOptions{Environ: xterm}) }()
	events <- running("a", 10)
	out.wait(t, "table-a")
	cancel()
	for i := range int64(100) { // whoever sends is not held up
		events <- running("a", i)
	}
	select {
	case err := <-result:
		t.Fatalf("ended before the events did: %v", err)
	default:
	}
	close(events)
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	tidy(t, out.String())
}

// stuck is a terminal that takes nothing until it is let go.
type stuck struct{ leave chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.leave
	return len(p), nil
}

func TestSlowTerminalHoldsUpNobody(t *testing.T) {
	t.Parallel()
	out, events, result := stuck{make(chan struct{})}, make(chan progress.Event), make(chan error, 1)
	go func() { result <- RunBar(t.Context(), out, events, BarOptions{Environ: xterm}) }()
	for i := range int64(1000) {
		events <- running(fmt.Sprint(i%3), i)
	}
	close(events)
	close(out.leave)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// gone is a terminal that is no longer there.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestTerminalGoes(t *testing.T) {
	t.Parallel()
	events := make(chan progress.Event, 1)
	events <- running("a", 1)
	close(events)
	_ = RunBar(t.Context(), gone{}, events, BarOptions{Environ: xterm}) // that it returns is all there is to hope for
}

// mad is a model that panics.
type mad struct{ inUpdate bool }

func (m mad) Init() tea.Cmd { return nil }

func (m mad) Update(tea.Msg) (tea.Model, tea.Cmd) {
	if m.inUpdate {
		panic("mad update")
	}
	return m, next()
}

func (m mad) View() tea.View {
	if !m.inUpdate {
		panic("mad view")
	}
	return tea.NewView("mad")
}

func TestPanicRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m    mad
		want string
	}{{mad{true}, "show progress: panic: mad update"}, {mad{false}, "show progress: panic: mad view"}} {
		out := newScreen()
		if err := show(t.Context(), out, c.m, BarOptions{Environ: xterm}); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
		tidy(t, out.String())
	}
}

func TestManyJobs(t *testing.T) {
	t.Parallel()
	f := &feed{}
	for i := range int64(20) {
		f.put(running(fmt.Sprint(i), i))
		f.put(running(fmt.Sprint(i), i+1))
	}
	m := &model{feed: f}
	if _, cmd := m.Update(tick{}); cmd == nil || len(m.jobs) != 20 {
		t.Errorf("%d jobs are known", len(m.jobs))
	}
	m.Update(tea.WindowSizeMsg{Width: 40, Height: 24})
	if lines := strings.Split(m.View().Content, "\n"); len(lines) != maxLines || !strings.Contains(lines[0], " 1.0%") {
		t.Errorf("shown: %q", lines)
	}
	f.put(ended("7", progress.Failed))
	m.Update(tick{})
	if len(m.jobs) != 19 {
		t.Errorf("%d jobs are known", len(m.jobs))
	}
}
