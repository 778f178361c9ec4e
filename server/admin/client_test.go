// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNoServer(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	c := NewClient(socket)
	check := func(when string) {
		t.Helper()
		_, run := c.Run(t.Context(), "k", nil, nil)
		_, jobs := c.Jobs(t.Context())
		for _, err := range []error{run, jobs} {
			if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), socket) {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	check("nothing there")
	dead(t, socket)
	check("a dead server's socket")
}

// dead leaves the socket of a server that died.
func dead(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// strange is a server that answers each request with a text and hangs up, or
// keeps silent when hold is set.
func strange(t *testing.T, text string, hold <-chan struct{}) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			_, _ = io.WriteString(c, text)
			if hold != nil {
				<-hold
			}
			c.Close()
		}
	}()
	return NewClient(socket)
}

func TestStrangeServers(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct{ name, text, want string }{
		{"dies in the head", "HTTP/1.1 200", "the server went away before it answered"},
		{"dies before a line", ok, "the server went away before it answered"},
		{"dies in a line", ok + "9\r\n{\"result\"", "the server went away before it answered"},
		{"ends without an answer", ok + "3\r\n{}\n\r\n0\r\n\r\n", "the server went away before it answered"},
		{"no JSON", ok + "6\r\nhello\n\r\n0\r\n\r\n", "the server's answer makes no sense: invalid character 'h' looking for beginning of value"},
		{"another server", "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno\r\n",
			"unexpected answer 403 Forbidden: no admin socket of extenddb, or of another version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := strange(t, c.text, nil)
			if _, err := client.Run(t.Context(), "k", nil, nil); errorText(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("dies before it takes the request", func(t *testing.T) {
		t.Parallel()
		client := strange(t, "", nil)
		if _, err := client.Run(t.Context(), "k", nil, nil); !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), client.socket) {
			t.Errorf("got %v", err)
		}
		if _, err := client.Jobs(t.Context()); !errors.Is(err, ErrNoServer) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no HTTP", func(t *testing.T) {
		t.Parallel()
		if _, err := strange(t, "hello\r\n\r\n", nil).Run(t.Context(), "k", nil, nil); err == nil || !strings.Contains(err.Error(), "malformed HTTP") {
			t.Errorf("got %v", err)
		}
	})
}

func TestServerHangs(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	c := strange(t, "", hold)
	c.quiet = time.Millisecond
	if _, err := c.Run(t.Context(), "k", nil, nil); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Jobs(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestServerDoesNotStopTheJob(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	c := strange(t, "HTTP/1.1 200 OK\r\n\r\n", hold)
	c.window = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	_, err := c.Run(ctx, "k", nil, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestContextEndsAQuestion(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	c := strange(t, "", hold)
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := c.Version(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Run(ctx, "k", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	c := NewClient(filepath.Join(t.TempDir(), "s"))
	if _, err := c.Run(t.Context(), "k", strings.Repeat("a", maxBody), nil); err == nil || !strings.Contains(err.Error(), "the server takes 1048576") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Run(t.Context(), "k", func() {}, nil); err == nil || !strings.Contains(err.Error(), "encode parameters") {
		t.Errorf("got %v", err)
	}
}
