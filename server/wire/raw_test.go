// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawConn is a connection that a test writes bytes to.
type rawConn struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (e *env) dial() *rawConn {
	e.t.Helper()
	conn, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = conn.Close() })
	return &rawConn{conn, e.t, bufio.NewReader(conn)}
}

func (c *rawConn) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// response reads a response; its body is read and checked already.
func (c *rawConn) response() *http.Response {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	res.Body = io.NopCloser(bytes.NewReader(b))
	return res
}

func (c *rawConn) call(name, body string) *http.Response {
	c.t.Helper()
	c.send(head(name, len(body)) + body)
	return c.response()
}

func head(name string, length int) string {
	return "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: " + target + name +
		"\r\nContent-Length: " + strconv.Itoa(length) + "\r\n\r\n"
}

func bodyOf(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMalformedHTTP(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	for name, text := range map[string]string{
		"no HTTP":             "hello\r\n\r\n",
		"bad header":          "POST / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
		"bad length":          "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"two lengths":         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"no host":             "POST / HTTP/1.1\r\n\r\n",
		"huge header":         "POST / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", maxHeader+8<<10) + "\r\n\r\n",
		"bad chunk":           strings.Replace(head("Probe", 0), "Content-Length: 0", "Transfer-Encoding: chunked", 1) + "zz\r\n{}\r\n",
		"version of tomorrow": "POST / HTTP/9.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := e.dial()
			_, _ = io.WriteString(conn, text) // the server may hang up half-way
			res := conn.response()
			if res.StatusCode < 400 || res.StatusCode > 505 || res.StatusCode == 500 {
				t.Errorf("status %d", res.StatusCode)
			}
		})
	}
	e.call("Probe", "{}").check(t, 200, `{"Text":"x"}`)
}

func TestChunkedBody(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	conn := e.dial()
	conn.send(strings.Replace(head("Probe", 0), "Content-Length: 0", "Transfer-Encoding: chunked", 1) + "5\r\n{\"Tex\r\n7\r\nt\":\"a\"}\r\n0\r\n\r\n")
	if res := conn.response(); res.StatusCode != 200 || bodyOf(t, res) != `{"Text":"a"}` {
		t.Errorf("status %d", res.StatusCode)
	}
	e.settled(1)
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	conn := e.dial()
	conn.send(strings.Replace(head("Probe", 2), "Host: x", "Host: x\r\nExpect: 100-continue", 1))
	if res := conn.response(); res.StatusCode != 100 {
		t.Fatalf("status %d", res.StatusCode)
	}
	conn.send("{}")
	if res := conn.response(); res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestExpectContinueTooLarge(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	conn := e.dial()
	conn.send(strings.Replace(head("Probe", 100<<20), "Host: x", "Host: x\r\nExpect: 100-continue", 1))
	if res := conn.response(); res.StatusCode != 413 || !res.Close {
		t.Errorf("status %d, close %v", res.StatusCode, res.Close)
	}
}

func TestTruncatedBody(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	conn := e.dial()
	conn.send(head("Probe", 100) + `{"Text":`)
	if err := conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res := conn.response()
	if got := bodyOf(t, res); res.StatusCode != 400 || got != notJSON || !res.Close {
		t.Errorf("%d %s, close %v", res.StatusCode, got, res.Close)
	}
	e.settled(1)
}

func TestStalledBody(t *testing.T) {
	t.Parallel()
	const timeout = `{"__type":"com.amazonaws.dynamodb.v20120810#RequestTimeout","message":"The request body did not arrive in time"}`
	for name, sent := range map[string]string{
		"nothing":    "",
		"little":     `{"Text":"`,
		"a lot":      `{"Text":"` + strings.Repeat("x", 300<<10),
		"compressed": "gzip",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, probes(), Options{Stall: 50 * time.Millisecond, Header: time.Second})
			request := head("Probe", 1<<20)
			if sent == "gzip" {
				request = strings.Replace(request, "Host: x", "Host: x\r\nContent-Encoding: gzip", 1)
				sent = string(zipped(t, strings.Repeat("y", 1000)))[:15]
			}
			conn := e.dial() // last: from here on the headers are awaited
			conn.send(request + sent)
			res := conn.response()
			if got := bodyOf(t, res); res.StatusCode != 408 || got != timeout || !res.Close {
				t.Errorf("%d %s, close %v", res.StatusCode, got, res.Close)
			}
			e.settled(1)
		})
	}
}

// TestSlowBodiesUnderPressure opens many connections that announce the largest
// body, send some of it and stop, more than the budget holds. What is charged
// never exceeds it, and clients that finish their bodies are served meanwhile.
func TestSlowBodiesUnderPressure(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{
		Budget: MinBudget, Stall: time.Minute, Header: time.Minute, Wait: time.Minute, Patience: time.Millisecond,
	})
	const slow, sent = 80, 900 << 10 // twice the share of 32 MiB
	part := `{"Text":"` + strings.Repeat("x", sent)
	var writers sync.WaitGroup
	for range slow {
		conn := e.dial()
		writers.Go(func() { _, _ = io.WriteString(conn, head("Probe", MaxBody)+part) }) // until it is given up
	}
	for i := range 100 {
		text := strings.Repeat("y", 1+i*1000)
		e.call("Probe", `{"Text":"`+text+`"}`).check(t, 200, `{"Text":"`+text+`"}`)
		if used := e.requests.used(); used > MinBudget/2 {
			t.Fatalf("%d bytes are charged", used)
		}
	}
	writers.Wait() // all were taken in or given up
}

// TestLargeBodiesAtOnce sends more complete bodies than the budget holds: each
// is answered or told to come again, and nothing stands still.
func TestLargeBodiesAtOnce(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{Budget: MinBudget, Patience: 20 * time.Millisecond})
	body := `{"Unknown":"` + strings.Repeat("z", 8<<20) + `"}`
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	const n = 12
	for range n {
		conn := e.dial()
		wg.Go(func() {
			if _, err := io.WriteString(conn, head("Probe", len(body))+body); err != nil {
				return // told to come again while writing
			}
			res, err := http.ReadResponse(conn.r, nil)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[res.StatusCode]++
		})
	}
	wg.Wait()
	if statuses[200] == 0 || statuses[200]+statuses[503] > n || len(statuses) > 2 {
		t.Errorf("statuses %v", statuses)
	}
	e.settled(n)
}

func TestSizeLimit(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	const tooLarge = `{"__type":"com.amazonaws.dynamodb.v20120810#RequestEntityTooLarge","message":"Request size has exceeded the maximum allowed size"}`
	fit := `{"Unknown":"` + strings.Repeat("z", MaxBody-14) + `"}`
	e.call("Probe", fit).check(t, 200, `{"Text":"x"}`)
	e.call("Probe", fit+" ").check(t, 413, tooLarge)
	chunked := func(body string) answer {
		return e.request("POST", "/", io.MultiReader(strings.NewReader(body)),
			"Content-Type", "application/json", "X-Amz-Target", target+"Probe")
	}
	chunked(fit).check(t, 200, `{"Text":"x"}`)
	chunked(fit+" ").check(t, 413, tooLarge)
	e.request("POST", "/", strings.NewReader(fit)).check(t, 404, notFoundPage)
	e.settled(5)
}

// TestSlowReader asks for a large answer and does not read it: the connection
// is given up and its bytes returned.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{Stall: 50 * time.Millisecond})
	conn := e.dial()
	if err := conn.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	conn.call("Probe", "{}")
	request := fmt.Sprintf(`{"Size":%d}`, 30<<20)
	conn.send(head("Page", len(request)) + request)
	e.settled(2) // no socket buffers 30 MiB
}

// TestHalfClosedConnection: a client that is done sending gets the answer all
// the same, and what it asked for is not cut short.
func TestHalfClosedConnection(t *testing.T) {
	t.Parallel()
	e := start(t, leaving(), Options{})
	conn := e.dial()
	conn.send(head("Probe", 2) + "{}")
	if err := conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if res := conn.response(); res.StatusCode != 200 || bodyOf(t, res) != "{}" {
		t.Errorf("status %d", res.StatusCode)
	}
	e.settled(1)
}

// TestExpectContinueForTooMuch: nobody waits for a body that need not come.
func TestExpectContinueForTooMuch(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	conn := e.dial()
	conn.send(strings.Replace(head("Probe", MaxBody+1), "Host: x", "Host: x\r\nExpect: 100-continue", 1))
	if res := conn.response(); res.StatusCode != 413 {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestRefusedBodyIsReadAway: the answer reaches a client that is still sending.
func TestRefusedBodyIsReadAway(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	for _, encoding := range []string{"gzip", "br"} {
		conn := e.dial()
		conn.send(strings.Replace(head("Probe", 4<<20), "Host: x", "Host: x\r\nContent-Encoding: "+encoding, 1) + strings.Repeat("x", 4<<20))
		if res := conn.response(); res.StatusCode != 400 {
			t.Errorf("%s: status %d", encoding, res.StatusCode)
		}
	}
}
