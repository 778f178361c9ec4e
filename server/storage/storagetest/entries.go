// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// maxProblems bounds what CheckEntries tells.
const maxProblems = 10

// CheckEntries compares every row of a table, and every entry of its indexes,
// with what Derive makes of the row's item, in both directions: nothing is
// missing, nothing is left over, sizes and keys agree. Nobody may write
// meanwhile. The error joins up to ten problems.
func CheckEntries(ctx context.Context, engine storage.Engine, t *storage.Table) error {
	type want map[string]int // position -> size
	expected := map[storage.IndexID]want{}
	for _, ix := range t.Indexes {
		expected[ix.ID] = want{}
	}
	var problems []error
	problem := func(format string, args ...any) {
		if len(problems) < maxProblems {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	for row, err := range engine.Range(ctx, t, storage.Range{Want: storage.Items}) {
		if err != nil {
			return fmt.Errorf("read table %q: %w", t.Name(), err)
		}
		next, err := checkRow(t, row)
		if err != nil {
			problem("row %x: %w", row.Key, err)
			continue
		}
		for _, e := range next.Entries {
			expected[e.Index][place(entryPosition(e, row.Key))] = e.Size
		}
	}
	for _, ix := range t.Indexes {
		for row, err := range engine.Range(ctx, t, storage.Range{Index: ix.ID, Want: storage.Sizes}) {
			if err != nil {
				return fmt.Errorf("read index %q: %w", ix.Name, err)
			}
			at := place(row.Position())
			switch size, ok := expected[ix.ID][at]; {
			case !ok:
				problem("index %q: entry %s belongs to no row", ix.Name, at)
			case size != row.Size:
				problem("index %q: entry %s has size %d, want %d", ix.Name, at, row.Size, size)
			}
			delete(expected[ix.ID], at)
		}
		for at := range expected[ix.ID] {
			problem("index %q: entry %s is missing", ix.Name, at)
		}
	}
	return errors.Join(problems...)
}

// place writes a position as a map key.
func place(p storage.Position) string { return fmt.Sprintf("%x/%x/%x/%x", p.P, p.S, p.PK, p.SK) }

// checkRow checks that a row is what its item makes it.
func checkRow(t *storage.Table, row *storage.Row) (*storage.Next, error) {
	it, err := ddb.ParseItem(row.Item)
	if err != nil {
		return nil, fmt.Errorf("parse item: %w", err)
	}
	k, err := t.KeyOf(it)
	if err != nil {
		return nil, err
	}
	next, err := storage.Derive(t, it)
	switch {
	case err != nil:
		return nil, err
	case !k.Equal(row.Key):
		return nil, fmt.Errorf("item has key %x", k)
	case !bytes.Equal(next.Item, row.Item):
		return nil, fmt.Errorf("item is not canonical: %s", row.Item)
	case next.Size != row.Size || next.Flags != row.Flags:
		return nil, fmt.Errorf("size %d and flags %d, want %d and %d", row.Size, row.Flags, next.Size, next.Flags)
	}
	return next, nil
}
