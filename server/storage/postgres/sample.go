// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// usedEvery is how often a process notes that a sample is in use. Whoever
// replaces one waits for that much longer than the hour of the contract.
const usedEvery = 10 * time.Minute

// samples are those that this process noted to be in use. What is noted is not
// replaced for an hour: so long it need not be read again.
type samples struct {
	mu    sync.Mutex
	noted map[sampleKey]noted
}

type sampleKey struct {
	t  storage.TableID
	ix storage.IndexID
}

type noted struct {
	at        time.Time
	positions []storage.Position
}

// maxNoted bounds the samples in memory, of up to a megabyte each.
const maxNoted = 128

func (x *samples) get(k sampleKey, now time.Time) ([]storage.Position, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, ok := x.noted[k]
	return n.positions, ok && now.Sub(n.at).Abs() < usedEvery
}

func (x *samples) put(k sampleKey, n noted) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.noted == nil || len(x.noted) >= maxNoted {
		x.noted = map[sampleKey]noted{}
	}
	x.noted[k] = n
}

// useSample notes the use of a sample and returns it; an empty one is made
// where there is none, for the scan that begins now goes on without. The
// table's row is held, so that nothing is noted of one that is being removed.
// Whoever replaces a sample compares the instant in the statement that does so,
// and so sees this one or comes before it.
const useSample = `WITH guard AS MATERIALIZED (
  SELECT 1 FROM extenddb.tables WHERE id = $1 AND version = $2 AND status = 1 FOR KEY SHARE),
w AS (INSERT INTO extenddb.samples AS s (t, ix, used, positions) SELECT $1, $3, $4, ''::bytea FROM guard
  ON CONFLICT (t, ix) DO UPDATE SET used = greatest(s.used, EXCLUDED.used) RETURNING positions)
SELECT positions FROM w`

// Sample implements storage.Reader. The positions are shared: they must not be
// changed.
func (db *DB) Sample(ctx context.Context, t *storage.Table, ix storage.IndexID, now time.Time) (sample []storage.Position, err error) {
	k := sampleKey{t.ID, ix}
	err = db.read(ctx, func(c *pgxpool.Conn) error {
		var known bool
		if sample, known = db.samples.get(k, now); known {
			return db.orOutdated(ctx, c, current(ctx, c, t), t)
		}
		var positions []byte
		err := c.QueryRow(ctx, useSample, int64(t.ID), t.Version, int64(ix), now).Scan(&positions)
		if errors.Is(err, pgx.ErrNoRows) {
			err = errOutdated
		}
		if err != nil {
			return db.orOutdated(ctx, c, err, t)
		}
		if sample, err = storage.DecodeSample(positions, ix != 0); err == nil {
			db.samples.put(k, noted{now, sample})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return sample, nil
}

// currentStatus is proof, for those who are in no transaction that may fail.
const currentStatus = "SELECT 1 FROM extenddb.tables WHERE id = $1 AND version = $2 AND status = 1"

// current returns errOutdated when t is not the current definition.
func current(ctx context.Context, q querier, t *storage.Table) error {
	var one int
	err := q.QueryRow(ctx, currentStatus, int64(t.ID), t.Version).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return errOutdated
	}
	return err
}
