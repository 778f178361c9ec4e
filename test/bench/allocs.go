// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/wire"
	"github.com/extenddb/extenddb/test/bench/load"
)

// Allocations is what the server allocates for a request, net/http's own
// part excepted.
type Allocations struct {
	Operation string  `json:"operation"`
	Objects   float64 `json:"objects"`
	Bytes     float64 `json:"bytes"`
}

// measureAllocations calls the handler in process, one request after another.
func (l *local) measureAllocations(ctx context.Context, requests int) ([]Allocations, error) {
	h := wire.New(l.engine, wire.Options{
		Ready: l.db.Ping, Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler), Region: "us-east-1",
	})
	var all []Allocations
	for _, op := range operations() {
		d, err := newDriver(ctx, h, op, l)
		if err != nil {
			return nil, err
		}
		if err := d.run(requests / 5); err != nil {
			return nil, err
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if err := d.run(requests); err != nil {
			return nil, err
		}
		runtime.ReadMemStats(&after)
		all = append(all, Allocations{
			Operation: op.name,
			Objects:   float64(after.Mallocs-before.Mallocs) / float64(requests),
			Bytes:     float64(after.TotalAlloc-before.TotalAlloc) / float64(requests),
		})
	}
	return all, nil
}

// driver calls a handler without allocating anything itself.
type driver struct {
	handler http.Handler
	request *http.Request
	body    template
	reader  bytes.Reader
	walk    *walk
	want    int
	out     answer
}

func newDriver(ctx context.Context, h http.Handler, op operation, l *local) (*driver, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(load.Request("/", op.name, op.body))))
	if err != nil {
		return nil, err
	}
	d := &driver{handler: h, body: newTemplate([]byte(op.body)), walk: newWalk(l.partitions, 0), want: l.sizes[op.name]}
	d.request = r.WithContext(ctx)
	d.request.Body = io.NopCloser(&d.reader)
	d.out.header = http.Header{}
	return d, nil
}

func (d *driver) run(n int) error {
	for range n {
		d.body.fill(d.walk.next())
		d.reader.Reset(d.body.text)
		d.out.status, d.out.size = 0, 0
		clear(d.out.header)
		d.handler.ServeHTTP(&d.out, d.request)
		if d.out.status != http.StatusOK || d.out.size != d.want {
			return fmt.Errorf("handler answers status %d and %d bytes instead of %d", d.out.status, d.out.size, d.want)
		}
	}
	return nil
}

// answer is an http.ResponseWriter that only counts.
type answer struct {
	header       http.Header
	status, size int
}

func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }
func (a *answer) Write(b []byte) (int, error) {
	a.size += len(b)
	return len(b), nil
}
