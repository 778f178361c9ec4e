// SPDX-License-Identifier: Apache-2.0

// Package engine carries out the operations of the API: one file each. It
// validates, evaluates expressions and reads and writes through storage; it
// knows neither HTTP nor any database.
//
// Every operation has the same shape: it gets the caller's identity and the
// decoded request, appends the response's JSON to a Body, and returns nil or an
// error that is an *api.Error or becomes one through Fault.
package engine

import (
	"errors"
	"log/slog"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// Options say what an Engine works with.
type Options struct {
	Storage storage.Engine
	Clock   clock.Clock
	Log     *slog.Logger
	Region  string // of ARNs: "us-east-1"
	// Wake tells the job runner that the catalog holds new work; never blocks.
	Wake func()
}

// Engine answers requests. It is safe for concurrent use and keeps no state
// but caches.
type Engine struct {
	store  storage.Engine
	clock  clock.Clock
	log    *slog.Logger
	region string
	wake   func()
	exprs  *expr.Cache
}

// expressionCacheSize bounds the parsed expressions kept: programs use few.
const expressionCacheSize = 4096

// New returns an Engine.
func New(o Options) *Engine {
	return &Engine{
		store: o.Storage, clock: o.Clock, log: o.Log, region: o.Region, wake: o.Wake,
		exprs: expr.NewCache(expressionCacheSize),
	}
}

// change says of a write that it is made now, on a user's behalf.
func (e *Engine) change() storage.Change { return storage.Change{At: e.clock.Now()} }

// Fault turns what an operation returned into what the wire sends: an
// *api.Error as it is, the errors of storage into the service's, everything
// else into an InternalServerError that hides its cause.
func Fault(err error) *api.Error {
	var known *api.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, storage.ErrTableNotFound):
		return api.ResourceNotFound("Requested resource not found")
	case errors.Is(err, storage.ErrInDoubt): // whatever else it is: the others say that nothing was done
		return api.Internal(err)
	case errors.Is(err, storage.ErrConflict):
		return api.Conflict(err)
	case errors.Is(err, storage.ErrUnavailable):
		return api.StorageUnavailable(err)
	}
	return api.Internal(err)
}
