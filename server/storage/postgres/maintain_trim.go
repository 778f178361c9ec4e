// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
)

// trimRows is how many rows one statement removes.
const trimRows = 1000

// expireTokens leaves alone what somebody is just using again.
const expireTokens = `DELETE FROM extenddb.tokens WHERE ctid IN (
  SELECT ctid FROM extenddb.tokens WHERE expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED)`

// expiry removes the tokens that are over.
type expiry struct{ done int64 }

func (e *expiry) step(ctx context.Context, c *pgx.Conn, now time.Time) (storage.Progress, error) {
	tag, err := c.Exec(ctx, expireTokens, now, trimRows)
	if err != nil {
		return storage.Progress{}, err
	}
	e.done += tag.RowsAffected()
	return storage.Progress{Done: e.done, Finished: tag.RowsAffected() < trimRows}, nil
}

// trimRecords removes the records among the oldest whose time is over: they
// have no index by instant, for numbers and instants rise together but for the
// clocks of those who write.
const trimRecords = `WITH page AS MATERIALIZED (
  SELECT seq, at FROM extenddb.changes WHERE seq > $1 ORDER BY seq LIMIT $2),
gone AS (DELETE FROM extenddb.changes c USING page p WHERE c.seq = p.seq AND p.at < $3 RETURNING 1)
SELECT coalesce(max(seq), 0), count(*), (SELECT count(*) FROM gone) FROM page`

// trim removes change records that are older than RecordLife.
type trim struct{ after, done int64 }

func (r *trim) step(ctx context.Context, c *pgx.Conn, now time.Time) (storage.Progress, error) {
	var last, seen, gone int64
	if err := c.QueryRow(ctx, trimRecords, r.after, trimRows, now.Add(-storage.RecordLife)).Scan(&last, &seen, &gone); err != nil {
		return storage.Progress{}, err
	}
	r.after = last
	r.done += gone
	return storage.Progress{Done: r.done, Finished: gone == 0 || seen < trimRows}, nil
}
