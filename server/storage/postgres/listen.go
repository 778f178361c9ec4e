// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
)

// Times of the session.
const (
	pingEvery    = 5 * time.Second  // so that its loss is noticed
	taskTime     = 10 * time.Second // for one task: none of them waits for anybody
	byeTime      = 3 * time.Second  // for each goodbye when all is closed
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
)

// session is the one connection beside the pool: it owns what this process
// owns, hears what other servers announce, and beats. It is made again when it
// is lost; then nothing is owned any more, and all that is remembered of the
// database is forgotten.
type session struct {
	db    *DB
	tasks chan task
	done  chan struct{} // closed when it has ended
	stop  context.CancelFunc
	owned map[lockKey]*ownership // of its goroutine
	wake  atomic.Pointer[func()]

	beaten  time.Time          // of its goroutine: the last heartbeat
	servers map[int32]struct{} // of its goroutine: sessions of all servers then
}

// task is something to do on the connection.
type task struct {
	run  func(ctx context.Context, c *pgx.Conn) error
	undo func(ctx context.Context, c *pgx.Conn) error // when the caller has gone away; may be nil
	err  chan error
	gone *atomic.Bool
}

func newSession(db *DB) *session {
	return &session{db: db, tasks: make(chan task), done: make(chan struct{}), owned: map[lockKey]*ownership{}}
}

// start lets it serve on its first connection.
func (s *session) start(c *pgx.Conn) {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go s.run(ctx, c)
}

// end gives up what is owned, and the connection.
func (s *session) end() {
	ctx, cancel := context.WithTimeout(context.Background(), byeTime)
	defer cancel()
	if !s.db.wires.over() {
		_ = s.do(ctx, s.db.leave, nil) // a row that stays is pruned
	}
	s.stop()
	<-s.done
}

// do runs f on the connection, alone. A caller that goes away does not stop f,
// since that would end the connection and all that it owns: undo puts right
// what f has done then.
func (s *session) do(ctx context.Context, f, undo func(ctx context.Context, c *pgx.Conn) error) error {
	t := task{run: f, undo: undo, err: make(chan error, 1), gone: new(atomic.Bool)}
	wait, cancel := context.WithTimeout(ctx, s.db.o.AcquireTimeout)
	defer cancel()
	select {
	case s.tasks <- t:
	case <-s.done:
		return storage.ErrClosed
	case <-wait.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: the connection that owns and listens is being made again", storage.ErrUnavailable)
	}
	select {
	case err := <-t.err:
		return public(err)
	case <-ctx.Done():
		if !t.gone.CompareAndSwap(false, true) { // it was done in this moment
			return public(<-t.err)
		}
		return ctx.Err()
	}
}

// run serves until it is stopped.
func (s *session) run(ctx context.Context, c *pgx.Conn) {
	defer close(s.done)
	for {
		err := s.serve(ctx, c)
		s.lose(c)
		if ctx.Err() != nil {
			return
		}
		s.db.o.Log.Warn("database connection that owns and listens was lost", "err", err)
		if c = s.reconnect(ctx); c == nil {
			return
		}
		s.db.o.Log.Info("database connection that owns and listens is back")
		s.db.pool.Reset() // what its connections lead to may be another database server
		s.db.forgetAll()
		s.work()
	}
}

// lose ends every ownership: the database gave the locks up with the session.
func (s *session) lose(c *pgx.Conn) {
	for _, o := range s.owned {
		o.over.Store(true)
	}
	clear(s.owned)
	s.fail(c)
}

// fail closes the connection, which ends its locks.
func (*session) fail(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the database notices in any case
}

// serve works on a connection until that is lost or ctx is cancelled.
func (s *session) serve(ctx context.Context, c *pgx.Conn) error {
	for {
		t, err := s.next(ctx, c)
		if err != nil {
			return err
		}
		s.perform(ctx, c, t)
		if c.IsClosed() {
			return errors.New("connection closed")
		}
	}
}

// next waits for a task, hearing notifications meanwhile. From time to time,
// that is a ping.
func (s *session) next(ctx context.Context, c *pgx.Conn) (task, error) {
	listen, cancel := context.WithCancel(ctx)
	heard := make(chan error, 1)
	go func() { heard <- s.hear(listen, c) }()
	tick, stop := s.db.o.Clock.After(pingEvery)
	defer stop()
	t := task{run: s.tick}
	var err error
	select {
	case t = <-s.tasks:
	case <-tick:
	case err = <-heard:
		cancel()
		return task{}, err
	}
	cancel()
	err = <-heard
	if ctx.Err() != nil || c.IsClosed() {
		t.answer(only(storage.ErrUnavailable, err)) // perhaps that of our own context
		return task{}, err
	}
	return t, nil
}

// tick shows that the connection lives.
func (s *session) tick(ctx context.Context, c *pgx.Conn) error {
	if s.db.o.Clock.Now().Sub(s.beaten) < heartbeatEvery {
		return c.Ping(ctx)
	}
	err := s.db.beat(ctx, c)
	if err == nil {
		err = errors.Join(s.db.stats.flushTo(ctx, c), s.others(ctx, c))
	}
	if err != nil {
		s.db.o.Log.Warn("heartbeat was not written", "err", err)
	}
	s.beaten = s.db.o.Clock.Now()
	return err
}

// hear takes notifications until ctx is cancelled or the connection lost.
func (s *session) hear(ctx context.Context, c *pgx.Conn) error {
	for {
		n, err := c.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		s.notified(n)
	}
}

// perform runs a task and answers it.
func (s *session) perform(ctx context.Context, c *pgx.Conn, t task) {
	ctx, cancel := context.WithTimeout(ctx, taskTime)
	defer cancel()
	err := t.run(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) { // that of this task
		err = fmt.Errorf("%w: no answer from the database within %s", storage.ErrUnavailable, taskTime)
	}
	if taken := t.answer(err); !taken && err == nil && t.undo != nil {
		_ = t.undo(ctx, c) // it closes the connection when it fails
	}
}

// answer reports whether the caller is still there to take the result.
func (t task) answer(err error) bool {
	if t.gone == nil { // our own
		return true
	}
	if !t.gone.CompareAndSwap(false, true) {
		return false
	}
	t.err <- err
	return true
}

// connect makes a connection that hears announcements.
func (s *session) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := s.db.pool.Config()
	c, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, err
	}
	if err = cfg.AfterConnect(ctx, c); err == nil {
		_, err = c.PgConn().Exec(ctx, sessionSetUp).ReadAll()
	}
	if err != nil {
		s.fail(c)
		return nil, err
	}
	return c, nil
}

// reconnect returns nil only when ctx is cancelled.
func (s *session) reconnect(ctx context.Context) *pgx.Conn {
	for pause := reconnectMin; ; pause = min(2*pause, reconnectMax) {
		c, err := s.enter(ctx)
		if err == nil {
			return c
		}
		s.db.pool.Reset() // its connections are most likely lost too
		s.db.o.Log.Debug("database does not take a connection", "err", oneLine(err.Error()))
		tick, stop := s.db.o.Clock.After(pause/2 + rand.N(pause/2))
		select {
		case <-tick:
		case <-ctx.Done():
			stop()
			return nil
		}
	}
}

// enter makes a connection and this process one of the servers again.
func (s *session) enter(ctx context.Context) (*pgx.Conn, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, taskTime)
	defer cancel()
	if err := s.db.enter(ctx, c); err != nil {
		s.fail(c)
		return nil, err
	}
	return c, nil
}

// sessionSetUp bounds the waits of a task, in which nobody hears.
const sessionSetUp = "SET lock_timeout = '2s'; LISTEN " + channel

// channel is where servers tell each other what has changed.
const channel = "extenddb"

// changed announces the definition of a table, inside the transaction that
// changes or removes it and after that change: other servers forget what they
// know, and look for work.
func (db *DB) changed(ctx context.Context, tx pgx.Tx, id storage.TableID) error {
	_, err := tx.Exec(ctx, `SELECT pg_notify($1, concat_ws(' ', 't', $2::bigint::text,
		(SELECT version::text FROM extenddb.tables WHERE id = $2)))`, channel, int64(id))
	return err
}

// OnWork implements storage.Maintainer.
func (db *DB) OnWork(wake func()) {
	if wake == nil {
		db.session.wake.Store(nil)
		return
	}
	db.session.wake.Store(&wake)
}

// work tells whoever wants to know that there may be work.
func (s *session) work() {
	if wake := s.wake.Load(); wake != nil {
		(*wake)()
	}
}

// notified takes an announcement. That of another program, or of a newer
// version of this one, may say anything: then everything is forgotten.
func (s *session) notified(n *pgconn.Notification) {
	if heard := s.db.o.hooks.heard; heard != nil && !heard(n.Payload) {
		return
	}
	kind, rest, _ := strings.Cut(n.Payload, " ")
	id, version, _ := strings.Cut(rest, " ")
	number, err := strconv.ParseInt(id, 10, 64)
	if kind != "t" || err != nil {
		s.db.defs.forgetAll()
	} else {
		v, err := strconv.ParseInt(version, 10, 64)
		if t := s.db.defs.get(storage.TableID(number)); t != nil && (err != nil || t.Version < v) {
			s.db.defs.forget(t.ID)
		}
	}
	s.work()
}
