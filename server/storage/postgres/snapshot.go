// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

const (
	// snapshotBytes is how far a snapshot reads ahead, about. The memory it
	// takes is that of a chunk: rows are read as they come over the network.
	snapshotBytes = 4 << 20
	// snapshotBegin begins what makes a snapshot one instant. Nobody waits long
	// for the lock: only what is just being dropped is locked against it. The
	// snapshot ends when its reader ends it, however slow that is.
	snapshotBegin = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ` + mayIdle + `; ` + mayStall
)

// snapshot is a read-only transaction with a snapshot of the database of its
// own. Nobody waits for it but who drops the table, and vacuum.
type snapshot struct {
	db      *DB
	t       *storage.Table
	marker  string
	ordered bool
	reader  storage.SnapshotReader
	size    int // bytes of the rows read
	rows    int

	// interrupt ends a read that is under way.
	interrupt atomic.Pointer[context.CancelFunc]

	mu     sync.Mutex // guards what follows; held while rows are read ahead
	c      *pgxpool.Conn
	cur    *cursor
	freed  bool
	permit func() // gives the place among the long connections back
}

// Snapshot implements storage.Snapshotter. At most half as many as the pool
// has connections, and at least one, may be open.
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
		s.free(ctx)
		return nil, snapshotError(ctx, err)
	}
	return s, nil
}

// snapshotError turns an error into one of storage.
func snapshotError(ctx context.Context, err error) error {
	switch codeOf(err) {
	case codeSerialization, "72000": // a standby gave up; snapshot_too_old
		return fmt.Errorf("%w: %w", storage.ErrSnapshotExpired, err)
	}
	return unlocked(ended(ctx, public(err)))
}

// start fixes the instant.
func (s *snapshot) start(ctx context.Context, account, table string) (err error) {
	ok := false
	if s.permit, ok = s.db.longs.try(); !ok {
		return storage.ErrTooManySnapshots
	}
	if s.c, err = s.db.acquire(ctx); err != nil {
		return err
	}
	c := s.c.Conn()
	if _, err := c.PgConn().Exec(ctx, snapshotBegin).ReadAll(); err != nil {
		return err
	}
	if err := s.define(ctx, c, account, table); err != nil {
		return err
	}
	if f := s.db.o.hooks.snapDefinition; f != nil {
		f()
	}
	v := variant{want: storage.Items}
	if s.cur, err = openCursor(ctx, c, "", v.sql(s.t.ID, 0), v.arguments(s.t.ID, nil, nil, nil), 0); err != nil {
		return err
	}
	if f := s.db.o.hooks.snapItems; f != nil {
		f()
	}
	return ctx.Err()
}

// define reads the table's row of the catalog, the first that the transaction
// reads: that is the instant. (LOCK TABLE would fix none.) Then it makes sure
// that the table's rows stay.
func (s *snapshot) define(ctx context.Context, c *pgx.Conn, account, table string) error {
	var (
		id     int64
		status storage.Status
		long   bool
	)
	err := c.QueryRow(ctx, `SELECT id, status, long_keys, pg_current_snapshot()::text FROM extenddb.tables
		WHERE account = $1 AND name = $2`, account, table).Scan(&id, &status, &long, &s.marker)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && status == storage.Deleting:
		return storage.ErrTableNotFound
	case err != nil:
		return err
	case status != storage.Active:
		return storage.ErrTableNotActive
	}
	if _, err := c.Exec(ctx, "LOCK TABLE "+rowsOf(storage.TableID(id))+" IN ACCESS SHARE MODE"); err != nil {
		if codeOf(err) == codeUndefinedTable {
			return storage.ErrTableNotFound // dropped since the instant
		}
		return err
	}
	s.ordered = !long
	s.db.snaps.Holds(s, storage.TableID(id))
	t, err := readTable(ctx, c, byID, id)
	if err == nil {
		s.t = t
	}
	return err
}

// ahead is how many rows to ask for.
func (s *snapshot) ahead() int {
	if f := s.db.o.hooks.snapRows; f != nil && f() > 0 {
		return f()
	}
	if s.rows == 0 {
		return s.db.reads.pace(itemsOf(s.t.ID)).fits(snapshotBytes)
	}
	return min(snapshotBytes*s.rows/max(s.size, 1)+1, growth*s.cur.asked, fetchRows)
}

// Table implements storage.Snapshot.
func (s *snapshot) Table() *storage.Table { return s.t }

// Marker implements storage.Snapshot.
func (s *snapshot) Marker() (kind, value string) { return "pg_current_snapshot", s.marker }

// KeyOrdered implements storage.Snapshot.
func (s *snapshot) KeyOrdered() bool { return s.ordered }

// Rows implements storage.Snapshot.
func (s *snapshot) Rows(ctx context.Context) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		if !s.reader.Begin(yield) {
			return
		}
		reading, interrupt := context.WithCancel(atOnce(ctx))
		defer interrupt()
		s.interrupt.Store(&interrupt)
		defer s.free(ctx)
		fill := func(b *storage.RowBuffer) (bool, error) { return s.fill(ctx, reading, b) }
		if err := s.reader.Each(ctx, s, fill, yield); err != nil {
			s.free(ctx) // before whoever reads hears of it
			yield(nil, snapshotError(ctx, err))
		}
	}
}

// fill reads ahead; more tells that it must do so again.
func (s *snapshot) fill(ctx, reading context.Context, b *storage.RowBuffer) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var row storage.Row
	for b.Len() < chunkRows && b.Bytes() < chunkBytes {
		if err := s.reader.Alive(ctx); err != nil {
			return false, err
		}
		if s.cur.fetching == nil {
			s.cur.fetch(reading, s.ahead())
		}
		cols, err := s.cur.next()
		if err != nil {
			return false, err
		}
		if cols == nil {
			if f := s.db.o.hooks.snapRead; f != nil {
				f()
			}
			if s.cur.atEnd() {
				s.freeLocked(ctx) // nobody has to read the rest first
				return false, nil
			}
			if b.Len() > 0 {
				return true, nil // to be read before more is asked for
			}
			continue
		}
		if cols[3] == nil { // the sort key: there are no rows
			continue
		}
		if err := (variant{want: storage.Items}).rowOf(nil, cols[2:], &row); err != nil {
			return false, err
		}
		held := b.Bytes()
		b.Add(&row)
		s.rows++
		s.size += b.Bytes() - held
	}
	return true, nil
}

// Close implements storage.Snapshot. It waits for nothing but the end of the
// transaction.
func (s *snapshot) Close() error {
	s.reader.Close()
	if interrupt := s.interrupt.Load(); interrupt != nil {
		(*interrupt)()
	}
	s.free(context.Background())
	return nil
}

func (s *snapshot) free(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeLocked(ctx)
}

// freeLocked gives connection and place back, and tells who may wait for the
// table to be free.
func (s *snapshot) freeLocked(ctx context.Context) {
	if s.freed {
		return
	}
	s.freed = true
	if s.c != nil {
		s.endTransaction(ctx)
		s.c.Release()
	}
	if s.permit != nil {
		s.permit()
	}
	if freed, _ := s.db.snaps.Leave(s); freed {
		s.db.session.work()
	}
}

// endTransaction ends it on the server. Where rows are still on their way, the
// connection is closed instead: there may be some megabytes of them.
func (s *snapshot) endTransaction(ctx context.Context) {
	c := s.c.Conn()
	switch {
	case c.IsClosed():
	case c.PgConn().IsBusy():
		hangUp(ctx, c)
	default:
		rollback(ctx, c)
	}
}
