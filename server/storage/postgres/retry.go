// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// Retries of what met a conflict: some 0.3 s in all.
const (
	conflictTries = 8
	lockTries     = 2 // of those that wait for a lock for as long as they may
	retryMin      = 4 * time.Millisecond

	doubtTries = 6 // some 6 s in all
	doubtMin   = 100 * time.Millisecond
	doubtTime  = 10 * time.Second // however long each try takes
)

// retry runs f again, after a growing and random pause, while it meets a
// conflict, and once more where its connection turned out to be dead before
// anything was sent. f takes its own connection, so that none is held in the
// pauses.
func (db *DB) retry(ctx context.Context, f func() error) error {
	pause, dead, waits := retryMin, false, 0
	for try := 1; ; try++ {
		err := f()
		if codeOf(err) == codeLockTimeout {
			waits++
		}
		switch {
		case err == nil, try == conflictTries, waits == lockTries, ctx.Err() != nil:
			return err
		case isConflict(err), errors.Is(err, storage.ErrConflict):
		case pgconn.SafeToRetry(err) && !dead:
			dead = true
			continue
		default:
			return err
		}
		tick, stop := db.o.Clock.After(pause/2 + rand.N(pause))
		select {
		case <-tick:
		case <-ctx.Done():
			stop()
			return ctx.Err()
		}
		pause *= 2
	}
}

// certain runs f, which commits one transaction, until what became of it is
// known: f finds out, where the try before ended in doubt, behind a lock that
// is held until that one has ended. It gives up after some seconds.
func (db *DB) certain(ctx context.Context, f func() error) error {
	err := db.retry(ctx, f)
	if !errors.Is(err, storage.ErrInDoubt) {
		return err
	}
	since := db.o.Clock.Now()
	for pause, try := doubtMin, 0; try < doubtTries && db.o.Clock.Now().Sub(since) < doubtTime; pause, try = 2*pause, try+1 {
		tick, stop := db.o.Clock.After(pause/2 + rand.N(pause))
		select {
		case <-tick:
		case <-ctx.Done():
			stop()
			return err
		}
		again := db.retry(ctx, f)
		if again == nil {
			again = db.withConn(ctx, func(c *pgxpool.Conn) error { return replicate(ctx, c.Conn()) })
		}
		switch {
		case settles(again):
			return again
		case errors.Is(again, storage.ErrClosed):
			return err
		}
	}
	return err
}

// settles reports whether a try tells what became of those before it: one that
// could not look does not.
func settles(err error) bool {
	for _, e := range []error{
		storage.ErrInDoubt, storage.ErrUnavailable, storage.ErrConflict, storage.ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return false
		}
	}
	return !isConflict(err)
}

// inTx runs f in a transaction on c. ErrInDoubt when the database was lost in
// COMMIT.
func (db *DB) inTx(ctx context.Context, c *pgxpool.Conn, f func(tx pgx.Tx) error) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback(ctx) // a connection that cannot is closed
		return err
	}
	commit := db.o.hooks.commit
	if commit == nil {
		commit = func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }
	}
	if err := commit(ctx, tx); inDoubt(err) {
		return fmt.Errorf("%w: %w", storage.ErrInDoubt, err)
	} else if err != nil {
		return err
	}
	if err := replicated(ctx, c.Conn()); err != nil {
		return only(storage.ErrInDoubt, err)
	}
	return nil
}
