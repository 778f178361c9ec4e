// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"slices"
	"strconv"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// capacityDetail is the value of ReturnConsumedCapacity.
type capacityDetail uint8

const (
	capacityNone capacityDetail = iota
	capacityTotal
	capacityIndexes
)

// capacityWanted reads a ReturnConsumedCapacity that passed its constraint.
func capacityWanted(s *string) capacityDetail {
	switch {
	case s == nil:
		return capacityNone
	case *s == "TOTAL":
		return capacityTotal
	case *s == "INDEXES":
		return capacityIndexes
	}
	return capacityNone
}

// readUnits is what reading bytes of items costs: half a unit for each started
// 4 KiB, a whole one when the read is consistent. Reading nothing costs as much
// as reading the first 4 KiB.
func readUnits(bytes int, consistent bool) float64 {
	units := float64(max((bytes+4095)/4096, 1))
	if consistent {
		return units
	}
	return units / 2
}

// writeUnits is what writing an item of that size costs: one unit for each
// started KiB.
func writeUnits(bytes int) float64 { return float64(max((bytes+1023)/1024, 1)) }

// consumed counts the units of one table: those of the table itself and those
// of its indexes. The zero value has counted nothing.
type consumed struct {
	split   unitSplit
	table   float64
	indexes []indexUnits // in the order they were first charged
}

// unitSplit says how units are told apart: transactions report whether they are
// units of reading or of writing, single operations and batches do not.
type unitSplit string

const (
	unitsJoint unitSplit = ""
	unitsRead  unitSplit = "ReadCapacityUnits"
	unitsWrite unitSplit = "WriteCapacityUnits"
)

type indexUnits struct {
	index *storage.Index
	units float64
}

// chargeIndex adds units to an index.
func (c *consumed) chargeIndex(ix *storage.Index, units float64) {
	for i := range c.indexes {
		if c.indexes[i].index.ID == ix.ID {
			c.indexes[i].units += units
			return
		}
	}
	c.indexes = append(c.indexes, indexUnits{ix, units})
}

// total is the sum of all units.
func (c *consumed) total() float64 {
	sum := c.table
	for _, x := range c.indexes {
		sum += x.units
	}
	return sum
}

// appendJSON appends the ConsumedCapacity object of one table. Indexes that
// cost nothing are not listed.
func (c *consumed) appendJSON(dst []byte, table string, detail capacityDetail) []byte {
	dst = append(dst, `{"TableName":`...)
	dst = ddb.AppendString(dst, table)
	dst = c.appendUnits(append(dst, ','), c.total())
	if detail == capacityIndexes {
		dst = c.appendUnits(append(dst, `,"Table":{`...), c.table)
		dst = append(dst, '}')
		dst = c.appendIndexes(dst, `,"GlobalSecondaryIndexes":{`, false)
		dst = c.appendIndexes(dst, `,"LocalSecondaryIndexes":{`, true)
	}
	return append(dst, '}')
}

func (c *consumed) appendIndexes(dst []byte, head string, local bool) []byte {
	open := false
	for _, x := range c.indexes {
		if x.index.Local != local {
			continue
		}
		if open {
			dst = append(dst, ',')
		} else {
			dst = append(dst, head...)
		}
		open = true
		dst = ddb.AppendString(dst, x.index.Name)
		dst = c.appendUnits(append(dst, `:{`...), x.units)
		dst = append(dst, '}')
	}
	if open {
		dst = append(dst, '}')
	}
	return dst
}

// appendUnits appends the members that tell units.
func (c *consumed) appendUnits(dst []byte, units float64) []byte {
	dst = appendDouble(append(dst, `"CapacityUnits":`...), units)
	if c.split != unitsJoint {
		dst = appendDouble(appendName(append(dst, ','), string(c.split)), units)
	}
	return dst
}

// appendDouble appends f as the service writes doubles: with a fraction.
func appendDouble(dst []byte, f float64) []byte {
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if f == math.Trunc(f) {
		dst = append(dst, '.', '0')
	}
	return dst
}

// image is one side of a write: the item before or after it. The zero image is
// an absent item.
type image struct {
	bytes   []byte   // canonical
	item    ddb.Item // decoded; needed only where the table has indexes
	size    int
	entries []storage.Entry
}

// chargeWrite adds what replacing one image by the other costs the table and
// its indexes.
func (c *consumed) chargeWrite(t *storage.Table, was, is *image) {
	c.table += writeUnits(max(was.size, is.size))
	for _, ix := range t.Indexes {
		before, after := entryOf(was.entries, ix.ID), entryOf(is.entries, ix.ID)
		switch {
		case before == nil && after == nil:
		case before == nil:
			c.chargeIndex(ix, writeUnits(after.Size))
		case after == nil:
			c.chargeIndex(ix, writeUnits(before.Size))
		case string(before.P) != string(after.P) || string(before.S) != string(after.S):
			c.chargeIndex(ix, writeUnits(before.Size)+writeUnits(after.Size))
		case projectionChanged(ix, was, is):
			c.chargeIndex(ix, writeUnits(max(before.Size, after.Size)))
		}
	}
}

func entryOf(entries []storage.Entry, ix storage.IndexID) *storage.Entry {
	i := slices.IndexFunc(entries, func(e storage.Entry) bool { return e.Index == ix })
	if i < 0 {
		return nil
	}
	return &entries[i]
}

// projectionChanged reports whether an index entry whose keys stay sees another
// value.
func projectionChanged(ix *storage.Index, was, is *image) bool {
	switch ix.Projection.ProjectionType {
	case ddb.ProjectAll:
		return string(was.bytes) != string(is.bytes)
	case ddb.ProjectInclude:
		return slices.ContainsFunc(ix.Projection.NonKeyAttributes, func(name string) bool {
			return !was.item[name].Equal(is.item[name])
		})
	}
	return false
}

// scale multiplies all units.
func (c *consumed) scale(by float64) {
	c.table *= by
	for i := range c.indexes {
		c.indexes[i].units *= by
	}
}

// add adds what another request of the same table cost.
func (c *consumed) add(o *consumed) {
	c.table += o.table
	for _, x := range o.indexes {
		c.chargeIndex(x.index, x.units)
	}
}
