// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// Memory as Options.Path keeps everything in a private temporary file that
// Close removes. Nothing is synced.
const Memory = ":memory:"

// Synchronous says what an acknowledged write survives.
type Synchronous uint8

// Levels of durability.
const (
	Full   Synchronous = iota // power loss: each batch is synced
	Normal                    // a crash of the process, not of the machine
	off                       // only for Memory
)

// String is the value of the pragma: "FULL".
func (s Synchronous) String() string { return [...]string{"FULL", "NORMAL", "OFF"}[s] }

// Options say how to open a database.
type Options struct {
	Path        string // of the file, created when absent; or Memory
	Synchronous Synchronous
	Readers     int   // reads at a time; 0: two per CPU, 4 to 8
	Batch       int   // requests that may share a transaction; 0: 256. 1 is for measuring what sharing saves
	CacheBytes  int64 // page cache of the writer; a reader has a quarter; 0: 32 MiB
	// Mmap is how much of the file is mapped, in bytes; 0 none. It saves a
	// third of a read's CPU, but an I/O error then kills the process.
	Mmap        int64
	MaxTables   int    // per account; 0: 2,500, the service's quota
	AdminSocket string // named in the lock file
	Clock       clock.Clock
	Log         *slog.Logger

	hooks hooks
}

// hooks let tests stand in the middle of things; nil ones do nothing.
type hooks struct {
	queued    func() // after a request is queued
	batch     func() // before the writer takes a batch
	committed func(requests int)
	step      func() // in a drop or load, before each commit
	spill     int    // bytes of entries that a load keeps in memory; 0: spillBytes

	// In the opening of a snapshot: its definition is read; its rows are about to be.
	snapDefinition, snapItems func()
	snapRows                  func() int // how many rows it reads ahead; 0: as many as always
	snapRead                  func()     // after it has read ahead
	logCut                    func()     // after the last snapshot ended and the log was looked at

	migration func(at string)                  // "copied", "ran", "kept", "committed"
	free      func(dir string) (uint64, error) // instead of freeSpace
}

func (o *Options) setDefaults() {
	if o.Readers == 0 {
		o.Readers = min(max(2*runtime.NumCPU(), 4), 8)
	}
	if o.Batch == 0 {
		o.Batch = batchRequests
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.MaxTables == 0 {
		o.MaxTables = 2500
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// DB is an open database: a storage.Engine.
type DB struct {
	o       Options
	path    string
	tmp     string // directory to remove at the end
	lock    *flock.Flock
	newLock bool     // there was no lock file before
	newLog  bool     // nor a log
	files   []fileID // what the paths must name as long as it is open
	life    storage.Life
	closing sync.Once
	cat     atomic.Pointer[catalog]
	gate    atomic.Uint64 // see view
	pool    *pool
	w       *writer
	stats   *tracker
	work    claims
	loads   loads
	snaps   *storage.OpenSnapshots
	bufs    sync.Pool // of *storage.RowBuffer
}

var _ storage.Engine = (*DB)(nil)

// Open opens or creates the database. One of an older version is migrated, after
// a copy of it was put beside it. Errors: a *storage.Locked when another process
// holds it, ErrForeign, ErrLinked, those of migrate, a *NoSpace when there is no
// room for the copy, and those of storage.
func Open(ctx context.Context, o Options) (*DB, error) {
	o.setDefaults()
	db := &DB{o: o, path: o.Path}
	db.work.init()
	db.snaps = storage.NewOpenSnapshots(max(1, o.Readers/2))
	db.bufs.New = func() any { return new(storage.RowBuffer) }
	if err := db.open(ctx); err != nil {
		db.abandon()
		return nil, opening(o.Path, err)
	}
	return db, nil
}

func (db *DB) open(ctx context.Context) error {
	c, crashed, err := db.take(ctx, migrate.Options{})
	if err != nil {
		return err
	}
	db.w = newWriter(db, c) // owns c from here on
	if err := db.migrateItself(ctx, c); err != nil {
		return err
	}
	if err := db.endLoads(c); err != nil {
		return err
	}
	if err := db.load(ctx, c, crashed); err != nil {
		return err
	}
	db.pool = newPool(db.o.Readers, db.openReader)
	return db.w.start()
}

// take makes this process the owner of the file and opens it. crashed: it was
// not closed in order.
func (db *DB) take(ctx context.Context, m migrate.Options) (c *conn, crashed bool, err error) {
	if err := setUpDriver(); err != nil {
		return nil, false, err
	}
	if err := db.place(); err != nil {
		return nil, false, err
	}
	if err := checkLock(db.path); err != nil {
		return nil, false, err
	}
	file, err := makeFile(db.path)
	if err != nil {
		return nil, false, err
	}
	if _, err := os.Lstat(db.path + lockSuffix); errors.Is(err, fs.ErrNotExist) {
		db.newLock = true
	}
	if db.lock, err = awaitLock(ctx, db.o.Clock, m, func() (*flock.Flock, error) {
		return takeLock(db.path, db.o.AdminSocket, db.o.Clock.Now())
	}); err != nil {
		return nil, false, err
	}
	lock, err := db.lock.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("lock database: %w", err)
	}
	db.files = []fileID{{db.path, file}}
	if db.tmp == "" { // else nobody knows the name, and tidying up may take the lock away
		db.files = append(db.files, fileID{db.lock.Path(), lock})
	}
	if err := db.inPlace(); err != nil { // whoever had the lock may have put another file there
		return nil, false, err
	}
	_, err = os.Stat(db.path + "-wal") // closing in order removes it
	crashed = err == nil
	db.newLog = errors.Is(err, fs.ErrNotExist)
	c, err = openConn(db.path)
	return c, crashed, err
}

// place finds out where the file is.
func (db *DB) place() (err error) {
	if db.o.Path != Memory {
		db.path, err = resolve(db.o.Path)
		return err
	}
	if db.tmp, err = os.MkdirTemp("", "extenddb-"); err != nil {
		return fmt.Errorf("make temporary directory: %w", err)
	}
	db.path = filepath.Join(db.tmp, "memory.db")
	db.o.Synchronous = off
	return nil
}

// abandon frees what a failed open holds. The lock file is removed if it was not
// there before: while it is locked, so that whoever locks the removed one finds
// out (see inPlace), or where that is not possible, when it is free.
func (db *DB) abandon() {
	if db.w != nil {
		db.w.closeConn()
	}
	if db.newLog {
		removeEmptyLog(db.path)
	}
	gone := db.lock == nil || !db.newLock || os.Remove(db.lock.Path()) == nil
	db.release()
	if !gone {
		_ = os.Remove(db.lock.Path()) // it is harmless
	}
}

// removeEmptyLog removes the log of a database that nobody has open, unless
// there is something in it. SQLite leaves it when the disk is full.
func removeEmptyLog(path string) {
	info, err := os.Stat(path + "-wal")
	if err == nil && info.Size() == 0 {
		err = os.Remove(path + "-wal")
	}
	if err == nil {
		_ = os.Remove(path + "-shm") // of no use without
	}
}

func (db *DB) release() {
	if db.lock != nil {
		_ = db.lock.Close()
	}
	if db.tmp != "" {
		_ = os.RemoveAll(db.tmp)
	}
}

// pragmas hold for every connection. The log is written back by the writer
// alone (checkpoint.go); a file that a long read made large is cut to
// journal_size_limit when the log begins anew.
const (
	walLimit = 64 << 20
	pragmas  = `PRAGMA busy_timeout = 10000; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = %d;
PRAGMA wal_autocheckpoint = 0; PRAGMA mmap_size = %d; PRAGMA synchronous = %s;
PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL; ` + cachePragma
	cachePragma = `PRAGMA cache_size = -%d`
)

func (db *DB) configure(c *conn, cache int64) error {
	return c.exec(fmt.Sprintf(pragmas, walLimit, db.o.Mmap, db.o.Synchronous, cache>>10))
}

// extraCache is the cache of a session that the pool opened because iterators
// hold the others: there may be as many as there are requests.
const extraCache = 256 << 10

func (db *DB) openReader(extra bool) (*session, error) {
	cache := db.o.CacheBytes / 4
	if extra {
		cache = min(cache, extraCache)
	}
	c, err := openConn(db.path)
	if err != nil {
		return nil, err
	}
	err = db.inPlace() // now: it is another file that was opened
	if err == nil {
		err = db.configure(c, cache)
	}
	if err != nil {
		_ = c.close()
		return nil, err
	}
	s := newSession(c)
	s.extra = extra
	return s, nil
}

// Ping implements storage.Lifecycle.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.inPlace(); err != nil {
		return err
	}
	return db.read(ctx, func(r *session) error {
		s, err := r.stmt(sqlPing)
		if err != nil {
			return err
		}
		return s.run()
	})
}

// Close implements storage.Lifecycle: it waits for running calls, iterators
// included, ends the snapshots that are still open (their rows end with
// ErrClosed: nobody knows how slow who reads them is), writes the log back into
// the database file and gives the lock up. A second call waits for the first.
func (db *DB) Close() (err error) {
	db.closing.Do(func() {
		db.life.Close()
		db.loads.discard()
		db.snaps.Close()
		db.pool.close()
		err = public(db.w.stop())
		db.release()
	})
	return err
}

// read runs f on a reader. f must not wait for anything, the writer least of
// all: readers are few.
func (db *DB) read(ctx context.Context, f func(*session) error) error {
	if err := db.life.Enter(); err != nil {
		return err
	}
	defer db.life.Leave()
	return db.readInside(ctx, f)
}

// readInside is read for a call that has entered already.
func (db *DB) readInside(ctx context.Context, f func(*session) error) error {
	r, err := db.pool.acquire(ctx)
	if err != nil {
		return public(err)
	}
	err = f(r)
	db.pool.release(r, err)
	return public(err)
}

// isContext tells whether err is how ctx ended.
func isContext(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err())
}

func millis(t time.Time) int64 { return t.UnixMilli() }
