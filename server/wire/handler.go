// SPDX-License-Identifier: Apache-2.0

// Package wire speaks DynamoDB's protocol: JSON 1.0 over HTTP/1.1, the target
// header that names the operation, request ids, checksums, compression and
// error bodies. It bounds what requests and responses in flight may hold.
package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/engine"
)

// Options say how a Handler behaves. Zero durations and sizes stand for the
// defaults.
type Options struct {
	Ready  func(context.Context) error // does storage answer? for /readyz
	Clock  clock.Clock
	Log    *slog.Logger
	Region string // shown to health checks

	Budget   int64         // bytes of bodies in flight; default 256 MiB, at least MinBudget
	Stall    time.Duration // a body or response that makes no progress for so long is given up; default 10 s
	Header   time.Duration // headers, and bodies that come with them, must be there by then; default 10 s
	Idle     time.Duration // a connection without a request is closed then; default 3 min
	Wait     time.Duration // for room in the budget; default 10 s
	Patience time.Duration // before the oldest unfinished body makes room for others; default 100 ms
}

const (
	defaultBudget   = 256 << 20
	defaultStall    = 10 * time.Second
	defaultIdle     = 3 * time.Minute
	defaultPatience = 100 * time.Millisecond
	// maxResponse bounds an operation and its answer together: nothing takes
	// that long, it only frees connections that are dead.
	maxResponse = 10 * time.Minute
	// maxHeader bounds headers; signed ones with session tokens have some 4 KiB.
	// They are not charged, and take four times as much while they are read.
	maxHeader = 16 << 10
	// readyLimit bounds the answer of storage to /readyz.
	readyLimit = 2 * time.Second
)

func (o *Options) fill() {
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	o.Budget = max(o.Budget, MinBudget)
	for _, d := range []struct {
		p *time.Duration
		d time.Duration
	}{
		{&o.Stall, defaultStall},
		{&o.Header, defaultStall},
		{&o.Idle, defaultIdle},
		{&o.Wait, defaultStall},
		{&o.Patience, defaultPatience},
	} {
		if *d.p == 0 {
			*d.p = d.d
		}
	}
}

// Handler answers HTTP requests. It is safe for concurrent use.
type Handler struct {
	o   Options
	ops map[string]operation // by X-Amz-Target

	// Three shares: operations wait for room in the others than the first only,
	// with their request complete. What is in the second is on its way out; who
	// has some of the third, for what he works with, waits for no other. So
	// nobody ever waits for somebody who waits.
	requests, responses, working *share

	calls    sync.Pool     // of *call
	vast     chan struct{} // holds the one request that is larger in memory than there is room
	zips     chan struct{}
	gzips    sync.Pool // of *gzip.Writer
	draining atomic.Bool
	warned   atomic.Int64 // when warnUnavailable did, in Unix nanoseconds
	begun    atomic.Int64 // calls of operations
}

// New returns a Handler that carries out requests with e.
func New(e *engine.Engine, o Options) *Handler { return newHandler(operations(e), o) }

func newHandler(ops map[string]operation, o Options) *Handler {
	o.fill()
	h := &Handler{
		o: o, ops: ops,
		requests:  newShare(o.Budget/2, o.Clock, o.Patience, o.Wait),
		responses: newShare(o.Budget*3/8, o.Clock, o.Patience, o.Wait),
		working:   newShare(o.Budget/8, o.Clock, o.Patience, o.Wait),
		vast:      make(chan struct{}, 1),
		zips:      make(chan struct{}, maxZips),
	}
	h.requests.spare = h.o.Budget / 16 // so that clients with small requests need not wait until large ones are done
	h.working.spare = h.o.Budget / 64
	h.calls.New = func() any { return newCall(h) }
	return h
}

// Server returns an http.Server with the handler and its time limits.
func (h *Handler) Server() *http.Server {
	return &http.Server{
		Handler:        h,
		ReadTimeout:    h.o.Header, // bodies that come later get more, see intake.go
		WriteTimeout:   maxResponse,
		IdleTimeout:    h.o.Idle,
		MaxHeaderBytes: maxHeader,

		DisableGeneralOptionsHandler: true,
		ConnContext:                  func(ctx context.Context, _ net.Conn) context.Context { return context.WithValue(ctx, serverKey{}, ctx) },

		ErrorLog: slog.NewLogLogger(h.o.Log.Handler(), slog.LevelDebug),
	}
}

// serverKey is the key of the context that a connection began with.
type serverKey struct{}

// serverContext is the context that operations run with. It ends with the
// server, not with the request: net/http takes a client that has sent its
// request and closed its half of the connection for one that went away, and
// cutting a write short would tell nobody whether it took place.
func serverContext(ctx context.Context) context.Context {
	if server, ok := ctx.Value(serverKey{}).(context.Context); ok {
		return server
	}
	return ctx
}

// Begun is how many calls of operations have begun.
func (h *Handler) Begun() int64 { return h.begun.Load() }

// Drain makes /readyz fail from now on, and answers ask clients to close their
// connections: one that is closed while a client sends its next request on it
// would lose that.
func (h *Handler) Drain() { h.draining.Store(true) }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := h.calls.Get().(*call)
	c.begin(w, r)
	defer c.release()
	if h.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.Method == http.MethodPost:
		h.begun.Add(1)
		h.post(c)
	case r.Method == http.MethodOptions && c.origin:
		c.preflight()
	case r.Method == http.MethodGet:
		h.get(c)
	default:
		c.unknownPage()
	}
}

// get answers the paths of health checks.
func (h *Handler) get(c *call) {
	switch c.r.URL.Path {
	case "/":
		c.text(http.StatusOK, "healthy: dynamodb."+h.o.Region+".amazonaws.com ")
	case "/healthz":
		c.text(http.StatusOK, "ok\n")
	case "/readyz":
		if err := h.ready(c.r.Context()); err != nil {
			if c.r.Context().Err() != nil { // who asked has left
				return
			}
			h.o.Log.WarnContext(c.r.Context(), "not ready", "err", err)
			c.text(http.StatusServiceUnavailable, "not ready\n")
			return
		}
		c.text(http.StatusOK, "ok\n")
	default:
		c.unknownPage()
	}
}

func (h *Handler) ready(ctx context.Context) error {
	if h.draining.Load() {
		return errors.New("server is stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	return h.o.Ready(ctx)
}

// post answers a call of an operation.
func (h *Handler) post(c *call) {
	if c.r.ContentLength != 0 && c.contentType == "" {
		c.discard()
		c.unknownPage()
		return
	}
	if err := c.readBody(); err != nil {
		c.fail(err)
		return
	}
	name := header(c.r, "X-Amz-Target")
	op, ok := h.ops[name]
	if !ok {
		c.fail(unknownOperation(c.body))
		return
	}
	if op.page {
		if err := c.reserve(); err != nil {
			c.fail(api.Unavailable())
			return
		}
	}
	err := h.run(c, op)
	c.parsed()
	if err != nil {
		fault := engine.Fault(err)
		switch { // not that the server is busy, which would fill the log
		case fault.Status == http.StatusInternalServerError:
			h.logFault(c, name, err, slog.LevelError)
		case fault.Status == http.StatusServiceUnavailable && fault.Cause != nil:
			h.logFault(c, name, err, h.unavailableLevel())
		}
		c.fail(fault)
		return
	}
	c.send(http.StatusOK, c.out.B)
}

// unknownOperation is the answer to a target that does not exist: what is no
// JSON is refused first.
func unknownOperation(body []byte) *api.Error {
	if len(body) > 0 {
		s := ddb.NewScanner(body)
		err := s.Skip()
		if err == nil {
			err = s.End()
		}
		if err != nil {
			return api.Serialization(err)
		}
	}
	return api.UnknownOperation()
}

// run carries out op; a panic in it is an error like any other.
func (h *Handler) run(c *call, op operation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return op.run(serverContext(c.r.Context()), auth.Anonymous(), c)
}

// unavailableLevel is the level to log at that storage could not do something:
// every request meets it, so one warning a second has to do.
func (h *Handler) unavailableLevel() slog.Level {
	now, last := h.o.Clock.Now().UnixNano(), h.warned.Load()
	if now-last < int64(time.Second) || !h.warned.CompareAndSwap(last, now) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (h *Handler) logFault(c *call, target string, err error, level slog.Level) {
	ctx := serverContext(c.r.Context())
	if ctx.Err() != nil { // cut off; nobody reads the answer
		level = slog.LevelDebug
	}
	cause := err
	var fault *api.Error
	if errors.As(err, &fault) && fault.Cause != nil {
		cause = fault.Cause
	}
	_, name, _ := strings.Cut(target, ".")
	h.o.Log.Log(ctx, level, "operation failed", "operation", name, "request_id", c.id(), "err", cause)
}

// header returns the first value of a header by its canonical name.
func header(r *http.Request, name string) string {
	if v := r.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
