// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/clock"
)

const (
	// MaxBody bounds a request body, inflated (the service answers 413 above).
	MaxBody = 16 << 20
	// firstRead is what the buffer of a body begins with; it doubles.
	firstRead = 4 << 10
	// minRate is what a body must arrive with on the average, in bytes per
	// second, after a grace of Options.Stall. A phone on a bad day does more.
	minRate = 16 << 10
	// inflaterSize is what decompressing a body takes beside the body.
	inflaterSize = 48 << 10
	// discardLimit bounds what is read of a refused body so that the client,
	// still writing it, gets to read the answer.
	discardLimit = 2 * MaxBody
	discardTime  = 2 * time.Second
)

// deadlines is what net/http's ResponseWriter offers for its connection.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// progress reads a request body and moves the connection's deadline as long as
// bytes come in at a decent rate. The first read has the server's ReadTimeout.
type progress struct {
	in    *intake
	body  io.Reader
	conn  deadlines // nil in tests without a connection
	clock clock.Clock
	stall time.Duration
	start time.Time
	n     int64
}

func (p *progress) Read(b []byte) (int, error) {
	if p.conn != nil && p.n > 0 {
		now := p.clock.Now()
		if p.start.IsZero() {
			p.start = now
		}
		by := p.start.Add(p.stall + time.Duration(p.n)*time.Second/minRate)
		if idle := now.Add(p.stall); idle.Before(by) {
			by = idle
		}
		if err := p.conn.SetReadDeadline(by); err != nil {
			return 0, err
		}
		if p.in.gone.Load() { // else the deadline just set could undo the abort
			return 0, errEvicted
		}
	}
	n, err := p.body.Read(b)
	p.n += int64(n)
	return n, err
}

// readBody reads the request body into c.body, charging the budget as it grows.
// The error is what to answer.
func (c *call) readBody() *api.Error {
	r := c.r
	if r.ContentLength == 0 {
		return nil
	}
	if r.ContentLength > MaxBody {
		c.discard()
		return api.RequestTooLarge()
	}
	s := c.h.requests
	c.progress = progress{in: &c.in, body: r.Body, conn: c.conn, clock: c.h.o.Clock, stall: c.h.o.Stall}
	err := s.begin(r.Context(), &c.in, int64(cap(c.body)))
	if err == nil {
		err = c.inflate(r)
	}
	if err != nil {
		c.body = nil // before its bytes are said to be free
	}
	held, evicted := s.end(&c.in)
	c.held = held
	if err == nil && !evicted && c.conn != nil {
		err = c.conn.SetReadDeadline(time.Time{}) // the operation takes as long as it takes
	}
	if err == nil && !evicted {
		return nil
	}
	c.close = true
	switch {
	case evicted || errors.Is(err, errEvicted) || errors.Is(err, errBusy) || errors.Is(err, context.Canceled):
		return api.Unavailable()
	case errors.Is(err, errTooLarge):
		c.discard()
		return api.RequestTooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return api.RequestTimeout()
	}
	// Cut short, badly chunked or compressed: nothing that could be JSON.
	c.discard()
	c.close = true
	return api.Serialization(err)
}

var errTooLarge = errors.New("body is larger than 16 MiB")

// inflate reads the body through the compression the request names.
func (c *call) inflate(r *http.Request) error {
	encoding := strings.ToLower(strings.TrimSpace(header(r, "Content-Encoding")))
	if encoding == "" || encoding == "identity" {
		return c.fill(&c.progress, r.ContentLength)
	}
	if err := c.h.requests.take(r.Context(), &c.in, inflaterSize); err != nil {
		return err
	}
	defer c.h.requests.give(&c.in, inflaterSize)
	src, err := inflater(encoding, &c.progress)
	if err != nil {
		return err
	}
	return c.fill(src, -1)
}

func inflater(encoding string, src io.Reader) (io.Reader, error) {
	switch encoding {
	case "gzip", "x-gzip":
		return gzip.NewReader(src)
	case "deflate": // zlib by the standard, bare by habit
		b := bufio.NewReader(src)
		head, err := b.Peek(2)
		if err != nil {
			return nil, err
		}
		if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			return zlib.NewReader(b)
		}
		return flate.NewReader(b), nil
	}
	return nil, errors.New("unknown content encoding")
}

// fill reads src to its end, or size bytes when that is not negative.
func (c *call) fill(src io.Reader, size int64) error {
	c.body = c.body[:0]
	for {
		n, err := src.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		switch {
		case len(c.body) > MaxBody:
			return errTooLarge
		case int64(len(c.body)) == size || err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(c.body) == cap(c.body):
			if err := c.growBody(size); err != nil {
				return err
			}
		}
	}
}

// growBody doubles the buffer, no further than needed. Old and new are charged
// while both exist.
func (c *call) growBody(size int64) error {
	n := min(2*int64(cap(c.body)), MaxBody+1)
	if size >= 0 {
		n = min(n, size)
	}
	s := c.h.requests
	if err := s.take(c.r.Context(), &c.in, n); err != nil {
		return err
	}
	grown := append(make([]byte, 0, n), c.body...)
	s.give(&c.in, int64(cap(c.body)))
	c.body = grown
	return nil
}

// abort makes a pending read of the body fail.
func (c *call) abort() {
	if c.conn != nil {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // fails only when the connection is gone
	}
}

// discard reads a refused body away, as far as that is quick.
func (c *call) discard() {
	c.close = true
	if c.r.ContentLength > discardLimit || c.progress.n == 0 && header(c.r, "Expect") != "" { // asked first, sent nothing
		return
	}
	if c.conn != nil && c.conn.SetReadDeadline(c.h.o.Clock.Now().Add(discardTime)) != nil {
		return
	}
	n, err := io.CopyN(io.Discard, c.r.Body, discardLimit+1)
	c.close = n > discardLimit || !errors.Is(err, io.EOF)
}
