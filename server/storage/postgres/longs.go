// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"sync"
)

// longs bounds the connections of the pool that snapshots and loads hold, so
// that some are always left to requests.
type longs struct{ free chan struct{} }

func newLongs(maxConns int) *longs { return &longs{make(chan struct{}, max(1, maxConns-2))} }

// try takes a permit if one is free; release is idempotent.
func (l *longs) try() (release func(), ok bool) {
	select {
	case l.free <- struct{}{}:
		return sync.OnceFunc(l.put), true
	default:
		return nil, false
	}
}

// wait takes a permit, as soon as one is free.
func (l *longs) wait(ctx context.Context) (release func(), err error) {
	select {
	case l.free <- struct{}{}:
		return sync.OnceFunc(l.put), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *longs) put() { <-l.free }
