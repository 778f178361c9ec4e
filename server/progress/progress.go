// SPDX-License-Identifier: Apache-2.0

// Package progress says how far long work is: events that jobs publish, and
// the board that keeps the latest of each job.
package progress

import "time"

// Kind is a kind of job.
type Kind string

// The kinds of jobs.
const (
	Backup  Kind = "backup"
	Restore Kind = "restore"
	Verify  Kind = "verify"
)

// State is where a job is in its life.
type State string

// The states of a job. The last three are final.
const (
	Waiting   State = "waiting" // Event.WaitingFor says for what
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Final reports whether a job in this state is over.
func (s State) Final() bool { return s == Done || s == Failed || s == Cancelled }

// Event is the latest of one job: the whole of it, not a difference. Its JSON
// is a documented contract (docs/scripting.md): members may be added.
type Event struct {
	Job        string    `json:"job"` // unique in the process
	Kind       Kind      `json:"kind"`
	State      State     `json:"state"`
	Table      string    `json:"table"`            // the table backed up, or the restore's target
	Backup     string    `json:"backup,omitempty"` // ARN, once known
	Phase      string    `json:"phase,omitempty"`  // what it does now: "data", "manifest", "verify", "load", "index"
	WaitingFor string    `json:"waiting_for,omitempty"`
	Done       int64     `json:"done"`  // work units over all phases; never falls
	Total      *int64    `json:"total"` // of them; nil when unknown. Done <= *Total
	Items      int64     `json:"items"` // in this phase
	Bytes      int64     `json:"bytes"` // of data files written or read in this phase
	Started    time.Time `json:"started"`
	At         time.Time `json:"at"`
	Error      string    `json:"error,omitempty"`
}

// Percent is Done of Total, 0 to 100; ok is false when the total is unknown. A
// job that is done is at 100, and none that is not.
func (e *Event) Percent() (percent float64, ok bool) {
	switch {
	case e.State == Done:
		return 100, true
	case e.Total == nil:
		return 0, false
	case *e.Total <= 0:
		return 0, true
	}
	return min(100*float64(e.Done)/float64(*e.Total), 99.9), true
}

// Sink takes events, in order, from one job or many. It must be safe for
// concurrent use and must not block for long: work waits for it.
type Sink func(Event)

// Nothing is a Sink that ignores events.
func Nothing(Event) {}
