// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// A step of background work ends at the first of these.
const (
	stepTime = 20 * time.Millisecond
	stepRows = 20_000
)

// When statistics are taken again. A table that grows fast is counted often at
// first, so that parallel scans soon find a sample; the work stays in
// proportion, for it must have doubled.
const (
	countAfter   = time.Minute     // when a tenth changed
	recountAfter = 5 * time.Second // when as much changed as there was
	countAtLast  = 6 * time.Hour   // when anything did, as the service does
	countAnyway  = 24 * time.Hour  // so that a sample held back is renewed, and counts lost with a process matter no more
	fewChanges   = 100
	smallTable   = 1000      // rows; it is counted again after any change, at most once in countAfter
	sampleHeld   = time.Hour // after the last scan on it
)

// trimLook is how many of the oldest records tell whether any is to be removed.
const trimLook = 100

// claims is what this process has claimed, and what it was last told is due.
type claims struct {
	mu      sync.Mutex
	held    map[storage.Work]struct{}
	counted map[storage.TableID]*time.Time // of the tables listed to be counted: when they last were
	damaged map[storage.TableID]string     // what was told of those that cannot be
}

func newClaims() *claims { return &claims{held: map[storage.Work]struct{}{}} }

func (k *claims) has(w storage.Work) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, held := k.held[w]
	return held
}

func (k *claims) add(w storage.Work) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[w] = struct{}{}
}

// tell reports whether it is news that a table is damaged like that.
func (k *claims) tell(id storage.TableID, err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.damaged == nil {
		k.damaged = map[storage.TableID]string{}
	}
	news := k.damaged[id] != err.Error()
	k.damaged[id] = err.Error()
	return news
}

func (k *claims) remove(w storage.Work) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, w)
}

// wasCounted reports whether somebody has counted a table since this process
// was told that it is due.
func (k *claims) wasCounted(id storage.TableID, last *time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	listed, ok := k.counted[id]
	switch {
	case !ok, last == nil:
		return false
	case listed == nil:
		return true
	}
	return !last.Equal(*listed)
}

// pending lists what is due: drops first. Its parameters are the instant and
// the rules above.
const pending = `SELECT 1::smallint AS kind, id, account, name, NULL::timestamptz AS counted FROM extenddb.tables WHERE status = 2
UNION ALL
SELECT 2, t.id, t.account, t.name, s.counted FROM extenddb.tables t JOIN extenddb.table_stats s ON s.t = t.id
WHERE t.status = 1 AND (s.counted IS NULL
  OR s.changed > greatest($2, s.items / 10) AND s.counted <= $1::timestamptz - $3::interval
  OR s.changed > greatest($2, s.items) AND s.counted <= $1::timestamptz - $4::interval
  OR s.changed > 0 AND s.items + s.changed <= $5 AND s.counted <= $1::timestamptz - $3::interval
  OR s.changed > 0 AND s.counted <= $1::timestamptz - $6::interval
  OR s.counted <= $1::timestamptz - $7::interval AND EXISTS (SELECT FROM extenddb.samples p WHERE p.t = t.id AND p.positions = '')
  OR s.counted <= $1::timestamptz - $8::interval)
UNION ALL
SELECT 3, 0, '', '', NULL WHERE EXISTS (SELECT FROM extenddb.tokens WHERE expires <= $1::timestamptz)
UNION ALL
SELECT 4, 0, '', '', NULL WHERE EXISTS (
  SELECT FROM (SELECT at FROM extenddb.changes ORDER BY seq LIMIT $9) c WHERE c.at < $1::timestamptz - $10::interval)
ORDER BY 1, 2`

// Pending implements storage.Maintainer. What this process has claimed is not
// due; what another has, Claim tells.
func (db *DB) Pending(ctx context.Context, now time.Time) ([]storage.Work, error) {
	var ws []storage.Work
	counted := map[storage.TableID]*time.Time{}
	err := db.read(ctx, func(c *pgxpool.Conn) error {
		if err := db.stats.flushTo(ctx, c); err != nil {
			return err
		}
		if err := db.endLoads(ctx, c.Conn()); err != nil {
			return err
		}
		rows, err := c.Query(ctx, pending, now, int64(fewChanges), countAfter, recountAfter, int64(smallTable), countAtLast,
			sampleHeld, countAnyway, trimLook, storage.RecordLife)
		if err != nil {
			return err
		}
		var (
			kind int16
			last *time.Time
			w    storage.Work
		)
		_, err = pgx.ForEachRow(rows, []any{&kind, &w.Table, &w.Account, &w.Name, &last}, func() error {
			w.Kind = storage.WorkKind(kind)
			if w.Kind == storage.Statistics {
				counted[w.Table] = last
			}
			if !db.claims.has(w) {
				ws = append(ws, w)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	db.claims.mu.Lock()
	db.claims.counted = counted
	db.claims.mu.Unlock()
	return ws, nil
}

// lease is one claim.
type lease struct {
	db   *DB
	w    storage.Work
	own  *ownership
	step func(ctx context.Context, c *pgx.Conn, now time.Time) (storage.Progress, error)
	once sync.Once
	err  error // of its release
}

// Claim implements storage.Maintainer.
func (db *DB) Claim(ctx context.Context, w storage.Work) (storage.Lease, error) {
	l := &lease{db: db, w: w}
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	var err error
	if l.own, err = db.lock(ctx, lockKey{int32(w.Kind), int64(w.Table)}); err != nil {
		return nil, unlocked(err)
	}
	// Now, for whoever owned it before may just have done it.
	if err := db.withConn(ctx, func(c *pgxpool.Conn) error { return l.begin(ctx, c.Conn()) }); err != nil {
		return nil, errors.Join(unlocked(err), l.own.release())
	}
	db.claims.add(w)
	return l, nil
}

// begin finds out whether the work is there, and how to do it.
func (l *lease) begin(ctx context.Context, c *pgx.Conn) error {
	db, id := l.db, l.w.Table
	switch l.w.Kind {
	case storage.TokenExpiry:
		l.step = (&expiry{}).step
		return nil
	case storage.RecordTrim:
		l.step = (&trim{}).step
		return nil
	}
	stored, err := readStored(ctx, c, byID, int64(id))
	switch {
	case isNotFound(err):
		return storage.ErrNoWork
	case err != nil:
		return err
	case l.w.Kind == storage.TableDrop && stored.Table.Status == storage.Deleting:
		l.step = (&drop{db: db, t: stored}).step
		return nil
	case l.w.Kind != storage.Statistics || stored.Table.Status != storage.Active:
		return storage.ErrNoWork
	}
	t, err := stored.Decode()
	if err != nil { // it stays like that: to be told once
		if db.claims.tell(id, err) {
			db.o.Log.ErrorContext(ctx, "a table cannot be used", "err", err)
		}
		return storage.ErrNoWork
	}
	n := &count{db: db, t: t}
	var last *time.Time
	err = c.QueryRow(ctx, "SELECT counted, changed, items + (SELECT coalesce(sum(items), 0) FROM extenddb.index_stats WHERE t = $1)::bigint "+
		"FROM extenddb.table_stats WHERE t = $1", int64(id)).Scan(&last, &n.before, &n.expected)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && db.claims.wasCounted(id, last):
		return storage.ErrNoWork
	case err != nil:
		return err
	}
	l.step = n.step
	return nil
}

// Step implements storage.Lease. One that was lost to somebody else does no
// harm even where that is noticed late: each change makes sure of its own that
// it is still to be made.
func (l *lease) Step(ctx context.Context, now time.Time) (p storage.Progress, err error) {
	err = l.db.call(ctx, func(c *pgxpool.Conn) (err error) {
		if err := l.own.held(); err != nil {
			return err
		}
		p, err = l.step(ctx, c.Conn(), now)
		if isNotFound(err) { // it went meanwhile
			err = fmt.Errorf("%w: %w", storage.ErrNoWork, err)
		}
		return err
	})
	if err != nil {
		return storage.Progress{}, err
	}
	return p, nil
}

// Release implements storage.Lease.
func (l *lease) Release() error {
	l.once.Do(func() {
		l.db.claims.remove(l.w)
		l.err = l.own.release()
	})
	return l.err
}
