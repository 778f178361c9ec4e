// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/storage"
)

// Code classifies a failure for whoever is far away: a client of the admin
// socket, an exit code.
type Code string

// The classes of failures.
const (
	Failed      Code = "failed"
	Invalid     Code = "invalid"     // the request makes no sense: a bad name
	NotFound    Code = "not_found"   // table, backup or store does not exist
	Busy        Code = "busy"        // try later
	Denied      Code = "denied"      // credentials, permissions
	Refused     Code = "refused"     // for safety: the target exists, unknown format version
	Incomplete  Code = "incomplete"  // done in part, or with findings
	Interrupted Code = "interrupted" // cancelled
)

// Error is a failure with its class and what can be done about it.
type Error struct {
	Code Code
	Err  error
	Hint string // one line, may be empty
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// JobCode returns the class as text.
func (e *Error) JobCode() string { return string(e.Code) }

// JobHint returns the hint.
func (e *Error) JobHint() string { return e.Hint }

func errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

const hintNewer = "use a newer version of this program"

// Classify makes an *Error of whatever ended an operation: the class and the
// hint of its cause, the text as it is. A context that is over explains every
// failure.
func Classify(ctx context.Context, err error) *Error {
	var known *Error
	var version *format.VersionError
	switch {
	case ctx.Err() != nil:
		return &Error{Code: Interrupted, Err: stoppedBy(ctx, err)}
	case errors.As(err, &known):
		return &Error{Code: known.Code, Err: err, Hint: known.Hint}
	case errors.As(err, &version):
		return (&Error{Code: Refused, Err: err}).hint(hintNewer)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return (&Error{Code: Failed, Err: err}).hint("there is no space left: free some and run the command again")
	}
	for _, c := range classes() {
		if errors.Is(err, c.err) {
			return &Error{Code: c.code, Err: err, Hint: c.hint}
		}
	}
	return &Error{Code: Failed, Err: err}
}

type class struct {
	err  error
	code Code
	hint string
}

// classes tells what the errors of stores and storage engines mean to a user.
func classes() []class {
	return []class{
		{storage.ErrTableNotFound, NotFound, "check the name: case matters"},
		{storage.ErrTableNotActive, Busy, "try again when the table is ACTIVE"},
		{storage.ErrTooManySnapshots, Busy, "try again when another backup has ended"},
		{storage.ErrSnapshotExpired, Busy, "the database gave up the snapshot: run the backup again"},
		{storage.ErrTooManyTables, Refused, "delete a table that is no longer needed"},
		{storage.ErrUnsupported, Refused, "this storage engine cannot do it"},
		{storage.ErrLocked, Busy, "another process holds the database"},
		{storage.ErrUnavailable, Failed, "the database could not do it now: check its disk and log"},
		{storage.ErrClosed, Interrupted, "the database is being closed"},
		{backupstore.ErrPermission, Denied, "check who may read and write the store: extenddb store check"},
		{backupstore.ErrUnusable, NotFound, "check the store's URL, and that its file system is mounted"},
		{backupstore.ErrInvalidKey, Invalid, ""},
		{fs.ErrPermission, Denied, "check who may read and write it"},
	}
}

// about says which object an error is about, unless it does so itself.
func about(op, key string, err error) error {
	if strings.Contains(err.Error(), key) {
		return err
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}
