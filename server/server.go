// SPDX-License-Identifier: Apache-2.0

// Package server assembles the database: the wire before the engine before a
// storage engine, and the job runner beside them.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/server/admin"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/engine"
	"github.com/extenddb/extenddb/server/jobs"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/wire"
)

// Options say what a server is made of.
type Options struct {
	Storage storage.Engine // the caller closes it when Serve has returned
	Clock   clock.Clock    // nil: the machine's
	// Instants is the clock of what is stored, where that is not Clock: the
	// database's, which several servers share.
	Instants clock.Clock
	Log      *slog.Logger
	Region   string        // of ARNs; default us-east-1
	Budget   int64         // bytes of bodies in flight; 0: 256 MiB
	Drain    time.Duration // what requests under way are given when the server stops; 0: 10 s

	// Admin is where other processes of this machine have backups and restores
	// done, Serve closes it; nil: nowhere.
	Admin     net.Listener
	OpenStore func(ctx context.Context, url string) (backupstore.Store, error)
	Restoring func() (done func()) // told when a restore begins to work, and when that is over; may be nil
	Backend   string               // kind of the engine, as manifests name it
	Version   string               // of this program
	MaxJobs   int                  // that are worked on at a time; 0: 2
}

const (
	defaultRegion = "us-east-1"
	defaultDrain  = 10 * time.Second

	// lastCalls is how long clients that send one request after another are
	// served when the server stops, so that they learn of it by an answer.
	lastCalls = 100 * time.Millisecond
)

// Server serves one storage engine.
type Server struct {
	o       Options
	handler *wire.Handler
	jobs    *jobs.Runner
	admin   *admin.Server
}

// keepJobs is how long a job that is over is still told of.
const keepJobs = time.Minute

// New assembles a server. Nothing runs before Serve.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Instants == nil {
		o.Instants = o.Clock
	}
	if o.Region == "" {
		o.Region = defaultRegion
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	runner := jobs.New(jobs.Options{Maintainer: o.Storage, Clock: o.Instants, Log: o.Log})
	e := engine.New(engine.Options{Storage: o.Storage, Clock: o.Instants, Log: o.Log, Region: o.Region, Wake: runner.Wake})
	handler := wire.New(e, wire.Options{Ready: o.Storage.Ping, Clock: o.Clock, Log: o.Log, Region: o.Region, Budget: o.Budget})
	o.Storage.OnWork(runner.Wake)
	board := progress.NewBoard(o.Instants, keepJobs)
	operator := jobs.NewOperator(jobs.OperatorOptions{
		Storage: o.Storage, OpenStore: o.OpenStore, Clock: o.Instants, Log: o.Log,
		Region: o.Region, Account: auth.DefaultAccount, Backend: o.Backend, Version: o.Version,
		MaxJobs: o.MaxJobs, Workers: jobWorkers(), Board: board, Worker: self(), Wake: runner.Wake,
		Restoring: o.Restoring, Rest: rest(handler.Begun),
	})
	adm := admin.New(admin.Options{Jobs: operator, Board: board, Clock: o.Clock, Log: o.Log, Version: o.Version, Stop: o.Drain})
	return &Server{o: o, handler: handler, jobs: runner, admin: adm}
}

// self names this process and its user.
func self() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("the server (process %d, user %s)", os.Getpid(), name)
}

// jobWorkers leaves a core to clients while a job is at work, where there is
// more than one.
func jobWorkers() int { return max(runtime.GOMAXPROCS(0)-1, 1) }

// restTime is as long as a backup rests after half a millisecond of work while
// clients are served: its core is theirs then, not only when the scheduler of
// the machine takes it away.
const restTime = 500 * time.Microsecond

// rest returns what lets a backup rest when requests have begun since it last
// did.
func rest(begun func() int64) func() {
	var seen atomic.Int64
	return func() {
		if n := begun(); seen.Swap(n) == n {
			runtime.Gosched()
			return
		}
		over, stop := clock.Real{}.After(restTime) // of the processor: no clock of a test has a say in it
		defer stop()
		<-over
	}
}

// Serve serves plain HTTP on l until ctx ends, then stops in order: /readyz
// fails and answers end their connections, for a moment; no connection is
// accepted, requests under way get the drain window,
// what is left of them is cut off; backups and restores are cancelled meanwhile
// and get the same window; background work is given up. It closes l. It returns
// nil when it was stopped, and why it could not serve otherwise. It must not be
// called twice.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// What runs must outlive ctx: its end only begins the stop.
	working := context.WithoutCancel(ctx)
	jobsCtx, stopJobs := context.WithCancel(working)
	jobsDone := make(chan struct{})
	go func() {
		defer close(jobsDone)
		s.jobs.Run(jobsCtx)
	}()
	defer func() {
		stopJobs()
		<-jobsDone
		s.o.Storage.OnWork(nil)
	}()
	// Stopped before the runner, which tidies up after a restore that is cut off.
	defer s.administer(ctx)()

	srv := s.handler.Server()
	requests, cutOff := context.WithCancel(working)
	defer cutOff()
	srv.BaseContext = func(net.Listener) context.Context { return requests }
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()

	select {
	case err := <-served:
		_ = srv.Close() // requests under way; the cause is what counts
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	s.o.Log.InfoContext(ctx, "stopping", "drain", s.o.Drain)
	s.handler.Drain()
	over, stop := clock.Real{}.After(lastCalls)
	defer stop()
	<-over
	err := s.drain(working, srv, cutOff)
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// administer takes jobs over the admin socket until ctx ends or it is stopped;
// then the jobs are cancelled, and stop returns when they are over.
func (s *Server) administer(ctx context.Context) (stop func()) {
	if s.o.Admin == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.admin.Serve(ctx, s.o.Admin); err != nil { // the database is served all the same
			s.o.Log.ErrorContext(ctx, "serving the admin socket failed", "err", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// drain lets requests under way finish, as long as the window is open.
func (s *Server) drain(ctx context.Context, srv *http.Server, cutOff func()) error {
	window, cancel := context.WithTimeout(ctx, s.o.Drain)
	defer cancel()
	err := srv.Shutdown(window)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	s.o.Log.WarnContext(ctx, "requests under way were cut off")
	err = srv.Close()
	cutOff() // operations, now that nobody gets their answers
	if err != nil {
		return fmt.Errorf("close connections: %w", err)
	}
	return nil
}
