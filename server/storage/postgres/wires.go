// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/clock"
)

// What is between a server and its database may go on acknowledging what it is
// sent and pass nothing on: no time limit of TCP notices that, and one for
// statements would end those that take long. So it is watched what goes through
// each connection. Where nothing comes through any, though the session sends
// something in each round, all that wait are given up after lostAfter. Where
// something does, the database is asked about each that waits for long: one
// whose session waits for us will wait in vain.
const (
	round       = pingEvery
	roundsLost  = int(lostAfter / round)
	roundsAsk   = 2 // of waiting, before the database is asked
	answersLost = 2 // that its session waits for us: an answer may be on its way
)

// errSilent is what a connection that was given up failed with.
var errSilent = errors.New("the database answers no more on this connection")

// wires are the connections of this process to its database. The zero value is
// ready.
type wires struct {
	mu    sync.Mutex
	all   map[*wire]struct{}
	ended bool          // there are to be no more
	heard atomic.Uint64 // counts what came through any of them

	lastHeard uint64 // of the goroutine that counts rounds
	quiet     int    // rounds in which nothing came
}

// wire is a connection, below TLS.
type wire struct {
	net.Conn
	of      *wires
	backend atomic.Int32 // process id of its session; 0: not known yet
	waits   atomic.Bool  // for something to come
	moves   atomic.Uint64
	lost    atomic.Bool
	// unreplicated: what was committed last may be lost, see replicate.
	unreplicated atomic.Bool

	last            uint64 // of the goroutine that counts rounds: moves then
	rounds, answers int    // of waiting while nothing moved; see answersLost
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	w.moves.Add(1)
	w.waits.Store(true)
	n, err := w.Conn.Read(b)
	w.waits.Store(false)
	if n > 0 {
		w.of.heard.Add(1)
	}
	if err != nil && w.lost.Load() {
		err = errSilent
	}
	return n, err
}

// Write implements net.Conn. While it is held up, the driver reads as well.
func (w *wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.moves.Add(1)
	return n, err
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.of.mu.Lock()
	delete(w.of.all, w)
	w.of.mu.Unlock()
	return w.Conn.Close()
}

// install makes a pool's connections, and those made like them, wires.
func (x *wires) install(cfg *pgxpool.Config) {
	dial, prepare := cfg.ConnConfig.DialFunc, cfg.AfterConnect
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: c, of: x}
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.ended {
			return nil, errors.Join(net.ErrClosed, c.Close())
		}
		if x.all == nil {
			x.all = map[*wire]struct{}{}
		}
		x.all[w] = struct{}{}
		return w, nil
	}
	cfg.ConnConfig.OnNotice = notice
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(atOnce(ctx), connectTimeout)
		defer cancel()
		if err := prepare(ctx, c); err != nil {
			return err
		}
		row, err := simpleRow(ctx, c, backend, 1) // a pooler gives the driver a number of its own
		if err != nil {
			return err
		}
		pid, err := strconv.ParseInt(string(row[0]), 10, 32)
		if w := wireOf(c); w != nil && err == nil {
			w.backend.Store(int32(pid))
		}
		return err
	}
}

func wireOf(c *pgx.Conn) *wire { return wireBelow(c.PgConn().Conn()) }

func wireBelow(conn net.Conn) *wire {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = over.NetConn()
	}
	w, _ := conn.(*wire)
	return w
}

// watch counts rounds until ctx is cancelled.
func (db *DB) watch(ctx context.Context) {
	next := db.o.hooks.round
	if next == nil {
		next = func() (<-chan time.Time, func()) { return clock.Real{}.After(round) } // the network knows no other time
	}
	for {
		tick, stop := next()
		select {
		case <-tick:
			db.wires.count(ctx, db.busySessions)
		case <-ctx.Done():
			stop()
			return
		}
	}
}

// count is the end of a round. ask tells which sessions do something.
func (x *wires) count(ctx context.Context, ask func(context.Context, []int32) (map[int32]bool, error)) {
	heard := x.heard.Load()
	x.quiet++
	if heard != x.lastHeard {
		x.quiet = 0
	}
	x.lastHeard = heard
	suspects := map[int32]*wire{}
	for _, w := range x.list() {
		if moves := w.moves.Load(); !w.waits.Load() || moves != w.last {
			w.last, w.rounds, w.answers = moves, 0, 0
			continue
		}
		w.rounds++
		backend := w.backend.Load()
		switch {
		case x.quiet >= roundsLost && w.rounds >= roundsLost:
			w.giveUp()
		case w.rounds >= roundsAsk && backend != 0:
			suspects[backend] = w
		}
	}
	if len(suspects) == 0 || x.quiet > 0 {
		return
	}
	pids := make([]int32, 0, len(suspects))
	for pid := range suspects {
		pids = append(pids, pid)
	}
	busy, err := ask(ctx, pids)
	if err != nil {
		return
	}
	for pid, w := range suspects {
		if w.answers++; busy[pid] {
			w.answers = 0
		}
		if w.answers >= answersLost && w.waits.Load() && w.moves.Load() == w.last {
			w.giveUp()
		}
	}
}

func (x *wires) list() []*wire {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]*wire, 0, len(x.all))
	for w := range x.all {
		all = append(all, w)
	}
	return all
}

// endAfter ends all connections, and those to come, unless it is done before;
// silent: not as long as something comes through any. It reports whether it did.
func (x *wires) endAfter(d time.Duration, silent bool, done <-chan struct{}) bool {
	for heard := x.heard.Load(); ; {
		late, stop := clock.Real{}.After(d) // the network knows no other time
		select {
		case <-done:
			stop()
			return false
		case <-late:
		}
		now := x.heard.Load()
		if !silent || now == heard {
			break
		}
		heard = now
	}
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	for _, w := range x.list() {
		w.giveUp()
	}
	return true
}

// over reports whether there are to be no more connections.
func (x *wires) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ended
}

// giveUp ends who waits with errSilent.
func (w *wire) giveUp() {
	w.lost.Store(true)
	_ = w.Close() // it is of no more use
}

// busySessions tells which sessions do not wait for their client. Those of
// which the role may not know are taken for busy.
func (db *DB) busySessions(ctx context.Context, pids []int32) (map[int32]bool, error) {
	busy := map[int32]bool{}
	err := db.session.do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE pid = ANY($1) AND wait_event_type IS DISTINCT FROM 'Client'", pids)
		if err != nil {
			return err
		}
		var pid int32
		_, err = pgx.ForEachRow(rows, []any{&pid}, func() error { busy[pid] = true; return nil })
		return err
	}, nil)
	return busy, err
}

// patience is how long a call whose context has ended waits for what becomes of
// its statement, which it cancels.
const patience = 5 * time.Second

// endsAtOnce is the key of contexts that end calls at once.
type endsAtOnce struct{}

// atOnce is for what may be given up, with its connection, the moment that ctx
// ends: nothing is in doubt then.
func atOnce(ctx context.Context) context.Context { return context.WithValue(ctx, endsAtOnce{}, true) }

// cancelOnServer makes a call whose context ends cancel its statement and wait
// for the answer, instead of dropping the connection: so it is known what
// became of a write.
func cancelOnServer(_ context.Context, cfg *pgx.ConnConfig) error {
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler { return &onEnd{c: c} }
	return nil
}

// onEnd is what happens when the context of a call ends.
type onEnd struct {
	c       *pgconn.PgConn
	handler ctxwatch.Handler
}

// HandleCancel implements ctxwatch.Handler.
func (e *onEnd) HandleCancel(ctx context.Context) {
	e.handler = &pgconn.CancelRequestContextWatcherHandler{Conn: e.c, DeadlineDelay: patience}
	if ctx.Value(endsAtOnce{}) != nil {
		e.handler = &pgconn.DeadlineContextWatcherHandler{Conn: e.c.Conn()}
	}
	e.handler.HandleCancel(ctx)
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (e *onEnd) HandleUnwatchAfterCancel() { e.handler.HandleUnwatchAfterCancel() }
