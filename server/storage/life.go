// SPDX-License-Identifier: Apache-2.0

package storage

import "sync"

// Life counts the calls inside an engine, so that Close can wait for them. The
// zero value lets calls in.
type Life struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when closed and n is 0
}

// Enter lets a call in, or returns ErrClosed.
func (l *Life) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.n++
	return nil
}

// Leave ends a call that entered.
func (l *Life) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n--; l.closed && l.n == 0 {
		close(l.idle)
	}
}

// Close lets no call in any more and waits for those inside. It must be called
// once.
func (l *Life) Close() {
	l.mu.Lock()
	l.closed, l.idle = true, make(chan struct{})
	if l.n == 0 {
		close(l.idle)
	}
	l.mu.Unlock()
	<-l.idle
}
