// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// Times of the table of servers.
const (
	heartbeatEvery = 10 * time.Second
	serverLife     = time.Hour // without a heartbeat
)

// dbClock is the database's clock, carried on by the machine's monotonic one:
// what the wall clocks of the servers say does not matter.
type dbClock struct {
	local clock.Clock
	base  atomic.Pointer[clockBase]
}

// clockBase is one reading of both clocks.
type clockBase struct{ local, database time.Time }

// Now returns the database's time, as of the last measurement.
func (c *dbClock) Now() time.Time { return c.at(c.local.Now()) }

func (c *dbClock) at(local time.Time) time.Time {
	b := c.base.Load()
	return b.database.Add(local.Sub(b.local))
}

// After waits by the machine's clock.
func (c *dbClock) After(d time.Duration) (<-chan time.Time, func()) { return c.local.After(d) }

// set takes a reading of the database's clock made between two of the local
// one. A difference that the time between them explains is none.
func (c *dbClock) set(before, after, database time.Time) {
	took := after.Sub(before)
	local := before.Add(took / 2)
	if b := c.base.Load(); b != nil && c.at(local).Sub(database).Abs() <= took/2+time.Millisecond {
		return
	}
	c.base.Store(&clockBase{local, database.UTC()})
}

// Clock returns the database's clock. Instants that go into the database come
// from it, on every server.
func (db *DB) Clock() clock.Clock { return &db.clock }

// server is a row of the table of servers: a program that has the database
// open.
type server struct {
	ID        uuid.UUID
	Host      string
	PID       int
	Program   string // its version
	Started   time.Time
	Heartbeat time.Time // by the database's clock
}

// liveServers lists the servers whose last heartbeat is not long ago, the oldest
// first.
func liveServers(ctx context.Context, q querier) ([]server, error) {
	rows, err := q.Query(ctx, `SELECT id, host, pid, program, started, heartbeat FROM extenddb.servers
		WHERE heartbeat > clock_timestamp() - $1::interval ORDER BY started, id`, 3*heartbeatEvery)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[server])
}

// presence is the advisory lock that each server shares on its session: a
// migration wants it alone. A server that stands still holds it, one that died
// does not.
const (
	presenceObject = 2
	presenceLock   = lockClass<<32 | presenceObject
)

// enter makes this process one of the servers, on a new session: it shares the
// lock, shows that the catalog is of its version, and beats. A server that comes
// back to a database that was migrated meanwhile, or that is now one from before
// a migration, is barred from it.
func (db *DB) enter(ctx context.Context, c *pgx.Conn) error {
	err := db.share(ctx, c)
	switch {
	case err == nil:
		db.barred.Store(nil)
		return db.beat(ctx, c)
	case errors.Is(err, storage.ErrLocked), errors.Is(err, migrate.ErrPending), errors.Is(err, migrate.ErrNewer),
		errors.Is(err, migrate.ErrEdited), errors.Is(err, ErrForeign):
		if db.barred.Swap(&err) == nil {
			db.o.Log.ErrorContext(ctx, "database was changed by another version and is not used any more", "err", err)
		}
	}
	return err
}

func (db *DB) share(ctx context.Context, c *pgx.Conn) error {
	var got bool
	if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock_shared($1)", int64(presenceLock)).Scan(&got); err != nil {
		return err
	}
	if !got {
		holder, err := lockHolder(ctx, c, presenceObject)
		if err != nil {
			return err
		}
		return &storage.Locked{Holder: holder}
	}
	p, err := planned(ctx, c, &db.o)
	if err == nil && len(p.Steps) > 0 {
		err = &migrate.Pending{Plan: p}
	}
	return err
}

// beat writes this server's row, prunes those of servers that died long ago,
// and measures the database's clock.
func (db *DB) beat(ctx context.Context, c *pgx.Conn) error {
	before := db.o.Clock.Now()
	var now time.Time
	err := c.QueryRow(ctx, `WITH old AS (DELETE FROM extenddb.servers WHERE id IN (
			SELECT id FROM extenddb.servers WHERE heartbeat < clock_timestamp() - $5::interval AND id <> $1 FOR UPDATE SKIP LOCKED))
		INSERT INTO extenddb.servers AS s (id, host, pid, program, started, heartbeat)
		VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET heartbeat = excluded.heartbeat
		RETURNING clock_timestamp()`, db.id, hostName(), os.Getpid(), db.o.Program, serverLife).Scan(&now)
	if err != nil {
		return fmt.Errorf("write the heartbeat: %w", err)
	}
	db.clock.set(before, db.o.Clock.Now(), now)
	return nil
}

// sessionsOfServers lists those that share the lock.
const sessionsOfServers = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND classid::bigint = $1 AND objid::bigint = $2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// endFrozen ends sessions of servers that fill a relation, with locks and a
// transaction that every stream waits for, while nothing comes from their
// server: it is frozen, and no time limit of the database applies to that. They
// are told from the restore of a dump, or who else copies, by the name that they
// have in common with a session of a server, and by the text of copyIn.
const endFrozen = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid() AND wait_event = 'ClientRead'
  AND query ~ '^COPY extenddb_data\.[tu]_[0-9]+ \([a-z, ]+\) FROM STDIN \(FORMAT binary\)$'
  AND query_start < clock_timestamp() - $3::interval
  AND application_name IN (SELECT application_name FROM pg_stat_activity WHERE pid IN (` + sessionsOfServers + `))`

// frozenAfter is how long a server may take to send what one transaction of a
// load holds: some megabytes.
const frozenAfter = time.Minute

// others looks after the other servers: when one has gone, what it left behind
// is work.
func (s *session) others(ctx context.Context, c *pgx.Conn) error {
	var ended int
	if err := c.QueryRow(ctx, endFrozen, int64(lockClass), int64(presenceObject), cmp.Or(s.db.o.hooks.frozen, frozenAfter)).Scan(&ended); err != nil {
		return fmt.Errorf("end sessions of frozen servers: %w", err)
	}
	if ended > 0 {
		s.db.o.Log.WarnContext(ctx, "ended database sessions of another server that is frozen", "sessions", ended)
	}
	rows, err := c.Query(ctx, sessionsOfServers, int64(lockClass), int64(presenceObject))
	if err != nil {
		return fmt.Errorf("look for other servers: %w", err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return fmt.Errorf("look for other servers: %w", err)
	}
	before := s.servers
	s.servers = make(map[int32]struct{}, len(pids))
	for _, pid := range pids {
		s.servers[pid] = struct{}{}
		delete(before, pid)
	}
	if len(before) > 0 {
		s.work()
	}
	return nil
}

// leave removes this server's row and gives up what it owns: the end of a
// connection is noticed only later.
func (db *DB) leave(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "WITH row AS (DELETE FROM extenddb.servers WHERE id = $1) SELECT pg_advisory_unlock_all()", db.id)
	return err
}

// hostName is for people; an empty one will do.
func hostName() string {
	name, _ := os.Hostname()
	return name
}
