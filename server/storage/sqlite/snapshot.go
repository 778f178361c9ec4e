// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// A snapshot reads ahead to the first of these, but for its last row.
const (
	snapshotRows  = 1000
	snapshotBytes = 1 << 20
	snapshotYield = 32 // rows, a tenth of a millisecond: then others may have the core
)

// snapshots are those in use, at most bound.
type snapshots struct {
	bound int
	idle  func() // called when the last one has ended

	mu   sync.Mutex
	open map[*snapshot]struct{}
}

func (x *snapshots) init(bound int, idle func()) {
	x.bound, x.idle, x.open = bound, idle, map[*snapshot]struct{}{}
}

func (x *snapshots) enter(s *snapshot) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) >= x.bound {
		return storage.ErrTooManySnapshots
	}
	x.open[s] = struct{}{}
	return nil
}

func (x *snapshots) leave(s *snapshot) {
	x.mu.Lock()
	delete(x.open, s)
	last := len(x.open) == 0
	x.mu.Unlock()
	if last {
		x.idle()
	}
}

// close ends those that are open. No other is being opened any more.
func (x *snapshots) close() {
	x.mu.Lock()
	open := make([]*snapshot, 0, len(x.open))
	for s := range x.open {
		open = append(open, s)
	}
	x.mu.Unlock()
	for _, s := range open {
		_ = s.Close() // never fails
	}
}

// snapshot is a read transaction on a session of its own, beyond those of the
// pool: who reads a whole table, perhaps slowly, takes nobody's place. The
// writer does not wait for it, but cannot write the log back past it.
type snapshot struct {
	db      *DB
	t       *storage.Table
	ordered bool
	begun   atomic.Bool // Rows was called
	closed  atomic.Bool // Close was
	check   storage.StoredRows

	mu    sync.Mutex // guards what follows; held while rows are read ahead
	s     *session
	st    *stmt // stands on the row that comes next
	freed bool
}

var _ storage.Snapshotter = (*DB)(nil)

// Snapshot implements storage.Snapshotter. At most half as many as there are
// readers, and at least one, may be open.
func (db *DB) Snapshot(ctx context.Context, account, table string) (storage.Snapshot, error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &snapshot{db: db}
	if err := db.snaps.enter(s); err != nil {
		return nil, err
	}
	if err := s.start(ctx, account, table); err != nil {
		s.free()
		return nil, public(err)
	}
	return s, nil
}

// start fixes the instant. A transaction sees what is committed before its
// first read, so that is the catalog's row.
func (s *snapshot) start(ctx context.Context, account, table string) (err error) {
	if s.s, err = s.db.openReader(false); err != nil {
		return err
	}
	if err := s.s.run("BEGIN"); err != nil {
		return err
	}
	e, err := s.s.entry(account, table)
	if err != nil {
		return err
	}
	switch e.status {
	case storage.Active:
	case storage.Deleting:
		return storage.ErrTableNotFound
	default:
		return storage.ErrTableNotActive
	}
	if s.t, err = e.table(); err != nil {
		return err
	}
	s.ordered = !e.longKeys
	if f := s.db.o.hooks.snapDefinition; f != nil {
		f()
	}
	if s.st, err = s.s.stmt(sqlAllOfTable); err != nil {
		return err
	}
	s.st.bindInt(1, int64(s.t.ID))
	if f := s.db.o.hooks.snapItems; f != nil {
		f()
	}
	return ctx.Err()
}

// entry reads a table's row of the catalog.
func (s *session) entry(account, table string) (*entry, error) {
	st, err := s.stmt(sqlTable)
	if err != nil {
		return nil, err
	}
	st.bindBlob(1, []byte(account))
	st.bindBlob(2, []byte(table))
	found, err := st.step()
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, storage.ErrTableNotFound
	}
	ids := map[string]storage.IndexID{}
	e := storedEntry(st, ids)
	st.reset()
	if st, err = s.stmt(sqlIndexes); err != nil {
		return nil, err
	}
	st.bindInt(1, int64(e.id))
	for {
		more, err := st.step()
		if err != nil || !more {
			return e, err
		}
		ids[string(st.colBlob(1))] = storage.IndexID(st.colInt(0))
	}
}

// Table implements storage.Snapshot.
func (s *snapshot) Table() *storage.Table { return s.t }

// Marker implements storage.Snapshot: SQLite has no name for an instant.
func (s *snapshot) Marker() (kind, value string) { return "sqlite_wal_read_txn", "" }

// KeyOrdered implements storage.Snapshot.
func (s *snapshot) KeyOrdered() bool { return s.ordered }

// Rows implements storage.Snapshot.
func (s *snapshot) Rows(ctx context.Context) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		if !s.begun.CompareAndSwap(false, true) {
			yield(nil, fmt.Errorf("%w: the rows of a snapshot are read twice", storage.ErrInvalid))
			return
		}
		defer s.free()
		fail := func(err error) {
			s.free() // before whoever reads hears of it
			yield(nil, public(err))
		}
		var c chunk
		for more := true; more; {
			var err error
			if more, err = s.fill(ctx, &c); err != nil {
				fail(err)
				return
			}
			var row storage.Row
			for i := range c.rows {
				c.row(i, &row)
				err := s.alive(ctx)
				if err == nil {
					err = s.check.Check(s.t, &row, s.ordered)
				}
				if err != nil {
					fail(err)
					return
				}
				if !yield(&row, nil) {
					return
				}
			}
		}
	}
}

// fill reads ahead; more tells that it must do so again.
func (s *snapshot) fill(ctx context.Context, c *chunk) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.reset()
	rows := snapshotRows
	if f := s.db.o.hooks.snapRows; f != nil && f() > 0 {
		rows = f()
	}
	for len(c.rows) < rows && len(c.mem) < snapshotBytes {
		if err := s.alive(ctx); err != nil {
			return false, err
		}
		more, err := s.st.step()
		if err != nil {
			return false, err
		}
		if !more {
			s.freeLocked() // nobody has to read the rest first
			break
		}
		if err := c.add(s.st, &storage.Range{Want: storage.Items}); err != nil {
			return false, err
		}
		if len(c.rows)%snapshotYield == 0 {
			runtime.Gosched()
		}
	}
	if f := s.db.o.hooks.snapRead; f != nil {
		f()
	}
	return !s.freed, nil
}

// alive tells why no more row may be yielded.
func (s *snapshot) alive(ctx context.Context) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// Close implements storage.Snapshot. It waits for one row to be read at most.
func (s *snapshot) Close() error {
	s.closed.Store(true)
	s.free()
	return nil
}

func (s *snapshot) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeLocked()
}

// freeLocked gives session and place back.
func (s *snapshot) freeLocked() {
	if s.freed {
		return
	}
	s.freed = true
	if s.s != nil {
		_ = s.s.close() // ends the transaction; a reader has nothing to lose
	}
	s.db.snaps.leave(s)
}

// noteKey notes with the first row of a table whose partition key is shortened
// that snapshots of it are not in key order. That gives the definition no new
// version: nobody else needs to know.
func (tx *tx) noteKey(id storage.TableID, k storage.Key) error {
	if !keyenc.IsShortened(k.PK) || tx.cat.byID[id].longKeys {
		return nil
	}
	if err := tx.run(sqlSetLongKeys, int64(id)); err != nil {
		return err
	}
	tx.setCatalog(tx.cat.withLongKeys(id))
	return nil
}
