// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/server/backup"
)

// Exit codes; the same number means the same for every command.
const (
	exitOK          = 0   // done, or nothing to do
	exitFailed      = 1   // failed
	exitUsage       = 2   // wrong usage: flag, argument, configuration
	exitIncomplete  = 3   // finished in part, or with findings
	exitNotFound    = 10  // table, backup, store or database does not exist
	exitBusy        = 11  // locked or busy, try later
	exitDenied      = 12  // permission or credentials refused
	exitRefused     = 13  // refused for safety
	exitInterrupted = 130 // interrupted
)

// Error is a failure with its exit code and, perhaps, what to do about it.
type Error struct {
	Code int
	Err  error
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func usagef(format string, args ...any) *Error {
	return &Error{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}

func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// classified is an error of backups: here, or at the other end of a socket.
type classified interface {
	error
	JobCode() string
	JobHint() string
}

// known makes an *Error of any error: the only place that says which error
// means which exit code.
func known(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var c classified
	switch {
	case errors.As(err, &c):
		code := exitCode(backup.Code(c.JobCode()))
		if code == exitInterrupted {
			err = interrupted(err)
		}
		return &Error{Code: code, Err: err, Hint: c.JobHint()}
	case errors.Is(err, context.Canceled):
		return &Error{Code: exitInterrupted, Err: interrupted(err)}
	case errors.Is(err, backupstore.ErrPermission), errors.Is(err, fs.ErrPermission):
		return &Error{Code: exitDenied, Err: err}
	case errors.Is(err, backupstore.ErrUnusable):
		return &Error{Code: exitNotFound, Err: err}
	}
	return &Error{Code: exitFailed, Err: err}
}

// interrupted words the error of what was stopped: who stopped it wants to
// know that it is, not in which call.
func interrupted(err error) error {
	const word = "interrupted"
	text := strings.TrimSuffix(strings.TrimSuffix(err.Error(), context.Canceled.Error()), ": ")
	switch {
	case strings.HasPrefix(text, word):
		return err
	case text == "":
		return errors.New(word)
	}
	return fmt.Errorf("%s: %s", word, text)
}

func exitCode(c backup.Code) int {
	switch c {
	case backup.Invalid:
		return exitUsage
	case backup.NotFound:
		return exitNotFound
	case backup.Busy:
		return exitBusy
	case backup.Denied:
		return exitDenied
	case backup.Refused:
		return exitRefused
	case backup.Incomplete:
		return exitIncomplete
	case backup.Interrupted:
		return exitInterrupted
	case backup.Failed:
	}
	return exitFailed
}
