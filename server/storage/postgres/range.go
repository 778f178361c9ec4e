// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// How much is asked for at a time.
const (
	readAhead   = 1 << 20 // bytes, about, as far as the width of rows is known
	maxAhead    = 4 << 20 // if the caller's hint is larger
	unknownRows = fewRows // as long as it is not
	fetchRows   = 1000
	growth      = 8       // times as many as before, at most
	onceRows    = 256     // to a statement that perhaps yields all
	fewRows     = 8       // so many are not too many, however wide
	maxDrain    = 4 << 20 // bytes that are read only to be rid of them: a new connection costs as much
)

// Range implements storage.Reader. Where all can be had at once, one statement
// reads it, and no connection is held while rows are yielded. Else a cursor
// does, which holds one, and so does the statement that reads as many rows as the
// caller promised to take: the caller should not dawdle.
func (db *DB) Range(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		if err := db.life.Enter(); err != nil {
			yield(nil, err)
			return
		}
		defer db.life.Leave()
		s := newScan(db, t, &r)
		defer s.end(ctx)
		if err := s.start(ctx); err != nil {
			yield(nil, unlocked(db.failed(ctx, err)))
			return
		}
		for {
			if !s.out.Yield(ctx, yield) || s.src == nil {
				return
			}
			s.out.Reset()
			if err := s.fill(ctx); err != nil {
				yield(nil, unlocked(db.failed(ctx, err)))
				return
			}
		}
	}
}

// scan is a Range under way.
type scan struct {
	db           *DB
	t            *storage.Table
	r            *storage.Range
	v            variant
	lower, upper [][]byte
	pace         *pace
	budget       int // bytes to ask for at a time
	out          *storage.RowBuffer

	c          *pgxpool.Conn // nil once all is read
	src        source        // likewise
	cur        *cursor       // src, when it is one
	asked      int           // of src, when it is a statement of its own
	proved     bool          // the guard was looked at
	rows, size int           // read
}

func newScan(db *DB, t *storage.Table, r *storage.Range) *scan {
	s := &scan{db: db, t: t, r: r, budget: readAhead, out: db.reads.buffer()}
	if r.Bytes > 0 {
		s.budget = min(r.Bytes, maxAhead)
	}
	s.v, s.lower, s.upper = variantOf(t, r)
	s.pace = db.reads.pace(paceKey{t.ID, r.Index, s.v.want == storage.Items})
	return s
}

// start reads the first chunk.
func (s *scan) start(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.c, err = s.db.acquire(ctx); err != nil {
		return err
	}
	n := s.pace.fits(s.budget)
	switch {
	case s.r.AtMost > 0 && s.r.AtMost <= max(2*n, fewRows):
		if err = s.query(ctx, s.r.AtMost); err == nil {
			err = s.fill(ctx)
		}
	case s.r.P != nil && !s.pace.long.Load():
		var all bool
		if all, err = s.tryOnce(ctx, min(n, onceRows)); err != nil || all {
			break
		}
		n = s.pace.fits(s.budget) // more is known now
		fallthrough
	default:
		if s.r.Rows > 0 {
			n = min(n, s.r.Rows)
		}
		if err = s.open(ctx, n); err == nil {
			err = s.fill(ctx)
		}
	}
	return err
}

// query begins to read at most n rows by one statement.
func (s *scan) query(ctx context.Context, n int) error {
	v := s.v
	v.limit = true
	args := append(v.arguments(s.t.ID, s.r, s.lower, s.upper), int64(n))
	rows, err := s.c.Query(ctx, s.pace.text(v, s.t.ID, s.r.Index), args...)
	if err != nil {
		return s.outdated(ctx, err)
	}
	s.src, s.asked = rowsSource{rows}, n
	return nil
}

// tryOnce reads all there is by one statement, if that is n rows at most. Else
// nothing of it is used: the next statement reads another instant.
func (s *scan) tryOnce(ctx context.Context, n int) (all bool, err error) {
	if err := s.query(ctx, n+1); err != nil {
		return false, err
	}
	for s.src != nil && s.rows <= n && s.size < 2*s.budget {
		if err := s.fill(ctx); err != nil {
			return false, err
		}
	}
	if s.src == nil && s.rows <= n {
		return true, nil
	}
	s.pace.saw(s.rows, s.size)
	s.pace.long.Store(true)
	if s.drop(ctx); s.c == nil || s.c.Conn().IsClosed() {
		s.release(ctx)
		s.c, err = s.db.acquire(ctx)
	}
	s.proved, s.rows, s.size = false, 0, 0
	s.out.Reset()
	return false, err
}

// open begins to read by a cursor.
func (s *scan) open(ctx context.Context, n int) (err error) {
	s.cur, err = openCursor(ctx, s.c.Conn(), "BEGIN READ ONLY", s.pace.text(s.v, s.t.ID, s.r.Index),
		s.v.arguments(s.t.ID, s.r, s.lower, s.upper), n)
	if err != nil {
		return s.outdated(ctx, err)
	}
	s.src = cursorSource{s.cur}
	return nil
}

// cursorSource lets a cursor be read to the end of what was asked for.
type cursorSource struct{ *cursor }

func (s cursorSource) close() error { return s.drain() }

// fill adds the next chunk to what is there.
func (s *scan) fill(ctx context.Context) error {
	before, have := s.out.Len(), s.out.Bytes()
	var row storage.Row
	for s.out.Len()-before < chunkRows && s.out.Bytes()-have < chunkBytes {
		cols, err := s.src.next()
		if err != nil {
			return s.outdated(ctx, err)
		}
		if cols == nil {
			s.asked = 0
			if s.cur == nil || s.cur.atEnd() {
				return s.complete(ctx)
			}
			s.cur.fetch(ctx, min(s.budget*s.rows/max(s.size, 1)+1, growth*s.cur.asked, fetchRows))
			continue
		}
		if !s.proved {
			if s.proved = proves(cols, s.t); !s.proved {
				return s.outdated(ctx, errOutdated)
			}
			if cols[len(s.v.keys())+1] == nil { // the sort key: there are no rows
				continue
			}
		}
		if err := s.v.rowOf(s.r.P, cols[2:], &row); err != nil {
			return err
		}
		held := s.out.Bytes()
		s.out.Add(&row)
		s.rows++
		s.size += s.out.Bytes() - held
	}
	return nil
}

// complete ends the reading: all is read.
func (s *scan) complete(ctx context.Context) error {
	if !s.proved {
		return s.outdated(ctx, errOutdated) // no row at all: there is no such table
	}
	if s.cur != nil && s.rows <= onceRows {
		s.pace.long.Store(false)
	}
	s.release(ctx)
	return nil
}

// outdated finds out what an error means; the connection is in no transaction
// afterwards.
func (s *scan) outdated(ctx context.Context, err error) error {
	if s.cur != nil {
		_ = s.cur.end(ctx) // err says why
		s.cur, s.src = nil, nil
	} else if s.src != nil {
		_ = s.src.close()
		s.src = nil
	}
	return s.db.orOutdated(ctx, s.c, err, s.t)
}

// release gives the connection back.
func (s *scan) release(ctx context.Context) {
	if s.c == nil {
		return
	}
	s.drop(ctx)
	s.c.Release()
	s.c = nil
}

// drop ends what is being read. Where that turned out to be much more than was
// meant to be asked for, because rows are wider than they used to be, it ends
// the connection as well, rather than read it all.
func (s *scan) drop(ctx context.Context) {
	if s.left()*(s.size/max(s.rows, 1)) > maxDrain {
		hangUp(ctx, s.c.Conn())
	}
	if s.cur != nil {
		_ = s.cur.end(ctx) // a failed connection is replaced; its rows were good
	} else if s.src != nil {
		_ = s.src.close()
	}
	s.src, s.cur = nil, nil
}

// left is how many rows are on their way, at most.
func (s *scan) left() int {
	switch {
	case s.cur != nil:
		return s.cur.left()
	case s.src != nil:
		return max(s.asked-s.rows, 0)
	}
	return 0
}

func (s *scan) end(ctx context.Context) {
	s.release(ctx)
	s.pace.saw(s.rows, s.size)
	s.db.reads.recycle(s.out)
}

// reads is what readers share.
type reads struct {
	buffers sync.Pool // of *storage.RowBuffer

	mu    sync.RWMutex
	paces map[paceKey]*pace
}

func (x *reads) buffer() *storage.RowBuffer {
	if b, ok := x.buffers.Get().(*storage.RowBuffer); ok {
		return b
	}
	return new(storage.RowBuffer)
}

func (x *reads) recycle(b *storage.RowBuffer) {
	if b.Cap() <= 4*chunkBytes {
		b.Reset()
		x.buffers.Put(b)
	}
}

// pace is what is known of ranges of one kind: how much to ask for at a time,
// and how.
type pace struct {
	width atomic.Int64 // bytes of a row, about; 0: unknown
	long  atomic.Bool  // the last one within a partition did not fit into one statement

	mu    sync.RWMutex
	texts map[variant]string // of its statements
}

// text returns the statement of a variant, which is made once.
func (p *pace) text(v variant, t storage.TableID, ix storage.IndexID) string {
	p.mu.RLock()
	text := p.texts[v]
	p.mu.RUnlock()
	if text != "" {
		return text
	}
	text = v.sql(t, ix)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.texts == nil {
		p.texts = map[variant]string{}
	}
	p.texts[v] = text
	return text
}

type paceKey struct {
	t     storage.TableID
	ix    storage.IndexID
	items bool
}

func itemsOf(t storage.TableID) paceKey { return paceKey{t, 0, true} }

// maxPaces: those of tables that are gone are never asked for again.
const maxPaces = 20_000

func (x *reads) pace(k paceKey) *pace {
	x.mu.RLock()
	p := x.paces[k]
	x.mu.RUnlock()
	if p != nil {
		return p
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.paces == nil || len(x.paces) >= maxPaces {
		x.paces = map[paceKey]*pace{}
	}
	if p = x.paces[k]; p == nil {
		p = new(pace)
		x.paces[k] = p
	}
	return p
}

// fits is the number of rows that have about so many bytes.
func (p *pace) fits(bytes int) int {
	width := int(p.width.Load())
	if width == 0 {
		return unknownRows
	}
	return min(max(bytes/width, 1), fetchRows)
}

// saw learns from rows that were read: at once when they are wider, for to ask
// for too much is worse than to ask for too little, else slowly.
func (p *pace) saw(rows, size int) {
	if rows == 0 {
		return
	}
	seen, width := int64(size/rows), p.width.Load()
	if seen < width {
		seen = width - (width-seen+7)/8
	}
	if seen != width {
		p.width.Store(seen)
	}
}
