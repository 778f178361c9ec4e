// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/extenddb/extenddb/test/proc"
)

// memoryEvery is how often the memory of a process is looked at.
const memoryEvery = 20 * time.Millisecond

// Memory is what a process held that no file backs.
type Memory struct {
	Idle float64 `json:"idle_mib"` // before its work; of a command, right after its start
	Peak float64 `json:"peak_mib"` // more than that, at most, meanwhile
}

// A server is idle when it has used less than quietCPU in each of quietLooks
// spans of quietEvery.
const (
	quietEvery = 50 * time.Millisecond
	quietCPU   = quietEvery / 50
	quietLooks = 3
	quietLimit = 2 * time.Minute
)

// startIdle starts a server and waits until it has done what a start brings
// with it, such as counting a table that was just loaded: the memory for that is
// none of a backup.
func startIdle(ctx context.Context, bin, file string) (*proc.Server, error) {
	srv, err := proc.TryStart(bin, file)
	if err != nil {
		return nil, err
	}
	if err := awaitIdle(ctx, srv.CPU); err != nil {
		return nil, errors.Join(err, srv.Stop())
	}
	return srv, nil
}

// awaitIdle waits until a process, whose CPU time cpu returns, is idle.
func awaitIdle(ctx context.Context, cpu func() (time.Duration, error)) error {
	ctx, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	ticks := time.NewTicker(quietEvery)
	defer ticks.Stop()
	last, err := cpu()
	for quiet := 0; quiet < quietLooks && err == nil; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for an idle server: %w", ctx.Err())
		case <-ticks.C:
		}
		var now time.Duration
		if now, err = cpu(); now-last < quietCPU {
			quiet++
		} else {
			quiet = 0
		}
		last = now
	}
	return err
}

// memoryWatch looks at a process until it is stopped.
type memoryWatch struct {
	idle, peak int64
	err        error // of the first look
	stop       chan struct{}
	done       sync.WaitGroup
}

func watchMemory(pid int) *memoryWatch {
	w := &memoryWatch{stop: make(chan struct{})}
	w.idle, w.err = proc.Memory(pid, "RssAnon")
	w.peak = w.idle
	w.done.Go(func() {
		ticks := time.NewTicker(memoryEvery)
		defer ticks.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-ticks.C:
			}
			now, err := proc.Memory(pid, "RssAnon")
			if err != nil {
				return // the process has ended
			}
			w.peak = max(w.peak, now)
		}
	})
	return w
}

// end returns what was seen.
func (w *memoryWatch) end() (Memory, error) {
	close(w.stop)
	w.done.Wait()
	const mib = 1 << 20
	return Memory{Idle: float64(w.idle) / mib, Peak: float64(w.peak-w.idle) / mib}, w.err
}
