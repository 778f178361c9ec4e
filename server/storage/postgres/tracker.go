// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// tracker counts the rows that this process changed and that the database does
// not know of yet: it tells when statistics are to be taken again. A process
// that dies takes some seconds of counts with it.
type tracker struct {
	db      *DB
	mu      sync.Mutex
	changed map[storage.TableID]int64
}

func newTracker(db *DB) *tracker {
	return &tracker{db: db, changed: map[storage.TableID]int64{}}
}

// touch notes that n rows of a table changed.
func (k *tracker) touch(id storage.TableID, n int64) {
	if n == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed[id] += n
}

// take empties the tracker.
func (k *tracker) take() map[storage.TableID]int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := k.changed
	k.changed = make(map[storage.TableID]int64, len(taken))
	return taken
}

// flush adds the counts to those in the database. It takes a connection of the
// pool; when it fails they stay. It does not take long.
func (k *tracker) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(atOnce(ctx), byeTime) // a count that is made twice does no harm
	defer cancel()
	return k.db.withConn(ctx, func(c *pgxpool.Conn) error { return k.flushTo(ctx, c.Conn()) })
}

// addChanged waits for nobody, and returns those tables whose row somebody
// holds. One that went has none any more.
const addChanged = `WITH mine AS MATERIALIZED (
  SELECT s.t, u.n FROM extenddb.table_stats s JOIN unnest($1::bigint[], $2::bigint[]) u(t, n) ON s.t = u.t
  FOR UPDATE OF s SKIP LOCKED),
added AS (UPDATE extenddb.table_stats s SET changed = s.changed + mine.n FROM mine WHERE s.t = mine.t RETURNING s.t)
SELECT t FROM extenddb.table_stats WHERE t = ANY ($1) AND t NOT IN (SELECT t FROM added)`

// flushTo is flush on a connection that the caller has.
func (k *tracker) flushTo(ctx context.Context, q querier) error {
	taken := k.take()
	if len(taken) == 0 {
		return nil
	}
	ids, counts := make([]int64, 0, len(taken)), make([]int64, 0, len(taken))
	for id, n := range taken {
		ids, counts = append(ids, int64(id)), append(counts, n)
	}
	rows, err := q.Query(ctx, addChanged, ids, counts)
	var held []storage.TableID
	if err == nil {
		held, err = pgx.CollectRows(rows, pgx.RowTo[storage.TableID])
	}
	if err != nil {
		for id, n := range taken {
			k.touch(id, n)
		}
		return err
	}
	for _, id := range held {
		k.touch(id, taken[id])
	}
	return nil
}
