// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// Options say how to open a database.
type Options struct {
	// URL is a connection URL or string as libpq takes it; what it leaves out
	// comes from the PG* environment variables, the service and password
	// files.
	URL string
	// MaxConns bounds the pool; one more connection is used beside it. 0: the
	// connection string's pool_max_conns, else 4 per CPU, 16 at least.
	MaxConns       int
	StatementCache int           // prepared statements per connection; 0: the connection string's, else 512
	AcquireTimeout time.Duration // how long a call waits for a connection of the pool; 0: 5 s
	MaxTables      int           // per account; 0: 2,500, the service's quota
	Program        string        // version of this program, for the table of servers
	Clock          clock.Clock
	Log            *slog.Logger

	hooks hooks
}

// hooks let tests stand in the middle of things; nil ones do nothing.
type hooks struct {
	// dropping and loading may fail a drop before it is committed, and a load at
	// each of its points.
	dropping func() error
	loading  func(point string) error
	// heard may lose an announcement of another server, by returning false.
	heard func(payload string) bool
	write writeHooks
	// frozen is how long a load may send nothing; 0: frozenAfter.
	frozen time.Duration
	// round stands in for the wait between two looks at the connections.
	round func() (tick <-chan time.Time, stop func())
	// commit stands in for the COMMIT of inTx.
	commit func(ctx context.Context, tx pgx.Tx) error
	// steps makes of the migrations that there are others; migration is told of
	// points within each: "ran", "noted".
	steps     func([]migrate.Step) []migrate.Step
	migration func(point string)
	// snapDefinition and snapItems are called in the opening of a snapshot, after
	// its definition is read and as its last step; snapRead with each FETCH, of
	// as many rows as snapRows says, if that is more than none.
	snapDefinition, snapItems, snapRead func()
	snapRows                            func() int
}

func (o *Options) setDefaults() {
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
	id      uuid.UUID // of this process in the table of servers
	pool    *pgxpool.Pool
	wires   wires
	unwatch context.CancelFunc // ends the watch over wires
	session *session
	barred  atomic.Pointer[error] // why this process may not use the catalog any more
	clock   dbClock
	info    Info
	lz4     bool
	life    storage.Life
	closing sync.Once
	memory  memory
	defs    definitions
	stats   *tracker
	longs   *longs
	writers *longs
	writes  writes // see write.go
	claims  *claims
	refused atomic.Int64 // when the log last told of a missing right, in Unix nanoseconds
	reads   reads
	samples samples
	snaps   *storage.OpenSnapshots
}

// Open connects to the database and initialises it when it is empty. Errors: a
// *Refused for a database that cannot be used as it is, a *migrate.Pending when
// its catalog is older, *migrate.Newer, migrate.ErrEdited, and those of storage.
func Open(ctx context.Context, o Options) (*DB, error) {
	o.setDefaults()
	cfg, err := configure(&o)
	if err != nil {
		return nil, err
	}
	o.MaxConns = int(cfg.MaxConns)
	db := &DB{o: o, id: uuid.New(), clock: dbClock{local: o.Clock}, writers: newWriters(o.MaxConns), claims: newClaims()}
	db.longs = newLongs(o.MaxConns, db.writers)
	db.stats, db.snaps = newTracker(db), storage.NewOpenSnapshots(max(1, o.MaxConns/2))
	db.wires.install(cfg)
	prepared := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if err := prepared(ctx, c); err != nil {
			return err
		}
		return db.recall(atOnce(ctx), c)
	}
	if db.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open the connection pool: %w", err)
	}
	db.session = newSession(db)
	watch, stop := context.WithCancel(context.Background())
	db.unwatch = stop
	go db.watch(watch)
	if err := db.open(ctx); err != nil {
		db.pool.Close()
		db.unwatch()
		return nil, opening(err)
	}
	return db, nil
}

func (db *DB) open(ctx context.Context) error {
	s := db.session
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	err = db.withConn(ctx, func(pooled *pgxpool.Conn) error {
		return explainDenied(ctx, pooled.Conn(), db.prepare(ctx, c, pooled.Conn()))
	})
	if err != nil {
		s.fail(c)
		return err
	}
	s.start(c)
	db.info.log(ctx, db.o.Log)
	return nil
}

// prepare makes the database ready to be used, with the connection of the
// session and another one.
func (db *DB) prepare(ctx context.Context, c, pooled *pgx.Conn) (err error) {
	if err := proveSessions(ctx, c, pooled); err != nil {
		return err
	}
	if db.info, err = db.inspect(ctx, c); err != nil {
		return err
	}
	if db.info.New, err = initialise(ctx, pooled, &db.o, func() error { return db.enter(ctx, c) }); err != nil {
		return err
	}
	return db.endLoads(ctx, pooled)
}

// opening is what Open returns for an error.
func opening(err error) error {
	err = unreached(err)
	var (
		refused *Refused
		misused *Misused
		without *denied
	)
	switch {
	case errors.As(err, &misused):
		return misused
	case errors.As(err, &without):
		return without
	case errors.As(err, &refused):
		return refused
	case errors.As(err, new(*Unreached)):
	case codeOf(err) == codePrivilege:
		return denial(oneLine(lackingRight(err)), rightsRemedy)
	}
	return public(err)
}

// Ping implements storage.Lifecycle.
func (db *DB) Ping(ctx context.Context) error {
	ctx = atOnce(ctx) // who only looks need not know what became of it
	return db.read(ctx, func(c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "SELECT 1 FROM extenddb.tables LIMIT 1")
		return err
	})
}

// Close implements storage.Lifecycle.
func (db *DB) Close() error {
	db.closing.Do(func() {
		db.await()
		done := make(chan struct{})
		go db.wires.endAfter(closeTime, false, done)
		var all sync.WaitGroup
		all.Go(db.snaps.Close)
		all.Go(func() { _ = db.stats.flush(context.Background()) }) // else it will be counted later
		all.Go(db.session.end)
		all.Wait()
		db.pool.Close()
		close(done)
		db.unwatch()
	})
	return nil
}

// closeTime is how long Close takes it from a database that it does not answer,
// and how long Close takes once no call is inside.
const closeTime = 10 * time.Second

// await lets no call in any more and waits for those inside: as long as they
// take, if the database answers.
func (db *DB) await() {
	done, ended := make(chan struct{}), make(chan bool, 1)
	go func() { ended <- db.wires.endAfter(closeTime, true, done) }()
	db.life.Close()
	close(done)
	if <-ended {
		db.o.Log.Warn("the database does not answer: calls that waited for it were given up", "after", closeTime)
	}
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
		return db.failed(ctx, err)
	}
	return nil
}

func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if db.wires.over() {
		return nil, storage.ErrClosed
	}
	if barred := db.barred.Load(); barred != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, *barred)
	}
	wait, cancel := context.WithTimeout(ctx, db.o.AcquireTimeout)
	defer cancel()
	c, err := db.pool.Acquire(atOnce(wait))
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case wait.Err() != nil && !errors.As(err, new(*pgconn.ConnectError)):
		return nil, fmt.Errorf("%w: no connection became free within %s (the pool has %d)",
			storage.ErrUnavailable, db.o.AcquireTimeout, db.o.MaxConns)
	}
	if errors.As(err, new(*Refused)) {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	if err = unreached(err); errors.Is(err, storage.ErrUnavailable) {
		err = errors.New(strings.TrimPrefix(err.Error(), storage.ErrUnavailable.Error()+": "))
	}
	return nil, only(storage.ErrUnavailable, err) // a timeout in it is not the caller's
}
