// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"errors"
	"io/fs"
)

// The errors of a store.
var (
	ErrNotFound   = errors.New("object not found")
	ErrExists     = errors.New("object exists")      // PutOptions.IfAbsent
	ErrConflict   = errors.New("object has changed") // PutOptions.IfMatch
	ErrPermission = errors.New("permission denied")
	ErrInvalidKey = errors.New("invalid key")
	// ErrUnusable: the store cannot be used as it is configured: no such
	// directory, no such bucket.
	ErrUnusable = errors.New("backup store is not usable")
)

// IOError is a failure of the medium: Op names operation and object.
type IOError struct {
	Op  string // "write 000000000000/t/1/data/000001.json.gz"
	Err error
}

func (e *IOError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *IOError) Unwrap() error { return e.Err }

// UnusableError says why a store cannot be used. It is ErrUnusable, and
// ErrPermission too when that is the cause.
type UnusableError struct {
	Text string // "backup root /srv/backups is not a directory"
	Err  error  // the cause; may be nil
}

func (e *UnusableError) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap returns ErrUnusable and the cause.
func (e *UnusableError) Unwrap() []error {
	if errors.Is(e.Err, fs.ErrPermission) {
		return []error{ErrUnusable, ErrPermission, e.Err}
	}
	return []error{ErrUnusable, e.Err}
}
