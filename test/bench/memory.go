// SPDX-License-Identifier: Apache-2.0

package main

import (
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
