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
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/progress"
)

var (
	// ErrNoServer is what every call returns when nobody listens on the socket,
	// and when the server ended before it took the request: nothing was done.
	ErrNoServer = errors.New("no server listens")
	// ErrGone is what Run returns when the answer ends before its last line.
	// The job had begun; what it left is removed when its server starts again.
	ErrGone = errors.New("the server went away before it answered")

	errNotTaken = errors.New("the server did not take the request")
)

const (
	cancelWindow = 60 * time.Second // what a cancelled job is given to stop
	silence      = 2 * time.Minute  // of a server that should give signs of life
)

// Client has jobs done by the server of a socket. It is safe for concurrent
// use; every call uses a connection of its own.
type Client struct {
	socket string
	window time.Duration // cancelWindow
	quiet  time.Duration // silence

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// NewClient returns a client; nothing is dialled yet.
func NewClient(socket string) *Client {
	return &Client{socket: socket, window: cancelWindow, quiet: silence, open: map[net.Conn]struct{}{}}
}

// Close ends calls under way; their jobs are cancelled. Later calls fail.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Close() // nothing to lose
	}
}

// Run has the server do a job, and returns its result, which comes even with an
// error when something was done. When ctx ends, the job is cancelled, and its
// last line is awaited for up to a minute: a *JobError of code "interrupted"
// then tells that it stopped cleanly. Errors: *JobError, ErrNoServer, ErrGone,
// the context's.
func (c *Client) Run(ctx context.Context, kind string, params any, report progress.Sink) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("encode parameters: %w", err)
	}
	body, err := json.Marshal(request{Kind: kind, Params: raw})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("the request has %d bytes, the server takes %d", len(body), maxBody)
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.hangUp(conn)
	job := &call{conn: conn, quiet: c.quiet}
	stop := context.AfterFunc(ctx, func() { job.cancel(c.window) })
	defer stop()
	result, err := job.run(body, report)
	err = c.noServer(err)
	var jerr *JobError
	switch {
	case err == nil || ctx.Err() == nil || errors.As(err, &jerr):
		return result, err
	case errors.Is(err, ErrNoServer):
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w (%w)", err, ctx.Err()) // it is not known whether the job has stopped
}

// Jobs returns what the server's board shows.
func (c *Client) Jobs(ctx context.Context) ([]progress.Event, error) {
	var answer struct {
		Jobs []progress.Event `json:"jobs"`
	}
	return answer.Jobs, c.get(ctx, jobsPath, &answer)
}

// Version returns the version of the server.
func (c *Client) Version(ctx context.Context) (string, error) {
	var answer struct {
		Version string `json:"version"`
	}
	return answer.Version, c.get(ctx, versionPath, &answer)
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer c.hangUp(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(deadline(c.quiet))
	res, err := exchange(conn, http.MethodGet, path, nil)
	if err == nil {
		defer func() { _ = res.Body.Close() }()
		err = json.NewDecoder(res.Body).Decode(into)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.noServer(gone(err))
}

// noServer makes an ErrNoServer of errNotTaken.
func (c *Client) noServer(err error) error {
	if errors.Is(err, errNotTaken) {
		return fmt.Errorf("%w on %s any more", ErrNoServer, c.socket)
	}
	return err
}

func (c *Client) dial(ctx context.Context) (*net.UnixConn, error) {
	if dir := filepath.Dir(c.socket); dir == privateDir() {
		if err := checkPrivate(dir); err != nil && !isNobody(err) {
			return nil, fmt.Errorf("connect to %s: %w", c.socket, err)
		}
	}
	conn, err := dial(ctx, c.socket)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isNobody(err):
		return nil, fmt.Errorf("%w on %s", ErrNoServer, c.socket)
	default:
		return nil, fmt.Errorf("connect to %s: %w", c.socket, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", c.socket, net.ErrClosed)
	}
	c.open[conn] = struct{}{}
	return conn, nil
}

func (c *Client) hangUp(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	_ = conn.Close()
}

// call is one job's request.
type call struct {
	conn  *net.UnixConn
	quiet time.Duration

	mu        sync.Mutex
	cancelled bool
}

// cancel ends our half of the connection, which is how the server learns that
// the job shall stop.
func (j *call) cancel(window time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cancelled = true
	_ = j.conn.SetDeadline(deadline(window))
	_ = j.conn.CloseWrite()
}

// expect bounds the wait for the next sign of life, unless cancel has bounded
// all of it.
func (j *call) expect() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.cancelled {
		_ = j.conn.SetDeadline(deadline(j.quiet))
	}
}

func (j *call) run(body []byte, report progress.Sink) (json.RawMessage, error) {
	j.expect()
	res, err := exchange(j.conn, http.MethodPost, jobsPath, body)
	if err != nil {
		return nil, gone(err)
	}
	defer func() { _ = res.Body.Close() }()
	for dec := json.NewDecoder(res.Body); ; {
		j.expect()
		var l line
		if err := dec.Decode(&l); err != nil {
			return nil, gone(err)
		}
		if l.Event != nil && report != nil {
			report(*l.Event)
		}
		switch {
		case l.Error != nil:
			return l.Result, l.Error
		case l.last():
			return l.Result, nil
		}
	}
}

// exchange sends a request and reads the head of its answer; a refusal becomes
// a *JobError.
func exchange(conn net.Conn, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://extenddb"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = method == http.MethodGet // a job's connection ends with it anyway
	sent := req.Write(conn)
	in := bufio.NewReader(conn) // also when sending failed: a refusal may tell why
	if _, err := in.Peek(1); errors.Is(gone(err), ErrGone) {
		// A job begins with the first byte of its answer. A process that dies
		// is connected to for a moment longer.
		return nil, errNotTaken
	}
	res, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, errors.Join(err, sent)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	var l line
	if err := json.NewDecoder(io.LimitReader(res.Body, maxBody)).Decode(&l); err != nil || l.Error == nil {
		return nil, fmt.Errorf("unexpected answer %s: no admin socket of extenddb, or of another version", res.Status)
	}
	return nil, l.Error
}

// gone tells a server that is away from one that makes no sense.
func gone(err error) error {
	var netErr net.Error
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, net.ErrClosed):
		return fmt.Errorf("the client was closed: %w", net.ErrClosed)
	case errors.As(err, &netErr) && netErr.Timeout():
		return fmt.Errorf("the server does not answer: %w", err)
	case errors.As(err, &netErr), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrGone
	case errors.As(err, &syntax):
		return fmt.Errorf("the server's answer makes no sense: %w", err)
	}
	return err
}
