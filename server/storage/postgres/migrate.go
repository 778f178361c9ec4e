// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// migrations holds one file per version of the catalog, in order. A file that
// was released never changes: databases remember its digest.
//
//go:embed migrations/*.sql
var migrations embed.FS

// ErrForeign is the error of a database in whose schemas of ours there is what is
// not ours, or not all that is. It was not changed.
var ErrForeign = errors.New("not an ExtendDB database")

// createMigrations makes a schema only where there is none: an administrator may
// have made it for a role that may not.
const createMigrations = `DO $$ BEGIN
  IF to_regnamespace('extenddb') IS NULL THEN CREATE SCHEMA extenddb; END IF;
  IF to_regnamespace('extenddb_data') IS NULL THEN CREATE SCHEMA extenddb_data; END IF;
END $$;
CREATE TABLE IF NOT EXISTS extenddb.migrations (
  version integer PRIMARY KEY, name text NOT NULL, digest bytea NOT NULL, applied timestamptz NOT NULL DEFAULT now()
)`

// Plan tells what a database needs; From is 0 for an empty one. It writes
// nothing and waits for nobody. That an empty one may be initialised is a
// condition.
func Plan(ctx context.Context, o Options) (p migrate.Plan, err error) {
	err = alone(ctx, o, "extenddb migrate --dry-run", func(c *pgx.Conn) error {
		p, err = planned(ctx, c, &o)
		switch {
		case err == nil && p.From == 0:
			err = mayInitialise(ctx, c)
		case err == nil && len(p.Steps) == 0:
			err = usableCatalog(ctx, c)
		}
		return err
	})
	return p, err
}

// Migrate brings a database to the version of this program. An empty one is
// initialised; an older one is migrated once no server has it open. Errors: a
// *storage.Locked that names the other migration, or the servers, when they are
// still there after m.LockWait, ErrConflict when others hold the tables for as
// long, and those of Open. No copy is made.
func Migrate(ctx context.Context, o Options, m migrate.Options) (done migrate.Done, err error) {
	o.setDefaults()
	name := fmt.Sprintf("extenddb migrate, process %d on %s", os.Getpid(), hostName())
	err = alone(ctx, o, name, func(c *pgx.Conn) error {
		until := o.Clock.Now().Add(m.LockWait)
		return underLock(ctx, c, m, func() error {
			if done.Plan, err = planned(ctx, c, &o); err != nil {
				return err
			}
			if len(done.Plan.Steps) == 0 {
				return usableCatalog(ctx, c)
			}
			if done.Plan.From > 0 {
				err = awaitServers(ctx, c, o, m, until)
			} else {
				err = mayInitialise(ctx, c)
			}
			if err != nil {
				return err
			}
			return runSteps(ctx, c, &o, done.Plan, m)
		})
	})
	return done, err
}

// alone runs f with a connection of its own, called name, to a database that can
// be used.
func alone(ctx context.Context, o Options, name string, f func(c *pgx.Conn) error) (err error) {
	defer func() { err = opening(err) }()
	o.setDefaults()
	cfg, err := configure(&o)
	if err != nil {
		return err
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = name[:min(len(name), maxName)]
	var conns [2]*pgx.Conn
	for i := range conns {
		c, err := pgx.ConnectConfig(ctx, cfg.ConnConfig.Copy())
		if err != nil {
			return err
		}
		defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the database notices in any case
		if err := prepareConn(ctx, c); err != nil {
			return err
		}
		conns[i] = c
	}
	if err := proveSessions(ctx, conns[0], conns[1]); err != nil {
		return err
	}
	if _, err := (&DB{o: o}).inspect(ctx, conns[0]); err != nil {
		return err
	}
	return ended(ctx, explainDenied(ctx, conns[0], f(conns[0])))
}

// maxName is how many bytes of application_name the database keeps.
const maxName = 63

// startLockWait is how long a start waits for a migration, or another start.
const startLockWait = 30 * time.Second

// initialise makes the catalog of an empty database, and refuses one of another
// version than this program's. register then makes this process known, before a
// migration may begin. isNew: it was empty.
func initialise(ctx context.Context, c *pgx.Conn, o *Options, register func() error) (isNew bool, err error) {
	err = underLock(ctx, c, migrate.Options{LockWait: startLockWait}, func() error {
		p, err := planned(ctx, c, o)
		switch {
		case err != nil:
			return err
		case p.From == 0:
			if err = mayInitialise(ctx, c); err == nil {
				err = runSteps(ctx, c, o, p, migrate.Options{})
			}
			isNew = err == nil
		case len(p.Steps) > 0:
			err = &migrate.Pending{Plan: p}
		default:
			err = usableCatalog(ctx, c)
		}
		if err != nil {
			return err
		}
		return register()
	})
	return isNew, err
}

// usableCatalog returns an error unless a catalog of this version is whole, and
// the role may use it.
func usableCatalog(ctx context.Context, c *pgx.Conn) error {
	if err := mayServe(ctx, c); err != nil {
		return err
	}
	return whole(ctx, c)
}

// planned tells what a database needs.
func planned(ctx context.Context, q querier, o *Options) (migrate.Plan, error) {
	steps, err := migrate.Load(migrations, "migrations")
	if err != nil {
		return migrate.Plan{}, err
	}
	if o.hooks.steps != nil {
		steps = o.hooks.steps(steps)
	}
	applied, err := appliedSteps(ctx, q)
	if err != nil {
		return migrate.Plan{}, err
	}
	return migrate.Compare(steps, applied)
}

// appliedSteps reads the steps that a database had; none when our schemas are
// empty or not there.
func appliedSteps(ctx context.Context, q querier) ([]migrate.Applied, error) {
	var noted, catalog, more bool
	err := q.QueryRow(ctx, `SELECT to_regclass('extenddb.migrations') IS NOT NULL, to_regclass('extenddb.tables') IS NOT NULL,
		EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname IN ('extenddb', 'extenddb_data') AND c.relname NOT IN ('migrations', 'migrations_pkey'))`).
		Scan(&noted, &catalog, &more)
	if err != nil {
		return nil, err
	}
	if !noted {
		if more {
			return nil, fmt.Errorf("%w: its schema extenddb or extenddb_data holds something else", ErrForeign)
		}
		return nil, nil
	}
	rows, err := q.Query(ctx, "SELECT version, digest, applied FROM extenddb.migrations ORDER BY version")
	var applied []migrate.Applied
	if err == nil {
		applied, err = pgx.CollectRows(rows, pgx.RowToStructByPos[migrate.Applied])
	}
	switch {
	case isStale(err): // no such columns
		return nil, fmt.Errorf("%w: its schema extenddb holds something else", ErrForeign)
	case err != nil:
		return nil, err
	case len(applied) > 0 && !catalog, len(applied) == 0 && more:
		return nil, fmt.Errorf("%w: its schema extenddb was made by one, but not all of it is there", ErrForeign)
	}
	return applied, nil
}

func runSteps(ctx context.Context, c *pgx.Conn, o *Options, p migrate.Plan, m migrate.Options) error {
	for i, s := range p.Steps {
		m.Begin(s, i+1, len(p.Steps))
		if err := runStep(ctx, c, o, s, m.LockWait); err != nil {
			return fmt.Errorf("migration %d (%s): %w", s.Version, s.Name, err)
		}
	}
	return nil
}

// runStep runs a step and notes it, in one transaction: what is killed goes on
// where it was. It waits for whoever holds the tables no longer than it is told.
func runStep(ctx context.Context, c *pgx.Conn, o *Options, s migrate.Step, wait time.Duration) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL "+lockTimeout(wait)); err != nil {
			return err
		}
		if s.Version == 1 {
			if _, err := tx.Exec(ctx, createMigrations); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, s.SQL); err != nil {
			return err
		}
		o.migrating("ran")
		_, err := tx.Exec(ctx, "INSERT INTO extenddb.migrations (version, name, digest) VALUES ($1, $2, $3)", s.Version, s.Name, s.Digest[:])
		o.migrating("noted")
		return err
	})
}

func (o *Options) migrating(point string) {
	if f := o.hooks.migration; f != nil {
		f(point)
	}
}

// lockTimeout is the setting for a wait; 0, which would be no limit, is next to none.
func lockTimeout(wait time.Duration) string {
	return fmt.Sprintf("lock_timeout = %d", max(wait, 10*time.Millisecond).Milliseconds())
}

// serversPoll is how often it is looked whether servers have gone.
const serversPoll = time.Second

// awaitServers waits until no server has the database open, and keeps others from
// it: they would go on with the old catalog.
func awaitServers(ctx context.Context, c *pgx.Conn, o Options, m migrate.Options, until time.Time) error {
	told := ""
	for {
		var alone bool
		err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(presenceLock)).Scan(&alone)
		if err != nil || alone {
			return err
		}
		holder, err := nameServers(ctx, c)
		if err != nil {
			return err
		}
		if !o.Clock.Now().Before(until) {
			return &storage.Locked{Holder: holder}
		}
		if told != holder {
			told = holder
			m.Wait(holder)
		}
		again, stop := o.Clock.After(serversPoll)
		select {
		case <-again:
		case <-ctx.Done():
			stop()
			return ctx.Err()
		}
	}
}

// nameServers names who has the database open: as they registered, or, should
// their heartbeats be missing, as the database knows them.
func nameServers(ctx context.Context, c *pgx.Conn) (string, error) {
	list, err := liveServers(ctx, c)
	if err != nil || len(list) == 0 {
		if err == nil {
			return lockHolder(ctx, c, presenceObject)
		}
		return "", err
	}
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = fmt.Sprintf("process %d on %s (extenddb %s) since %s", s.PID, s.Host, s.Program, s.Started.UTC().Format(time.RFC3339))
	}
	return strings.Join(names, ", "), nil
}

// underLock runs f while this connection holds the lock of migrations; a
// *storage.Locked when somebody else has it for longer than m.LockWait.
func underLock(ctx context.Context, c *pgx.Conn, m migrate.Options, f func() error) error {
	if err := takeLock(ctx, c, m); err != nil {
		return err
	}
	defer c.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(migrationLock)) //nolint:errcheck // a connection that is lost holds nothing
	return f()
}

// migrationLock is the advisory lock of who changes the catalog's version, or
// needs it to stay.
const (
	lockClass, lockObject = 0x45787444, 1
	migrationLock         = lockClass<<32 | lockObject
)

func takeLock(ctx context.Context, c *pgx.Conn, m migrate.Options) error {
	var got bool
	if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(migrationLock)).Scan(&got); err != nil || got {
		return err
	}
	holder, err := lockHolder(ctx, c, lockObject)
	if err != nil {
		return err
	}
	if m.LockWait <= 0 {
		return &storage.Locked{Holder: holder}
	}
	m.Wait(holder)
	if _, err := c.Exec(ctx, "SET "+lockTimeout(m.LockWait)); err != nil {
		return err
	}
	_, err = c.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock))
	if codeOf(err) == codeLockTimeout {
		if holder, err = lockHolder(ctx, c, lockObject); err == nil {
			err = &storage.Locked{Holder: holder}
		}
	}
	if _, serr := c.Exec(context.WithoutCancel(ctx), "SET "+lockTimeout(lockTime)); err == nil {
		err = serr
	}
	return err
}

// lockHolder names who holds one of our advisory locks.
func lockHolder(ctx context.Context, c *pgx.Conn, object int64) (string, error) {
	rows, err := c.Query(ctx, `SELECT format('database process %s (%s) of %s since %s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'),
			coalesce(host(a.client_addr), 'that machine'), coalesce(to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'some time'))
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND l.classid::bigint = $1 AND l.objid::bigint = $2 AND l.objsubid = 1
		ORDER BY a.backend_start, a.pid`, int64(lockClass), object)
	if err != nil {
		return "", err
	}
	holders, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if len(holders) == 0 { // it has just gone
		return "another process", err
	}
	return strings.Join(holders, ", "), err
}
