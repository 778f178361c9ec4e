// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/extenddb/extenddb/server/storage"
)

// countPage is how many rows or entries one statement reads.
const countPage = 2000

// count walks the keys of a table and its indexes, some at a time, adding up
// and keeping a sample of each. It is only in memory: after a crash the table
// is due again and the walk begins anew.
type count struct {
	db       *DB
	t        *storage.Table
	before   int64 // changes when it began
	expected int64 // rows and entries, as last counted
	walked   []target
	target   // where the walk is
	after    storage.Position
	thin     storage.Thinner
	done     int64
}

// target is what is known of a table, 0, or of an index of it.
type target struct {
	ix           storage.IndexID
	items, bytes int64
	sample       []storage.Position
}

func (n *count) step(ctx context.Context, c *pgx.Conn, now time.Time) (storage.Progress, error) {
	t, err := n.db.usable(ctx, c, n.t.ID, true)
	if err != nil {
		return storage.Progress{}, err
	}
	begin, limit := n.db.o.Clock.Now(), n.done+stepRows
	for len(n.walked) <= len(t.Indexes) {
		if n.done >= limit || n.db.o.Clock.Now().Sub(begin) >= stepTime {
			return storage.Progress{Done: n.done, Total: max(n.done, n.expected)}, nil
		}
		rows, err := n.page(ctx, c)
		if err != nil {
			return storage.Progress{}, err
		}
		if rows < countPage {
			n.next(t)
		}
	}
	if err := n.store(ctx, c, now); err != nil {
		return storage.Progress{}, err
	}
	return storage.Progress{Done: n.done, Total: n.done, Finished: true}, nil
}

// page reads the next rows. Their keys go into no cache of statements, where
// those of requests are.
func (n *count) page(ctx context.Context, c *pgx.Conn) (seen int, err error) {
	var (
		p, s, pk, sk pgtype.DriverBytes // valid until the next row
		size         int32
		rows         pgx.Rows
	)
	const mode = pgx.QueryExecModeDescribeExec
	to := []any{&pk, &sk, &size}
	if n.ix == 0 { // no key is empty: the first page begins there
		rows, err = c.Query(ctx, "SELECT pk, sk, size FROM "+rowsOf(n.t.ID)+" WHERE (pk, sk) > ($1, $2) ORDER BY pk, sk LIMIT $3",
			mode, notNil(n.after.PK), notNil(n.after.SK), countPage)
	} else {
		to = []any{&p, &s, &pk, &sk, &size}
		rows, err = c.Query(ctx, "SELECT p, s, pk, sk, size FROM "+entriesOf(n.ix)+
			" WHERE (p, s, pk, sk) > ($1, $2, $3, $4) ORDER BY p, s, pk, sk LIMIT $5",
			mode, notNil(n.after.P), notNil(n.after.S), notNil(n.after.PK), notNil(n.after.SK), countPage)
	}
	if err != nil {
		return 0, gone(err)
	}
	_, err = pgx.ForEachRow(rows, to, func() error {
		row := storage.Row{Key: storage.Key{PK: pk, SK: sk}, P: p, S: s}
		n.thin.Add(&row)
		n.items++
		n.bytes += int64(size)
		if seen++; seen == countPage {
			n.after = row.Clone().Position()
		}
		return nil
	})
	n.done += int64(seen)
	return seen, gone(err)
}

// gone turns the error of a statement on a relation that was dropped.
func gone(err error) error {
	if codeOf(err) == codeUndefinedTable {
		return storage.ErrTableNotFound
	}
	return err
}

// next turns to the next target.
func (n *count) next(t *storage.Table) {
	n.sample = n.thin.Sample()
	n.walked = append(n.walked, n.target)
	n.target, n.after, n.thin = target{}, storage.Position{}, storage.Thinner{}
	if i := len(n.walked) - 1; i < len(t.Indexes) {
		n.ix = t.Indexes[i].ID
	}
}

// Statements that make statistics known. The first one locks the row that also
// who drops the table needs: what follows is of a table that is there.
const (
	setStats = `UPDATE extenddb.table_stats SET items = $2, bytes = $3, counted = $4, changed = greatest(changed - $5, 0)
WHERE t = $1 AND EXISTS (SELECT FROM extenddb.tables WHERE id = $1 AND status = 1)`
	setIndexStats = `INSERT INTO extenddb.index_stats (ix, t, items, bytes)
SELECT u.ix, $1, u.items, u.bytes FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) u(ix, items, bytes)
ON CONFLICT (ix) DO UPDATE SET items = excluded.items, bytes = excluded.bytes`
	// A sample that scans hold stays, and so does it that there is none: they
	// wait for this row, or it for them.
	setSample = `INSERT INTO extenddb.samples AS s (t, ix, used, positions) VALUES ($1, $2, 'epoch', $3)
ON CONFLICT (t, ix) DO UPDATE SET positions = excluded.positions WHERE s.used <= $4`
	// Of what has no rows there is no sample; an empty one is that which scans
	// wait for.
	dropSample = "DELETE FROM extenddb.samples WHERE t = $1 AND ix = $2 AND used <= $3"
)

// store makes the statistics known, and those samples that no scan holds.
func (n *count) store(ctx context.Context, c *pgx.Conn, now time.Time) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return n.storeIn(ctx, tx, now) })
}

func (n *count) storeIn(ctx context.Context, tx pgx.Tx, now time.Time) error {
	whole := n.walked[0]
	tag, err := tx.Exec(ctx, setStats, int64(n.t.ID), whole.items, whole.bytes, now, n.before)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return storage.ErrTableNotFound
	}
	if err := storeIndexStats(ctx, tx, n.t.ID, n.walked[1:]); err != nil {
		return err
	}
	unused := now.Add(-sampleHeld - usedEvery)
	for _, x := range n.walked {
		if len(x.sample) > 0 {
			_, err = tx.Exec(ctx, setSample, int64(n.t.ID), int64(x.ix), storage.EncodeSample(x.sample), unused)
		} else {
			_, err = tx.Exec(ctx, dropSample, int64(n.t.ID), int64(x.ix), unused)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func storeIndexStats(ctx context.Context, tx pgx.Tx, id storage.TableID, xs []target) error {
	var ids, items, bytes []int64
	for _, x := range xs {
		ids, items, bytes = append(ids, int64(x.ix)), append(items, x.items), append(bytes, x.bytes)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, setIndexStats, int64(id), ids, items, bytes)
	return err
}
