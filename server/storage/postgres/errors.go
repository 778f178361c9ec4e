// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
)

// SQLSTATEs that mean something to us.
const (
	codeUndefinedTable  = "42P01"
	codeUndefinedColumn = "42703"
	codePlanChanged     = "0A000"
	codeDeadlock        = "40P01"
	codeSerialization   = "40001"
	codeLockTimeout     = "55P03"
	codeUnique          = "23505"
	codePrivilege       = "42501"
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
	case codeDeadlock, codeSerialization, codeLockTimeout:
		return true
	}
	return false
}

// public turns an error of the driver into one of storage, which it wraps;
// other errors stay as they are.
func public(err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil, isListed(err):
		return err
	case isConflict(err):
		return fmt.Errorf("%w: %w", storage.ErrConflict, err)
	case errors.As(err, &pg) && (pg.Code[:2] == "22" || pg.Code[:2] == "23" || pg.Code[:2] == "42" || pg.Code[:2] == "XX"):
		return fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

// isNotFound reports whether there is no such table.
func isNotFound(err error) bool { return errors.Is(err, storage.ErrTableNotFound) }

func isListed(err error) bool {
	for _, e := range []error{
		storage.ErrTableNotFound, storage.ErrTableExists, storage.ErrTooManyTables, storage.ErrStale, storage.ErrReplayed,
		storage.ErrTokenMismatch, storage.ErrClaimed, storage.ErrNoWork, storage.ErrClosed, storage.ErrTableNotActive,
		storage.ErrTooManySnapshots, storage.ErrSnapshotExpired, storage.ErrUnsupported, storage.ErrUnavailable,
		storage.ErrConflict, storage.ErrInDoubt, storage.ErrHeld, storage.ErrCorrupt, storage.ErrInvalid,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var cancelled *storage.Cancelled
	return errors.As(err, &cancelled)
}
