// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
)

// The errors an engine may return, each perhaps wrapped, beside those that
// Decide, change and check return and the context's own.
var (
	ErrTableNotFound = errors.New("no such table")
	ErrTableExists   = errors.New("table exists") // see *TableExists
	ErrTooManyTables = errors.New("too many tables")
	ErrStale         = errors.New("table definition is out of date")
	ErrReplayed      = errors.New("request was carried out before")
	ErrTokenMismatch = errors.New("token was used with another request")
	ErrClaimed       = errors.New("work is owned by somebody else")
	ErrNoWork        = errors.New("nothing to do")
	ErrClosed        = errors.New("engine is closed")
	// ErrTableNotActive: a snapshot of a table that is CREATING.
	ErrTableNotActive = errors.New("table is not active")
	// ErrTooManySnapshots: the engine holds as many as it may.
	ErrTooManySnapshots = errors.New("too many table snapshots are open")
	// ErrSnapshotExpired: the engine no longer has the instant; a new snapshot
	// may succeed.
	ErrSnapshotExpired = errors.New("snapshot has expired")
	// ErrUnsupported: this engine, as it is set up, cannot do it.
	ErrUnsupported = errors.New("not supported by this storage engine")
	// ErrUnavailable: the engine could not do it now (disk full, I/O error,
	// database gone, all connections in use). Nothing of the call was kept; it
	// may be tried again.
	ErrUnavailable = errors.New("storage is unavailable")
	// ErrConflict: other writers were in the way each time it was tried
	// (deadlock, serialisation failure, lock timeout). Nothing of the call was
	// kept; it may be tried again.
	ErrConflict = errors.New("other writers were in the way")
	// ErrInDoubt: the database was lost while the call was committed. It was
	// carried out as a whole or not at all, and nobody can tell.
	ErrInDoubt = errors.New("it is not known whether it was carried out")
	// ErrHeld: somebody holds what a step of work needs; see *Held.
	ErrHeld = errors.New("what it needs is held")
	// ErrCorrupt: what is stored contradicts itself.
	ErrCorrupt = errors.New("storage is corrupt")
	// ErrLocked: another process holds the database; see *Locked.
	ErrLocked = errors.New("database is in use")
	// ErrInvalid: the caller broke the contract (found by Checked).
	ErrInvalid = errors.New("invalid call")
)

// TableExists is an ErrTableExists with the table that is there.
type TableExists struct{ Table *Table }

func (e *TableExists) Error() string { return fmt.Sprintf("table %q exists", e.Table.Name()) }

// Unwrap returns ErrTableExists.
func (e *TableExists) Unwrap() error { return ErrTableExists }

// Cancelled is what WriteAll returns when at least one Decide refused: nothing
// was written. Reasons has one element per Write, nil where it agreed.
type Cancelled struct{ Reasons []error }

func (e *Cancelled) Error() string {
	for i, r := range e.Reasons {
		if r != nil {
			return fmt.Sprintf("write %d of %d refused: %v", i+1, len(e.Reasons), r)
		}
	}
	return "cancelled"
}

// Final marks a refusal of a Decide after which the others need not be asked:
// see WriteAll.
func Final(err error) error { return &final{err} }

// IsFinal reports whether a refusal is one of Final.
func IsFinal(err error) bool {
	var f *final
	return errors.As(err, &f)
}

type final struct{ err error }

func (f *final) Error() string { return f.err.Error() }
func (f *final) Unwrap() error { return f.err }

// Locked is an ErrLocked that names who holds the database.
type Locked struct {
	Path   string // of the lock file; "": there is none
	Holder string // process id, host, since when
}

func (e *Locked) Error() string {
	if e.Path == "" {
		return "database is in use by " + e.Holder
	}
	return fmt.Sprintf("database is in use by %s (lock file %s)", e.Holder, e.Path)
}

// Unwrap returns ErrLocked.
func (e *Locked) Unwrap() error { return ErrLocked }

// Held is an ErrHeld that names who holds what a step of work needs.
type Held struct {
	Holder string // `process 4711 ("pg_dump") since 2026-03-14T15:04:05Z`; "" when that is not known
}

func (e *Held) Error() string {
	if e.Holder == "" {
		return "what it needs is held by somebody else"
	}
	return "what it needs is held by " + e.Holder
}

// Unwrap returns ErrHeld.
func (e *Held) Unwrap() error { return ErrHeld }
