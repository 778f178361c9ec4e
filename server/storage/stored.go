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

// scan reads the key attributes of an item: to read all of each row would take
// as long as to compress it.
func (c *StoredRows) scan(t *Table, item []byte) error {
	if c.keys == nil {
		c.keys = ddb.Item{}
	}
	clear(c.keys)
	return scanAttrs(item, c.keys, func(name []byte) (string, bool) {
		switch {
		case string(name) == t.Hash.Name:
			return t.Hash.Name, true
		case t.Range != nil && string(name) == t.Range.Name:
			return t.Range.Name, true
		}
		return "", false
	})
}

// scanAttrs reads the attributes of an item that are wanted, and checks the
// syntax of the others. wants returns the name of its own of one that is.
func scanAttrs(item []byte, into ddb.Item, wants func(name []byte) (string, bool)) error {
	in := ddb.NewScanner(item)
	if err := in.Open(ddb.TokenObject); err != nil {
		return err
	}
	for first := true; ; first = false {
		name, more, err := in.NextKey(first)
		if err != nil {
			return err
		}
		if !more {
			return in.End()
		}
		known, ok := wants(name)
		if !ok {
			err = in.Skip()
		} else {
			err = scanAttr(in, into, known)
		}
		if err != nil {
			return err
		}
	}
}

func scanAttr(in *ddb.Scanner, into ddb.Item, name string) error {
	v, bad, err := ddb.ScanValue(in)
	if err == nil && bad != nil {
		err = bad
	}
	into[name] = v
	return err
}
