// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	lib "modernc.org/sqlite/lib"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// What Open may refuse a file for, beside the errors of storage.
var (
	// ErrForeign: the file is no ExtendDB database. It was not changed.
	ErrForeign = errors.New("not an ExtendDB database")
	// ErrLinked: the file has several names. The log and the lock would be
	// beside one of them only.
	ErrLinked = errors.New("database file has several names")
	// ErrKept: the file is the copy of a database before it was migrated.
	ErrKept = errors.New("the file is the copy kept when a database was migrated, and stays as it is")
	// ErrNoSpace: an older database cannot be copied; see *NoSpace.
	ErrNoSpace = errors.New("too little space")
	// ErrFull: the disk of the file is full.
	ErrFull = errors.New("no space left on the disk")
)

// full is an ErrFull. What SQLite was told to do tells nobody anything.
type full struct {
	dir   string
	cause error
}

func (e *full) Error() string { return fmt.Sprintf("%v of %s", ErrFull, e.dir) }

// Unwrap returns ErrFull and the cause, an error of storage.
func (e *full) Unwrap() []error { return []error{ErrFull, e.cause} }

// opening is what Open, Plan and Migrate return for an error.
func opening(path string, err error) error {
	err = public(err)
	var e *sqliteError
	if errors.As(err, &e) && e.full {
		err = &full{filepath.Dir(path), err}
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// NoSpace is an ErrNoSpace: a database of an older version was not migrated,
// because a copy of it does not fit beside it.
type NoSpace struct {
	Pending    *migrate.Pending
	Dir        string
	Need, Free uint64 // bytes
}

func (e *NoSpace) Error() string {
	return fmt.Sprintf("%v; a copy of it is to be kept, and %s has %d bytes free of the %d that this may take", e.Pending, e.Dir, e.Free, e.Need)
}

// Unwrap returns ErrNoSpace and the *migrate.Pending.
func (e *NoSpace) Unwrap() []error { return []error{ErrNoSpace, e.Pending} }

// public turns an error of SQLite into one of storage, which it wraps; other
// errors stay as they are.
func public(err error) error {
	var e *sqliteError
	if !errors.As(err, &e) || isListed(err) {
		return err
	}
	if isDamage(e) {
		return fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

func isListed(err error) bool {
	return errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrUnavailable) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// isDamage tells errors of what is stored from those of the moment.
func isDamage(e *sqliteError) bool {
	switch e.primary() {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_ERROR:
		return true
	}
	return false
}

// dooms reports whether an error met by one request ends the whole batch:
// the disk is full, memory short, a file unreadable. All other errors are
// those of the request alone.
func dooms(err error) bool {
	var e *sqliteError
	return errors.As(err, &e) && !isDamage(e)
}

// damage is an ErrCorrupt that no statement noticed.
type damage struct{ what string }

func (e *damage) Error() string { return "storage is corrupt: " + e.what }

// Unwrap returns storage.ErrCorrupt.
func (e *damage) Unwrap() error { return storage.ErrCorrupt }
