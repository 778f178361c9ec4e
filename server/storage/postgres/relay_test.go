// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// relay stands between an engine and its database, and can lose what goes
// either way.
type relay struct {
	target string
	l      net.Listener

	mu     sync.Mutex
	last   *relayed // who sent something last
	all    map[*relayed]bool
	closed bool // nobody gets through any more
	muted  bool // nothing of those to come is passed on

	answered atomic.Int64 // bytes that came from the database
}

// relayed is one connection through a relay.
type relayed struct {
	client, server            net.Conn
	loseRequests, loseAnswers bool // guarded by relay.mu
	muted                     bool // nothing is passed on, either way
}

// newRelay returns a relay and the URL of the database behind it.
func newRelay(t testing.TB, database string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{target: u.Host, l: l, all: map[*relayed]bool{}}
	u.Host = l.Addr().String()
	go r.accept()
	t.Cleanup(func() { r.cut(); _ = l.Close() })
	return r, u.String()
}

func (r *relay) accept() {
	for {
		client, err := r.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		r.mu.Lock()
		if err != nil || r.closed {
			r.mu.Unlock()
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		c := &relayed{client: client, server: server, muted: r.muted}
		r.all[c] = true
		r.mu.Unlock()
		go r.copy(c, client, server, true)
		go r.copy(c, server, client, false)
	}
}

// copy passes on what comes; what is to be lost ends the connection.
func (r *relay) copy(c *relayed, from, to net.Conn, request bool) {
	defer c.client.Close()
	defer c.server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if !request {
			r.answered.Add(int64(n))
		}
		r.mu.Lock()
		lost := c.loseAnswers && !request
		if request {
			r.last, lost = c, c.loseRequests
		}
		muted := c.muted
		r.mu.Unlock()
		if muted {
			continue
		}
		if lost {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// lose makes what the connection that was used last sends next, or is
// answered next, its end.
func (r *relay) lose(request bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.loseRequests, r.last.loseAnswers = request, !request
}

// mute takes what comes on all connections and passes nothing on.
func (r *relay) mute() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted = true
	for c := range r.all {
		c.muted = true
	}
}

// muteLast mutes the connection that was used last.
func (r *relay) muteLast() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.muted = true
}

// cut ends all connections, and lets none through any more.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.all {
		_ = c.client.Close()
		_ = c.server.Close()
	}
}

// refuse lets no new connection through.
func (r *relay) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}
