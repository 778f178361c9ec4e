// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// longs bounds the connections of the pool that snapshots and loads hold, or
// writers, so that some are always left to requests, or to who reads.
type longs struct {
	free   chan struct{}
	beside *longs // see try
}

// newLongs bounds snapshots and loads, beside those writers.
func newLongs(maxConns int, writers *longs) *longs {
	return &longs{make(chan struct{}, max(1, maxConns-2)), writers}
}

// newWriters bounds the connections that writers hold: what they wait for may be
// a row that somebody else has locked, and those who read do not wait for that.
func newWriters(maxConns int) *longs {
	return &longs{free: make(chan struct{}, maxConns-max(1, min(2, maxConns/4)))}
}

// ofOneTable is how many of them may write the same table: somebody else may
// have locked all of it, and those who write others do not wait for that.
func (l *longs) ofOneTable() int { return max(1, cap(l.free)-max(1, cap(l.free)/4)) }

// withWriter is withConn for one who writes rows.
func (db *DB) withWriter(ctx context.Context, cs []*change, f func(c *pgxpool.Conn) error) error {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = rowsOf(c.w.Table.ID)
	}
	leave, err := db.writes.tables.lock(ctx, db.o.Clock, db.o.AcquireTimeout, db.writers.ofOneTable(), names)
	if errors.Is(err, errLate) {
		return fmt.Errorf("%w: no connection for a write of the table became free within %s: those that write it wait, for locks of others perhaps",
			storage.ErrUnavailable, db.o.AcquireTimeout)
	}
	if err != nil {
		return err
	}
	defer leave()
	release, ok := db.writers.try()
	if !ok {
		wait, stop := db.o.Clock.After(db.o.AcquireTimeout)
		defer stop()
		select {
		case db.writers.free <- struct{}{}:
			release = db.writers.put
		case <-wait:
			return fmt.Errorf("%w: no connection for a write became free within %s (there are %d)",
				storage.ErrUnavailable, db.o.AcquireTimeout, cap(db.writers.free))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer release()
	return db.withConn(ctx, f)
}

// try takes a permit if one is free; release is idempotent. Who holds one is one
// of those beside, too, where that leaves one to them: together they would take
// all connections.
func (l *longs) try() (release func(), ok bool) {
	select {
	case l.free <- struct{}{}:
	default:
		return nil, false
	}
	if b := l.beside; b != nil && len(b.free) < cap(b.free)-1 {
		if other, ok := b.try(); ok {
			return sync.OnceFunc(func() { other(); l.put() }), true
		}
	}
	return sync.OnceFunc(l.put), true
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
