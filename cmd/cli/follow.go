// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/tui"
)

// leastInterval keeps progress from being all that a program does.
const leastInterval = 100 * time.Millisecond

// follow begins to tell of progress as the settings want it; stop ends that,
// and must be called before anything else is written.
func (a *App) follow(ctx context.Context, v values) (sink progress.Sink, stop func(), err error) {
	how, err := a.progressForm(v)
	if err != nil {
		return nil, nil, err
	}
	asks := make(chan os.Signal, 1)
	deaf := askSignal(asks)
	if how == "bar" { // which tells all the time
		sink, end := a.bar(ctx)
		return sink, func() { end(); deaf() }, nil
	}
	box := newOutbox(a.Stderr, clock.Real{})
	r := &reporter{w: box, clock: clock.Real{}, every: max(v.duration("output.progress_interval"), leastInterval), line: textLine, silent: how == "none"}
	if how == "json" || how == "none" && a.output == "json" {
		r.line, r.phases = jsonLine, true
	}
	r.start(asks)
	return r.sink, func() {
		deaf()
		r.close()
		box.close()
	}, nil
}

// progressForm is how progress is told: bar, lines, json or none.
func (a *App) progressForm(v values) (string, error) {
	how := v.text("output.progress")
	switch {
	case v.quiet():
		return "none", nil
	case how == "bar" && !isTerminal(a.Stderr):
		return "", usagef("--progress bar: stderr is not a terminal").hint("--progress auto takes what fits")
	case how != "auto":
		return how, nil
	case a.output == "json":
		return "json", nil
	case isTerminal(a.Stderr) && variable(a.Environ, "TERM") != "dumb":
		return "bar", nil
	}
	return "lines", nil
}

// bar shows jobs on the terminal until end. A job that is stopped is shown to
// its end.
func (a *App) bar(ctx context.Context) (sink progress.Sink, end func()) {
	events, over := make(chan progress.Event), make(chan struct{})
	go func() {
		defer close(over)
		// A terminal that fails is no reason to fail.
		_ = tui.RunBar(context.WithoutCancel(ctx), a.Stderr, events, tui.BarOptions{ASCII: !isUTF8(a.Environ), Environ: a.Environ})
	}()
	var mu sync.Mutex
	ended := false
	sink = func(e progress.Event) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			events <- e
		}
	}
	return sink, func() {
		mu.Lock()
		ended = true
		close(events)
		mu.Unlock()
		<-over
	}
}

// isUTF8 reports whether the locale of an environment has more than ASCII.
func isUTF8(environ []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // the first that is set counts
		if text := strings.ToLower(variable(environ, name)); text != "" {
			return strings.Contains(text, "utf-8") || strings.Contains(text, "utf8")
		}
	}
	return false
}

// variable is the value of an environment variable; "" when it is not set.
func variable(environ []string, name string) string {
	for _, e := range environ {
		if text, ok := strings.CutPrefix(e, name+"="); ok {
			return text
		}
	}
	return ""
}

// isTerminal reports whether a stream of the program is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}
