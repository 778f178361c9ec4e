// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

// SQLite's own checkpoints copy the log back but leave it to chance whether it
// can begin anew: that takes a moment without any reader in the log, and with
// a few busy readers there is none. The log then grows for ever, and from
// 1,000 pages on every commit tries again, with two more syncs each (measured:
// a tenth of the writes). So the writer does it, and makes that moment.

const (
	pageSize        = 4096
	frameSize       = pageSize + 24 // of a page in the log
	checkpointPages = 1000
	lookCommits     = 8 // commits, or bytes, between two looks at the log
	lookBytes       = 2 << 20
)

// pauseTime is how long the writer waits for reads to end, and then, in
// sqlWaitBriefly, for iterators.
const pauseTime = 20 * time.Millisecond

const (
	sqlWaitBriefly = "PRAGMA busy_timeout = 20"
	sqlWait        = "PRAGMA busy_timeout = 10000"
	sqlLogSize     = "PRAGMA wal_checkpoint(NOOP)"
	sqlCopyBack    = "PRAGMA wal_checkpoint(PASSIVE)"
	sqlRestart     = "PRAGMA wal_checkpoint(RESTART)"
	sqlTruncate    = "PRAGMA wal_checkpoint(TRUNCATE)"
)

// logWatch knows when to look at the write-ahead log next.
type logWatch struct {
	commits, bytes int   // since the last look
	next           int64 // pages at which it is to be written back
	warnPages      int64 // pages that are too many
	warned         int64 // pages last warned of
	failing        bool  // told that it cannot be written back
}

// writeBack is called after each batch, once it is answered. When the batch
// failed the disk may be full: freeing the log may make room in it.
func (w *writer) writeBack(batch []*request, failed error) {
	l := &w.log
	l.commits++
	for _, r := range batch {
		l.bytes += r.bytes
	}
	if w.s == nil || failed == nil && l.commits < lookCommits && l.bytes < lookBytes {
		return
	}
	w.lookAtLog(failed != nil)
}

// lookAtLog writes the log back when it has become long, or must be.
func (w *writer) lookAtLog(must bool) {
	l := &w.log
	l.commits, l.bytes = 0, 0
	pages, _, err := w.checkpoint(sqlLogSize)
	if err == nil && (must || pages >= max(l.next, checkpointPages)) {
		pages, err = w.restartLog()
	}
	if (err != nil) != l.failing {
		if l.failing = err != nil; l.failing {
			w.db.o.Log.Error("write-ahead log cannot be written back", "err", err, "path", w.db.path)
		}
	}
	switch {
	case err != nil:
	case pages > l.warnPages && pages > 2*l.warned:
		l.warned = pages
		w.db.o.Log.Warn("write-ahead log grows: a long read holds a snapshot", "bytes", pages*pageSize, "path", w.db.path)
	case pages < l.warnPages/2:
		l.warned = 0
	}
}

// cutLog has the log written back after snapshots that let it grow: it may be a
// long time to the next write. Up to walLimit the file keeps its length: a
// commit is slow that makes it longer, and the next backup would have many.
func (w *writer) cutLog() {
	w.cut.Store(true)
	w.poke()
}

// afterSnapshots does that. What another read prevents is tried again when the
// log has grown by half, as always.
func (w *writer) afterSnapshots() {
	if w.s != nil {
		w.log.next = 0
		w.lookAtLog(false)
	}
	if w.db.o.hooks.logCut != nil {
		w.db.o.hooks.logCut()
	}
}

// restartLog writes the log back, and keeps new reads waiting until those in
// the log have ended, so that the next commit can begin it anew. It gives up
// soon: a long read must not stop the others. Then it is tried again when the
// log has grown by half.
func (w *writer) restartLog() (pages int64, err error) {
	if pages, _, err = w.checkpoint(sqlCopyBack); err != nil { // most of it, beside the readers
		return 0, err
	}
	defer w.db.pool.pause(w.db.o.Clock)()
	if err := w.s.c.exec(sqlWaitBriefly); err != nil {
		return 0, err
	}
	sql := sqlRestart
	if pages*frameSize > walLimit {
		sql = sqlTruncate
	}
	pages, done, err := w.checkpoint(sql)
	if terr := w.s.c.exec(sqlWait); err == nil {
		err = terr
	}
	if w.log.next = 0; done {
		return 0, err
	}
	w.log.next = pages + max(pages/2, checkpointPages)
	return pages, err
}

// checkpoint runs a statement that answers busy, pages of the log, pages
// written back. done tells that the log is free.
func (w *writer) checkpoint(sql string) (pages int64, done bool, err error) {
	st, err := w.s.stmt(sql)
	if err != nil {
		return 0, false, err
	}
	if _, err := st.step(); err != nil {
		return 0, false, err
	}
	defer st.reset()
	return st.colInt(1), st.colInt(0) == 0, nil
}

// pause takes all places of the pool, or as many as it gets in pauseTime; the
// function it returns gives them back.
func (p *pool) pause(clk clock.Clock) (resume func()) {
	timeout, stop := clk.After(pauseTime)
	defer stop()
	n := 0
	for taking := true; taking && n < cap(p.slots); {
		select {
		case p.slots <- struct{}{}:
			n++
		case <-timeout:
			taking = false
		}
	}
	return func() {
		for range n {
			<-p.slots
		}
	}
}
