// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// StoredRows checks rows as a snapshot yields them: a backup of anything but
// the table is of no use. The zero value is ready; it is used by one goroutine.
type StoredRows struct{ keys ddb.Item }

// Check makes sure that the item of a row can be read and is under its own key,
// one that is not shortened when the rows come in key order. The error is
// ErrCorrupt, and quotes nothing of the item.
func (c *StoredRows) Check(t *Table, row *Row, ordered bool) error {
	if c.scan(t, row.Item) != nil {
		return fmt.Errorf("%w: an item of table %q cannot be read", ErrCorrupt, t.Name())
	}
	k, err := t.KeyOf(c.keys)
	if err != nil || !k.Equal(row.Key) || ordered && keyenc.IsShortened(row.Key.PK) {
		return fmt.Errorf("%w: an item of table %q is under another key than its own", ErrCorrupt, t.Name())
	}
	return nil
}

// scan reads the key attributes of an item, and checks the syntax of the
// others: to read all of each row would take as long as to compress it.
func (c *StoredRows) scan(t *Table, item []byte) error {
	if c.keys == nil {
		c.keys = ddb.Item{}
	}
	clear(c.keys)
	in := ddb.NewScanner(item)
	if err := in.Open(ddb.TokenObject); err != nil {
		return err
	}
	for first := true; ; first = false {
		name, more, err := in.NextKey(first)
		switch {
		case err != nil:
			return err
		case !more:
			return in.End()
		case string(name) == t.Hash.Name:
			err = c.scanKey(in, t.Hash.Name)
		case t.Range != nil && string(name) == t.Range.Name:
			err = c.scanKey(in, t.Range.Name)
		default:
			err = in.Skip()
		}
		if err != nil {
			return err
		}
	}
}

func (c *StoredRows) scanKey(in *ddb.Scanner, name string) error {
	v, bad, err := ddb.ScanValue(in)
	if err == nil && bad != nil {
		err = bad
	}
	c.keys[name] = v
	return err
}
