// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

// Meter turns the steps of one job into events: at most one per interval for
// what merely grows, and one at once for whatever else changes. It starts no
// goroutine; every method may be called at any time from anywhere.
type Meter struct {
	clock clock.Clock
	sink  Sink
	every time.Duration

	units, items, bytes atomic.Int64
	due                 atomic.Int64 // Unix nanoseconds: no event of Add before

	mu   sync.Mutex // orders events; guards what follows
	e    Event      // the latest published, and the base of the next
	over bool       // Finish was called
}

// NewMeter returns the meter of one job. base gives Job, Kind, Table and what
// else is known; its State is Running and its Started now unless it says
// otherwise. Nothing is published before the first call of a method.
func NewMeter(c clock.Clock, sink Sink, base Event, every time.Duration) *Meter {
	if sink == nil {
		sink = Nothing
	}
	if base.State == "" {
		base.State = Running
	}
	if base.Started.IsZero() {
		base.Started = c.Now()
	}
	return &Meter{clock: c, sink: sink, every: every, e: base}
}

// Add tells of work done: units of the total, items and bytes of the phase.
// Negative numbers count as zero: what is done stays done.
func (m *Meter) Add(units, items, bytes int64) {
	add(&m.units, units)
	add(&m.items, items)
	add(&m.bytes, bytes)
	now := m.clock.Now()
	if now.UnixNano() < m.due.Load() || !m.mu.TryLock() { // who holds the lock publishes
		return
	}
	defer m.mu.Unlock()
	if !m.over && now.UnixNano() >= m.due.Load() { // still
		m.publish(now)
	}
}

func add(to *atomic.Int64, n int64) {
	if n > 0 {
		to.Add(n)
	}
}

// Phase begins a phase, by its name; Items and Bytes count from zero again.
func (m *Meter) Phase(name string) {
	m.change(func(e *Event) {
		e.State, e.WaitingFor, e.Phase = Running, "", name
		m.items.Store(0)
		m.bytes.Store(0)
	})
}

// SetTotal tells the units there are; less than zero: unknown. A total below
// what is done already is raised to that.
func (m *Meter) SetTotal(n int64) {
	m.change(func(e *Event) {
		e.Total = nil
		if n >= 0 {
			e.Total = new(max(n, e.Done))
		}
	})
}

// SetBackup tells the ARN of the backup.
func (m *Meter) SetBackup(arn string) {
	m.change(func(e *Event) { e.Backup = arn })
}

// Wait tells that the job waits for something; "" that it goes on.
func (m *Meter) Wait(what string) {
	m.change(func(e *Event) {
		e.State, e.WaitingFor = Waiting, what
		if what == "" {
			e.State = Running
		}
	})
}

// Finish publishes the last event, with a final state (any other counts as
// Failed) and, unless it is Done, why. What is called later has no effect. A
// total that was an estimate becomes what was really done.
func (m *Meter) Finish(state State, err error) {
	m.change(func(e *Event) {
		m.over = true
		if !state.Final() {
			state = Failed
		}
		e.State, e.WaitingFor = state, ""
		if err != nil {
			e.Error = err.Error()
		}
		if done := max(e.Done, m.units.Load()); state == Done {
			e.Total = &done
		}
	})
}

// change publishes an event that differs from the last one by what f does.
func (m *Meter) change(f func(*Event)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	f(&m.e)
	m.publish(m.clock.Now())
}

// publish sends the event as it is now. Sinks get copies: a total that was
// published never changes.
func (m *Meter) publish(now time.Time) {
	e := &m.e
	if now.After(e.At) { // else another Add read the clock later and was here first
		e.At = now
	}
	e.Done = max(e.Done, m.units.Load())
	if e.Total != nil {
		e.Done = min(e.Done, *e.Total)
	}
	e.Items, e.Bytes = m.items.Load(), m.bytes.Load()
	m.due.Store(now.Add(m.every).UnixNano())
	m.sink(*e)
}
