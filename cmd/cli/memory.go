// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// The collector's goals. What lives in a server is small but for bodies in
// flight, so it may collect rarely (a GetItem takes a tenth less CPU than at the
// default of 100), as long as garbage stays within what the process needs beside
// bodies. A restore keeps more alive, and its garbage is to be no more than that.
const (
	servePercent   = 300
	restorePercent = 100
	commandPercent = 50 // of a command that does the work itself
	aboveBudget    = 48 << 20
)

// environ reports whether a variable is set. GOGC and GOMEMLIMIT, where set, are
// the operator's own word.
func (a *App) environ(name string) bool {
	return slices.ContainsFunc(a.Environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
}

func (a *App) tuneCommand() {
	if !a.environ("GOGC") {
		debug.SetGCPercent(commandPercent)
	}
}

// tuneServer returns what to call when a restore begins to work; it returns what
// to call when that is over.
func (a *App) tuneServer(budget int64) (restoring func() (done func())) {
	if !a.environ("GOMEMLIMIT") {
		debug.SetMemoryLimit(budget + aboveBudget)
	}
	if a.environ("GOGC") {
		return nil
	}
	debug.SetGCPercent(servePercent)
	c := &collector{set: func(percent int) { debug.SetGCPercent(percent) }}
	return c.restoring
}

// collector collects more often while restores are at work.
type collector struct {
	set func(percent int)

	mu       sync.Mutex
	restores int
}

func (c *collector) restoring() (done func()) {
	c.count(1, 1, restorePercent)
	return sync.OnceFunc(func() { c.count(-1, 0, servePercent) })
}

// count sets the percentage when n more restores make it so many.
func (c *collector) count(n, becomes, percent int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restores += n; c.restores == becomes {
		c.set(percent)
	}
}
