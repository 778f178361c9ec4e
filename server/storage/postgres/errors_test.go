// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

func sqlstate(code string) error {
	return fmt.Errorf("write: %w", &pgconn.PgError{Code: code, SeverityUnlocalized: "ERROR", Message: "it failed"})
}

func TestPublic(t *testing.T) {
	t.Parallel()
	want := map[error][]error{
		storage.ErrUnavailable: {
			sqlstate("57P01"), sqlstate("57P02"), sqlstate("57P03"), sqlstate("57014"), // shut down, starting, cancelled
			sqlstate("08000"), sqlstate("08003"), sqlstate("08006"), sqlstate("08P01"), // connection
			sqlstate("53000"), sqlstate("53100"), sqlstate("53200"), sqlstate("53300"), // disk, memory, connections
			sqlstate("58030"), sqlstate("25006"), sqlstate("28P01"), sqlstate("3D000"), sqlstate("42501"),
			sqlstate("26000"), sqlstate("XX000"), io.ErrUnexpectedEOF, errors.New("conn closed"),
		},
		storage.ErrConflict: {sqlstate("40P01"), sqlstate("40001"), sqlstate("55P03"), sqlstate("25P03")},
		storage.ErrCorrupt: {
			sqlstate("42P01"), sqlstate("42703"), sqlstate("42883"), sqlstate("3F000"), sqlstate("23505"), sqlstate("22003"),
			sqlstate("54000"), sqlstate("58P01"), sqlstate("XX001"), sqlstate("XX002"), sqlstate("P0001"), sqlstate("38000"), sqlstate("MY001"),
		},
		storage.ErrInvalid:       {sqlstate("22021")},
		storage.ErrTableNotFound: {storage.ErrTableNotFound, fmt.Errorf("read: %w", storage.ErrTableNotFound)},
		context.Canceled:         {context.Canceled, fmt.Errorf("timeout: %w", context.Canceled)},
	}
	for kind, errs := range want {
		for _, err := range errs {
			if got := public(err); !errors.Is(got, kind) || !errors.Is(got, err) || !isListed(got) {
				t.Errorf("%v becomes %v, want %v", err, got, kind)
			}
		}
	}
	if err := public(nil); err != nil {
		t.Error(err)
	}
	var cancelled *storage.Cancelled
	if err := public(&storage.Cancelled{}); !errors.As(err, &cancelled) || errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a cancelled transaction becomes %v", err)
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want error
		not  error
	}{
		"interrupted driver":        {over, public(sqlstate("57014")), context.Canceled, storage.ErrUnavailable},
		"closed connection":         {over, public(errors.New("conn closed")), context.Canceled, storage.ErrUnavailable},
		"cancelled":                 {over, context.Canceled, context.Canceled, storage.ErrUnavailable},
		"what is known stays":       {over, storage.ErrTableNotFound, storage.ErrTableNotFound, context.Canceled},
		"in doubt":                  {over, fmt.Errorf("%w: %w", storage.ErrInDoubt, context.Canceled), storage.ErrInDoubt, storage.ErrUnavailable},
		"in doubt until looked at":  {over, public(&doubt{errors.New("unexpected EOF")}), storage.ErrUnavailable, context.Canceled},
		"time limit of the driver":  {t.Context(), context.DeadlineExceeded, storage.ErrUnavailable, context.DeadlineExceeded},
		"unavailable in good time":  {t.Context(), public(sqlstate("57P01")), storage.ErrUnavailable, context.Canceled},
		"in doubt by a driver's":    {t.Context(), fmt.Errorf("%w: %w", storage.ErrInDoubt, context.DeadlineExceeded), storage.ErrInDoubt, storage.ErrUnavailable},
		"conflict outlives the end": {over, public(sqlstate("40P01")), storage.ErrConflict, context.Canceled},
	} {
		if got := ended(c.ctx, c.err); !errors.Is(got, c.want) || errors.Is(got, c.not) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// safe is an error of a driver that had sent nothing.
type safe struct{}

func (safe) Error() string     { return "conn closed" }
func (safe) SafeToRetry() bool { return true }

func TestInDoubt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{io.ErrUnexpectedEOF, true},
		{context.Canceled, true},   // it was waiting for the answer
		{sqlstate("40001"), false}, // the database says that it was not
		{&pgconn.PgError{Code: "57P01", SeverityUnlocalized: "FATAL"}, true},
		{&pgconn.PgError{Code: "53100", SeverityUnlocalized: "PANIC"}, true},
		{&pgconn.PgError{Code: codeIdle, SeverityUnlocalized: "FATAL"}, false}, // nothing was under way
		{&pgconn.PgError{Code: "08P01", Severity: "FATAL"}, true},              // a pooler that has lost the database
		{safe{}, false},
		{pgx.ErrTxCommitRollback, false},
	} {
		if got := inDoubt(c.err); got != c.want {
			t.Errorf("in doubt after %v: %v", c.err, got)
		}
		if got := doubted(c.err); c.err != nil && !errors.Is(c.err, pgx.ErrTxCommitRollback) && errors.As(got, new(*doubt)) != c.want {
			t.Errorf("%v becomes %T", c.err, got)
		}
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	conflict, down := sqlstate("40P01"), storage.ErrUnavailable
	for name, c := range map[string]struct {
		errs  []error // of the tries; the last one repeats
		want  error
		tries int
	}{
		"done":                    {[]error{nil}, nil, 1},
		"after conflicts":         {[]error{conflict, public(conflict), nil}, nil, 3},
		"always in conflict":      {[]error{conflict}, conflict, conflictTries},
		"unavailable":             {[]error{down}, down, 1},
		"dead connection":         {[]error{safe{}, nil}, nil, 2},
		"dead connections":        {[]error{safe{}}, safe{}, 2},
		"dead, conflict, then on": {[]error{safe{}, conflict, nil}, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, tries := c, 0
			db := &DB{o: Options{Clock: hasty{clock.NewFake(time.Unix(0, 0))}}}
			err := db.retry(t.Context(), func() error {
				tries++
				return c.errs[min(tries, len(c.errs))-1]
			})
			if !errors.Is(err, c.want) || tries != c.tries {
				t.Errorf("%v after %d tries", err, tries)
			}
		})
	}
}

// hasty is a clock whose sleepers wake at once.
type hasty struct{ *clock.Fake }

func (h hasty) After(time.Duration) (<-chan time.Time, func()) { return h.Fake.After(0) }

func TestRetryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	fake := clock.NewFake(time.Unix(0, 0))
	db := &DB{o: Options{Clock: fake}}
	go func() {
		fake.WaitTimers(1)
		cancel()
	}()
	if err := db.retry(ctx, func() error { return storage.ErrConflict }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTriggerOfOthers: what a trigger of somebody else refuses is no matter of
// trying again, and the relation is named.
func TestTriggerOfOthers(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	for _, code := range []string{"P0001", "P0002", "38000", "MY001", "77777"} {
		tab := create(t, db, indexed("t-"+code, "a"))
		mustExec(t, c, "CREATE FUNCTION public.f_"+code+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no' USING ERRCODE = '"+code+"'; END $$")
		mustExec(t, c, "CREATE TRIGGER x BEFORE INSERT OR UPDATE OR DELETE ON "+rowsOf(tab.ID)+" FOR EACH ROW EXECUTE FUNCTION public.f_"+code+"()")
		w := put(tab, item("k", "a", "x"))
		_, one := db.Write(t.Context(), w)
		_, all := db.WriteAll(t.Context(), []storage.Write{w, put(tab, item("l"))}, nil)
		each := db.WriteEach(t.Context(), []storage.Write{blind(w)})[0].Err
		for _, err := range []error{one, all, each} {
			if !errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrUnavailable) || strings.Count(err.Error(), rowsOf(tab.ID)) != 1 {
				t.Errorf("%s: %v", code, err)
			}
		}
	}
}
