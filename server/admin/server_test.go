// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
)

// jobFunc is a Jobs of one function.
type jobFunc func(ctx context.Context, kind string, params json.RawMessage, report progress.Sink) (any, error)

func (f jobFunc) Run(ctx context.Context, kind string, params json.RawMessage, report progress.Sink) (any, error) {
	return f(ctx, kind, params, report)
}

// logBuffer may be written and read at any time.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a server under test.
type rig struct {
	t      *testing.T
	socket string
	client *Client
	stop   func()
	result chan error // of Serve
	log    *logBuffer
	board  *progress.Board
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func start(t *testing.T, jobs jobFunc, o Options) *rig {
	t.Helper()
	return startWindow(t, jobs, o, ioWindow)
}

// startWindow is start with another patience.
func startWindow(t *testing.T, jobs jobFunc, o Options, window time.Duration) *rig {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "a.sock")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, socket: socket, client: NewClient(socket), result: make(chan error, 1), log: &logBuffer{}}
	if o.Clock == nil {
		o.Clock = clock.NewFake(epoch)
	}
	r.board = progress.NewBoard(o.Clock, time.Minute)
	o.Jobs, o.Board, o.Version, o.Log = jobs, r.board, "1.2.3", slog.New(slog.NewTextHandler(r.log, nil))
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	s := New(o)
	s.window = window
	go func() { r.result <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		r.client.Close()
		r.result <- <-r.result
	})
	return r
}

func (r *rig) ended() error {
	err := <-r.result
	r.result <- err
	return err
}

// fault is a coded error.
type fault struct{ code, hint string }

func (f *fault) Error() string   { return "because of " + f.code }
func (f *fault) JobCode() string { return f.code }
func (f *fault) JobHint() string { return f.hint }

func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		result any
		err    error
		text   string
		want   string // of the error
	}{
		{name: "result", result: map[string]int{"n": 1}, text: `{"n":1}`},
		{name: "no result", text: `null`},
		{name: "coded", err: fmt.Errorf("job: %w", &fault{"refused", "another name"}), want: "refused|job: because of refused|another name"},
		{name: "plain", err: errors.New("disk full"), want: "failed|disk full|"},
		{name: "both", result: []int{1}, err: &fault{"incomplete", ""}, text: `[1]`, want: "incomplete|because of incomplete|"},
		{name: "cancelled by itself", err: context.Canceled, want: "failed|context canceled|"},
		{name: "unspeakable", result: math.Inf(1), want: "failed|encode the result: json: unsupported value: +Inf|"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, func(_ context.Context, kind string, params json.RawMessage, report progress.Sink) (any, error) {
				if kind != "k" || string(params) != `{"a":"ü"}` {
					t.Errorf("the job is %s %s", kind, params)
				}
				report(progress.Event{Job: "one", State: progress.Done, Total: new(int64(7)), Started: epoch, At: epoch})
				report(progress.Event{Job: "two", State: progress.Running, Done: 1})
				return c.result, c.err
			}, Options{})
			var seen []progress.Event
			got, err := r.client.Run(t.Context(), "k", map[string]string{"a": "ü"}, func(e progress.Event) { seen = append(seen, e) })
			if string(got) != c.text || errorText(err) != c.want {
				t.Errorf("got %s, %s, want %s, %s", got, errorText(err), c.text, c.want)
			}
			if len(seen) != 2 || seen[0].Job != "one" || *seen[0].Total != 7 || !seen[0].Started.Equal(epoch) || seen[1].Job != "two" {
				t.Errorf("saw %+v", seen)
			}
		})
	}
}

func errorText(err error) string {
	var je *JobError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &je):
		return je.JobCode() + "|" + err.Error() + "|" + je.JobHint()
	}
	return err.Error()
}

func TestPanicEndsTheJobOnly(t *testing.T) {
	t.Parallel()
	r := start(t, func(_ context.Context, kind string, _ json.RawMessage, _ progress.Sink) (any, error) {
		if kind == "bad" {
			panic("oh no")
		}
		return "fine", nil
	}, Options{})
	if _, err := r.client.Run(t.Context(), "bad", nil, nil); errorText(err) != "failed|internal error, see the server's log|" {
		t.Errorf("got %v", err)
	}
	if log := r.log.String(); !strings.Contains(log, "job panicked") || !strings.Contains(log, "oh no") {
		t.Errorf("log: %s", log)
	}
	if got, err := r.client.Run(t.Context(), "good", nil, nil); string(got) != `"fine"` || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

// waiting is a job that runs until it is cancelled, and then cleans up.
type waiting struct {
	begun, cancelled, clean chan struct{}
}

func newWaiting() *waiting {
	return &waiting{make(chan struct{}, 10), make(chan struct{}, 10), make(chan struct{})}
}

func (w *waiting) run(ctx context.Context, _ string, _ json.RawMessage, report progress.Sink) (any, error) {
	report(progress.Event{Job: "w", State: progress.Running})
	w.begun <- struct{}{}
	<-ctx.Done()
	w.cancelled <- struct{}{}
	<-w.clean
	report(progress.Event{Job: "w", State: progress.Cancelled})
	return nil, fmt.Errorf("backup: %w: %w", ctx.Err(), context.Cause(ctx))
}

// under starts a job that is under way when it returns.
func (r *rig) under(ctx context.Context, w *waiting) <-chan string {
	answer := make(chan string, 1)
	go func() {
		var last progress.State
		_, err := r.client.Run(ctx, "k", nil, func(e progress.Event) { last = e.State })
		answer <- string(last) + ": " + errorText(err)
	}()
	<-w.begun
	return answer
}

func TestClientCancels(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	r := start(t, w.run, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	answer := r.under(ctx, w)
	cancel()
	<-w.cancelled
	select {
	case text := <-answer:
		t.Fatalf("the client did not wait for the job's end: %s", text)
	default:
	}
	close(w.clean)
	if text := <-answer; text != "cancelled: interrupted|backup: context canceled: the command ended|" {
		t.Errorf("got %s", text)
	}
}

func TestClientVanishes(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	r := start(t, w.run, Options{})
	answer := r.under(t.Context(), w)
	r.client.Close()
	<-w.cancelled
	close(w.clean)
	if text := <-answer; !strings.HasSuffix(text, ": the client was closed: "+net.ErrClosed.Error()) {
		t.Errorf("got %s", text)
	}
	if _, err := r.client.Run(t.Context(), "k", nil, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed client says %v", err)
	}
	r.stop()
	if err := r.ended(); err != nil {
		t.Error(err)
	}
}

func TestStopWithJobsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	r := start(t, w.run, Options{})
	answers := []<-chan string{r.under(t.Context(), w), r.under(t.Context(), w)}
	r.stop()
	<-w.cancelled
	<-w.cancelled
	select {
	case err := <-r.result:
		t.Fatalf("stopped before the jobs did: %v", err)
	default:
	}
	close(w.clean)
	for _, answer := range answers {
		if text := <-answer; text != "cancelled: interrupted|interrupted: the server is stopping|run the command again when the server is back" {
			t.Errorf("got %s", text)
		}
	}
	if err := r.ended(); err != nil {
		t.Error(err)
	}
	if _, err := NewClient(r.socket).Version(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("after the end: %v", err)
	}
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	r := start(t, w.run, Options{Stop: time.Millisecond})
	answer := r.under(t.Context(), w)
	r.stop()
	if err := r.ended(); err == nil || err.Error() != "jobs did not stop within 1ms" {
		t.Errorf("got %v", err)
	}
	if text := <-answer; !strings.HasSuffix(text, ": "+ErrGone.Error()) {
		t.Errorf("got %s", text)
	}
	close(w.clean)
}

func TestNoJobBeginsWhileStopping(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	if first, second := tr.enter(), tr.enter(); !first || !second {
		t.Fatal("no job may begin")
	}
	tr.leave()
	idle := tr.stop()
	if tr.enter() {
		t.Error("a job began after the stop")
	}
	select {
	case <-idle:
		t.Error("idle while a job runs")
	default:
	}
	tr.leave()
	<-idle
}

func TestCannotServe(t *testing.T) {
	t.Parallel()
	l, err := Listen(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := New(Options{Log: slog.New(slog.DiscardHandler)}).Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// raw sends bytes and returns the connection, to read the answer from.
func (r *rig) raw(text string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func post(body string) string {
	return fmt.Sprintf("POST /admin/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r := start(t, func(context.Context, string, json.RawMessage, progress.Sink) (any, error) {
		t.Error("a job was begun")
		return nil, nil
	}, Options{})
	for _, c := range []struct{ name, text, want string }{
		{"empty", post(""), "400 invalid|invalid request: it is empty|"},
		{"no JSON", post("hello"), "400 invalid|invalid request: invalid character 'h' looking for beginning of value|"},
		{"cut off", post(`{"kind":"k"`), "400 invalid|invalid request: unexpected EOF|"},
		{"unknown member", post(`{"kind":"k","parms":{}}`), `400 invalid|invalid request: json: unknown field "parms"|`},
		{"wrong type", post(`{"kind":7}`), "400 invalid|invalid request: json: cannot unmarshal number into Go struct field request.kind of type string|"},
		{"no object", post(`[]`), "400 invalid|invalid request: json: cannot unmarshal array into Go value of type admin.request|"},
		{"two", post(`{"kind":"k"}{"kind":"k"}`), "400 invalid|invalid request: something follows the JSON object|"},
		{"no kind", post(`{}`), `400 invalid|invalid request: member "kind" is missing|`},
		{"too big", post(strings.Repeat(" ", maxBody+1)), "413 invalid|request body exceeds 1048576 bytes|"},
		{"far too big", "POST /admin/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" + strings.Repeat(" ", maxBody+1),
			"413 invalid|request body exceeds 1048576 bytes|"},
		{"no such path", "GET /admin/v1/nope HTTP/1.1\r\nHost: x\r\n\r\n",
			"404 not_found|this server has no GET /admin/v1/nope|client and server may be of different versions"},
		{"no such method", "DELETE /admin/v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n",
			"404 not_found|this server has no DELETE /admin/v1/jobs|client and server may be of different versions"},
	} {
		_, in := r.raw(c.text)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var l line
		err = json.NewDecoder(res.Body).Decode(&l)
		if got := fmt.Sprintf("%d %s", res.StatusCode, errorText(l.Error)); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	for name, text := range map[string]string{"no HTTP": "hello\r\n\r\n", "huge head": "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 32<<10)} {
		_, in := r.raw(text)
		if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode < 400 {
			t.Errorf("%s: got %v, %v", name, res, err)
		}
	}
	c, in := r.raw("POST /admin/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	if err := c.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if res, err := http.ReadResponse(in, nil); err == nil && res.StatusCode != http.StatusBadRequest {
		t.Errorf("a body that ends early: %v", res.Status)
	}
}

func TestSlowClientHoldsUpNoJob(t *testing.T) {
	t.Parallel()
	const events = 200_000 // far more than a socket's buffer takes
	published := make(chan struct{})
	r := start(t, func(_ context.Context, _ string, _ json.RawMessage, report progress.Sink) (any, error) {
		defer close(published)
		for i := range events {
			report(progress.Event{Job: fmt.Sprint(i % 3), Done: int64(i)})
		}
		return "done", nil
	}, Options{})
	_, in := r.raw(post(`{"kind":"k"}`))
	<-published // although nobody has read anything
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	for dec := json.NewDecoder(res.Body); ; {
		var l line
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if l.last() {
			break
		}
		if l.Event.Done < last[l.Event.Job] {
			t.Fatalf("%d came after %d", l.Event.Done, last[l.Event.Job])
		}
		last[l.Event.Job] = l.Event.Done
	}
	for job, done := range last {
		if done < events-3 {
			t.Errorf("the last event of %s is %d", job, done)
		}
	}
}

func TestClientThatTakesNothing(t *testing.T) {
	t.Parallel()
	cancelled := make(chan struct{})
	r := startWindow(t, func(ctx context.Context, _ string, _ json.RawMessage, report progress.Sink) (any, error) {
		defer close(cancelled)
		for i := 0; ctx.Err() == nil && i < 1000; i++ { // far more than a socket's buffer takes
			report(progress.Event{Job: fmt.Sprint(i), Error: strings.Repeat("e", 10_000)})
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}, Options{}, 10*time.Millisecond)
	r.raw(post(`{"kind":"k"}`))
	<-cancelled
}

func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	c := clock.NewFake(epoch)
	r := start(t, w.run, Options{Clock: c})
	_, in := r.raw(post(`{"kind":"k"}`))
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"event":`) {
		t.Fatalf("got %q", lines.Text())
	}
	for range 3 {
		c.WaitTimers(1)
		c.Advance(heartbeat)
		if !lines.Scan() || lines.Text() != "{}" {
			t.Errorf("got %q", lines.Text())
		}
	}
	close(w.clean)
}

func TestBoardAndVersion(t *testing.T) {
	t.Parallel()
	r := start(t, nil, Options{})
	if jobs, err := r.client.Jobs(t.Context()); err != nil || jobs == nil || len(jobs) != 0 {
		t.Errorf("got %v, %v", jobs, err)
	}
	r.board.Publish(progress.Event{Job: "a", State: progress.Running, Table: "films"})
	jobs, err := r.client.Jobs(t.Context())
	if err != nil || !slices.EqualFunc(jobs, r.board.Jobs(), func(a, b progress.Event) bool { return a.Table == b.Table }) {
		t.Errorf("got %v, %v", jobs, err)
	}
	if v, err := r.client.Version(t.Context()); v != "1.2.3" || err != nil {
		t.Errorf("got %s, %v", v, err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	inner, err := Listen(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	l := limit(inner, 2)
	accepted := make(chan net.Conn, 10)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("unix", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	second := <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	default:
	}
	for range 2 { // the second time changes nothing
		first.Close()
	}
	third := <-accepted
	second.Close()
	third.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, more := <-accepted; more {
		t.Error("accepted after the end")
	}
}

func TestManyClients(t *testing.T) {
	t.Parallel()
	r := start(t, func(_ context.Context, kind string, _ json.RawMessage, report progress.Sink) (any, error) {
		report(progress.Event{Job: kind})
		return kind, nil
	}, Options{})
	var wg sync.WaitGroup
	for i := range 2 * maxConns {
		wg.Go(func() {
			kind := fmt.Sprint("k", i)
			got, err := r.client.Run(t.Context(), kind, nil, nil)
			if string(got) != `"`+kind+`"` || err != nil {
				t.Errorf("%s: got %s, %v", kind, got, err)
			}
		})
	}
	wg.Wait()
}
