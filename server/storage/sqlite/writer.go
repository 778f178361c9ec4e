// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// A batch ends at the first of these; it never waits for more requests.
const (
	batchRequests = 256
	batchBytes    = 4 << 20
	batchTime     = 5 * time.Millisecond
)

// verRange is how many row versions are reserved at a time: the next start
// skips what is left.
const verRange = 1 << 20

// request is something the writer does as a whole or not at all.
type request struct {
	apply func(*tx) error // may run several times, each in another tx
	bytes int             // to be stored, about
	last  bool            // ends its batch: it takes long
	state atomic.Int32    // queued, taken or withdrawn
	err   error           // the outcome; set before done
	done  chan struct{}   // closed after COMMIT
}

// States of a request.
const (
	queued int32 = iota
	taken
	withdrawn
)

// writer is the goroutine that changes the database, and its queue.
type writer struct {
	db *DB
	s  *session // nil after it broke, until the next batch

	mu      sync.Mutex
	queue   []*request
	stopped bool
	wake    chan struct{} // holds one token when the queue may have changed
	ended   chan struct{} // closed when the goroutine is

	ver     int64        // last one given
	horizon atomic.Int64 // what ver was at the last commit
	limit   int64        // none beyond is promised by what is committed
	unclean bool         // the database says that it is open
	log     logWatch
	cut     atomic.Bool // the log is to be looked at: see cutLog
}

func newWriter(db *DB, c *conn) *writer {
	return &writer{db: db, s: newSession(c), wake: make(chan struct{}, 1), ended: make(chan struct{}),
		log: logWatch{warnPages: 2 * walLimit / pageSize}}
}

// start reads where versions go on and starts the goroutine.
func (w *writer) start() (err error) {
	if w.ver, err = w.s.c.queryInt(sqlPing); err != nil {
		return err
	}
	w.limit = w.ver
	w.horizon.Store(w.ver)
	go w.loop()
	return nil
}

// do queues requests and waits until each is done or, when ctx ends first,
// withdrawn: then nothing of it is done. A request that is being carried out
// is waited for.
func (w *writer) do(ctx context.Context, reqs ...*request) {
	if err := ctx.Err(); err != nil {
		for _, r := range reqs {
			r.err = err
		}
		return
	}
	for _, r := range reqs {
		r.done = make(chan struct{})
	}
	w.mu.Lock()
	w.queue = append(w.queue, reqs...)
	w.mu.Unlock()
	w.poke()
	if w.db.o.hooks.queued != nil {
		w.db.o.hooks.queued()
	}
	for _, r := range reqs {
		select {
		case <-r.done:
		case <-ctx.Done():
			if r.state.CompareAndSwap(queued, withdrawn) {
				r.err = ctx.Err()
				continue
			}
			<-r.done
		}
	}
}

// change runs f on the catalog, or whatever else is not a row.
func (db *DB) change(ctx context.Context, last bool, f func(*tx) error) error {
	if err := db.life.Enter(); err != nil {
		return err
	}
	defer db.life.Leave()
	r := &request{apply: f, last: last}
	db.w.do(ctx, r)
	return r.err
}

func (w *writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next takes a request from the queue, nil when it is empty. A long one only
// begins a batch, so that others do not wait for it.
func (w *writer) next(begins bool) *request {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		r := w.queue[0]
		if r.last && !begins {
			return nil
		}
		w.queue[0], w.queue = nil, w.queue[1:]
		if r.state.CompareAndSwap(queued, taken) {
			return r
		}
	}
	w.queue = nil
	return nil
}

// awaited reports whether requests are queued.
func (w *writer) awaited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) > 0
}

func (w *writer) loop() {
	defer close(w.ended)
	for range w.wake {
		for {
			if w.db.o.hooks.batch != nil {
				w.db.o.hooks.batch()
			}
			r := w.next(true)
			if r == nil {
				break
			}
			w.batch(r)
		}
		if w.cut.CompareAndSwap(true, false) {
			w.afterSnapshots()
		}
		w.mu.Lock()
		stopped := w.stopped
		w.mu.Unlock()
		if stopped {
			return
		}
	}
}

// batch carries out r and what is queued behind it in one transaction, and
// answers. A request that meets an error of its own in the database is failed
// and the others are done again without it.
func (w *writer) batch(r *request) {
	batch, culprit, err := w.try(r, nil)
	for culprit != nil {
		culprit.err = public(err)
		close(culprit.done)
		rest := batch[:0]
		for _, b := range batch {
			if b != culprit {
				rest = append(rest, b)
			}
		}
		if len(rest) == 0 {
			return
		}
		batch, culprit, err = w.try(nil, rest)
	}
	if err == nil && w.db.o.hooks.committed != nil {
		w.db.o.hooks.committed(len(batch))
	}
	for _, b := range batch {
		if err != nil {
			b.err = public(err)
		}
		close(b.done)
	}
	w.writeBack(batch, err)
}

// try runs one transaction: the requests given, or first and what is queued
// behind it. When it fails nothing is kept: for the request named, or for all.
func (w *writer) try(first *request, again []*request) (batch []*request, culprit *request, err error) {
	batch = again
	if first != nil {
		batch = []*request{first}
	}
	if err := w.begin(); err != nil {
		return batch, nil, err
	}
	tx := &tx{w: w, cat: w.db.cat.Load(), limit: w.limit}
	begin, bytes := w.db.o.Clock.Now(), 0
	for i := 0; i < len(batch); i++ {
		r := batch[i]
		if r.err, err = tx.do(r); err != nil {
			if rerr := w.rollback(); rerr != nil || dooms(err) {
				return batch, nil, err
			}
			return batch, r, err
		}
		bytes += r.bytes
		full := r.last || len(batch) >= w.db.o.Batch || bytes >= batchBytes
		if i == len(batch)-1 && again == nil && !full && w.db.o.Clock.Now().Sub(begin) < batchTime {
			if r := w.next(false); r != nil {
				batch = append(batch, r)
			}
		}
	}
	if err := tx.commit(); err != nil {
		_ = w.rollback() // closes the connection when it fails
		return batch, nil, err
	}
	return batch, nil, nil
}

// begin starts a transaction, on a new connection if the last one broke.
func (w *writer) begin() error {
	if err := w.db.inPlace(); err != nil {
		return err
	}
	if w.s == nil {
		c, err := openConn(w.db.path)
		if err == nil {
			if err = w.db.configure(c, w.db.o.CacheBytes); err != nil {
				_ = c.close()
			}
		}
		if err != nil {
			return fmt.Errorf("reopen database: %w", err)
		}
		w.s = newSession(c)
	}
	err := w.fitCache()
	if err == nil {
		err = w.s.run("BEGIN IMMEDIATE")
	}
	if err != nil {
		_ = w.rollback()
	}
	return err
}

// loadCache is the page cache of the writer while a table is loaded: what a load
// writes it hardly reads again, and in memory a page takes twice its size.
const loadCache = 8 << 20

func (w *writer) fitCache() error {
	loading := w.db.loads.any()
	if loading == w.s.lean {
		return nil
	}
	w.s.lean = loading
	cache := w.db.o.CacheBytes
	if loading {
		cache = min(cache, loadCache)
	}
	return w.s.c.exec(fmt.Sprintf(cachePragma, cache>>10))
}

// rollback undoes the transaction, which an error may have ended already. A
// connection that cannot even do that is given up.
func (w *writer) rollback() error {
	err := rollback(w.s.c)
	if err != nil {
		w.db.o.Log.Error("rollback failed, reopening the database", "err", err)
		w.closeConn()
	}
	return err
}

func (w *writer) closeConn() {
	if w.s != nil {
		_ = w.s.close()
		w.s = nil
	}
}

// stop ends the goroutine once the queue is empty and closes the database in
// order. No call is running.
func (w *writer) stop() error {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.poke()
	<-w.ended
	if w.s == nil {
		return nil
	}
	if err := w.db.inPlace(); err != nil {
		return err // closing would remove the log of what is there now
	}
	err := w.seal()
	if err == nil {
		err = w.s.c.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	cerr := w.s.close()
	w.s = nil
	return errors.Join(err, cerr)
}

// seal writes what is only in memory while the database is open.
func (w *writer) seal() error {
	if !w.unclean && !w.db.stats.dirty() {
		return nil
	}
	if err := w.begin(); err != nil {
		return err
	}
	err := errors.Join(w.db.stats.save(w.s, w.db.cat.Load()), w.s.run(sqlSetVer, w.ver), w.s.run(sqlSetClean, int64(1)))
	if err == nil {
		err = w.s.run("COMMIT")
	}
	return errors.Join(err, rollback(w.s.c))
}

// tx is one attempt at a batch.
type tx struct {
	w       *writer
	cat     *catalog // as this transaction leaves it
	changed bool     // cat is not that of the database
	limit   int64    // of versions
	unclean bool     // the mark of clean closing is removed
	after   []func() // to run when it is committed
}

// do runs one request. refused is what it is answered if all goes well: a
// refusal changed nothing. err means that the transaction must be undone.
func (tx *tx) do(r *request) (refused, err error) {
	cat, changed, after := tx.cat, tx.changed, len(tx.after)
	err = tx.guard(r)
	var broken *sqliteError
	var damaged *damage
	if err == nil || errors.As(err, &broken) || errors.As(err, &damaged) || errors.Is(err, errPanic) {
		return nil, err
	}
	tx.cat, tx.changed, tx.after = cat, changed, tx.after[:after]
	return err, nil
}

// errPanic marks a request that panicked half-way.
var errPanic = fmt.Errorf("%w: a callback panicked", storage.ErrInvalid)

func (tx *tx) guard(r *request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return r.apply(tx)
}

// run runs a statement on the writer's connection.
func (tx *tx) run(sql string, args ...any) error { return tx.w.s.run(sql, args...) }

// setCatalog is to be called after everything in a request that can refuse.
func (tx *tx) setCatalog(c *catalog) { tx.cat, tx.changed = c, true }

// onCommit runs f, which must not fail, when the transaction is durable and
// before any request of it is answered.
func (tx *tx) onCommit(f func()) { tx.after = append(tx.after, f) }

// mark notes in the database that it is in use: should the process die, the
// counts it keeps in memory are lost.
func (tx *tx) mark() error {
	if tx.w.unclean || tx.unclean {
		return nil
	}
	tx.unclean = true
	return tx.run(sqlSetClean, int64(0))
}

// nextVer returns a version that no row ever had.
func (tx *tx) nextVer() (int64, error) {
	if tx.w.ver >= tx.limit {
		if err := tx.run(sqlSetVer, tx.w.ver+verRange); err != nil {
			return 0, err
		}
		tx.limit = tx.w.ver + verRange
	}
	tx.w.ver++
	return tx.w.ver, nil
}

func (tx *tx) commit() error {
	w, db := tx.w, tx.w.db
	if tx.changed { // see view
		db.gate.Add(1)
		defer db.gate.Add(1)
	}
	if err := w.s.run("COMMIT"); err != nil {
		return err
	}
	w.limit, w.unclean = tx.limit, w.unclean || tx.unclean
	w.horizon.Store(w.ver)
	if tx.changed {
		db.cat.Store(tx.cat)
	}
	for _, f := range tx.after {
		f()
	}
	return nil
}
