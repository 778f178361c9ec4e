// SPDX-License-Identifier: Apache-2.0

// Package storage says what an engine must do: keep tables, rows and index
// entries, and let the layers above read and write them without knowing how.
//
// Principles every engine follows:
//   - A row holds the canonical bytes of the whole item; an index holds keys
//     only. Row and entries change in one atomic step.
//   - Definitions are cached by callers. A statement that reads or writes
//     proves that the definition it was given is still current; writers are
//     run again with the newer one, readers get ErrStale before the first row.
//   - Nothing an engine does depends on a waiting period or a clock; instants
//     are only recorded.
//   - Only the errors listed in errors.go leave an engine, each perhaps wrapped.
package storage

import (
	"context"
	"iter"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
)

// Engine is a storage engine: everything below, and its life.
type Engine interface {
	Catalog
	Writer
	Reader
	Maintainer
	Loader
	Snapshotter
	Streams
	Lifecycle
}

// Lifecycle ends an engine and tells whether it works.
type Lifecycle interface {
	// Ping answers nil when the engine can read and its catalog is usable.
	Ping(ctx context.Context) error
	// Close waits for running calls and iterators, ends the snapshots that are
	// open, makes everything durable and frees the engine. Later calls fail
	// with ErrClosed. Idempotent.
	Close() error
}

// Catalog keeps the definitions of tables. Names are unique per account.
type Catalog interface {
	// CreateTable adds an ACTIVE table with its indexes, created at the given
	// instant. ErrTableExists (with the present table, whatever its status),
	// ErrTooManyTables.
	CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*Table, error)
	// UpdateTable replaces the definition by what change returns for the
	// current one, with a new version; change may run several times, on any
	// goroutine, and its error is returned as it is. Keys and the set of indexes must stay the same. ErrTableNotFound;
	// a DELETING table is passed to change like any other.
	UpdateTable(ctx context.Context, account, name string, change func(*Table) (ddb.TableDefinition, error)) (*Table, error)
	// Table returns a table's definition, perhaps from a cache; DELETING ones
	// too. ErrTableNotFound.
	Table(ctx context.Context, account, name string) (*Table, error)
	// Describe returns the committed definition, never from a cache that could
	// be behind, and the latest statistics. ErrTableNotFound.
	Describe(ctx context.Context, account, name string) (*Table, Stats, error)
	// Tables lists the names of an account that sort after the given one, in
	// byte order, at most limit; more tells that others follow.
	Tables(ctx context.Context, account, after string, limit int) (names []string, more bool, err error)
	// DropTable marks a table DELETING when check agrees, and leaves the rest
	// to the job runner, of this or another server. check may run several times; its error is returned as
	// it is. ErrTableNotFound.
	DropTable(ctx context.Context, account, name string, check func(*Table) error) (*Table, error)
}

// Decide says what a row becomes, given the row as it is (nil when absent) and
// the definition that holds at that moment. It returns the Next of Derive, nil
// to delete, or Unchanged to leave the row alone; an error refuses the write.
//
// It must be pure but for the variables it captures: no storage call, no
// panic. It may run several times, on any goroutine, never at the same time
// with itself; the last run is the one that counts. cur is valid during the
// call only.
type Decide func(t *Table, cur *Row) (*Next, error)

// Unchanged is what Decide returns to leave the row as it is: a condition
// check, an update that finds nothing to do.
var Unchanged = &Next{}

// Write is one intended change of one row.
type Write struct {
	Table  *Table
	Key    Key
	Blind  bool // Decide ignores cur: the engine may write without reading
	Decide Decide
	Change Change // goes into the change record, when the table has a stream
}

// Result is what became of a Write.
type Result struct {
	Table *Table // the definition Decide last ran with
	Err   error  // what Decide or the engine refused with; nil when it was done
}

// Token makes a WriteAll idempotent: the same token with the same digest within
// its life is not carried out again.
type Token struct {
	Account string
	Token   string
	Digest  [32]byte  // of the request
	Now     time.Time // tokens expire ten minutes after their Now
}

// Writer changes rows. A write of a table that is DELETING or gone fails with
// ErrTableNotFound; one re-created under its name is another table.
// Acknowledged writes are durable. Where others are in the way time and again,
// a write fails with ErrConflict; where the database was lost while it was
// committed, with ErrInDoubt.
type Writer interface {
	// Write changes one row atomically. The error is that of the Result.
	Write(ctx context.Context, w Write) (Result, error)
	// WriteEach changes rows independently of each other, each atomically. It
	// returns one Result per Write, in order.
	WriteEach(ctx context.Context, ws []Write) []Result
	// WriteAll reads every row, runs every Decide on the state before, then
	// applies all or none, as one serialisable step. No two writes may name the
	// same row. When a Decide refuses, the error is a *Cancelled with one
	// reason per Write. A refusal that is Final suffices: the rows of the Writes
	// after it, in whatever order the engine has, need not be read; they have no
	// reason then. token may be nil; a token seen before gives
	// ErrReplayed (same digest: done already) or ErrTokenMismatch.
	WriteAll(ctx context.Context, ws []Write, token *Token) ([]Result, error)
}

// Reader reads rows. Reading a table that is DELETING or gone fails with
// ErrTableNotFound, reading with an outdated definition with ErrStale.
type Reader interface {
	// Get returns a row of its own, or nil when there is none.
	Get(ctx context.Context, t *Table, k Key) (*Row, error)
	// GetAll reads rows of one instant, in order, nil for absent ones, until
	// budget bytes of stored items are reached (the first is always read);
	// len(rows) keys are answered. budget <= 0: no bound.
	GetAll(ctx context.Context, ks []TableKey, budget int) (rows []*Row, err error)
	// Range yields the rows of r in key order, all of one instant. The first
	// error ends it.
	Range(ctx context.Context, t *Table, r Range) iter.Seq2[*Row, error]
	// Sample returns a sorted sample of positions of the table (index 0) or
	// an index, spread evenly over its rows: the bounds of scan segments are
	// quantiles of it. It stays the same while parallel scans use it: a new
	// sample replaces it only after an hour without a call of Sample. now is
	// the caller's clock. Empty when none was taken yet; the first one waits
	// for some minutes without a call.
	Sample(ctx context.Context, t *Table, ix IndexID, now time.Time) ([]Position, error)
}

// WorkKind is a kind of background work.
type WorkKind uint8

// The kinds of work.
const (
	TableDrop   WorkKind = iota + 1 // remove the rows and storage of a DELETING table, then its catalog row
	Statistics                      // count a table and its indexes, sample its keys
	TokenExpiry                     // remove the tokens of WriteAll that are over; of no table
	RecordTrim                      // remove the change records older than RecordLife; of no table
)

// String names the kind in logs and status: "table-drop".
func (k WorkKind) String() string {
	switch k {
	case TableDrop:
		return "table-drop"
	case Statistics:
		return "statistics"
	case TokenExpiry:
		return "token-expiry"
	case RecordTrim:
		return "record-trim"
	}
	return "unknown"
}

// Work is something the catalog says is to be done.
type Work struct {
	Kind    WorkKind
	Table   TableID // 0: of no table
	Account string
	Name    string // of the table
}

// Progress is how far a piece of work is.
type Progress struct {
	Done, Total int64 // rows; Total is 0 when unknown
	Finished    bool
}

// Maintainer does background work in bounded steps.
type Maintainer interface {
	// Pending lists the work due at now: never what is merely waiting.
	Pending(ctx context.Context, now time.Time) ([]Work, error)
	// Claim makes the caller the owner of w until the lease is released or its
	// process dies. ErrClaimed when somebody else is, ErrNoWork when it is done
	// or gone.
	Claim(ctx context.Context, w Work) (Lease, error)
	// OnWork registers what is called when work may have become due other than
	// through a call of this engine: a call of another server on the same
	// database, the end of what held a table. wake never blocks, and may be
	// called from any goroutine, also for nothing. It takes the place of an
	// earlier one; after nil none is called any more, but one that is being
	// called may still be running.
	OnWork(wake func())
}

// Lease is the ownership of a piece of work.
type Lease interface {
	// Step does a bounded part (some 20 ms) and tells how far it is. A step is
	// idempotent: after a crash the work continues, it does not start again.
	// Client writes get in between two steps. ErrNoWork when it is gone, or
	// somebody else's by now; *Held when somebody holds what it needs: it is to
	// be tried again soon.
	Step(ctx context.Context, now time.Time) (Progress, error)
	// Release gives the work up, finished or not. Idempotent.
	Release() error
}
