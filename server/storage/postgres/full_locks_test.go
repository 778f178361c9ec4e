// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
)

// TestLocksRunOut: a database that has no room for another lock is asked again,
// and what it answers in the end is that it could not do it now.
func TestLocksRunOut(t *testing.T) {
	t.Parallel()
	full := &pgconn.PgError{Code: codeMemory, Severity: "ERROR", SeverityUnlocalized: "ERROR", Message: "out of shared memory"}
	for name, write := range map[string]func(db *DB, w storage.Write) error{
		"Write": func(db *DB, w storage.Write) error { _, err := db.Write(t.Context(), w); return err },
		"WriteAll": func(db *DB, w storage.Write) error {
			_, err := db.WriteAll(t.Context(), []storage.Write{w}, nil)
			return err
		},
	} {
		for _, times := range []int{1, 5, 1000} {
			left := times
			o := Options{}
			o.hooks.write.before = func(context.Context, ...*change) error {
				if left--; left >= 0 {
					return full
				}
				return nil
			}
			db := mustOpen(t, o)
			tab := create(t, db, indexed("t", "a"))
			err := write(db, put(tab, item("x", "a", "a")))
			if gives := times == 1000; gives != errors.Is(err, storage.ErrUnavailable) || !gives && err != nil || errors.Is(err, storage.ErrInDoubt) {
				t.Errorf("%s, %d times: %v", name, times, err)
			}
			if tries := times - left; times == 1000 && tries > 2*maxConflicts {
				t.Errorf("%s: tried %d times", name, tries)
			}
		}
	}
}

// TestCertainKeepsDoubt: only who has looked can tell what became of a try
// before; errors of those who could not are no answer.
func TestCertainKeepsDoubt(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	for _, tc := range []struct {
		again error
		want  error
	}{
		{storage.ErrConflict, storage.ErrInDoubt},
		{storage.ErrUnavailable, storage.ErrInDoubt},
		{storage.ErrClosed, storage.ErrInDoubt},
		{context.DeadlineExceeded, storage.ErrInDoubt},
		{&pgconn.PgError{Code: codeMemory}, storage.ErrInDoubt},
		{storage.ErrTableExists, storage.ErrTableExists},
		{nil, nil},
	} {
		t.Run(fmt.Sprint(tc.again), func(t *testing.T) {
			t.Parallel()
			n := 0
			err := db.certain(t.Context(), func() error {
				if n++; n == 1 {
					return fmt.Errorf("%w: lost", storage.ErrInDoubt)
				}
				return tc.again
			})
			if !errors.Is(err, tc.want) || n < 2 {
				t.Errorf("%v after %d tries, want %v", err, n, tc.want)
			}
		})
	}
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		err := db.certain(ctx, func() error {
			if n++; n == 1 {
				return fmt.Errorf("%w: lost", storage.ErrInDoubt)
			}
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, storage.ErrInDoubt) {
			t.Errorf("%v", err)
		}
	})
}
