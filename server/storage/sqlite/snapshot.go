// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// A snapshot reads ahead to the first of these, but for its last row.
const (
	snapshotRows  = 1000
	snapshotBytes = 1 << 20
	snapshotYield = 32 // rows, a tenth of a millisecond: then others may have the core
)

// snapshot is a read transaction on a session of its own, beyond those of the
// pool: who reads a whole table, perhaps slowly, takes nobody's place. The
// writer does not wait for it, but cannot write the log back past it.
type snapshot struct {
	db      *DB
	t       *storage.Table
	ordered bool
	reader  storage.SnapshotReader

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
	if err := db.snaps.Enter(s); err != nil {
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
		if !s.reader.Begin(yield) {
			return
		}
		defer s.free()
		fill := func(b *storage.RowBuffer) (bool, error) { return s.fill(ctx, b) }
		if err := s.reader.Each(ctx, s, fill, yield); err != nil {
			s.free() // before whoever reads hears of it
			yield(nil, public(err))
		}
	}
}

// fill reads ahead; more tells that it must do so again.
func (s *snapshot) fill(ctx context.Context, b *storage.RowBuffer) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := snapshotRows
	if f := s.db.o.hooks.snapRows; f != nil && f() > 0 {
		rows = f()
	}
	var row storage.Row
	for b.Len() < rows && b.Bytes() < snapshotBytes {
		if err := s.reader.Alive(ctx); err != nil {
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
		if err := rowOf(s.st, storage.Items, &row); err != nil {
			return false, err
		}
		b.Add(&row)
		if b.Len()%snapshotYield == 0 {
			runtime.Gosched()
		}
	}
	if f := s.db.o.hooks.snapRead; f != nil {
		f()
	}
	return !s.freed, nil
}

// Close implements storage.Snapshot. It waits for one row to be read at most.
func (s *snapshot) Close() error {
	s.reader.Close()
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
	if _, idle := s.db.snaps.Leave(s); idle {
		s.db.w.cutLog()
	}
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
