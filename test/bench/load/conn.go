// SPDX-License-Identifier: Apache-2.0

// Package load makes requests as cheaply as it can, so that what is measured
// is the server and not its client: prepared HTTP/1.1 requests over bare
// connections, from any number of clients that each wait for their answer.
package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
)

// Conn is one keep-alive connection. It is for one goroutine.
type Conn struct {
	c    net.Conn
	r    *bufio.Reader
	body []byte
}

// Dial connects to host:port.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, r: bufio.NewReaderSize(c, 32<<10)}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Do sends a request and returns the answer; body is valid until the next call.
// It reads answers with a Content-Length only.
func (c *Conn) Do(request []byte) (status int, body []byte, err error) {
	if _, err := c.c.Write(request); err != nil {
		return 0, nil, err
	}
	line, err := c.line()
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, nil, fmt.Errorf("no HTTP/1.1 answer: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, err
	}
	size := -1
	for {
		if line, err = c.line(); err != nil {
			return 0, nil, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")) {
			if size, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, nil, err
			}
		}
	}
	if size < 0 {
		return 0, nil, errors.New("answer without Content-Length")
	}
	c.body = slices.Grow(c.body[:0], size)[:size]
	_, err = io.ReadFull(c.r, c.body)
	return status, c.body, err
}

// line reads a header line without its end.
func (c *Conn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// Call makes a request of an operation and returns its answer, which must be
// a 200.
func (c *Conn) Call(operation, body string) ([]byte, error) {
	status, answer, err := c.Do(Request("/", operation, body))
	if err == nil && status != 200 {
		err = &Error{Status: status, Body: string(answer)}
	}
	return answer, err
}

// Error is an answer that is not a 200.
type Error struct {
	Status int
	Body   string
}

func (e *Error) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Body) }

// Request returns the request of an operation with the headers that AWS SDKs
// send: a server has to read those too.
func Request(path, operation, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\n"+
		"Host: 127.0.0.1:8000\r\n"+
		"User-Agent: aws-sdk-go-v2/1.48.0 ua/2.1 os/linux lang/go#1.26.0 md/GOOS#linux md/GOARCH#amd64 api/dynamodb#1.74.0 m/E,g\r\n"+
		"Content-Length: %d\r\n"+
		"Amz-Sdk-Invocation-Id: 0b5a2f3e-53a1-4a47-9a3d-9c2d3f1f7c11\r\n"+
		"Amz-Sdk-Request: attempt=1; max=3\r\n"+
		"Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/dynamodb/aws4_request, "+
		"SignedHeaders=accept-encoding;amz-sdk-invocation-id;content-length;content-type;host;x-amz-date;x-amz-target, "+
		"Signature=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n"+
		"Content-Type: application/x-amz-json-1.0\r\n"+
		"X-Amz-Date: 20260101T000000Z\r\n"+
		"X-Amz-Target: DynamoDB_20120810.%s\r\n"+
		"Accept-Encoding: identity\r\n\r\n%s", path, len(body), operation, body)
}
