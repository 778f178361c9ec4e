// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
)

// Decided is what came of a Decide.
type Decided struct {
	Next *Next   // the row to write, Unchanged, or nil to delete
	Old  []Entry // those of the row that it ran with
	Err  error   // its refusal
}

// Run runs d with the row that is there, nil where there is none, for engines. A
// panic, and an answer without an item, are refusals. The error is ErrCorrupt:
// the row does not fit the definition.
func (d Decide) Run(t *Table, cur *Row) (made Decided, err error) {
	if cur != nil && len(t.Indexes) > 0 {
		if made.Old, err = entriesOf(t, cur); err != nil {
			return made, fmt.Errorf("%w: row of table %q: %w", ErrCorrupt, t.Name(), err)
		}
	}
	made.Next, made.Err = d.recovered(t, cur)
	if n := made.Next; made.Err == nil && n != nil && n != Unchanged && len(n.Item) == 0 {
		made.Err = fmt.Errorf("%w: Decide returned no item", ErrInvalid)
	}
	return made, nil
}

// entriesOf reads of a row what its entries follow from, and no more: most of
// an item is in no index.
func entriesOf(t *Table, row *Row) ([]Entry, error) {
	it := make(ddb.Item, len(t.follow))
	err := scanAttrs(row.Item, it, func(name []byte) (string, bool) {
		known, ok := t.follow[string(name)]
		return known, ok
	})
	if err != nil {
		return nil, err
	}
	return EntriesOf(t, it, row.Size)
}

// recovered turns a panic of d into a refusal of its write.
func (d Decide) recovered(t *Table, cur *Row) (next *Next, err error) {
	defer func() {
		if p := recover(); p != nil {
			next, err = nil, fmt.Errorf("%w: Decide panicked: %v", ErrInvalid, p)
		}
	}()
	return d(t, cur)
}

// Failed answers each of several writes with err.
func Failed(ws []Write, err error) []Result {
	results := make([]Result, len(ws))
	for i, w := range ws {
		results[i] = Result{Table: w.Table, Err: err}
	}
	return results
}
