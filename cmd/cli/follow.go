// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"

	"github.com/charmbracelet/x/term"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
)

// follow begins to tell of progress as the settings want it; stop ends that,
// and must be called before anything else is written.
func (a *App) follow(v values) (sink progress.Sink, stop func(), err error) {
	how, every := v.text("output.progress"), v.duration("output.progress_interval")
	switch {
	case v.quiet():
		how = "none"
	case how == "bar" && !isTerminal(a.Stderr):
		return nil, nil, usagef("--progress bar: stderr is not a terminal").hint("--progress auto takes what fits")
	case how != "auto":
	case a.output == "json":
		how = "json"
	case isTerminal(a.Stderr):
		how = "bar"
	default:
		how = "lines"
	}
	line := textLine
	switch how {
	case "none":
		return progress.Nothing, func() {}, nil
	case "json":
		line = jsonLine
	}
	asks := make(chan os.Signal, 1)
	deaf := askSignal(asks)
	r := newReporter(a.Stderr, clock.Real{}, every, line, asks)
	return r.sink, func() { deaf(); r.close() }, nil
}

// isTerminal reports whether a stream of the program is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}
