// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// maxStale bounds how often a call is run again because the definition
// changed under it: definitions do not change that fast.
const maxStale = 10

// finder returns the table of a name for a data operation.
type finder func(name string) (*storage.Table, error)

// withTables runs f with the tables it finds: again when storage says that a
// definition it was given is out of date, and once more when a table is said to
// be gone or what was found does not take the request. Another server may have
// changed a table, or dropped it and made another of its name, while what is
// cached here still says what was; a refusal is none that storage has proved.
// f must start afresh each time.
func (e *Engine) withTables(ctx context.Context, id auth.Identity, f func(find finder) error) error {
	var found []*storage.Table
	fresh := false
	find := func(name string) (*storage.Table, error) {
		t, err := e.table(ctx, id, name, fresh)
		if err == nil && !slices.ContainsFunc(found, func(f *storage.Table) bool { return f.ID == t.ID }) {
			found = append(found, t)
		}
		return t, err
	}
	for try := 1; ; try++ {
		found = found[:0]
		err := f(find)
		switch {
		case try == maxStale:
			return err
		case errors.Is(err, storage.ErrStale):
		case !fresh && (errors.Is(err, storage.ErrTableNotFound) || refuses(err)):
			if fresh, err = e.outdated(ctx, id, found, err); !fresh {
				return err
			}
		default:
			return err
		}
	}
}

// withTable is withTables for one table.
func (e *Engine) withTable(ctx context.Context, id auth.Identity, name string, f func(*storage.Table) error) error {
	return e.withTables(ctx, id, func(find finder) error {
		t, err := find(name)
		if err != nil {
			return err
		}
		return f(t)
	})
}

// refuses reports whether an operation ended because the request does not fit
// the tables it is for.
func refuses(err error) bool {
	var fault *api.Error
	if !errors.As(err, &fault) {
		return false
	}
	return fault.Code == api.CodeValidation ||
		slices.ContainsFunc(fault.Reasons, func(r api.CancellationReason) bool { return r.Code == api.ReasonValidation })
}

// outdated reports whether one of the tables is not any more what was found: it
// has changed, or has made way for another one of its name. What to answer
// otherwise is cause, unless that cannot be told.
func (e *Engine) outdated(ctx context.Context, id auth.Identity, tables []*storage.Table, cause error) (bool, error) {
	for _, t := range tables {
		switch now, err := e.table(ctx, id, t.Name(), true); {
		case errors.Is(err, storage.ErrTableNotFound):
			if !errors.Is(cause, storage.ErrTableNotFound) {
				cause = err
			}
		case err != nil:
			return false, err
		case now.ID != t.ID || now.Version != t.Version:
			return true, nil
		}
	}
	return false, cause
}

// table looks a table up for a data operation: one that is being created or
// deleted is as good as not there. What is cached may still be so when it is
// not any more; fresh does without the cache altogether.
func (e *Engine) table(ctx context.Context, id auth.Identity, name string, fresh bool) (*storage.Table, error) {
	if !fresh {
		t, err := e.store.Table(ctx, id.Account, name)
		if err != nil || t.Status == storage.Active {
			return t, err
		}
	}
	t, _, err := e.store.Describe(ctx, id.Account, name)
	if err == nil && t.Status != storage.Active {
		err = storage.ErrTableNotFound
	}
	return t, err
}
