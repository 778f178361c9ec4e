// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	lib "modernc.org/sqlite/lib"

	"github.com/extenddb/extenddb/server/storage/migrate"
)

// migrations holds one file per version of the catalog, in order. A file that
// was released never changes: databases remember its digest.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the file as ours: "ExtD".
const applicationID = 0x45787444

const createMigrations = `CREATE TABLE migrations (
  version INTEGER PRIMARY KEY, digest BLOB NOT NULL, at INTEGER NOT NULL
) STRICT`

// identify refuses a file that is not ours, before anything is written to it.
func identify(c *conn) (empty bool, err error) {
	id, err := c.queryInt("PRAGMA application_id")
	if err != nil {
		var e *sqliteError
		if errors.As(err, &e) && e.primary() == lib.SQLITE_NOTADB {
			err = fmt.Errorf("%w: %s", ErrForeign, e.Text)
		}
		return false, err
	}
	if id == applicationID {
		return false, nil
	}
	n, err := c.queryInt("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return false, err
	}
	if id != 0 || n != 0 {
		return false, fmt.Errorf("%w: a SQLite database of another program", ErrForeign)
	}
	return true, nil
}

// planned tells what a file needs; it refuses one that is not ours, or newer.
func planned(ctx context.Context, c *conn) (migrate.Plan, error) {
	steps, err := migrate.Load(migrations, "migrations")
	if err != nil {
		return migrate.Plan{}, err
	}
	empty, err := identify(c)
	if err != nil || empty {
		return migrate.Plan{To: len(steps), Steps: steps}, err
	}
	var applied []migrate.Applied
	err = c.each(ctx, "SELECT version, digest, at FROM migrations ORDER BY version", func(s *stmt) error {
		applied = append(applied, migrate.Applied{
			Version: int(s.colInt(0)), Digest: append([]byte(nil), s.colBlob(1)...), At: time.UnixMilli(s.colInt(2)).UTC(),
		})
		return nil
	})
	if err != nil {
		return migrate.Plan{}, err
	}
	return migrate.Compare(steps, applied)
}

// Plan tells what the database of o.Path needs, once whoever has it has ended,
// or m.LockWait is over. It writes nothing; a file of 0 bytes is an empty
// database. Errors: fs.ErrNotExist, and those of Open and Migrate.
func Plan(ctx context.Context, o Options, m migrate.Options) (migrate.Plan, error) {
	o.setDefaults()
	p, err := planOf(ctx, o, m)
	if err != nil {
		return p, opening(o.Path, err)
	}
	return p, nil
}

func planOf(ctx context.Context, o Options, m migrate.Options) (p migrate.Plan, err error) {
	if err := setUpDriver(); err != nil {
		return p, err
	}
	path, err := resolve(o.Path)
	if err != nil {
		return p, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return p, fmt.Errorf("find database: %w", err)
	}
	if err := errors.Join(checkCompanion(path), checkLock(path), checkHeader(path, info)); err != nil {
		return p, err
	}
	l, err := awaitLock(ctx, o.Clock, m, func() (*flock.Flock, error) { return lookLock(path) })
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	_, wal := os.Lstat(path + "-wal")
	_, journal := os.Lstat(path + "-journal")
	c, err := openToRead(path, errors.Is(wal, fs.ErrNotExist) && errors.Is(journal, fs.ErrNotExist))
	if err != nil {
		return p, err
	}
	if p, err = planned(ctx, c); err == nil {
		err = refuseKept(path, p)
	}
	return p, errors.Join(err, c.close())
}

// Migrate brings the database of o.Path, which is made when it is not there, to
// the version of this program; of one of an older version it keeps a copy,
// unless it is told not to. Errors are those of Open.
func Migrate(ctx context.Context, o Options, m migrate.Options) (done migrate.Done, err error) {
	o.setDefaults()
	db := &DB{o: o, path: o.Path}
	if done, err = db.migrateAlone(ctx, m); err != nil {
		db.abandon()
		return done, opening(o.Path, err)
	}
	db.release()
	return done, nil
}

func (db *DB) migrateAlone(ctx context.Context, m migrate.Options) (done migrate.Done, err error) {
	c, _, err := db.take(ctx, m)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return db.migrate(ctx, c, m)
}

// migrateItself migrates the database that is being opened, and tells of it.
func (db *DB) migrateItself(ctx context.Context, c *conn) error {
	began := db.o.Clock.Now()
	done, err := db.migrate(ctx, c, migrate.Options{})
	if err == nil && done.Copy != "" { // a warning: a file is there that was not, and nobody else removes it
		db.o.Log.WarnContext(ctx, "database was of an older version and was migrated; remove the copy when the new version proves itself",
			"path", db.path, "from", done.Plan.From, "to", done.Plan.To, "copy", done.Copy, "took", db.o.Clock.Now().Sub(began))
	}
	return err
}

// migrate sets the connection up and brings the catalog to the version that this
// program knows. When there is nothing to do, nothing is written: the disk may
// be full.
func (db *DB) migrate(ctx context.Context, c *conn, m migrate.Options) (done migrate.Done, err error) {
	if done.Plan, err = planned(ctx, c); err == nil { // before the file is touched
		err = refuseKept(db.path, done.Plan)
	}
	if err == nil {
		err = db.configure(c, db.o.CacheBytes)
	}
	if err != nil || len(done.Plan.Steps) == 0 {
		return done, err
	}
	err = interruptible(ctx, c, func() error {
		if done.Plan.From == 0 {
			return db.initialise(c, done.Plan, m)
		}
		done.Copy, err = db.runSteps(c, done.Plan, m)
		return err
	})
	return done, err
}

// interruptible runs f, whose statements fail when ctx ends.
func interruptible(ctx context.Context, c *conn, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		c.interrupt()
	})
	err := f()
	if !stop() { // it needs the connection
		<-interrupted
	}
	if cerr := ctx.Err(); cerr != nil && err != nil {
		return cerr
	}
	return err
}

// initialise makes the catalog of an empty file: a file either has one or is
// empty still.
func (db *DB) initialise(c *conn, p migrate.Plan, m migrate.Options) error {
	return inTransaction(c, func() error {
		if err := c.exec(fmt.Sprintf("PRAGMA application_id = %d; %s", applicationID, createMigrations)); err != nil {
			return err
		}
		for i, s := range p.Steps {
			m.Begin(s, i+1, len(p.Steps))
			if err := runStep(c, s, db.o.Clock.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// runSteps runs each step in a transaction of its own: what is killed goes on
// where it was. The copy gets its name just before the first commit: until then
// the database is as it was, and the next attempt makes another. It returns the
// name of the copy.
func (db *DB) runSteps(c *conn, p migrate.Plan, m migrate.Options) (kept string, err error) {
	cp, err := db.copyBefore(c, p, m)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, cp.discard()) }()
	for i, s := range p.Steps {
		m.Begin(s, i+1, len(p.Steps))
		err := inTransaction(c, func() error {
			err := runStep(c, s, db.o.Clock.Now())
			db.at("ran")
			if err == nil && i == 0 {
				err = cp.keep()
				db.at("kept")
			}
			return err
		})
		if err != nil {
			return cp.name, err
		}
		db.at("committed")
	}
	return cp.name, nil
}

func (db *DB) at(point string) {
	if f := db.o.hooks.migration; f != nil {
		f(point)
	}
}

func inTransaction(c *conn, f func() error) error {
	err := c.exec("BEGIN IMMEDIATE")
	if err == nil {
		err = f()
	}
	if err == nil {
		err = c.exec("COMMIT")
	}
	if err != nil {
		return errors.Join(err, rollback(c))
	}
	return nil
}

// runStep runs a step and notes it.
func runStep(c *conn, step migrate.Step, now time.Time) error {
	err := c.exec(step.SQL)
	if err == nil {
		err = noteStep(c, step, now)
	}
	if err != nil {
		return fmt.Errorf("migration %d (%s): %w", step.Version, step.Name, err)
	}
	return nil
}

func noteStep(c *conn, step migrate.Step, now time.Time) error {
	s, err := c.prepare("INSERT INTO migrations VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	defer s.finalize()
	s.bindInt(1, int64(step.Version))
	s.bindBlob(2, step.Digest[:])
	s.bindInt(3, millis(now))
	return s.run()
}

// rollback ends a transaction, if an error has not ended it already.
func rollback(c *conn) error {
	if c.autocommit() {
		return nil
	}
	return c.exec("ROLLBACK")
}
