// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

const (
	outboxLines = 256         // of news that nobody has read yet; more are dropped
	outboxLast  = time.Second // for the rest at the end
)

// outbox writes news from a goroutine of its own: a terminal that was stopped,
// or a full pipe, must not hold up the work that it tells of, and with it the
// database.
type outbox struct {
	lines chan []byte
	quit  chan struct{}
	over  chan struct{}
	clock clock.Clock
}

func newOutbox(w io.Writer, c clock.Clock) *outbox {
	o := &outbox{lines: make(chan []byte, outboxLines), quit: make(chan struct{}), over: make(chan struct{}), clock: c}
	go o.run(w)
	return o
}

// run writes until quit, and then what is left.
func (o *outbox) run(w io.Writer) {
	defer close(o.over)
	for running := true; running; {
		select {
		case line := <-o.lines:
			_, _ = w.Write(line) // who reads the news may go
		case <-o.quit:
			running = false
		}
	}
	for {
		select {
		case line := <-o.lines:
			_, _ = w.Write(line)
		default:
			return
		}
	}
}

// Write takes a line, always.
func (o *outbox) Write(line []byte) (int, error) {
	select {
	case o.lines <- bytes.Clone(line):
	default:
	}
	return len(line), nil
}

// close waits until all is written, but not for long.
func (o *outbox) close() {
	close(o.quit)
	enough, stop := o.clock.After(outboxLast)
	defer stop()
	select {
	case <-o.over:
	case <-enough:
	}
}
