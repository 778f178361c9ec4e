// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net"
	"sync"
)

// limited lets at most so many connections be open; others wait in the
// system's queue.
type limited struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limit(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	free func()
}

func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// CloseWrite lets http.Server end a connection whose request it did not read to
// the end without losing the answer.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// tracker counts the jobs that run, and knows when the last one of a server
// that stops has ended.
type tracker struct {
	mu      sync.Mutex
	running int
	stopped bool
	idle    chan struct{} // closed when stopped and none runs
}

func newTracker() *tracker { return &tracker{idle: make(chan struct{})} }

// enter is false when no job may begin any more.
func (t *tracker) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.running++
	return true
}

func (t *tracker) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	t.check()
}

// stop lets no job begin; the returned channel is closed when none runs.
func (t *tracker) stop() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.check()
	return t.idle
}

func (t *tracker) check() {
	if t.stopped && t.running == 0 {
		close(t.idle)
	}
}
