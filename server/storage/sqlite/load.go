// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Each transaction of a load is synced, so it is large while nobody else
// writes, and ends soon when somebody waits.
const (
	loadRows   = 4000 // or entries
	loadBytes  = 8 << 20
	sharedRows = 500
	sharedSize = 4 << 20
	sharedTime = 20 * time.Millisecond
)

// errOver is why a load that was finished or aborted does nothing more.
var errOver = errors.New("it was finished or aborted")

// loads are the loads under way. A CREATING table that is not among them was
// left behind.
type loads struct {
	mu   sync.Mutex
	open map[*loading]storage.TableID
}

func (s *loads) add(l *loading, id storage.TableID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*loading]storage.TableID{}
	}
	s.open[l] = id
}

func (s *loads) remove(l *loading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, l)
}

func (s *loads) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}

func (s *loads) has(id storage.TableID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.open {
		if other == id {
			return true
		}
	}
	return false
}

// discard frees what the loads hold that nobody ended. No call is running.
func (s *loads) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.open {
		l.discard()
	}
}

// loading is a load under way. Rows are stored as they come, with the primary
// key in place. Their entries are sorted first (spill.go) and stored at the
// end: each then goes to the right edge of its index, where an index is built
// fastest, while single entries would touch a page each.
type loading struct {
	db    *DB
	table *storage.Table
	over  error // why only Abort is allowed; nil: it goes on
	ended bool  // finished, or aborted for good
	ids   []int64
	stats storage.Stats // of what was added
	done  int64         // rows and entries stored

	mu      sync.Mutex // Close may discard
	entries *spill
}

// Load implements storage.Loader.
func (db *DB) Load(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
	l := &loading{db: db, stats: storage.Stats{Indexes: map[storage.IndexID]storage.IndexStats{}}}
	err := db.change(ctx, false, func(tx *tx) (err error) {
		if l.table, err = tx.createTable(account, def, at, storage.Creating); err == nil {
			db.loads.add(l, l.table.ID) // now: who sees the table must not think that it was left behind
		}
		return err
	})
	if err != nil {
		db.loads.remove(l)
		return nil, err
	}
	for _, ix := range l.table.Indexes {
		l.stats.Indexes[ix.ID] = storage.IndexStats{}
	}
	l.entries = newSpill(loadFiles(db.path, l.table.ID), db.o.hooks.spill)
	return l, nil
}

// Table implements storage.Loading.
func (l *loading) Table() *storage.Table { return l.table }

// step runs a part of the load: after an error there is no other.
func (l *loading) step(f func() error) error {
	if l.over != nil {
		return fmt.Errorf("%w: only Abort is allowed: %w", storage.ErrInvalid, l.over)
	}
	err := l.db.life.Enter()
	if err == nil {
		defer l.db.life.Leave()
		err = f()
	}
	if err != nil {
		l.over = err
		l.discard()
	}
	return err
}

// discard removes the files.
func (l *loading) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries != nil {
		l.entries.discard()
		l.entries = nil
	}
}

// Add implements storage.Loading.
func (l *loading) Add(ctx context.Context, rows []storage.LoadRow) error {
	return l.step(func() error {
		for n := 0; n < len(rows); {
			m, err := l.insert(ctx, rows[n:])
			var duplicate *storage.DuplicateKey
			switch {
			case errors.As(err, &duplicate):
				return &storage.DuplicateKey{Row: n + duplicate.Row}
			case err != nil:
				return err
			}
			n += m
		}
		return nil
	})
}

// insert stores the first n rows, in one transaction, and keeps their entries.
func (l *loading) insert(ctx context.Context, rows []storage.LoadRow) (n int, err error) {
	err = l.db.bulk(ctx, func(tx *tx) (bytes int, err error) {
		if _, err := tx.loading(l.table.ID); err != nil {
			return 0, err
		}
		l.ids = l.ids[:0]
		begin := l.db.o.Clock.Now()
		for n = 0; n < len(rows) && !tx.enough(begin, n, bytes); n++ {
			id, err := tx.insertLoaded(l.table.ID, &rows[n])
			if isDuplicate(err) { // what it wraps undoes the transaction
				err = fmt.Errorf("%w: %w", &storage.DuplicateKey{Row: n}, err)
			}
			if err != nil {
				return 0, err
			}
			l.ids = append(l.ids, id)
			bytes += len(rows[n].Next.Item)
		}
		return bytes, nil
	})
	if err != nil {
		return 0, err
	}
	l.done += int64(n)
	for i, id := range l.ids {
		if err := l.keep(&rows[i], id); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// insertLoaded stores a row of a load.
func (tx *tx) insertLoaded(t storage.TableID, r *storage.LoadRow) (id int64, err error) {
	ver, err := tx.nextVer()
	if err != nil {
		return 0, err
	}
	return tx.insert(t, r.Key, r.Next, ver)
}

func isDuplicate(err error) bool {
	var e *sqliteError
	return errors.As(err, &e) && e.Code == lib.SQLITE_CONSTRAINT_UNIQUE
}

// keep counts a row and takes its entries down.
func (l *loading) keep(r *storage.LoadRow, id int64) error {
	l.stats.Items++
	l.stats.Bytes += int64(r.Next.Size)
	for i := range r.Next.Entries {
		e := &r.Next.Entries[i]
		s := l.stats.Indexes[e.Index]
		l.stats.Indexes[e.Index] = storage.IndexStats{Items: s.Items + 1, Bytes: s.Bytes + int64(e.Size)}
		if err := l.entries.add(e, r.Key, id); err != nil {
			return err
		}
	}
	return nil
}

// Abort implements storage.Loading.
func (l *loading) Abort() error {
	if l.over == nil {
		l.over = errOver
	}
	l.discard()
	if l.ended {
		return nil
	}
	err := l.db.change(context.Background(), false, func(tx *tx) error {
		e, err := tx.loading(l.table.ID)
		if err != nil {
			return nil //nolint:nilerr // it is DELETING or gone
		}
		return tx.forsake(e, l.done)
	})
	l.ended = err == nil
	l.db.loads.remove(l) // even so: then the drop makes it DELETING
	return err
}

// bulk runs a request that fills a transaction; f tells how many bytes it
// stored.
func (db *DB) bulk(ctx context.Context, f func(*tx) (bytes int, err error)) error {
	if err := db.life.Enter(); err != nil {
		return err
	}
	defer db.life.Leave()
	r := &request{last: true}
	r.apply = func(tx *tx) (err error) {
		r.bytes, err = f(tx)
		if db.o.hooks.step != nil {
			db.o.hooks.step()
		}
		return err
	}
	db.w.do(ctx, r)
	return r.err
}

// enough reports whether a transaction of a load is to end that began then and
// has that many rows and bytes.
func (tx *tx) enough(begin time.Time, n, bytes int) bool {
	switch {
	case n == 0:
		return false
	case n >= loadRows || bytes >= loadBytes:
		return true
	}
	return tx.w.awaited() && (n >= sharedRows || bytes >= sharedSize || tx.w.db.o.Clock.Now().Sub(begin) >= sharedTime)
}

// loading returns a table that is being loaded, ErrTableNotFound when somebody
// dropped it.
func (tx *tx) loading(id storage.TableID) (*entry, error) {
	if e := tx.cat.byID[id]; e != nil && e.status == storage.Creating {
		return e, nil
	}
	return nil, storage.ErrTableNotFound
}

// forsake makes a CREATING table DELETING; total is what is to be removed, 0
// when nobody knows.
func (tx *tx) forsake(e *entry, total int64) error {
	_, err := tx.leave(e, total)
	return err
}

// endLoads makes tables DELETING whose load ended with its process, and
// removes the files that it left.
func (db *DB) endLoads(c *conn) error {
	if err := sweepLoads(db.path); err != nil {
		db.o.Log.Warn("files of an earlier load cannot be removed", "err", err, "path", db.path)
	}
	n, err := c.queryInt(sqlCreating)
	if err != nil || n == 0 {
		return err
	}
	if err = c.exec(sqlEndLoads); err == nil {
		return nil
	}
	err = errors.Join(err, rollback(c))
	if !dooms(err) {
		return err
	}
	// The rest can be read. The drop will do it: nobody loads them.
	db.o.Log.Error("tables that were being loaded cannot be marked for removal now", "err", err, "tables", n)
	return nil
}
