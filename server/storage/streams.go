// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
)

// RecordLife is how long change records are kept: 24 hours, as the service
// does.
const RecordLife = 24 * time.Hour

// Change tells who changes a row, for its change record.
type Change struct {
	// At is the instant of the change, as its record tells it; the engine's
	// own clock when zero.
	At time.Time
	// Service: the change was not asked for by a user, as an expiry is not.
	Service bool
}

// RecordKind says what a change did to a row.
type RecordKind uint8

// The kinds of change.
const (
	RecordInsert RecordKind = iota + 1
	RecordModify
	RecordRemove
)

// Record is a change of one row of a table with a stream. A write that leaves
// the item as it was makes none.
type Record struct {
	// Seq is a number of the whole database. It rises with each change of a
	// row, and is beyond those of all changes that had been acknowledged when
	// the change began.
	Seq     int64
	Table   TableID
	Kind    RecordKind
	Key     Key
	Keys    []byte    // canonical DynamoDB JSON of the key attributes
	Old     []byte    // canonical item before; nil when there was none, or the view type leaves it out
	New     []byte    // canonical item after; nil likewise
	Size    int       // bytes of Keys, Old and New as DynamoDB counts them
	At      time.Time // millisecond precision, UTC
	Service bool
}

// HasStream reports whether changes of the table's rows are recorded.
func (t *Table) HasStream() bool { return t.Def.StreamViewType != "" }

// RecordOf returns the record of a change of row k from cur (nil: absent) to
// next (nil: deleted), without Seq and At: what the view type of t lets it
// hold, in slices of cur and next. It is nil when there is nothing to record.
// An error is an ErrCorrupt: cur is not what a row can be.
func RecordOf(t *Table, k Key, cur *Row, next *Next, c Change) (*Record, error) {
	r := &Record{Table: t.ID, Kind: RecordModify, Key: k, Service: c.Service}
	image := cur
	switch {
	case !t.HasStream(), next == Unchanged, cur == nil && next == nil:
		return nil, nil
	case cur == nil:
		r.Kind, image = RecordInsert, &Row{Item: next.Item}
	case next == nil:
		r.Kind = RecordRemove
	case bytes.Equal(cur.Item, next.Item):
		return nil, nil
	}
	keys, err := t.KeysOf(nil, &Row{Key: k, Item: image.Item})
	if err != nil {
		return nil, fmt.Errorf("%w: keys of a row of table %q: %w", ErrCorrupt, t.Name(), err)
	}
	r.Keys, r.Size = ddb.AppendItem(nil, keys), keys.Size()
	view := t.Def.StreamViewType
	if cur != nil && (view == ddb.ViewOld || view == ddb.ViewBoth) {
		r.Old = cur.Item
		r.Size += cur.Size
	}
	if next != nil && (view == ddb.ViewNew || view == ddb.ViewBoth) {
		r.New = next.Item
		r.Size += next.Size
	}
	return r, nil
}

// Streams reads change records. A record is written in one step with its row,
// by every write of a table whose definition has a StreamViewType at that
// moment; a load makes none. Records outlive their table.
type Streams interface {
	// Horizon returns a sequence number such that every record at or below it
	// that will ever be there is there now. It never falls, never waits for
	// anybody, and reaches each committed record soon, at the latest when
	// everything that was being written at its commit has ended. Records
	// committed before the call of one who reads at the horizon may be beyond.
	Horizon(ctx context.Context) (int64, error)
	// Records returns records of a table with after < Seq <= upTo, in order of
	// Seq, at most limit of them; upTo is at most a Horizon. It ends early
	// near bytes of records (the first is always returned; 0: no bound).
	Records(ctx context.Context, t TableID, after, upTo int64, limit, bytes int) ([]Record, error)
}
