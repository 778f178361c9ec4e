// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// check is a ConditionCheck.
type check struct {
	writing
	key ddb.Item
}

func (c *check) target() ddb.Item { return c.key }

// blind implements mutation: a check looks at what is there.
func (*check) blind(*storage.Table) bool { return false }

// prepare implements mutation.
func (c *check) prepare(t *storage.Table) (storage.Key, error) {
	k, err := keyOf(t, c.key)
	if err != nil {
		return k, err
	}
	return k, c.checkPaths(t)
}

// decide implements mutation. A check costs as much as a write.
func (c *check) decide(_ *storage.Table, cur *storage.Row) (*storage.Next, error) {
	c.reset()
	old, err := decodeRow(cur)
	if err != nil {
		return nil, err
	}
	if err := c.check(cur, old); err != nil {
		return nil, err
	}
	size := 0
	if cur != nil {
		size = cur.Size
	}
	c.cost.table = writeUnits(size)
	return storage.Unchanged, nil
}
