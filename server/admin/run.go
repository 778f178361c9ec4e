// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/progress"
)

// run does one job for the client of the request, as long as it stays.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	req, status, bad := readRequest(w, r)
	if bad != nil {
		refuse(w, status, bad)
		return
	}
	if !s.running.enter() {
		refuse(w, http.StatusServiceUnavailable, &JobError{Code: codeInterrupted, Message: errStopping.Error()})
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	// That a request is over has no reason of its own, unless the server stops.
	defer context.AfterFunc(r.Context(), func() {
		if cause := context.Cause(r.Context()); errors.Is(cause, errStopping) {
			cancel(cause)
		} else {
			cancel(errLeft)
		}
	})()
	box := &outbox{ready: make(chan struct{}, 1)}
	ended := make(chan line, 1)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := &stream{w: w, rc: http.NewResponseController(w), window: s.window, gone: func() { cancel(errLeft) }}
	out.flush() // before the job begins: who got nothing knows that nothing was done
	go func() {
		defer s.running.leave() // before the last line is written: a slow client holds up no stop
		ended <- s.do(ctx, req, box.put)
	}()

	for {
		beat, stop := s.o.Clock.After(heartbeat)
		select {
		case <-box.ready:
			out.events(box.take())
		case <-beat:
			out.write(line{})
			out.flush()
		case last := <-ended:
			stop()
			out.events(box.take())
			out.write(last)
			out.flush()
			return
		}
		stop()
	}
}

// readRequest returns the request or the refusal of it, with its status.
func readRequest(w http.ResponseWriter, r *http.Request) (req request, status int, bad *JobError) {
	// A connection without deadlines (in tests) needs none.
	_ = http.NewResponseController(w).SetReadDeadline(deadline(ioWindow))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return req, http.StatusRequestEntityTooLarge, &JobError{Code: codeInvalid, Message: fmt.Sprintf("request body exceeds %d bytes", tooBig.Limit)}
	case err != nil:
		return req, http.StatusBadRequest, &JobError{Code: codeInvalid, Message: "cannot read the request: " + err.Error()}
	}
	// From here on reading only tells whether the client is there.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err := decodeStrict(body, &req); err != nil {
		return req, http.StatusBadRequest, &JobError{Code: codeInvalid, Message: "invalid request: " + err.Error()}
	}
	if req.Kind == "" {
		return req, http.StatusBadRequest, &JobError{Code: codeInvalid, Message: `invalid request: member "kind" is missing`}
	}
	return req, 0, nil
}

// decodeStrict reads one JSON value, and refuses members that are not known and
// whatever follows.
func decodeStrict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	} else if err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// do runs the job and returns the last line. A panic is the end of the job, not
// of the server.
func (s *Server) do(ctx context.Context, req request, report progress.Sink) (last line) {
	defer func() {
		if x := recover(); x != nil {
			s.o.Log.ErrorContext(ctx, "job panicked", "kind", req.Kind, "err", fmt.Sprintf("%v\n%s", x, debug.Stack()))
			last = line{Error: &JobError{Code: codeFailed, Message: "internal error, see the server's log"}}
		}
	}()
	result, err := s.o.Jobs.Run(ctx, req.Kind, req.Params, report)
	if err != nil {
		last.Error = jobError(err)
		interrupted(ctx, err, last.Error)
		if result == nil {
			return last
		}
	}
	if last.Result, err = json.Marshal(result); err != nil {
		return line{Error: &JobError{Code: codeFailed, Message: "encode the result: " + err.Error()}}
	}
	return last
}

// interrupted makes the error of a job that was cancelled say so, and why.
func interrupted(ctx context.Context, err error, e *JobError) {
	if ctx.Err() == nil || e.Code != codeInterrupted && !errors.Is(err, ctx.Err()) {
		return
	}
	e.Code = codeInterrupted
	if errors.Is(context.Cause(ctx), errStopping) {
		e.Message = "interrupted: " + errStopping.Error()
		e.Hint = "run the command again when the server is back"
	}
}

// outbox holds what a client has still to get: the latest event of each job in
// the order in which the jobs appeared. So neither a slow client nor many
// events make the job wait or the queue grow.
type outbox struct {
	ready chan struct{} // has an element when there is something to take

	mu     sync.Mutex
	events []progress.Event
}

// put is a progress.Sink.
func (b *outbox) put(e progress.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range slices.Backward(b.events) { // it is most often the last one
		if b.events[i].Job == e.Job {
			b.events[i] = e
			return
		}
	}
	b.events = append(b.events, e)
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *outbox) take() []progress.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}

// stream writes lines until the client is gone; then it says so and writes no
// more.
type stream struct {
	w      io.Writer
	rc     *http.ResponseController
	window time.Duration // a line must be taken within
	gone   func()
	dead   bool
}

func (s *stream) events(events []progress.Event) {
	for i := range events {
		s.write(line{Event: &events[i]})
	}
	if len(events) > 0 {
		s.flush()
	}
}

func (s *stream) write(l line) {
	text, err := json.Marshal(l)
	if err != nil { // only an instant beyond the year 9999
		return
	}
	_ = s.rc.SetWriteDeadline(deadline(s.window))
	_, err = s.w.Write(append(text, '\n'))
	s.fail(err)
}

func (s *stream) flush() { s.fail(s.rc.Flush()) }

func (s *stream) fail(err error) {
	if err != nil && !s.dead {
		s.dead = true
		s.gone()
	}
}
