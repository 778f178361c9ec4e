// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	lib "modernc.org/sqlite/lib"
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

// migrate brings the catalog to the version this program knows, all in one
// transaction; it refuses a newer one. When there is nothing to do, nothing is
// written: the disk may be full.
func migrate(c *conn, empty bool, now time.Time) error {
	begin := "BEGIN"
	if empty {
		begin = fmt.Sprintf("BEGIN IMMEDIATE; PRAGMA application_id = %d; %s", applicationID, createMigrations)
	}
	if err := c.exec(begin); err != nil {
		return errors.Join(err, rollback(c))
	}
	if err := applyMigrations(c, now); err != nil {
		return errors.Join(err, rollback(c))
	}
	if err := c.exec("COMMIT"); err != nil {
		return errors.Join(err, rollback(c))
	}
	return nil
}

func applyMigrations(c *conn, now time.Time) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	have, err := c.queryInt("SELECT coalesce(max(version), 0) FROM migrations")
	if err != nil {
		return err
	}
	if have > int64(len(files)) {
		return fmt.Errorf("%w: catalog version %d, this program knows %d", ErrNewer, have, len(files))
	}
	for i, name := range files {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read migration: %w", err)
		}
		if err := applyMigration(c, int64(i+1), string(text), int64(i) < have, now); err != nil {
			return fmt.Errorf("migration %d: %w", i+1, err)
		}
	}
	return nil
}

// applyMigration runs one step, or checks that the step done before was this.
func applyMigration(c *conn, version int64, text string, done bool, now time.Time) error {
	digest := sha256.Sum256([]byte(text))
	if done {
		s, err := c.prepare("SELECT digest FROM migrations WHERE version = ?")
		if err != nil {
			return err
		}
		defer s.finalize()
		s.bindInt(1, version)
		found, err := s.step()
		if err == nil && (!found || !bytes.Equal(s.colBlob(0), digest[:])) {
			err = fmt.Errorf("%w: it was made by another program", ErrForeign)
		}
		return err
	}
	if err := c.exec(text); err != nil {
		return err
	}
	s, err := c.prepare("INSERT INTO migrations VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	defer s.finalize()
	s.bindInt(1, version)
	s.bindBlob(2, digest[:])
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
