// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// raw answers each request on a connection with the same bytes.
func raw(t *testing.T, answer string) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 1<<16)
		if _, err := conn.Read(buf); err == nil {
			_, _ = io.WriteString(conn, answer) // the test sees what arrives
		}
	}()
	return l.Addr().String()
}

func TestConnReadsAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, answer, body, fails string }{
		{"whole", "HTTP/1.1 200 OK\r\nX: y\r\ncontent-length: 5\r\n\r\nhello", "hello", ""},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", ""},
		{"refusal", "HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad", "", "status 400: bad"},
		{"short", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "", "unexpected EOF"},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", "without Content-Length"},
		{"other protocol", "SSH-2.0-x\r\n\r\n", "", "no HTTP/1.1"},
		{"bad status", "HTTP/1.1 abc \r\n\r\n", "", "invalid syntax"},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "", "invalid syntax"},
		{"closed", "", "", "EOF"},
		{"closed in headers", "HTTP/1.1 200 OK\r\n", "", "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn, err := Dial(t.Context(), raw(t, c.answer))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			body, err := conn.Call("GetItem", "{}")
			switch {
			case c.fails == "" && (err != nil || string(body) != c.body):
				t.Errorf("answer %q, %v; want %q", body, err, c.body)
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("error %v, want %q", err, c.fails)
			}
		})
	}
}

func TestConnKeepsAlive(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, r.Header.Get("X-Amz-Target")+string(body)+r.RemoteAddr)
	}))
	defer srv.Close()
	conn, err := Dial(t.Context(), srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first, err := conn.Call("PutItem", "{1}")
	if err != nil {
		t.Fatal(err)
	}
	one := string(first)
	second, err := conn.Call("PutItem", "{1}")
	if err != nil {
		t.Fatal(err)
	}
	if one != string(second) || !strings.HasPrefix(one, "DynamoDB_20120810.PutItem{1}") {
		t.Errorf("answers %q and %q", one, second)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := make([]int, 3)
	var clients []func() error
	for i := range n {
		clients = append(clients, func() error {
			if n[i]++; n[i] == 10 {
				cancel()
			}
			return nil
		})
	}
	r, err := Run(ctx, clients)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, v := range n {
		total += v
		if v == 0 {
			t.Error("a client made no request")
		}
	}
	if len(r.Latencies) != total || !slices.IsSorted(r.Latencies) || r.Rate() <= 0 {
		t.Errorf("%d latencies of %d requests, rate %v", len(r.Latencies), total, r.Rate())
	}
}

func TestRunReportsErrors(t *testing.T) {
	t.Parallel()
	want := errors.New("broken")
	_, err := Run(t.Context(), []func() error{func() error { return want }})
	if !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var r Result
	if got := r.Quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing: %v", got)
	}
	for i := range 100 {
		r.Latencies = append(r.Latencies, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := r.Quantile(q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}
