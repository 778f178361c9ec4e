// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
)

// Jobs does jobs.
type Jobs interface {
	// Run does one job to its end, or until ctx ends: then it stops cleanly. An
	// error may come with a result: what was done in spite of it. Errors with
	// methods JobCode and JobHint travel with their class and hint.
	Run(ctx context.Context, kind string, params json.RawMessage, report progress.Sink) (any, error)
}

// Options say what a Server works with. Zeros stand for the defaults.
type Options struct {
	Jobs    Jobs
	Board   *progress.Board
	Clock   clock.Clock // of signs of life; nil: the machine's
	Log     *slog.Logger
	Version string
	Stop    time.Duration // what cancelled jobs are given when the server stops; default 10 s
}

const (
	defaultStop = 10 * time.Second
	heartbeat   = 15 * time.Second
	maxBody     = 1 << 20
	maxConns    = 256
	ioWindow    = 30 * time.Second       // for a request to arrive, and for a line to be taken
	lastWords   = 500 * time.Millisecond // for what was written to be taken when the server stops
)

// Why jobs are cancelled.
var (
	errStopping = errors.New("the server is stopping")
	errLeft     = errors.New("the command ended")
)

// Server answers on the admin socket.
type Server struct {
	o       Options
	h       http.Handler
	window  time.Duration // ioWindow
	running *tracker
}

// New returns a server.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Stop == 0 {
		o.Stop = defaultStop
	}
	s := &Server{o: o, window: ioWindow, running: newTracker()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+jobsPath, s.run)
	mux.HandleFunc("GET "+jobsPath, s.jobs)
	mux.HandleFunc("GET "+versionPath, s.version)
	mux.HandleFunc("/", unknown)
	s.h = mux
	return s
}

// Serve answers on l until ctx ends. Then it accepts nothing more, cancels the
// jobs under way, and returns when they have ended and their clients have got
// the last line, or when Options.Stop is over. It closes l. It returns nil when
// it was stopped in order, and what went wrong otherwise. It must not be called
// twice.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	working, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(errStopping)
	srv := &http.Server{
		Handler:           s.h,
		BaseContext:       func(net.Listener) context.Context { return working },
		ReadHeaderTimeout: ioWindow,
		IdleTimeout:       ioWindow,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
	l = limit(l, maxConns)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()

	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
		_ = l.Close() // its socket may be gone; that is no reason not to stop
		if e := <-served; !errors.Is(e, net.ErrClosed) {
			err = fmt.Errorf("serve on %s: %w", l.Addr(), e)
		}
	}
	cancel(errStopping)
	late, stop := clock.Real{}.After(s.o.Stop)
	defer stop()
	select {
	case <-s.running.stop():
	case <-late:
		err = errors.Join(err, fmt.Errorf("jobs did not stop within %v", s.o.Stop))
	}
	window, closeWindow := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer closeWindow()
	_ = srv.Shutdown(window) // what is left then is cut off
	_ = srv.Close()
	return err
}

func (s *Server) jobs(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Jobs []progress.Event `json:"jobs"`
	}{s.o.Board.Jobs()})
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Version string `json:"version"`
	}{s.o.Version})
}

func unknown(w http.ResponseWriter, r *http.Request) {
	refuse(w, http.StatusNotFound, &JobError{
		Code: codeNotFound, Message: fmt.Sprintf("this server has no %s %s", r.Method, r.URL.Path),
		Hint: "client and server may be of different versions",
	})
}

func refuse(w http.ResponseWriter, status int, e *JobError) { answer(w, status, line{Error: e}) }

func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // cannot be: they are our own types
		text, status = []byte("{}"), http.StatusInternalServerError
	}
	_ = http.NewResponseController(w).SetWriteDeadline(deadline(ioWindow)) // where there is none, none is needed
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may have gone
}

// deadline is an instant on the machine's clock, which is the one that sockets
// go by.
func deadline(d time.Duration) time.Time { return clock.Real{}.Now().Add(d) }
