// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// How often writers try.
const (
	maxLost      = 2  // races, before the row is locked
	maxStale     = 64 // transactions that met another definition
	maxQuick     = 3  // of those without a pause
	maxConflicts = 12 // transactions that met other writers
	maxDoubts    = 40 // attempts to ask a database that was lost: some 4 s
	maxPause     = 100 * time.Millisecond
)

// writes is what writers share. The zero value is ready.
type writes struct {
	keys    keyLocks
	tables  keyLocks // see withWriter
	long    longKeys
	helpers atomic.Int32 // of all calls of WriteEach
	horizon horizon
}

// writeHooks let tests stand in the way of writers.
type writeHooks struct {
	before   func(ctx context.Context, cs ...*change) error  // rows were read and decided upon, and are written next
	building func(t *storage.Table, ix storage.IndexID) bool // see entryOps
	general  func(t *storage.Table) bool                     // statements are general ones, where there are such
	text     func(sql string) string                         // another writing statement, with a fault that tests must notice
	open     bool                                            // transactions hold nothing: likewise
}

// Errors that end one attempt. Neither leaves the package.
var (
	errOvertaken = errors.New("another writer was faster")
	// errUnheld: a row that was about to be locked went; the next attempt finds
	// its place free.
	errUnheld = errors.New("a row went while it was locked")
)

// doubt is an error after which nobody knows whether a statement was carried
// out.
type doubt struct{ cause error }

func (d *doubt) Error() string { return d.cause.Error() }
func (d *doubt) Unwrap() error { return d.cause }

// stale makes the error of a statement that was made for another definition an
// ErrStale.
func stale(err error) error {
	if errors.Is(err, errOutdated) || isStale(err) {
		return fmt.Errorf("%w: %w", storage.ErrStale, err)
	}
	return err
}

// doubted makes the error of a statement that changes something a *doubt, if
// it is one.
func doubted(err error) error {
	if err == nil || undone(err) || errors.Is(err, storage.ErrStale) {
		return err
	}
	return &doubt{err}
}

// change is a Write on its way.
type change struct {
	w    storage.Write
	t    *storage.Table // the definition Decide ran with; nil before
	cur  *storage.Row   // the row it ran with
	any  bool           // the row does not matter
	next *storage.Next  // its answer, nil to delete
	old  []storage.Entry
	err  error // its refusal
	ver  int64 // of the row that is written
}

// decide runs Decide with a row, which may be nil.
func (c *change) decide(t *storage.Table, cur *storage.Row) error {
	made, err := c.w.Decide.Run(t, cur)
	c.t, c.cur, c.any, c.next, c.old, c.err = t, cur, false, made.Next, made.Old, made.Err
	c.ver = rand.Int64N(1<<63-1) + 1
	return err
}

// idle reports whether nothing is to be written.
func (c *change) idle() bool {
	return c.err != nil || c.next == storage.Unchanged || c.next == nil && c.cur == nil && !c.any
}

// result is the answer; err is what kept the change from being carried out.
func (c *change) result(err error) storage.Result {
	r := storage.Result{Table: c.t, Err: err}
	if r.Table == nil {
		r.Table = c.w.Table
	}
	if err == nil {
		r.Err = c.err
	}
	return r
}

// Write implements storage.Writer.
func (db *DB) Write(ctx context.Context, w storage.Write) (storage.Result, error) {
	if err := db.life.Enter(); err != nil {
		return storage.Result{Table: w.Table, Err: err}, err
	}
	defer db.life.Leave()
	r := db.write(ctx, w)
	return r, r.Err
}

func (db *DB) write(ctx context.Context, w storage.Write) storage.Result {
	c := &change{w: w}
	return c.result(blame(db.carryOut(ctx, c), c))
}

// carryOut makes one change under the lock of its key: without looking if it
// may, else by compare and set first and in a transaction when that fails.
func (db *DB) carryOut(ctx context.Context, c *change) error {
	unlock, err := db.lockKeys(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	settled := false
	if c.w.Blind {
		err = db.withWriter(ctx, []*change{c}, func(conn *pgxpool.Conn) (err error) {
			settled, err = db.writeBlind(ctx, conn, c)
			return err
		})
	}
	if settled || isFinal(err) {
		return err
	}
	if err == nil {
		err = db.withWriter(ctx, []*change{c}, func(conn *pgxpool.Conn) error { return db.modify(ctx, conn, c) })
	}
	if err == nil || isFinal(err) {
		return err
	}
	var d *doubt
	errors.As(err, &d)
	err = db.transact(ctx, []*change{c}, nil, d)
	if refused := new(storage.Cancelled); errors.As(err, &refused) {
		return nil // c tells why
	}
	return err
}

// isFinal reports whether an error is the answer: neither a doubt nor a lost
// race, which a transaction settles.
func isFinal(err error) bool {
	var d *doubt
	return err != nil && !errors.As(err, &d) && !errors.Is(err, errOvertaken)
}

// definition returns the newest known definition of a write's table, at least
// as new as that of the caller.
func (db *DB) definition(ctx context.Context, q querier, t *storage.Table, fresh bool) (*storage.Table, error) {
	known, err := db.usable(ctx, q, t.ID, fresh)
	if err == nil && known.Version < t.Version && !fresh {
		return db.usable(ctx, q, t.ID, true)
	}
	return known, err
}

// writeBlind writes without reading, where nothing hangs on the row that is
// there. Not settled: it does, or Decide changes nothing, which holds only if
// the definition does.
func (db *DB) writeBlind(ctx context.Context, conn *pgxpool.Conn, c *change) (settled bool, err error) {
	for fresh := false; ; fresh = true {
		t, err := db.definition(ctx, conn, c.w.Table, fresh)
		if err != nil {
			return true, err
		}
		if len(t.Indexes) > 0 || t.HasStream() {
			return false, nil
		}
		if err := c.decide(t, nil); err != nil {
			return true, err
		}
		if c.any = true; c.idle() {
			return false, nil
		}
		switch err = db.store(ctx, conn, c); {
		case errors.Is(err, storage.ErrStale) && !fresh:
		case errors.Is(err, storage.ErrStale), isConflict(err):
			return false, errOvertaken // a transaction tries more often
		default:
			return err == nil, err
		}
	}
}

// modify reads, decides and writes, until nobody comes in between.
func (db *DB) modify(ctx context.Context, conn *pgxpool.Conn, c *change) error {
	for lost, stale := 0, false; lost < maxLost; {
		err := db.attempt(ctx, conn, c, stale)
		switch {
		case errors.Is(err, errOvertaken):
			lost, stale = lost+1, false
		case errors.Is(err, storage.ErrStale) && !stale:
			stale = true
		case errors.Is(err, storage.ErrStale), isConflict(err):
			return errOvertaken // a transaction tries more often
		default:
			return err
		}
	}
	return errOvertaken
}

func (db *DB) attempt(ctx context.Context, conn *pgxpool.Conn, c *change, fresh bool) error {
	t, err := db.definition(ctx, conn, c.w.Table, fresh)
	if err != nil {
		return err
	}
	row, err := get(ctx, conn.Conn(), t, c.w.Key)
	if err != nil {
		return stale(err)
	}
	if err := c.decide(t, row); err != nil || c.idle() {
		return err
	}
	return db.store(ctx, conn, c)
}

// store writes what was decided, in one statement of its own.
func (db *DB) store(ctx context.Context, conn *pgxpool.Conn, c *change) error {
	if h := db.o.hooks.write.before; h != nil {
		if err := h(ctx, c); err != nil {
			return err
		}
	}
	if c.next != nil {
		if err := db.noteLong(ctx, conn, c); err != nil {
			return err
		}
	}
	sql, args, err := db.writing(c, false)
	if err != nil {
		return err
	}
	var guards, rows int
	switch err = stale(conn.QueryRow(ctx, sql, args...).Scan(&guards, &rows)); {
	case err != nil:
		return doubted(err)
	case guards == 0:
		return storage.ErrStale
	case rows == 0 && !c.any:
		return errOvertaken
	}
	db.stats.touch(c.t.ID, int64(rows))
	return replicated(ctx, conn.Conn())
}

// writing returns the statement of a change, and its arguments.
func (db *DB) writing(c *change, held bool) (sql string, args []any, err error) {
	next := c.next
	if next == storage.Unchanged {
		next = nil // the place that was held is given up
	}
	s := shape{op: c.op(next, held && !db.o.hooks.write.open), held: held}
	args = []any{c.t.Version, c.w.Key.PK, notNil(c.w.Key.SK)}
	var fresh []storage.Entry
	if next != nil {
		args = append(args, c.ver, int32(next.Size), int16(next.Flags), next.Item)
		fresh = next.Entries
	}
	if s.op == opUpdate || s.op == opDelete {
		ver := int64(0) // of a place that is held
		if c.cur != nil {
			ver = c.cur.Ver
		}
		args = append(args, ver)
	}
	x, ops := db.defs.texts.of(c.t), []byte(nil)
	if !c.any {
		record, err := db.recordArgs(c)
		if err != nil {
			return "", nil, err
		}
		ops = entryOps(c.t, c.old, fresh, db.building(c.t))
		s.record, s.entries = record != nil, string(ops)
		args = append(args, record...)
	}
	h := db.o.hooks.write.general
	sql, s = x.statement(c.t, s, h != nil && h(c.t))
	args = append(args, entryArgs(c.t, s, ops, c.old, fresh)...)
	if h := db.o.hooks.write.text; h != nil {
		sql = h(sql)
	}
	return sql, args, nil
}

// op returns what is to be done to a row. held: it, or its place, is locked.
func (c *change) op(next *storage.Next, held bool) op {
	switch {
	case next == nil && c.any:
		return opRemove
	case next == nil:
		return opDelete
	case c.any:
		return opPut
	case c.cur != nil || held:
		return opUpdate
	}
	return opInsert
}

func (db *DB) building(t *storage.Table) func(storage.IndexID) bool {
	h := db.o.hooks.write.building
	if h == nil {
		return nil
	}
	return func(ix storage.IndexID) bool { return h(t, ix) }
}

// pause waits for a moment, longer each time.
func pause(ctx context.Context, n int) error {
	d := min(time.Millisecond<<min(n, 10), maxPause)
	c, stop := clock.Real{}.After(d/2 + rand.N(d))
	defer stop()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// longKeys are the tables known to have had a row whose partition key is
// shortened.
type longKeys struct {
	mu    sync.Mutex
	noted map[storage.TableID]bool
}

// noteLong notes before the first row of a table whose partition key is
// shortened that snapshots of it are not in key order. That gives the
// definition no new version: nobody else needs to know.
func (db *DB) noteLong(ctx context.Context, conn *pgxpool.Conn, c *change) error {
	l, id := &db.writes.long, c.w.Table.ID
	if !keyenc.IsShortened(c.w.Key.PK) {
		return nil
	}
	l.mu.Lock()
	noted := l.noted[id]
	l.mu.Unlock()
	if noted {
		return nil
	}
	epoch := db.memory.epoch.Load()
	_, err := conn.Exec(ctx, "UPDATE extenddb.tables SET long_keys = true WHERE id = $1 AND NOT long_keys", int64(id))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if db.memory.epoch.Load() != epoch { // it may have been in another database server
		return nil
	}
	if l.noted == nil {
		l.noted = map[storage.TableID]bool{}
	}
	l.noted[id] = true
	return nil
}
