// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
)

// How long a drop waits for who uses the table: for one relation, and for all.
// Whoever comes meanwhile waits behind it, if only to learn that the table is
// not to be had any more.
const (
	dropWait  = 200 * time.Millisecond
	dropWaits = time.Second
)

// More SQLSTATEs.
const (
	codeCanceled   = "57014"
	codeDependents = "2BP01"
)

// drop removes a DELETING table: relations, catalog rows and statistics vanish
// in one transaction. Its change records outlive it. Its definition is not asked
// for: it may be damaged.
type drop struct {
	db *DB
	t  *storage.StoredTable
}

func (d *drop) step(ctx context.Context, c *pgx.Conn, _ time.Time) (storage.Progress, error) {
	names, err := d.relations(ctx, c)
	if err != nil {
		return storage.Progress{}, err
	}
	rows, err := d.remove(ctx, c, names, dropWait)
	if isHeld(err) {
		rows, err = d.insist(ctx, c, names)
	}
	if err != nil {
		return storage.Progress{}, d.explain(gone(err))
	}
	d.db.defs.forget(d.t.Table.ID)
	return storage.Progress{Done: rows, Total: rows, Finished: true}, nil
}

// relations lists those that are there, the rows first, as writers take them. A
// reader of an index may meet the drop half way: then it is the drop that gives up.
func (d *drop) relations(ctx context.Context, c *pgx.Conn) ([]string, error) {
	names := []string{rowsOf(d.t.Table.ID)}
	for _, ix := range slices.Sorted(maps.Values(d.t.Indexes)) {
		names = append(names, entriesOf(ix), unsortedOf(ix))
	}
	rows, err := c.Query(ctx, "SELECT n FROM unnest($1::text[]) WITH ORDINALITY u(n, i) WHERE to_regclass(n) IS NOT NULL ORDER BY i", names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

const lockStats = "SELECT FROM extenddb.table_stats WHERE t = $1 FOR UPDATE"

// forgetTable removes what the catalog knows of a table that is DELETING. It
// returns about how many rows the table had, none when it was not there.
const forgetTable = `WITH gone AS (DELETE FROM extenddb.tables WHERE id = $1 AND status = 2 RETURNING id),
i AS (DELETE FROM extenddb.indexes x USING gone WHERE x.t = gone.id),
xs AS (DELETE FROM extenddb.index_stats x USING gone WHERE x.t = gone.id),
p AS (DELETE FROM extenddb.samples x USING gone WHERE x.t = gone.id),
s AS (DELETE FROM extenddb.table_stats x USING gone WHERE x.t = gone.id RETURNING x.items)
SELECT coalesce((SELECT items FROM s), 0) FROM gone`

// remove waits for each relation for so long.
func (d *drop) remove(ctx context.Context, c *pgx.Conn, names []string, wait time.Duration) (rows int64, err error) {
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		limits := fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d",
			wait.Milliseconds(), max(wait, dropWaits).Milliseconds())
		if _, err := tx.Exec(ctx, limits); err != nil {
			return err
		}
		if len(names) > 0 {
			if _, err := tx.Exec(ctx, "LOCK TABLE "+strings.Join(names, ", ")+" IN ACCESS EXCLUSIVE MODE"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil { // large files take their time
				return err
			}
			if _, err := tx.Exec(ctx, "DROP TABLE "+strings.Join(names, ", ")); err != nil {
				return err
			}
		}
		// A statement of its own: the next one sees what was waited for. Who
		// stores statistics has this row; who asks for a sample has kept the
		// table from being marked.
		if _, err := tx.Exec(ctx, lockStats, int64(d.t.Table.ID)); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, forgetTable, int64(d.t.Table.ID)).Scan(&rows); err != nil {
			if errors.Is(err, pgx.ErrNoRows) {
				return storage.ErrNoWork
			}
			return err
		}
		if hook := d.db.o.hooks.dropping; hook != nil {
			if err := hook(); err != nil {
				return err
			}
		}
		return d.db.changed(ctx, tx, d.t.Table.ID)
	})
	return rows, err
}

// isHeld tells errors of waiting for a lock too long.
func isHeld(err error) bool {
	switch codeOf(err) {
	case codeLockTimeout, codeDeadlock, codeCanceled:
		return true
	}
	return false
}

// holders tells who has what on some relations. A prepared transaction has no
// process.
const holders = `SELECT coalesce(l.pid, 0), coalesce(a.application_name, ''), coalesce(a.backend_type, 'prepared transaction'), a.xact_start
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = ANY (SELECT to_regclass(n)::oid FROM unnest($1::text[]) n)
ORDER BY a.xact_start, l.pid`

const autovacuum = "autovacuum worker"

// insist names who holds the table after a first attempt. Autovacuum gives way,
// but only to who waits for longer than the database takes to look for
// deadlocks: it alone is waited for so long.
func (d *drop) insist(ctx context.Context, c *pgx.Conn, names []string) (int64, error) {
	holder, vacuums, err := whoHolds(ctx, c, names)
	if err == nil && vacuums {
		var patience, rows int64
		if err = c.QueryRow(ctx, "SELECT setting::bigint FROM pg_settings WHERE name = 'deadlock_timeout'").Scan(&patience); err == nil {
			if rows, err = d.remove(ctx, c, names, time.Duration(patience)*time.Millisecond+dropWait); !isHeld(err) {
				return rows, err
			}
			holder, _, err = whoHolds(ctx, c, names)
		}
	}
	if err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("remove table %q: %w", d.t.Name, &storage.Held{Holder: holder})
}

// whoHolds describes the one that has held some of the relations longest,
// nobody when all are free by now; vacuums: all that hold are autovacuum.
func whoHolds(ctx context.Context, c *pgx.Conn, names []string) (holder string, vacuums bool, err error) {
	rows, err := c.Query(ctx, holders, names)
	if err != nil {
		return "", false, err
	}
	var (
		pid           int32
		program, kind string
		since         *time.Time
		others        bool
	)
	_, err = pgx.ForEachRow(rows, []any{&pid, &program, &kind, &since}, func() error {
		if holder == "" {
			holder = describe(pid, program, kind, since)
		}
		vacuums = vacuums || kind == autovacuum
		others = others || kind != autovacuum
		return nil
	})
	return holder, vacuums && !others, err
}

// describe never tells what a session does: that may have data in it.
func describe(pid int32, program, kind string, since *time.Time) string {
	if pid == 0 {
		return "a prepared transaction (see pg_prepared_xacts)"
	}
	if program == "" {
		program = kind
	}
	s := fmt.Sprintf("process %d (%q)", pid, program)
	if since != nil {
		s += " since " + since.UTC().Format(time.RFC3339)
	}
	return s
}

// explain names what stands in the way for good.
func (d *drop) explain(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == codeDependents {
		return fmt.Errorf("%w: table %q cannot be removed until what others made on its storage is: %s: %w",
			storage.ErrUnavailable, d.t.Name, strings.ReplaceAll(pg.Detail, "\n", "; "), err)
	}
	return err
}
