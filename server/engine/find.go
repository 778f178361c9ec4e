// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// maxStale bounds how often a call is run again because the definition
// changed under it: definitions do not change that fast.
const maxStale = 10

// finder returns the table of a name for a data operation.
type finder func(name string) (*storage.Table, error)

// withTables runs f with the tables it finds: again when storage says that a
// definition it was given is out of date, and once more when it says that a
// table is gone. Another server may have dropped that one and made another of
// its name, while what is cached here still names the old one. f must start
// afresh each time.
func (e *Engine) withTables(ctx context.Context, id auth.Identity, f func(find finder) error) error {
	var found []*storage.Table
	fresh := false
	find := func(name string) (*storage.Table, error) {
		t, err := e.table(ctx, id, name, fresh)
		if err == nil {
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
		case errors.Is(err, storage.ErrTableNotFound) && !fresh:
			replaced, failed := e.replaced(ctx, id, found)
			if failed != nil {
				return failed
			}
			if !replaced {
				return err
			}
			fresh = true
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

// replaced reports whether one of the tables has made way for another one of
// its name.
func (e *Engine) replaced(ctx context.Context, id auth.Identity, tables []*storage.Table) (bool, error) {
	for _, t := range tables {
		switch now, err := e.table(ctx, id, t.Name(), true); {
		case errors.Is(err, storage.ErrTableNotFound):
		case err != nil:
			return false, err
		case now.ID != t.ID:
			return true, nil
		}
	}
	return false, nil
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
