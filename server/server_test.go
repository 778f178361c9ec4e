// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// watched is a storage engine that tests hold up and watch.
type watched struct {
	storage.Engine
	entered  chan struct{} // Get has begun
	leave    chan struct{} // and may end
	released chan struct{} // a lease was
	ping     error
	snapshot func(ctx context.Context) error // runs before one is opened; nil: nothing
}

func newWatched() *watched {
	return &watched{
		Engine: storagetest.NewMemory(100), entered: make(chan struct{}, 10), leave: make(chan struct{}), released: make(chan struct{}, 10),
	}
}

func (w *watched) Get(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
	w.entered <- struct{}{}
	select {
	case <-w.leave:
		return w.Engine.Get(ctx, t, k)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *watched) Ping(ctx context.Context) error { return errors.Join(w.ping, w.Engine.Ping(ctx)) }

func (w *watched) Claim(ctx context.Context, work storage.Work) (storage.Lease, error) {
	l, err := w.Engine.Claim(ctx, work)
	if err != nil {
		return nil, err
	}
	return &watchedLease{Lease: l, released: w.released}, nil
}

type watchedLease struct {
	storage.Lease
	once     sync.Once
	released chan struct{}
}

func (l *watchedLease) Release() error {
	err := l.Lease.Release()
	l.once.Do(func() { l.released <- struct{}{} })
	return err
}

// watchedListener tells when it is closed.
type watchedListener struct {
	net.Listener
	once   sync.Once
	closed chan struct{}
}

func (l *watchedListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() { close(l.closed) })
	return err
}

// running is a server under test.
type running struct {
	t      *testing.T
	url    string
	closed chan struct{} // the listener was
	stop   func()
	result chan error // of Serve
	log    *bytes.Buffer
}

func start(t *testing.T, o Options) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wl := &watchedListener{Listener: l, closed: make(chan struct{})}
	r := &running{t: t, url: "http://" + l.Addr().String(), closed: wl.closed, result: make(chan error, 1), log: &bytes.Buffer{}}
	o.Log = slog.New(slog.NewTextHandler(r.log, nil))
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	s := New(o)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.result <- s.Serve(ctx, wl)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := o.Storage.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *running) call(name, body string) (int, string, error) {
	req, err := http.NewRequest(http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+name)
	return read(http.DefaultClient.Do(req))
}

func read(res *http.Response, err error) (int, string, error) {
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

func (r *running) want(status int, part, name, body string) {
	r.t.Helper()
	got, text, err := r.call(name, body)
	if err != nil || got != status || !strings.Contains(text, part) {
		r.t.Fatalf("%s: %d %s %v, want %d and %q", name, got, text, err, status, part)
	}
}

const (
	create = `{"TableName":"films","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],` +
		`"AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}]}`
	named = `{"TableName":"films"}`
	put   = `{"TableName":"films","Item":{"id":{"S":"a"},"n":{"N":"1.50"}}}`
	get   = `{"TableName":"films","Key":{"id":{"S":"a"}}}`
)

func TestServe(t *testing.T) {
	t.Parallel()
	w := newWatched()
	close(w.leave)
	r := start(t, Options{Storage: w})
	r.want(200, "arn:aws:dynamodb:us-east-1:"+auth.DefaultAccount+":table/films", "CreateTable", create)
	r.want(200, "{}", "PutItem", put)
	r.want(200, `{"Item":{"id":{"S":"a"},"n":{"N":"1.5"}}}`, "GetItem", get)
	r.want(200, "DELETING", "DeleteTable", named)
	<-w.released // without waiting for a poll
	r.want(400, "ResourceNotFoundException", "DescribeTable", named)
	r.stop()
	if err := <-r.result; err != nil {
		t.Error(err)
	}
}

// TestInstants: what is stored has the instants of the database's clock, not of
// this machine's.
func TestInstants(t *testing.T) {
	t.Parallel()
	w := newWatched()
	r := start(t, Options{Storage: w, Clock: clock.NewFake(time.Unix(9e8, 0)), Instants: clock.NewFake(time.Unix(1e9, 0))})
	r.want(200, `"CreationDateTime":1000000000`, "CreateTable", create)
	r.want(200, `"CreationDateTime":1000000000`, "DescribeTable", named)
}

func TestFinishesDropsOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	w := newWatched()
	first := start(t, Options{Storage: w})
	first.want(200, "films", "CreateTable", create)
	first.stop()
	if err := <-first.result; err != nil {
		t.Fatal(err)
	}
	if _, err := w.DropTable(t.Context(), auth.DefaultAccount, "films", func(*storage.Table) error { return nil }); err != nil {
		t.Fatal(err)
	}
	second := start(t, Options{Storage: w})
	<-w.released
	second.want(400, "ResourceNotFoundException", "DescribeTable", named)
}

// TestHearsOfWork: what becomes due without a request of this server is done
// when storage says so, and storage says nothing to a server that has ended.
func TestHearsOfWork(t *testing.T) {
	t.Parallel()
	w := newWatched()
	registered := make(chan func(), 2)
	r := start(t, Options{Clock: clock.NewFake(time.Unix(0, 0)), // no poll is ever due
		Storage: &storagetest.Stub{Engine: w, OnOnWork: func(wake func()) { registered <- wake }}})
	r.want(200, "films", "CreateTable", create)
	wake := <-registered
	if _, err := w.DropTable(t.Context(), auth.DefaultAccount, "films", func(*storage.Table) error { return nil }); err != nil {
		t.Fatal(err)
	}
	wake()
	for { // the table may have been counted before
		<-w.released
		if _, err := w.Table(t.Context(), auth.DefaultAccount, "films"); errors.Is(err, storage.ErrTableNotFound) {
			break
		}
	}
	r.stop()
	if err := <-r.result; err != nil {
		t.Error(err)
	}
	if wake := <-registered; wake != nil {
		t.Error("a server that has ended is still told of work")
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ping   error
		status int
	}{{nil, 200}, {storage.ErrUnavailable, 503}} {
		w := newWatched()
		w.ping = c.ping
		r := start(t, Options{Storage: w, Region: "eu-west-2"})
		if status, _, err := read(http.Get(r.url + "/readyz")); err != nil || status != c.status {
			t.Errorf("ping %v: /readyz is %d, %v", c.ping, status, err)
		}
		if status, _, err := read(http.Get(r.url + "/healthz")); err != nil || status != 200 {
			t.Errorf("ping %v: /healthz is %d, %v", c.ping, status, err)
		}
		if _, text, err := read(http.Get(r.url)); err != nil || text != "healthy: dynamodb.eu-west-2.amazonaws.com " {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// under starts a request that storage holds up.
func (r *running) under(w *watched) <-chan string {
	r.want(200, "films", "CreateTable", create)
	answer := make(chan string, 1)
	go func() {
		_, text, err := r.call("GetItem", get)
		if err != nil {
			text = "cut off"
		}
		answer <- text
	}()
	<-w.entered
	return answer
}

func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWatched()
	r := start(t, Options{Storage: w, Drain: time.Minute})
	answer := r.under(w)
	r.stop()
	<-r.closed
	if _, _, err := r.call("ListTables", "{}"); err == nil {
		t.Error("a new request was answered")
	}
	select {
	case err := <-r.result:
		t.Fatalf("did not wait for the request under way: %v", err)
	case text := <-answer:
		t.Fatalf("the request under way was answered %s", text)
	default:
	}
	close(w.leave)
	if text := <-answer; text != "{}" {
		t.Errorf("the request under way was answered %s", text)
	}
	if err := <-r.result; err != nil {
		t.Error(err)
	}
}

func TestDrainWindowEnds(t *testing.T) {
	t.Parallel()
	w := newWatched()
	r := start(t, Options{Storage: w, Drain: time.Millisecond})
	answer := r.under(w)
	r.stop()
	if err := <-r.result; err != nil {
		t.Error(err)
	}
	if text := <-answer; text != "cut off" {
		t.Errorf("the request under way was answered %s", text)
	}
	if !strings.Contains(r.log.String(), "requests under way were cut off") {
		t.Errorf("log: %s", r.log)
	}
}

func TestCannotServe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Storage: storagetest.NewMemory(1), Log: slog.New(slog.DiscardHandler)})
	if err := s.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
