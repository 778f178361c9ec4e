// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// recordArgs returns the arguments of a change record, nil when the change
// makes none.
func (db *DB) recordArgs(c *change) ([]any, error) {
	r, err := storage.RecordOf(c.t, c.w.Key, c.cur, c.next, c.w.Change)
	if r == nil || err != nil {
		return nil, err
	}
	at := c.w.Change.At
	if at.IsZero() {
		at = db.Clock().Now()
	}
	return []any{int16(r.Kind), r.Service, int32(r.Size), at.UTC().Truncate(time.Millisecond), r.Keys, r.Old, r.New}, nil
}

// horizon knows up to which number all records are there.
//
// A record gets its number from the sequence when its row is locked, so the
// numbers of one row rise. But transactions commit in another order than they
// draw numbers, nor is the order of their ids that of the numbers. What is
// sure: who drew a number up to L had a transaction id by then. So: read L off
// the sequence, then, in a later statement, draw an id X; once no transaction
// below X runs any more, all of them have drawn what they ever will up to L,
// and have ended. Neither id nor number need to be kept with the records. What
// was found is kept in the catalog: the next server does not fall behind it.
// Only after a failover that lost commits are numbers drawn again.
type horizon struct {
	once  sync.Once
	turn  chan struct{} // one poll at a time
	polls atomic.Int64  // begun
	err   error         // of the last one

	epoch int64  // of memory, when all this was found
	known bool   // final was read from the catalog
	final int64  // the answer
	next  int64  // to be final when nothing below limit runs; 0: nothing waits
	limit uint64 // a transaction id
}

// The statements of a poll; each sees what came before it.
const (
	getHorizon = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text, seq FROM extenddb.horizon"
	setHorizon = "UPDATE extenddb.horizon SET seq = $1 WHERE seq < $1"
	// mendHorizon takes back what was found of records that were lost.
	mendHorizon = "UPDATE extenddb.horizon SET seq = (" + lastSeq + ") WHERE seq > (" + lastSeq + ")"
	lastSeq     = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM extenddb.change_seq"
	drawID      = "SELECT pg_current_xact_id()::text"
	getRecords  = `SELECT seq, kind, service, size, at, pk, sk, keys, old, new FROM (
  SELECT seq, kind, service, size, at, pk, sk, keys, old, new, sum(bytes) OVER (ORDER BY seq) - bytes AS before FROM (
    SELECT seq, kind, service, size, at, pk, sk, keys, old, new, length(keys) + coalesce(length(old), 0) + coalesce(length(new), 0) AS bytes
    FROM extenddb.changes WHERE t = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4) q) q
WHERE before = 0 OR $5::bigint = 0 OR before < $5::bigint ORDER BY seq`
)

// Horizon implements storage.Streams.
func (db *DB) Horizon(ctx context.Context) (int64, error) {
	if err := db.life.Enter(); err != nil {
		return 0, err
	}
	defer db.life.Leave()
	h := &db.writes.horizon
	h.once.Do(func() { h.turn = make(chan struct{}, 1) })
	polls := h.polls.Load()
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-h.turn }()
	epoch := &db.memory.epoch
	for again := h.polls.Load() == polls || h.err != nil; again || h.epoch != epoch.Load(); again = false { // else somebody asked since: the answer is for all
		h.polls.Add(1)
		h.err = unlocked(db.withConn(ctx, func(c *pgxpool.Conn) error {
			if now := epoch.Load(); now != h.epoch {
				h.epoch, h.known, h.final, h.next, h.limit = now, false, 0, 0, 0
			}
			return h.poll(ctx, c)
		}))
		if h.err != nil {
			return 0, h.err
		}
	}
	return h.final, nil
}

// poll moves the horizon as far as it may go now.
func (h *horizon) poll(ctx context.Context, c *pgxpool.Conn) error {
	if !h.known {
		if _, err := c.Exec(ctx, mendHorizon); err != nil {
			return err
		}
	}
	if h.next > 0 || !h.known {
		passed, err := h.look(c.QueryRow(ctx, getHorizon))
		if err != nil || h.next > 0 && !passed {
			return err
		}
		if err := h.advance(ctx, c); err != nil {
			return err
		}
	}
	var last int64
	if err := c.QueryRow(ctx, lastSeq).Scan(&last); err != nil || last <= h.final {
		return err
	}
	// One trip, but statements of their own. The transaction that draws the id
	// is the only one of that id, and drew no number.
	passed := false
	batch := &pgx.Batch{}
	batch.Queue(drawID).QueryRow(func(r pgx.Row) error {
		var id string
		err := r.Scan(&id)
		if err == nil {
			h.limit, err = strconv.ParseUint(id, 10, 64)
		}
		return err
	})
	batch.Queue(getHorizon).QueryRow(func(r pgx.Row) (err error) {
		passed, err = h.look(r)
		return err
	})
	if err := c.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if h.next = last; !passed {
		return nil
	}
	return h.advance(ctx, c)
}

// look reads what any server has found, and whether the transactions below
// limit have ended.
func (h *horizon) look(r pgx.Row) (passed bool, err error) {
	var oldest string
	var found int64
	if err := r.Scan(&oldest, &found); err != nil {
		return false, err
	}
	h.final, h.known = max(h.final, found), true
	id, err := strconv.ParseUint(oldest, 10, 64)
	return id >= h.limit, err
}

// advance makes what waits final, for all servers.
func (h *horizon) advance(ctx context.Context, c *pgxpool.Conn) error {
	if h.next > h.final {
		if _, err := c.Exec(ctx, setHorizon, h.next); err != nil {
			return err
		}
		h.final = h.next
	}
	h.next = 0
	return nil
}

// Records implements storage.Streams.
func (db *DB) Records(ctx context.Context, t storage.TableID, after, upTo int64, limit, bytes int) ([]storage.Record, error) {
	var records []storage.Record
	err := db.read(ctx, func(c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, getRecords, int64(t), after, upTo, limit, int64(bytes))
		if err != nil {
			return err
		}
		records, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (storage.Record, error) {
			r := storage.Record{Table: t}
			var kind int16
			err := row.Scan(&r.Seq, &kind, &r.Service, &r.Size, &r.At, &r.Key.PK, &r.Key.SK, &r.Keys, &r.Old, &r.New)
			r.Kind, r.At = storage.RecordKind(kind), r.At.UTC()
			return r, err
		})
		return err
	})
	return records, err
}
