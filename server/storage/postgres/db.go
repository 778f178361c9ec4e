// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// Options say how to open a database.
type Options struct {
	// URL is a connection URL or string as libpq takes it; what it leaves out
	// comes from the PG* environment variables, the service and password
	// files.
	URL            string
	MaxConns       int           // of the pool; two more are used beside it; 0: 4 per CPU, 16 at least
	AcquireTimeout time.Duration // how long a call waits for a connection of the pool; 0: 5 s
	MaxTables      int           // per account; 0: 2,500, the service's quota
	Program        string        // version of this program, for the table of servers
	Clock          clock.Clock
	Log            *slog.Logger

	hooks hooks
}

// hooks let tests stand in the middle of things; nil ones do nothing.
type hooks struct{}

func (o *Options) setDefaults() {
	if o.MaxConns == 0 {
		o.MaxConns = max(4*runtime.NumCPU(), 16)
	}
	if o.AcquireTimeout == 0 {
		o.AcquireTimeout = 5 * time.Second
	}
	if o.MaxTables == 0 {
		o.MaxTables = 2500
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// DB is an open database: a storage.Engine.
type DB struct {
	o       Options
	pool    *pgxpool.Pool
	life    storage.Life
	closing sync.Once
	defs    definitions
	stats   *tracker
	longs   *longs
}

// Open connects to the database and initialises it when it is empty. Errors: a
// *migrate.Pending when its catalog is older, *migrate.Newer, migrate.ErrEdited,
// and those of storage.
func Open(ctx context.Context, o Options) (*DB, error) {
	o.setDefaults()
	cfg, err := configure(o)
	if err != nil {
		return nil, err
	}
	db := &DB{o: o, longs: newLongs(o.MaxConns)}
	db.stats = newTracker(db)
	if db.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open the connection pool: %w", err)
	}
	if err := db.open(ctx); err != nil {
		db.pool.Close()
		return nil, public(err)
	}
	return db, nil
}

func (db *DB) open(ctx context.Context) error {
	return db.withConn(ctx, func(c *pgxpool.Conn) error { return initialise(ctx, c.Conn()) })
}

// Ping implements storage.Lifecycle.
func (db *DB) Ping(ctx context.Context) error {
	return db.call(ctx, func(c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "SELECT 1 FROM extenddb.tables LIMIT 1")
		return err
	})
}

// Close implements storage.Lifecycle.
func (db *DB) Close() error {
	db.closing.Do(func() {
		db.life.Close()
		db.pool.Close()
	})
	return nil
}

// call runs f inside the engine with a connection of the pool; the error is one
// of storage.
func (db *DB) call(ctx context.Context, f func(c *pgxpool.Conn) error) error {
	if err := db.life.Enter(); err != nil {
		return err
	}
	defer db.life.Leave()
	return db.withConn(ctx, f)
}

// withConn runs f with a connection of the pool; the error is one of storage.
// Who holds a connection must not ask for another.
func (db *DB) withConn(ctx context.Context, f func(c *pgxpool.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := f(c); err != nil {
		return public(err)
	}
	return nil
}

func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	wait, cancel := context.WithTimeout(ctx, db.o.AcquireTimeout)
	defer cancel()
	c, err := db.pool.Acquire(wait)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: no connection became free within %s", storage.ErrUnavailable, db.o.AcquireTimeout)
	}
	return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}
