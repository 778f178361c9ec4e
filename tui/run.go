// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/extenddb/extenddb/server/progress"
)

// BarOptions say how RunBar shows what it shows.
type BarOptions struct {
	ASCII   bool
	Environ []string // NO_COLOR, TERM; nil: the process's
	Width   int      // columns of an out that is no terminal; 0: 80
}

const (
	redraw   = 100 * time.Millisecond
	maxLines = 8 // jobs shown at a time
	noWidth  = 80
)

// RunBar shows jobs on a terminal, a line for each that is not over, until
// events is closed. The line that tells a job's end stays. It reads no input,
// handles no signal and takes no screen of its own. When ctx ends, or the
// terminal fails, it shows nothing more but goes on taking events until they
// are closed: it never holds up who sends them, nor does a slow terminal.
func RunBar(ctx context.Context, out io.Writer, events <-chan progress.Event, o BarOptions) error {
	f := &feed{}
	taken := make(chan struct{})
	go func() { // it only stores what it gets
		defer close(taken)
		for e := range events {
			f.put(e)
		}
		f.end()
	}()
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	profile := colorprofile.Detect(out, o.Environ) // what is printed above the display is not adapted to it
	err := show(ctx, out, &model{feed: f, style: Style{ASCII: o.ASCII, Color: profile >= colorprofile.ANSI}}, o)
	<-taken
	return err
}

// show runs a program, which restores the terminal whatever happens.
func show(ctx context.Context, out io.Writer, m tea.Model, o BarOptions) error {
	if o.Width == 0 {
		o.Width = noWidth
	}
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(nil), tea.WithOutput(out), tea.WithoutSignalHandler(),
		tea.WithFPS(int(time.Second / redraw)), tea.WithWindowSize(o.Width, maxLines+1), tea.WithEnvironment(o.Environ),
	}
	g := &guarded{Model: m}
	_, err := tea.NewProgram(g, options...).Run()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err = errors.Join(g.failed, err); err != nil {
		return fmt.Errorf("show progress: %w", err)
	}
	return nil
}

// guarded makes a panic of a model an orderly end: the program would restore
// the terminal as well, but write a stack trace over it.
type guarded struct {
	tea.Model
	failed error
}

// Update is the model's.
func (g *guarded) Update(msg tea.Msg) (same tea.Model, cmd tea.Cmd) {
	defer func() {
		g.caught(recover())
		if same = g; g.failed != nil {
			cmd = tea.Quit
		}
	}()
	_, cmd = g.Model.Update(msg)
	return g, cmd
}

// View is the model's; after a panic there is none.
func (g *guarded) View() (v tea.View) {
	defer func() {
		g.caught(recover())
		v.DisableBracketedPasteMode = true // nothing is read
	}()
	if g.failed == nil {
		v = g.Model.View()
	}
	return v
}

func (g *guarded) caught(x any) {
	if x != nil && g.failed == nil {
		g.failed = fmt.Errorf("panic: %v", x)
	}
}

// feed keeps the latest event of each job until it is taken.
type feed struct {
	mu     sync.Mutex
	events []progress.Event // in the order in which the jobs came
	over   bool
}

func (f *feed) put(e progress.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range slices.Backward(f.events) {
		if f.events[i].Job == e.Job {
			f.events[i] = e
			return
		}
	}
	f.events = append(f.events, e)
}

func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

func (f *feed) take() (events []progress.Event, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, f.events = f.events, nil
	return events, f.over
}

// model is the state of the display.
type model struct {
	feed  *feed
	style Style
	jobs  []*shown // not over
}

// shown is a job on the display.
type shown struct {
	last progress.Event
	pace Pace
}

// tick is the time to look for news.
type tick struct{}

func next() tea.Cmd { return tea.Tick(redraw, func(time.Time) tea.Msg { return tick{} }) }

// Init does nothing: before the width is known there is nothing to show.
func (m *model) Init() tea.Cmd { return nil }

// Update takes the news, and the width of the terminal.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		known := m.style.Width > 0
		if m.style.Width = msg.Width; !known {
			return m, m.news()
		}
	case tick:
		return m, m.news()
	}
	return m, nil
}

// news takes the latest events. What is over is printed above the display.
func (m *model) news() tea.Cmd {
	events, over := m.feed.take()
	var ended []string
	for _, e := range events {
		j := m.job(e)
		j.last = e
		j.pace.Add(e)
		if e.State.Final() {
			m.jobs = slices.DeleteFunc(m.jobs, func(other *shown) bool { return other == j })
			ended = append(ended, Bar(e, &j.pace, m.style))
		}
	}
	then := next()
	if over {
		for _, j := range m.jobs { // its end was not told: leave what was
			ended = append(ended, Bar(j.last, &j.pace, m.style))
		}
		m.jobs, then = nil, tea.Quit
	}
	if len(ended) == 0 {
		return then
	}
	return tea.Sequence(tea.Println(strings.Join(ended, "\n")), then)
}

func (m *model) job(e progress.Event) *shown {
	for _, j := range m.jobs {
		if j.last.Job == e.Job {
			return j
		}
	}
	j := &shown{}
	m.jobs = append(m.jobs, j)
	return j
}

// View is the lines of the jobs that are not over.
func (m *model) View() tea.View {
	lines := make([]string, 0, maxLines)
	for _, j := range m.jobs[:min(len(m.jobs), maxLines)] {
		lines = append(lines, Bar(j.last, &j.pace, m.style))
	}
	return tea.NewView(strings.Join(lines, "\n"))
}
