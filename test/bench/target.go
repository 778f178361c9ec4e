// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/engine"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/sqlite"
	"github.com/extenddb/extenddb/test/bench/load"
	"github.com/extenddb/extenddb/test/proc"
)

// The things that are measured.
const (
	targetEmpty  = "empty"  // a net/http handler that does nothing, same answer size
	targetHTTP   = "http"   // the server
	targetSingle = "single" // the server with one request per transaction
	targetEngine = "engine" // decoding, engine and storage, in process
	targetSQLite = "sqlite" // storage alone, in process
)

// client makes the requests of one client of a run.
type client struct {
	request func() error
	close   func() error
}

// target answers requests.
type target interface {
	// client returns client number i of a run.
	client(ctx context.Context, op operation, i int) (client, error)
	// cpu is the processor time the target has used.
	cpu() (time.Duration, error)
}

// httpTarget is a server process.
type httpTarget struct {
	srv        *proc.Server
	partitions int
	sizes      map[string]int // of answers, by operation
	empty      bool           // ask for an answer of that size
}

func (t *httpTarget) cpu() (time.Duration, error) { return t.srv.CPU() }

func (t *httpTarget) client(ctx context.Context, op operation, i int) (client, error) {
	conn, err := load.Dial(ctx, t.srv.Addr)
	if err != nil {
		return client{}, err
	}
	want, path := t.sizes[op.name], "/"
	if t.empty {
		path += strconv.Itoa(want)
	}
	request, w := newTemplate(load.Request(path, op.name, op.body)), newWalk(t.partitions, i)
	return client{
		request: func() error {
			request.fill(w.next())
			status, body, err := conn.Do(request.text)
			if err == nil && (status != 200 || len(body) != want) {
				err = fmt.Errorf("%s: status %d, %d bytes instead of %d: %.200s", op.name, status, len(body), want, body)
			}
			return err
		},
		close: conn.Close,
	}, nil
}

// call carries out an operation over a connection of its own.
func call(ctx context.Context, srv *proc.Server) caller {
	return func(operation, body string) ([]byte, error) {
		conn, err := load.Dial(ctx, srv.Addr)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		return conn.Call(operation, body)
	}
}

// local is an engine and its storage in this process.
type local struct {
	db         storage.Engine
	engine     *engine.Engine
	partitions int
	sizes      map[string]int
}

func openLocal(ctx context.Context, file string) (*local, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := sqlite.Open(ctx, sqlite.Options{Path: file, Clock: clock.Real{}, Log: log})
	if err != nil {
		return nil, err
	}
	return newLocal(db, log), nil
}

func newLocal(db storage.Engine, log *slog.Logger) *local {
	e := engine.New(engine.Options{Storage: db, Clock: clock.Real{}, Log: log, Region: "us-east-1", Wake: func() {}})
	return &local{db: db, engine: e}
}

func (l *local) cpu() (time.Duration, error) { return proc.CPU(os.Getpid()) }

// call carries out one operation.
func (l *local) call(ctx context.Context) caller {
	return func(operation, body string) ([]byte, error) {
		var out api.Body
		run, ok := l.operations(ctx)[operation]
		if !ok {
			return nil, fmt.Errorf("operation %s is not known here", operation)
		}
		err := run([]byte(body), &out)
		return out.B, err
	}
}

type run func(body []byte, out *api.Body) error

func (l *local) operations(ctx context.Context) map[string]run {
	return map[string]run{
		"CreateTable":    method(ctx, l.engine.CreateTable),
		"BatchWriteItem": method(ctx, l.engine.BatchWriteItem),
		"GetItem":        method(ctx, l.engine.GetItem),
		"PutItem":        method(ctx, l.engine.PutItem),
		"UpdateItem":     method(ctx, l.engine.UpdateItem),
		"Query":          method(ctx, l.engine.Query),
	}
}

func method[T any](ctx context.Context, f func(context.Context, auth.Identity, *T, *api.Body) error) run {
	decoder := api.NewDecoder[T]()
	return func(body []byte, out *api.Body) error {
		in := new(T)
		if err := decoder.Decode(body, in); err != nil {
			return err
		}
		return f(ctx, auth.Anonymous(), in, out)
	}
}

// engineTarget measures all but HTTP.
type engineTarget struct{ *local }

func (t engineTarget) client(ctx context.Context, op operation, i int) (client, error) {
	f, want := t.operations(ctx)[op.name], t.sizes[op.name]
	body, w := newTemplate([]byte(op.body)), newWalk(t.partitions, i)
	var out api.Body
	return client{
		request: func() error {
			body.fill(w.next())
			out.B = out.B[:0]
			err := f(body.text, &out)
			if err == nil && len(out.B) != want {
				err = fmt.Errorf("%s: %d bytes instead of %d: %.200s", op.name, len(out.B), want, out.B)
			}
			return err
		},
		close: func() error { return nil },
	}, nil
}
