// SPDX-License-Identifier: Apache-2.0

// Package backupstore says where backups are kept: a Store holds objects under
// keys, and knows nothing of backups.
//
// Promises every store keeps:
//   - Put is atomic: a reader sees the old object or the whole new one, and a
//     failure leaves nothing under the key that was not there before.
//   - What Put returned for is durable, its directories included.
//   - Read after write: Get, Head and List see it at once.
//   - Keys never lead out of the store: no symbolic link, no "..".
//   - No credential or signed URL ever reaches an error text or a log line.
package backupstore

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Store keeps objects. It is safe for concurrent use. Errors are those of
// errors.go or the context's, each perhaps wrapped.
type Store interface {
	// Put stores the body under the key, replacing what is there unless o
	// says otherwise. The body is read once; its error is returned wrapped.
	// Of several conditional puts at once of one key, at most one succeeds.
	// ErrInvalidKey, ErrExists, ErrConflict, ErrPermission, *IOError.
	Put(ctx context.Context, key string, body io.Reader, o PutOptions) (PutResult, error)
	// Get opens an object; the caller closes it. What it reads is the object
	// as it was then, and ends with an error when ctx does. ErrNotFound.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Head describes an object; nil, nil when there is none.
	Head(ctx context.Context, key string) (*ObjectMeta, error)
	// List yields the objects under a prefix in byte order of their keys. A
	// prefix matches whole components: "a/b" matches "a/b" and "a/b/c", not
	// "a/bc"; "" matches all. The first error ends it.
	List(ctx context.Context, prefix string) iter.Seq2[ObjectMeta, error]
	// DeletePrefix removes the objects that List would yield and whatever else
	// lies there (the leftovers of puts that were cut off), and counts them.
	// It is not atomic; after an error n tells what is gone, and it may be
	// repeated.
	DeletePrefix(ctx context.Context, prefix string) (n int, err error)
	// Validate proves that the store is there and can be written.
	Validate(ctx context.Context) error
}

// PutOptions say how to put. IfAbsent and IfMatch exclude each other.
type PutOptions struct {
	IfAbsent bool   // ErrExists when the key is there
	IfMatch  string // the ETag it must have; ErrConflict when it has another or is gone
	Size     int64  // of the body, a hint; 0 unknown
}

// Check returns an error when no put can be like this.
func (o PutOptions) Check() error {
	if o.IfAbsent && o.IfMatch != "" {
		return errors.New("put: IfAbsent and IfMatch exclude each other")
	}
	return nil
}

// PutResult is what became of a Put.
type PutResult struct {
	ETag string // opaque, for IfMatch; from an S3 store the S3 ETag without quotes
	Size int64  // bytes
}

// ObjectMeta describes an object.
type ObjectMeta struct {
	Key          string
	ETag         string // may be empty in List
	Size         int64  // bytes
	LastModified time.Time
}
