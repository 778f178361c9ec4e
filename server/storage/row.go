// SPDX-License-Identifier: Apache-2.0

package storage

import "bytes"

// Key is the encoded primary key of a row (package keyenc): PK at most 301
// bytes, SK at most 1,024, empty on a hash-only table.
type Key struct{ PK, SK []byte }

// Equal reports whether both keys name the same row.
func (k Key) Equal(o Key) bool { return bytes.Equal(k.PK, o.PK) && bytes.Equal(k.SK, o.SK) }

// FlagLongNumber is set on rows that hold a number whose plain form exceeds 40
// characters; backup lines re-encode those.
const FlagLongNumber uint8 = 1

// Row is one item as an engine keeps it. Its byte slices are valid until the
// next row is yielded: copy to keep. Rows that Get, GetAll and Result carry
// belong to the caller.
type Row struct {
	Key   Key
	P, S  []byte // position in the index; set by Range over an index only
	Item  []byte // canonical DynamoDB JSON of the whole item
	Size  int    // bytes as DynamoDB counts them; in Range over an index those of the projected attributes
	Ver   int64  // new on every write, never repeated for a key
	Flags uint8
}

// Clone returns a copy that stays valid.
func (r *Row) Clone() *Row {
	c := *r
	c.Key = Key{bytes.Clone(r.Key.PK), bytes.Clone(r.Key.SK)}
	c.P, c.S, c.Item = bytes.Clone(r.P), bytes.Clone(r.S), bytes.Clone(r.Item)
	return &c
}

// Entry is what one index holds of one row: keys only.
type Entry struct {
	Index IndexID
	P, S  []byte // position in the index; S is empty, never nil, without a sort key
	Size  int    // bytes of the projected attributes, for page limits and capacity
}

// BadKeyReason says why an attribute cannot be the key of an index or a table.
type BadKeyReason uint8

// What can be wrong with a key attribute. An index misses no attribute, it
// leaves the item out.
const (
	WrongType BadKeyReason = iota + 1
	EmptyKey
	HashTooLong    // more than 2,048 bytes
	RangeTooLong   // more than 1,024 bytes in all
	EncodedTooLong // within the limits, but its encoding is not (too many NULs in a composite key)
	Missing        // of a table only
)

// String describes the reason in a few words.
func (r BadKeyReason) String() string {
	switch r {
	case WrongType:
		return "wrong type"
	case EmptyKey:
		return "empty"
	case HashTooLong:
		return "hash key longer than 2048 bytes"
	case RangeTooLong:
		return "range key longer than 1024 bytes"
	case EncodedTooLong:
		return "encoded range key longer than 1048 bytes"
	case Missing:
		return "missing"
	}
	return "unknown"
}

// BadKey names an attribute that keeps an item out of an index.
type BadKey struct {
	Index  *Index
	Attr   KeyAttr
	Reason BadKeyReason
}

// Next is what a row becomes.
type Next struct {
	Item    []byte // canonical
	Size    int
	Flags   uint8
	Entries []Entry
	// Bad lists the index keys that are not usable, indexes sorted by name;
	// those entries are left out. The engine refuses a write only when it
	// changes such an attribute; backfill and loader leave the entry out.
	Bad []BadKey
}

// Position is a place in key order. Over a table only PK and SK count; over an
// index all four do, in the order P, S, PK, SK.
type Position struct {
	P, S   []byte
	PK, SK []byte
}

// Want is how much of each row a reader needs.
type Want uint8

// What Range fills in.
const (
	// Sizes: Key, Size, and over an index P and S.
	Sizes Want = iota + 1
	// Keys: like Sizes, except that Size is not filled in over an index (a
	// KEYS_ONLY size follows from the keys), and that Item is filled in for
	// rows of which P or PK is shortened (keyenc.IsShortened).
	Keys
	// Items: everything.
	Items
)

// Range selects rows in key order.
type Range struct {
	Index IndexID // 0: the table
	// P is the encoded partition: PK over the table, P over an index. nil:
	// all partitions, as Scan reads them.
	P []byte
	// From and To bound the sort key to From <= s < To when P is set; nil is
	// unbounded. To may be nil only for "no upper bound".
	From, To []byte
	// Start and End bound the position to Start <= pos < End when P is nil:
	// the segment of a parallel Scan.
	Start, End *Position
	After      *Position // exclusive start, in the direction of reading
	Reverse    bool
	Want       Want
	Rows       int // hint: about how many rows the caller will read; 0 unknown
	AtMost     int // promise: the caller reads no more rows, so the range may end there; 0: none
	Bytes      int // hint: stop fetching ahead near this many stored item bytes; 0 unknown
}

// TableKey names a row of a table.
type TableKey struct {
	Table *Table
	Key   Key
}
