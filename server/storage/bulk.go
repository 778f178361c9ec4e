// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
)

// Snapshotter reads a whole table as it is at one instant, for as long as that
// takes.
type Snapshotter interface {
	// Snapshot fixes an instant and returns the table as it is then. Opening
	// is bounded: beyond the bound it fails at once. ErrTableNotFound (also
	// for a table that is DELETING), ErrTableNotActive, ErrTooManySnapshots,
	// ErrUnsupported. A table that is dropped, by this or another server, stays
	// whole for the snapshots that are open: its drop may have to wait for them,
	// its steps then end in a *Held.
	Snapshot(ctx context.Context, account, table string) (Snapshot, error)
}

// Snapshot is a table at one instant: definition, marker and rows agree, and
// nothing that is committed later shows. It holds a connection: the end of
// Rows, its first error and Close free it at once, whichever comes first.
type Snapshot interface {
	// Table is the definition at the instant.
	Table() *Table
	// Marker names the instant in the engine's own terms, for the manifest.
	Marker() (kind, value string)
	// KeyOrdered tells that Rows come strictly ascending in the order of the
	// key attributes, hash before range.
	KeyOrdered() bool
	// Rows yields every row once, Want Items. It may be called once. The first
	// error ends it; ErrSnapshotExpired when the engine gave the instant up.
	Rows(ctx context.Context) iter.Seq2[*Row, error]
	// Close is idempotent, and may be called while Rows runs: that then ends
	// with ErrClosed before its next row. So it does when the engine is closed,
	// which waits for nobody who reads a snapshot.
	Close() error
}

// Loader fills new tables in bulk.
type Loader interface {
	// Load adds a table that is CREATING: listed and described, but neither
	// read nor written by anybody but the returned Loading until that is
	// finished: ErrTableNotFound. UpdateTable and DropTable ask their change or
	// check, like for any other; the load of a table that is dropped ends with
	// ErrTableNotFound. No work is pending on a table being loaded. A process
	// that dies leaves it CREATING; opening the engine makes such a table
	// DELETING, work for the job runner like any drop, and so does another
	// server of the same database when it looks for work. *TableExists,
	// ErrTooManyTables.
	Load(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (Loading, error)
}

// LoadRow is a row to load, as Derive makes it of an item. Bad index keys are
// no obstacle: the item is not in that index.
type LoadRow struct {
	Key  Key
	Next *Next
}

// Loading is the load of one table. Its methods are called by one goroutine.
// After an error only Abort is allowed.
type Loading interface {
	// Table is the definition of the table being loaded, CREATING.
	Table() *Table
	// Add stores rows, which are the caller's again when it returns; they
	// should come in key order, which is faster, but need not, and some
	// thousand at a time. Client writes get in between. *DuplicateKey when a
	// row of that key was added before; ErrTableNotFound when the table was
	// dropped.
	Add(ctx context.Context, rows []LoadRow) error
	// Finish builds the indexes, sets the statistics and makes the table
	// ACTIVE, with its next version, all that in one step for whoever looks.
	// progress, when not nil, is told of the entries done and to do, by the
	// caller's goroutine, which may use the engine but not close it.
	// ErrTableNotFound when the table was dropped.
	Finish(ctx context.Context, progress func(done, total int64)) error
	// Abort makes the table DELETING, unless it is ACTIVE or gone, and frees
	// what the load holds; the job runner removes the rows. Idempotent; to be
	// called on every path, also after Finish, where it does nothing. When it
	// fails, so does the load: the table becomes DELETING later, at the latest
	// when the engine has been closed and is opened again, or another server
	// looks for work.
	Abort() error
}

// DuplicateKey is what Add returns for a key that is there already.
type DuplicateKey struct{ Row int } // its place in rows

func (e *DuplicateKey) Error() string {
	return fmt.Sprintf("row %d has the key of an earlier one", e.Row)
}
