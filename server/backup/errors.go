// SPDX-License-Identifier: Apache-2.0

package backup

import "fmt"

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
