// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"encoding/binary"
	"fmt"

	"github.com/extenddb/extenddb/server/storage"
)

// A chunk is not larger than this but for its last row.
const (
	chunkRows  = 512
	chunkBytes = 256 << 10
)

// chunk is a buffer of rows.
type chunk struct {
	mem  []byte
	rows []span
}

// span is a row whose slices end at ends in mem, one after another: p, s, pk,
// sk, item.
type span struct {
	begin   int
	ends    [5]int
	noIndex bool
	noItem  bool
	size    int
	ver     int64
	flags   uint8
}

func (c *chunk) reset()     { c.mem, c.rows = c.mem[:0], c.rows[:0] }
func (c *chunk) full() bool { return len(c.rows) >= chunkRows || len(c.mem) >= chunkBytes }

// add copies a row of a range: the columns that v shows, in binary.
func (c *chunk) add(v variant, p []byte, cols [][]byte) error {
	sp := span{begin: len(c.mem), noIndex: !v.index, noItem: true}
	var parts [5][]byte
	first := 0
	if !v.index {
		first = 2
	}
	if v.part {
		parts[first] = p
		first++
	}
	n := copy(parts[first:4], cols)
	cols = cols[n:]
	if v.want == storage.Items && cols[3] == nil {
		return fmt.Errorf("%w: an index entry has no row", storage.ErrCorrupt)
	}
	if v.want != storage.Keys || !v.index {
		sp.size, cols = int(int32Of(cols[0])), cols[1:]
	}
	if v.want == storage.Items {
		sp.ver, sp.flags, cols = int64Of(cols[0]), uint8(int16Of(cols[1])), cols[2:]
	}
	if v.want != storage.Sizes {
		parts[4] = cols[0]
		sp.noItem = cols[0] == nil
	}
	for i, b := range parts {
		c.mem = append(c.mem, b...)
		sp.ends[i] = len(c.mem)
	}
	c.rows = append(c.rows, sp)
	return nil
}

// row points row at row i.
func (c *chunk) row(i int, row *storage.Row) {
	sp, from := &c.rows[i], c.rows[i].begin
	next := func(k int) []byte {
		b := c.mem[from:sp.ends[k]:sp.ends[k]]
		from = sp.ends[k]
		return b
	}
	p, s := next(0), next(1)
	*row = storage.Row{
		P: p, S: s, Key: storage.Key{PK: next(2), SK: next(3)}, Item: next(4), Size: sp.size, Ver: sp.ver, Flags: sp.flags,
	}
	if sp.noIndex {
		row.P, row.S = nil, nil
	}
	if sp.noItem {
		row.Item = nil
	}
}

// Numbers in binary.
func int64Of(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
func int32Of(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }
func int16Of(b []byte) int16 { return int16(binary.BigEndian.Uint16(b)) }
