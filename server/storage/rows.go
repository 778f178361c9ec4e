// SPDX-License-Identifier: Apache-2.0

package storage

import "context"

// RowBuffer keeps rows that an engine has read ahead. Once it has grown to what
// is read at a time, it allocates nothing. The zero value is empty; it is used by
// one goroutine.
type RowBuffer struct {
	mem  []byte
	rows []bufferedRow
}

// bufferedRow is a row whose slices lie in mem one after another, from where
// those of the row before it end: P, S, PK, SK and Item.
type bufferedRow struct {
	ver   int64
	size  int
	ends  [5]uint32
	flags uint8
	index bool // P and S are not nil
	item  bool // Item is not
}

// Add copies a row to the end.
func (b *RowBuffer) Add(r *Row) {
	kept := bufferedRow{ver: r.Ver, size: r.Size, flags: r.Flags, index: r.P != nil, item: r.Item != nil}
	for i, part := range [...][]byte{r.P, r.S, r.Key.PK, r.Key.SK, r.Item} {
		b.mem = append(b.mem, part...)
		kept.ends[i] = uint32(len(b.mem))
	}
	b.rows = append(b.rows, kept)
}

// Row points r at row i, until Reset.
func (b *RowBuffer) Row(i int, r *Row) {
	kept, from := &b.rows[i], uint32(0)
	if i > 0 {
		from = b.rows[i-1].ends[4]
	}
	next := func(k int) []byte {
		part := b.mem[from:kept.ends[k]:kept.ends[k]]
		from = kept.ends[k]
		return part
	}
	p, s := next(0), next(1)
	*r = Row{P: p, S: s, Key: Key{PK: next(2), SK: next(3)}, Item: next(4), Size: kept.size, Ver: kept.ver, Flags: kept.flags}
	if !kept.index {
		r.P, r.S = nil, nil
	}
	if !kept.item {
		r.Item = nil
	}
}

// Yield hands the rows out, as a Range does; false when the caller has enough or
// its context ended, which is yielded then.
func (b *RowBuffer) Yield(ctx context.Context, yield func(*Row, error) bool) bool {
	var row Row
	for i := range b.rows {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return false
		}
		if b.Row(i, &row); !yield(&row, nil) {
			return false
		}
	}
	return true
}

// Len is the number of rows.
func (b *RowBuffer) Len() int { return len(b.rows) }

// Bytes is the size of their slices, in bytes.
func (b *RowBuffer) Bytes() int { return len(b.mem) }

// Cap is how many bytes there is room for.
func (b *RowBuffer) Cap() int { return cap(b.mem) }

// Reset empties the buffer and keeps its room.
func (b *RowBuffer) Reset() { b.mem, b.rows = b.mem[:0], b.rows[:0] }
