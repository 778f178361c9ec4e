// SPDX-License-Identifier: Apache-2.0

package cli

import "fmt"

// Exit codes; the same number means the same for every command.
const (
	exitOK          = 0   // done, or nothing to do
	exitFailed      = 1   // failed
	exitUsage       = 2   // wrong usage: flag, argument, configuration
	exitBusy        = 11  // locked or busy, try later
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
