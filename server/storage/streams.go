// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"time"
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
	Seq     int64 // of the whole database; rises with each change of a row
	Table   TableID
	Kind    RecordKind
	Key     Key
	Keys    []byte // canonical DynamoDB JSON of the key attributes
	Old     []byte // canonical item before; nil when there was none, or the view type leaves it out
	New     []byte // canonical item after; nil likewise
	Size    int    // bytes of Keys, Old and New as DynamoDB counts them
	At      time.Time
	Service bool
}

// Streams reads change records. A record is written in one step with its row,
// by every write of a table whose definition has a StreamViewType at that
// moment. Records outlive their table.
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
