// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
)

// probeInput is the request of the operations that tests call.
type probeInput struct {
	Text *string // answered
	Size *int32  // so many times, "x" when there is no Text
	Fail *string // answered with this failure instead
}

// probe is an operation that does as it is told.
func probe(_ context.Context, _ auth.Identity, in *probeInput, out *api.Body) error {
	text := "x"
	if in.Text != nil {
		text = *in.Text
	}
	n := 1
	if in.Size != nil {
		n = int(*in.Size)
	}
	out.Raw(`{"Text":"` + strings.Repeat(text, n) + `"}`)
	if in.Fail == nil {
		return nil
	}
	switch *in.Fail {
	case "validation":
		return api.Validation("no good")
	case "unavailable":
		return api.StorageUnavailable(errors.New("disk is full"))
	case "panic":
		panic("boom")
	}
	return errors.New(*in.Fail)
}

func probes() map[string]operation {
	return map[string]operation{
		target + "Probe": op(probe),
		target + "Page":  paged(op(probe)),
	}
}

// leaving is an operation that waits until its client is done sending.
func leaving() map[string]operation {
	return map[string]operation{target + "Probe": opWith(func(ctx context.Context, _ auth.Identity, _ *probeInput, out *api.Body) error {
		out.Raw("{}")
		return ctx.Err()
	}, func(_ *probeInput, c *call) { <-c.r.Context().Done() })}
}

// logBuffer is a log that tests read.
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

// env is a server under test.
type env struct {
	*Handler
	t      *testing.T
	addr   string
	client *http.Client
	log    *logBuffer
	done   chan struct{} // one element for every finished request
}

func start(t *testing.T, ops map[string]operation, o Options) *env {
	t.Helper()
	log := &logBuffer{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	o.Region = "eu-west-2"
	e := &env{Handler: newHandler(ops, o), t: t, log: log, client: &http.Client{Transport: &http.Transport{}}, done: make(chan struct{}, 10_000)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.addr = l.Addr().String()
	srv := e.Server()
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.ServeHTTP(w, r)
		e.done <- struct{}{}
	})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		e.client.CloseIdleConnections()
		_ = srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return e
}

// answer is a response, read whole.
type answer struct {
	status int
	header http.Header
	body   string
	closes bool // the connection
}

// request sends a request; header is pairs of names and values.
func (e *env) request(method, path string, body io.Reader, header ...string) answer {
	e.t.Helper()
	req, err := http.NewRequest(method, "http://"+e.addr+path, body)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := e.client.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(b), res.Close}
}

// call calls an operation.
func (e *env) call(name, body string, header ...string) answer {
	e.t.Helper()
	header = append([]string{"Content-Type", "application/x-amz-json-1.0", "X-Amz-Target", target + name}, header...)
	return e.request(http.MethodPost, "/", strings.NewReader(body), header...)
}

// settled waits for n requests to end and checks that the budget is whole.
func (e *env) settled(n int) {
	e.t.Helper()
	for range n {
		<-e.done
	}
	if in, out := e.requests.used(), e.responses.used(); in != 0 || out != 0 {
		e.t.Errorf("%d bytes of requests and %d of responses are still charged", in, out)
	}
}

var requestID = regexp.MustCompile(`^[0-9A-Z]{52}$`)

func (a answer) check(t *testing.T, status int, body string) {
	t.Helper()
	if a.status != status || a.body != body {
		t.Errorf("got %d %q, want %d %q", a.status, a.body, status, body)
	}
	if id := a.header.Get("X-Amzn-Requestid"); !requestID.MatchString(id) {
		t.Errorf("request id %q", id)
	}
	if sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(a.body))), 10); a.header.Get("X-Amz-Crc32") != sum {
		t.Errorf("checksum %s, want %s", a.header.Get("X-Amz-Crc32"), sum)
	}
	if n := strconv.Itoa(len(a.body)); a.header.Get("Content-Length") != n {
		t.Errorf("content-length %s, want %s", a.header.Get("Content-Length"), n)
	}
}

const (
	notFoundPage = "<UnknownOperationException/>\n"
	unknownJSON  = `{"__type":"com.amazon.coral.service#UnknownOperationException"}`
	notJSON      = `{"__type":"com.amazon.coral.service#SerializationException"}`
)

func TestEnvelope(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	const amz, plain = "application/x-amz-json-1.0", "application/json"
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want, contentType        string
	}{
		{"health", "GET", "/", "", nil, 200, "healthy: dynamodb.eu-west-2.amazonaws.com ", "text/plain; charset=utf-8"},
		{"GET elsewhere", "GET", "/favicon.ico", "", nil, 404, notFoundPage, ""},
		{"alive", "GET", "/healthz", "", nil, 200, "ok\n", "text/plain; charset=utf-8"},
		{"ready", "GET", "/readyz", "", nil, 200, "ok\n", "text/plain; charset=utf-8"},
		{"PUT", "PUT", "/", "", nil, 404, notFoundPage, ""},
		{"DELETE", "DELETE", "/", "", nil, 404, notFoundPage, ""},
		{"OPTIONS without origin", "OPTIONS", "/", "", nil, 404, notFoundPage, ""},
		{"no content type", "POST", "/", "hi", nil, 404, notFoundPage, ""},
		{"another content type", "POST", "/", "{}", []string{"Content-Type", "application/x-amz-json-1.1"}, 404, notFoundPage, ""},
		{"a longer content type", "POST", "/", "{}", []string{"Content-Type", "application/jsonasdf"}, 404, notFoundPage, ""},
		{"nothing at all", "POST", "/", "", nil, 400, unknownJSON, plain},
		{"no target", "POST", "/", "{}", []string{"Content-Type", amz}, 400, unknownJSON, amz},
		{"strange target", "POST", "/", "{}", []string{"Content-Type", amz, "X-Amz-Target", "whatever"}, 400, unknownJSON, amz},
		{"unknown operation", "POST", "/", "{}", []string{"Content-Type", plain, "X-Amz-Target", "DynamoDB_20120810.ListTable"}, 400, unknownJSON, plain},
		{"other version", "POST", "/", "{}", []string{"Content-Type", plain, "X-Amz-Target", "DynamoDB_20111205.Probe"}, 400, unknownJSON, plain},
		{"unknown operation, no JSON", "POST", "/", "hi", []string{"Content-Type", amz}, 400, notJSON, amz},
		{"unknown operation, two values", "POST", "/", "{} 1", []string{"Content-Type", amz}, 400, notJSON, amz},
		{"no JSON", "POST", "/", "hi", []string{"Content-Type", amz, "X-Amz-Target", target + "Probe"}, 400, notJSON, amz},
		{"no body", "POST", "/", "", []string{"Content-Type", amz, "X-Amz-Target", target + "Probe"}, 400, notJSON, amz},
		{"parameters are ignored", "POST", "/", "hi", []string{"Content-Type", "  application/json  ;   asfd", "X-Amz-Target", target + "Probe"}, 400, notJSON, plain},
		{"success", "POST", "/", `{"Text":"é"}`, []string{"Content-Type", amz, "X-Amz-Target", target + "Probe"}, 200, `{"Text":"é"}`, amz},
		{"any path", "POST", "/some/path?x=y", `{}`, []string{"Content-Type", plain, "X-Amz-Target", target + "Page"}, 200, `{"Text":"x"}`, plain},
		{"wrong type", "POST", "/", `{"Text":1}`, []string{"Content-Type", amz, "X-Amz-Target", target + "Probe"}, 400,
			`{"__type":"com.amazon.coral.service#SerializationException","Message":"NUMBER_VALUE cannot be converted to String"}`, amz},
		{"modelled error", "POST", "/", `{"Fail":"validation"}`, []string{"Content-Type", amz, "X-Amz-Target", target + "Probe"}, 400,
			`{"__type":"com.amazon.coral.validate#ValidationException","message":"no good"}`, amz},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			a := e.request(c.method, c.path, body, c.header...)
			a.check(t, c.status, c.want)
			if got := a.header.Get("Content-Type"); c.contentType != "" && got != c.contentType {
				t.Errorf("content type %q, want %q", got, c.contentType)
			}
		})
	}
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	a := e.request("OPTIONS", "/", nil, "Origin", "https://example.org",
		"Access-Control-Request-Headers", "x-amz-target, content-type", "Access-Control-Request-Method", "POST")
	a.check(t, 200, "")
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin":  "*",
		"Access-Control-Max-Age":       "172800",
		"Access-Control-Allow-Headers": "x-amz-target, content-type",
		"Access-Control-Allow-Methods": "POST",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	a = e.call("Nothing", "{}", "Origin", "whatever")
	a.check(t, 400, unknownJSON)
	if a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Error("an answer to another origin does not allow it")
	}
	if a = e.call("Probe", "{}"); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("an answer without origin speaks of origins")
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var state error
	e := start(t, probes(), Options{Ready: func(ctx context.Context) error {
		if _, limited := ctx.Deadline(); !limited {
			return errors.New("no deadline")
		}
		mu.Lock()
		defer mu.Unlock()
		return state
	}})
	e.request("GET", "/readyz", nil).check(t, 200, "ok\n")
	mu.Lock()
	state = errors.New("disk is gone")
	mu.Unlock()
	e.request("GET", "/readyz", nil).check(t, 503, "not ready\n")
	if !strings.Contains(e.log.String(), "disk is gone") {
		t.Error("the log does not say why")
	}
	mu.Lock()
	state = nil
	mu.Unlock()
	if a := e.call("Probe", "{}"); a.closes {
		t.Error("an answer ends its connection while the server works")
	}
	e.Drain()
	e.request("GET", "/readyz", nil).check(t, 503, "not ready\n")
	e.request("GET", "/healthz", nil).check(t, 200, "ok\n")
	a := e.call("Probe", "{}")
	a.check(t, 200, `{"Text":"x"}`)
	if !a.closes {
		t.Error("an answer of a server that stops does not end its connection")
	}
}

func TestFaultsAreLoggedAndHidden(t *testing.T) {
	t.Parallel()
	for fail, cause := range map[string]string{"panic": "boom", "the disk is full": "the disk is full"} {
		t.Run(fail, func(t *testing.T) {
			t.Parallel()
			e := start(t, probes(), Options{})
			a := e.call("Probe", `{"Size":100,"Fail":"`+fail+`"}`)
			a.check(t, 500, `{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"Internal server error"}`)
			log := e.log.String()
			for _, want := range []string{"operation=Probe", "request_id=" + a.header.Get("X-Amzn-Requestid"), cause} {
				if !strings.Contains(log, want) {
					t.Errorf("log lacks %q: %s", want, log)
				}
			}
			e.call("Probe", "{}").check(t, 200, `{"Text":"x"}`)
			e.settled(2)
		})
	}
}

func TestClientErrorsAreNotLogged(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	e.call("Probe", `{"Fail":"validation"}`)
	e.call("Probe", `{`)
	e.call("Nothing", `{}`)
	if e.log.String() != "" {
		t.Errorf("log holds %s", e.log)
	}
}

func TestClientLeavesDuringOperation(t *testing.T) {
	t.Parallel()
	e := start(t, leaving(), Options{})
	conn := e.dial()
	conn.send(head("Probe", 2) + "{}")
	_ = conn.Close()
	e.settled(1)
	if e.log.String() != "" {
		t.Errorf("a client that left is an error in the log: %s", e.log)
	}
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	conn := e.dial()
	for range 3 {
		for body, status := range map[string]int{`{}`: 200, `{"Fail":"validation"}`: 400, `{"Fail":"panic"}`: 500, `nonsense`: 400} {
			res := conn.call("Probe", body)
			if res.StatusCode != status || res.Close {
				t.Fatalf("%s: %d, close %v", body, res.StatusCode, res.Close)
			}
		}
		conn.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
		if res := conn.response(); res.StatusCode != 404 || res.Close {
			t.Fatalf("unknown page: %d, close %v", res.StatusCode, res.Close)
		}
	}
	e.settled(15)
}

// TestCallsDoNotMix runs different requests at once over the pooled calls.
func TestCallsDoNotMix(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	var wg sync.WaitGroup
	const workers, each = 8, 40
	var ids sync.Map
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				text := strconv.Itoa(w) + "-" + strconv.Itoa(i) + "."
				n := 1 + (w*each+i)*37%4000
				a := e.call([]string{"Probe", "Page"}[i%2], `{"Text":"`+text+`","Size":`+strconv.Itoa(n)+`}`)
				a.check(t, 200, `{"Text":"`+strings.Repeat(text, n)+`"}`)
				if _, twice := ids.LoadOrStore(a.header.Get("X-Amzn-Requestid"), true); twice {
					t.Error("a request id was used twice")
				}
			}
		})
	}
	wg.Wait()
	e.settled(workers * each)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	o := Options{Budget: 1}
	o.fill()
	if o.Budget != MinBudget || o.Stall != 10*time.Second || o.Header != 10*time.Second || o.Idle != 3*time.Minute ||
		o.Wait != 10*time.Second || o.Patience != 100*time.Millisecond {
		t.Errorf("defaults are %+v", o)
	}
	o = Options{}
	if o.fill(); o.Budget != 256<<20 {
		t.Errorf("default budget is %d", o.Budget)
	}
}

// TestReadyForNobody: who has not waited for the answer is no reason to warn.
func TestReadyForNobody(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	h := newHandler(probes(), Options{
		Clock: clock.Real{}, Log: slog.New(slog.NewTextHandler(log, nil)),
		Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.ServeHTTP(&nullWriter{http.Header{}}, r)
	if got := log.String(); got != "" {
		t.Errorf("logged %s", got)
	}
}
