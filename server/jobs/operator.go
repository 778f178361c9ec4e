// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	defaultMaxJobs = 2
	maxQueue       = 100                    // jobs that wait for a slot
	snapshotWindow = 30 * time.Second       // to wait for a snapshot
	snapshotRetry  = 250 * time.Millisecond // between two attempts
)

// OperatorOptions say what an Operator works with.
type OperatorOptions struct {
	Storage   storage.Engine
	OpenStore func(ctx context.Context, url string) (backupstore.Store, error) // what it returns is closed if it is an io.Closer
	Clock     clock.Clock
	Log       *slog.Logger
	Region    string // of ARNs
	Account   string // whose tables
	Backend   string // kind of the engine, as manifests name it
	Version   string // of this program
	MaxJobs   int    // that are worked on at a time; 0: 2
	Workers   int    // of a job whose parameters do not say; 0: one per CPU
	Board     *progress.Board
	Worker    string               // whose rights count, where that is not who asks: "the server (process 4711, user extenddb)"
	Wake      func()               // tells the Runner of leftovers; nil: nobody to tell
	Rest      func()               // of backup.Env
	Restoring func() (done func()) // told when a restore begins to work, and when that is over; may be nil
}

// Operator does the jobs that people ask for: backups and restores. A job is
// one table; it waits for one of a few slots. It is safe for concurrent use.
type Operator struct {
	o     OperatorOptions
	slots chan struct{} // an element for each that is used
	ids   atomic.Int64

	mu      sync.Mutex
	queued  int
	targets map[string]bool // names of tables being restored
}

// NewOperator returns an Operator.
func NewOperator(o OperatorOptions) *Operator {
	o.MaxJobs = cmp.Or(o.MaxJobs, defaultMaxJobs)
	if o.Wake == nil {
		o.Wake = func() {}
	}
	if o.Restoring == nil {
		o.Restoring = func() (done func()) { return func() {} }
	}
	return &Operator{o: o, slots: make(chan struct{}, o.MaxJobs), targets: map[string]bool{}}
}

// Run does what kind and params say, to its end or until ctx ends: then it
// stops, and cleans up. Events go to report and to the board. A result may come
// with an error. Errors are *backup.Error.
func (o *Operator) Run(ctx context.Context, kind string, params json.RawMessage, report progress.Sink) (any, error) {
	if report == nil {
		report = progress.Nothing
	}
	result, err := o.run(ctx, kind, params, report)
	if err == nil {
		return result, nil
	}
	return result, o.classify(ctx, err)
}

// classify is backup.Classify, and says whose rights are missing: who asked may
// be another user.
func (o *Operator) classify(ctx context.Context, err error) *backup.Error {
	e := backup.Classify(ctx, err)
	var told *deniedError
	if e.Code != backup.Denied || o.o.Worker == "" || errors.As(err, &told) {
		return e
	}
	return &backup.Error{Code: backup.Denied, Err: &deniedError{o.o.Worker, err},
		Hint: "give that user the rights: extenddb store check, run as it, tells what is missing"}
}

// deniedError is a right that the worker lacks.
type deniedError struct {
	worker string
	err    error
}

func (e *deniedError) Error() string { return e.worker + " may not do it: " + e.err.Error() }

// Unwrap returns the cause.
func (e *deniedError) Unwrap() error { return e.err }

func (o *Operator) run(ctx context.Context, kind string, params json.RawMessage, report progress.Sink) (any, error) {
	switch kind {
	case KindBackup:
		p, err := decode[BackupParams](params)
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return nil, err
		}
		return o.backup(ctx, p, report)
	case KindRestore:
		p, err := decode[RestoreParams](params)
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return nil, err
		}
		return o.restore(ctx, p, report)
	}
	return nil, failure(backup.Invalid, fmt.Errorf("unknown kind of job %q; there are %q and %q", kind, KindBackup, KindRestore),
		"client and server may be of different versions")
}

// open opens a store; the returned function closes it.
func (o *Operator) open(ctx context.Context, url string) (backupstore.Store, func(), error) {
	store, err := o.o.OpenStore(ctx, url)
	if err != nil {
		return nil, nil, fmt.Errorf("open the store: %w", err)
	}
	return store, func() {
		if c, ok := store.(io.Closer); ok {
			if err := c.Close(); err != nil {
				o.o.Log.WarnContext(ctx, "closing the backup store failed", "err", err)
			}
		}
	}, nil
}

// env is what package backup does t with.
func (o *Operator) env(store backupstore.Store, t *ticket, l backup.Limits) backup.Env {
	l.Workers = cmp.Or(l.Workers, o.o.Workers)
	return backup.Env{Store: store, Clock: o.o.Clock, Log: t.log, Report: t.sink, Job: t.id, Rest: o.o.Rest, Limits: l}
}

// do has the work of a ticket done once there is a slot for it, and publishes
// its end.
func (o *Operator) do(ctx context.Context, t *ticket, work func() error) (err error) {
	defer func() { t.end(ctx, err) }()
	if err := o.take(ctx, t); err != nil {
		if log := t.log.With("table", t.last.Table); ctx.Err() != nil {
			backup.LogEnd(ctx, log, t.last.Kind, err)
		} else {
			log.WarnContext(ctx, "job not started", "err", err)
		}
		return err
	}
	defer func() { <-o.slots }()
	return t.safely(ctx, work)
}

// take takes a slot; it waits for one, in line.
func (o *Operator) take(ctx context.Context, t *ticket) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case o.slots <- struct{}{}:
		return nil
	default:
	}
	if !o.enqueue(1) {
		return failure(backup.Busy, fmt.Errorf("%d jobs are waiting already", maxQueue), "try again when some of them are done")
	}
	defer o.enqueue(-1)
	t.wait(fmt.Sprintf("a job slot (%d of %[1]d used)", o.o.MaxJobs))
	select {
	case o.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a job slot: %w", ctx.Err())
	}
}

func (o *Operator) enqueue(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queued+n > maxQueue {
		return false
	}
	o.queued += n
	return true
}

// safely makes a panic an error: the server and the other jobs live on.
func (t *ticket) safely(ctx context.Context, work func() error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			t.log.ErrorContext(ctx, "job panicked", "err", fmt.Sprintf("%v\n%s", x, debug.Stack()))
			err = failure(backup.Failed, fmt.Errorf("internal error: %v", x), "see the log for the place; please report it")
		}
	}()
	return work()
}

// ticket is one job as it is seen from outside.
type ticket struct {
	id    string
	clock clock.Clock
	log   *slog.Logger
	sinks [2]progress.Sink

	mu   sync.Mutex // orders events
	last progress.Event
}

func (o *Operator) ticket(kind progress.Kind, table string, report progress.Sink) *ticket {
	id := fmt.Sprintf("%s-%d", kind, o.ids.Add(1))
	return &ticket{id: id, clock: o.o.Clock, log: o.o.Log.With("job", id), sinks: [2]progress.Sink{o.o.Board.Publish, report}, last: progress.Event{
		Job: id, Kind: kind, State: progress.Waiting, Table: table, Started: o.o.Clock.Now(),
	}}
}

// sink takes the events of package backup. The job began with the ticket, and
// ends with it: a final event waits for what end knows.
func (t *ticket) sink(e progress.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.Started = t.last.Started
	if t.last = e; !e.State.Final() {
		t.publish(e)
	}
}

func (t *ticket) publish(e progress.Event) {
	t.last = e
	for _, s := range t.sinks {
		s(e)
	}
}

// wait tells what the job waits for.
func (t *ticket) wait(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.last
	e.State, e.WaitingFor, e.At = progress.Waiting, what, t.clock.Now()
	t.publish(e)
}

// end tells that the job is over.
func (t *ticket) end(ctx context.Context, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.last
	e.WaitingFor, e.At, e.Error = "", t.clock.Now(), ""
	if e.State, err = backup.Outcome(ctx, err); err != nil {
		e.Error = err.Error()
	}
	t.publish(e)
}

// patient waits for a snapshot while the engine holds as many as it may.
type patient struct {
	storage.Snapshotter
	t *ticket
}

// Snapshot implements storage.Snapshotter.
func (p *patient) Snapshot(ctx context.Context, account, table string) (storage.Snapshot, error) {
	snap, err := p.Snapshotter.Snapshot(ctx, account, table)
	if !errors.Is(err, storage.ErrTooManySnapshots) {
		return snap, err
	}
	p.t.wait("a table snapshot (all are in use)")
	late, stop := p.t.clock.After(snapshotWindow)
	defer stop()
	for {
		again, stop := p.t.clock.After(snapshotRetry)
		select {
		case <-again:
			snap, err = p.Snapshotter.Snapshot(ctx, account, table)
			if !errors.Is(err, storage.ErrTooManySnapshots) {
				return snap, err
			}
		case <-late:
			stop()
			return nil, fmt.Errorf("%w: backups or table snapshots hold all slots, for %v now", err, snapshotWindow)
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		}
	}
}
