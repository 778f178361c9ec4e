// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// SQLSTATEs that mean something to us.
const (
	codeUndefinedTable  = "42P01"
	codeUndefinedColumn = "42703"
	codePlanChanged     = "0A000"
	codeDeadlock        = "40P01"
	codeSerialization   = "40001"
	codeLockTimeout     = "55P03"
	codeIdle            = "25P03" // the transaction stood still for too long, and was ended
	codeMemory          = "53200" // most often of the table of locks: others hold too many
	codeUnique          = "23505"
	codePrivilege       = "42501"
	codePassword        = "28P01"
	codeEncoding        = "22021" // a character that cannot be stored
	codeInternal        = "XX000" // relations that go while they are looked at, too
	codeNoSchema        = "3F000"
	codeNoFile          = "58P01"
)

func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// isStale tells errors of a statement that was made for an old definition.
func isStale(err error) bool {
	switch codeOf(err) {
	case codeUndefinedTable, codeUndefinedColumn, codePlanChanged:
		return true
	}
	return false
}

// isConflict tells errors after which a transaction is to be run again.
func isConflict(err error) bool {
	switch codeOf(err) {
	case codeDeadlock, codeSerialization, codeLockTimeout, codeIdle, codeMemory:
		return true
	}
	return false
}

// isCorrupt tells errors of a database that does not hold what the catalog
// says, or that is damaged: a relation or column that nobody expected to be
// missing, a constraint that cannot fail, a file that is gone.
func isCorrupt(code string) bool {
	switch code {
	case codePrivilege, codeInternal:
		return false
	case codeNoSchema, codeNoFile:
		return true
	}
	switch code[:2] {
	case "22", "23", "42", "54", "XX":
		return true
	}
	return false
}

// isAlien tells errors of code of others, a trigger mostly, on relations of ours:
// those of routines and triggered actions, and codes that the database itself
// does not know. To try again would not help.
func isAlien(code string) bool {
	if code == "" {
		return false
	}
	switch class := code[:2]; class {
	case "09", "27", "2F", "38", "39", "44", "P0":
		return true
	case "72", "F0", "HV", "XX":
		return false
	default:
		return class > "59" // 'A' and on, too
	}
}

// blame names the relations that were written when code of others failed.
func blame(err error, cs ...*change) error {
	if !isAlien(codeOf(err)) {
		return err
	}
	var names []string
	for _, c := range cs {
		names = append(names, rowsOf(c.w.Table.ID))
	}
	slices.Sort(names)
	return fmt.Errorf("write %s: %w", strings.Join(slices.Compact(names), ", "), err)
}

// public turns an error of the driver into one of storage, which it wraps;
// other errors stay as they are. What is not known otherwise means that the
// database could not do it now: it is shutting down or starting (57), gone
// (08), out of space, connections or locks (53, 58), refuses the role (28, 42501), or
// somebody cancelled the statement (57014).
func public(err error) error {
	code := codeOf(err)
	switch {
	case err == nil, isListed(err):
		return err
	case isConflict(err) && code != codeMemory:
		return fmt.Errorf("%w: %w", storage.ErrConflict, err)
	case code == codeEncoding: // U+0000 in a name
		return fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	case errors.As(err, new(*pgconn.ConnectError)): // whatever was said: nothing stored was looked at
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	case code == codePrivilege:
		return fmt.Errorf("%w: %w: %s", storage.ErrUnavailable, err, rightsRemedy)
	case isAlien(code):
		return fmt.Errorf("%w: what others made in the database failed, a trigger perhaps: %w", storage.ErrCorrupt, err)
	case code != "" && isCorrupt(code):
		return fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

// ended makes an error of storage a context's where that is why: a driver that
// was interrupted reports many things. A time limit of the driver's own is none
// of the caller's.
func ended(ctx context.Context, err error) error {
	over := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case errors.Is(err, storage.ErrInDoubt), errors.As(err, new(*doubt)):
	case ctx.Err() == nil && over:
		return fmt.Errorf("%w: %s", storage.ErrUnavailable, err.Error())
	case ctx.Err() != nil && !over && errors.Is(err, storage.ErrUnavailable):
		return fmt.Errorf("%w: %s", ctx.Err(), err.Error())
	}
	return err
}

// undone tells errors that say themselves that a statement was not carried out:
// an ERROR of the database does. A FATAL one tells nothing, unless no statement
// was under way; nor do those of a pooler that has lost the database, which have
// no severity that is in one language.
func undone(err error) bool {
	var pg *pgconn.PgError
	return pgconn.SafeToRetry(err) || errors.As(err, &pg) && (pg.SeverityUnlocalized == "ERROR" || pg.Code == codeIdle)
}

// inDoubt tells errors after which a COMMIT that was sent may have been carried
// out.
func inDoubt(err error) bool {
	return err != nil && !undone(err) && !errors.Is(err, pgx.ErrTxCommitRollback)
}

// isNotFound reports whether there is no such table.
func isNotFound(err error) bool { return errors.Is(err, storage.ErrTableNotFound) }

func isListed(err error) bool {
	for _, e := range []error{
		storage.ErrTableNotFound, storage.ErrTableExists, storage.ErrTooManyTables, storage.ErrStale, storage.ErrReplayed,
		storage.ErrTokenMismatch, storage.ErrClaimed, storage.ErrNoWork, storage.ErrClosed, storage.ErrTableNotActive,
		storage.ErrTooManySnapshots, storage.ErrSnapshotExpired, storage.ErrUnsupported, storage.ErrUnavailable,
		storage.ErrConflict, storage.ErrInDoubt, storage.ErrHeld, storage.ErrCorrupt, storage.ErrInvalid,
		storage.ErrLocked, ErrForeign, migrate.ErrPending, migrate.ErrNewer, migrate.ErrEdited,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var cancelled *storage.Cancelled
	return errors.As(err, &cancelled)
}
