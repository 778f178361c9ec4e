// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"sync"

	"github.com/extenddb/extenddb/server/storage"
)

// session is a connection with the statements it has prepared.
type session struct {
	c      *conn
	extra  bool // beyond the size of the pool: has a small cache, goes first
	lean   bool // the writer's: has the cache of a load
	stmts  map[string]*stmt
	ranges map[variant]*stmt
}

func newSession(c *conn) *session {
	return &session{c: c, stmts: map[string]*stmt{}, ranges: map[variant]*stmt{}}
}

// stmt returns the prepared statement of a text, which must be a constant.
func (s *session) stmt(sql string) (*stmt, error) {
	if st := s.stmts[sql]; st != nil {
		return st, nil
	}
	st, err := s.c.prepare(sql)
	if err == nil {
		s.stmts[sql] = st
	}
	return st, err
}

// rangeStmt returns the prepared statement of a kind of Range.
func (s *session) rangeStmt(v variant) (*stmt, error) {
	if st := s.ranges[v]; st != nil {
		return st, nil
	}
	st, err := s.c.prepare(v.sql())
	if err == nil {
		s.ranges[v] = st
	}
	return st, err
}

// run runs a statement with its parameters: int64 or []byte each.
func (s *session) run(sql string, args ...any) error {
	st, err := s.stmt(sql)
	if err != nil {
		return err
	}
	st.bind(args)
	return st.run()
}

func (s *stmt) bind(args []any) {
	for i, a := range args {
		switch a := a.(type) {
		case int64:
			s.bindInt(i+1, a)
		case []byte:
			s.bindBlob(i+1, a)
		default:
			panic("sqlite: parameter is neither int64 nor []byte")
		}
	}
}

func (s *session) close() error {
	for _, st := range s.stmts {
		st.finalize()
	}
	for _, st := range s.ranges {
		st.finalize()
	}
	return s.c.close()
}

// each calls f for every row of a query; f reads the current row.
func (c *conn) each(ctx context.Context, sql string, f func(*stmt) error) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	defer s.finalize()
	for {
		more, err := s.step()
		if err != nil || !more {
			return err
		}
		if err := errors.Join(ctx.Err(), f(s)); err != nil {
			return err
		}
	}
}

// pool lends sessions to readers. At most size work at a time; one that only
// keeps its snapshot while its caller looks at rows (park) does not count, and
// others get another session. So nobody who holds a session ever waits for
// one, and a caller may read while it reads.
type pool struct {
	slots chan struct{}
	open  func(extra bool) (*session, error)

	mu     sync.Mutex
	idle   []*session
	total  int // idle and lent
	closed bool
}

func newPool(size int, open func(extra bool) (*session, error)) *pool {
	return &pool{slots: make(chan struct{}, size), open: open}
}

func (p *pool) acquire(ctx context.Context) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.total++
	extra := p.total > cap(p.slots)
	p.mu.Unlock()
	s, err := p.open(extra)
	if err != nil {
		p.mu.Lock()
		p.total--
		p.mu.Unlock()
		<-p.slots
	}
	return s, err
}

// park gives the slot of a session back, not the session.
func (p *pool) park() { <-p.slots }

// release gives back a session whose statements are reset, and its slot; err
// is how its use ended.
func (p *pool) release(s *session, err error) {
	p.put(s, err)
	<-p.slots
}

// put gives back a session that is parked.
func (p *pool) put(s *session, err error) {
	var broken *sqliteError
	if rerr := rollback(s.c); rerr != nil {
		err = rerr
	}
	keep := !errors.As(err, &broken)
	p.mu.Lock()
	if keep = keep && !p.closed && (!s.extra || len(p.idle) < cap(p.slots)); keep {
		p.idle = append(p.idle, s)
	} else {
		p.total--
	}
	p.mu.Unlock()
	if !keep {
		_ = s.close() // a reader has nothing to lose
	}
}

// close frees the idle sessions. All others have been given back.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.idle {
		_ = s.close()
	}
	p.idle = nil
}

// view runs read so that the definitions ts are current in the very snapshot
// that read works in; read may be called a second time, from the start.
//
// The writer makes db.gate odd before it commits a change of the catalog, and
// even again once the catalog in memory is replaced. So while the gate stands
// still at an even number, the catalog in memory is that of every snapshot.
// Otherwise, rarely, the versions are read in a transaction, which release
// ends.
func (db *DB) view(s *session, read func() error, ts ...*storage.Table) error {
	gate, cat := db.gate.Load(), db.cat.Load()
	for _, t := range ts {
		if err := cat.proves(t); err != nil {
			return err
		}
	}
	if gate%2 == 0 {
		if err := read(); err != nil || db.gate.Load() == gate {
			return err
		}
	}
	if err := rollback(s.c); err != nil { // what read left open
		return err
	}
	if err := s.run("BEGIN"); err != nil {
		return err
	}
	for _, t := range ts {
		if err := s.proves(t); err != nil {
			return err
		}
	}
	return read()
}

// proves compares a definition with the catalog as the transaction sees it.
func (s *session) proves(t *storage.Table) error {
	st, err := s.stmt(sqlVersion)
	if err != nil {
		return err
	}
	st.bindInt(1, int64(t.ID))
	found, err := st.step()
	if err != nil {
		return err
	}
	if !found {
		return storage.ErrTableNotFound
	}
	defer st.reset()
	if storage.Status(st.colInt(1)) != storage.Active {
		return storage.ErrTableNotFound
	}
	if st.colInt(0) != t.Version {
		return storage.ErrStale
	}
	return nil
}
