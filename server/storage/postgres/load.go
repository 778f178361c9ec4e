// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// A transaction of a load ends at the first of these: a long one would hold
// back the horizon of every stream.
const (
	loadRows  = 5000
	loadBytes = 8 << 20
)

// abortTime is how long Abort tries: a table that it does not reach becomes
// DELETING later.
const abortTime = 10 * time.Second

// errOver is why a load that was finished or aborted does nothing more.
var errOver = errors.New("it was finished or aborted")

// loading is a load under way. Rows are stored as they come, with the primary
// key in place; their entries go into relations without keys, out of which the
// database takes them sorted at the end: a key in place would cost many times
// as much where it does not fit into memory, and one that is built afterwards is
// built in one transaction, which every stream waits for, or concurrently, which
// waits for every snapshot of the database. The load lives as long as this process owns
// it: then whoever looks for work makes the table DELETING.
type loading struct {
	db    *DB
	table *storage.Table
	own   *ownership
	over  error         // why only Abort is allowed; nil: it goes on
	ended bool          // finished, or aborted for good
	long  bool          // that it has shortened keys is noted
	stats storage.Stats // of what was added
}

// Load implements storage.Loader.
func (db *DB) Load(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
	l := &loading{db: db, stats: storage.Stats{Indexes: map[storage.IndexID]storage.IndexStats{}}}
	err := db.call(ctx, func(c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			if l.table, err = db.createTable(ctx, tx, account, def, at, storage.Creating); err != nil {
				return err
			}
			// Now: who sees the table must not think that it was left behind.
			if l.own, err = db.lock(ctx, lockKey{lockLoad, int64(l.table.ID)}); err != nil {
				return err
			}
			return db.o.hooks.load("begin")
		})
	})
	if err != nil {
		if l.own != nil {
			err = errors.Join(err, l.own.release())
		}
		return nil, err
	}
	return l, nil
}

// load runs the hook of loads.
func (h *hooks) load(point string) error {
	if h.loading == nil {
		return nil
	}
	return h.loading(point)
}

// Table implements storage.Loading.
func (l *loading) Table() *storage.Table { return l.table }

// step runs a part of the load: after an error there is no other.
func (l *loading) step(f func() error) error {
	if l.over != nil {
		return fmt.Errorf("%w: only Abort is allowed: %w", storage.ErrInvalid, l.over)
	}
	err := l.db.life.Enter()
	if err == nil {
		defer l.db.life.Leave()
		if err = l.owned(); err == nil {
			err = f()
		}
	}
	if err != nil {
		l.over = err
	}
	return err
}

// owned fails when the load is somebody else's to remove by now.
func (l *loading) owned() error {
	if l.own.held() != nil {
		return fmt.Errorf("%w: the connection that owned the load of table %q was lost", storage.ErrUnavailable, l.table.Name())
	}
	return nil
}

// conn runs f with a connection that counts among those held for long.
func (l *loading) conn(ctx context.Context, f func(c *pgxpool.Conn) error) error {
	release, err := l.db.longs.wait(ctx)
	if err != nil {
		return err
	}
	defer release()
	return l.db.withConn(ctx, f)
}

// Add implements storage.Loading.
func (l *loading) Add(ctx context.Context, rows []storage.LoadRow) error {
	return l.step(func() error {
		for from := 0; from < len(rows); {
			to := chunkEnd(rows, from)
			if err := l.conn(ctx, func(c *pgxpool.Conn) error { return l.store(ctx, c.Conn(), rows, from, to) }); err != nil {
				return err
			}
			from = to
		}
		return nil
	})
}

// chunkEnd returns where the transaction ends that begins at a row.
func chunkEnd(rows []storage.LoadRow, from int) int {
	bytes := 0
	for i := from; i < len(rows); i++ {
		if i-from == loadRows || bytes >= loadBytes {
			return i
		}
		bytes += len(rows[i].Next.Item)
	}
	return len(rows)
}

// store adds rows[from:to] and their entries in one transaction.
func (l *loading) store(ctx context.Context, c *pgx.Conn, rows []storage.LoadRow, from, to int) error {
	some := rows[from:to]
	long := l.long
	err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if err := l.creating(ctx, tx); err != nil {
			return err
		}
		for i := 0; i < len(some) && !long; i++ {
			long = keyenc.IsShortened(some[i].Key.PK)
		}
		if err := copyIn(ctx, c, rowsOf(l.table.ID)+rowColumns, newCopyStream(rowTuples(some))); err != nil {
			return err
		}
		for _, ix := range l.table.Indexes {
			if err := copyIn(ctx, c, unsortedOf(ix.ID)+entryColumns, newCopyStream(entryTuples(some, ix.ID))); err != nil {
				return err
			}
		}
		if long && !l.long { // after the relations, as a drop takes its locks
			if _, err := tx.Exec(ctx, "UPDATE extenddb.tables SET long_keys = true WHERE id = $1", int64(l.table.ID)); err != nil {
				return err
			}
		}
		return l.db.o.hooks.load("rows")
	})
	switch {
	case codeOf(err) == codeUnique:
		return l.duplicate(ctx, c, rows, from, to, err)
	case err != nil:
		return gone(err)
	}
	l.long = long
	l.count(some)
	return nil
}

// creating returns ErrTableNotFound when somebody dropped the table.
func (l *loading) creating(ctx context.Context, q querier) error {
	err := q.QueryRow(ctx, "SELECT FROM extenddb.tables WHERE id = $1 AND status = 3", int64(l.table.ID)).Scan()
	if errors.Is(err, pgx.ErrNoRows) {
		return storage.ErrTableNotFound
	}
	return err
}

// copyIn fills a relation. It runs in the transaction that c is in.
func copyIn(ctx context.Context, c *pgx.Conn, into string, s *copyStream) error {
	defer s.stop()
	_, err := c.PgConn().CopyFrom(ctx, s, "COPY "+into+" FROM STDIN (FORMAT binary)")
	return err
}

func (l *loading) count(rows []storage.LoadRow) {
	for i := range rows {
		next := rows[i].Next
		l.stats.Items++
		l.stats.Bytes += int64(next.Size)
		for j := range next.Entries {
			e := &next.Entries[j]
			s := l.stats.Indexes[e.Index]
			l.stats.Indexes[e.Index] = storage.IndexStats{Items: s.Items + 1, Bytes: s.Bytes + int64(e.Size)}
		}
	}
}

// duplicate finds the first row of rows[from:to] whose key an earlier one has:
// the database does not tell which it is.
func (l *loading) duplicate(ctx context.Context, c *pgx.Conn, rows []storage.LoadRow, from, to int, cause error) error {
	pks, sks := make([][]byte, 0, to-from), make([][]byte, 0, to-from)
	seen := make(map[[2]string]struct{}, to-from)
	first := -1
	for i := from; i < to && first < 0; i++ {
		k := rows[i].Key
		both := [2]string{string(k.PK), string(k.SK)}
		if _, twice := seen[both]; twice {
			first = i
		}
		seen[both] = struct{}{}
		pks, sks = append(pks, k.PK), append(sks, notNil(k.SK))
	}
	var stored *int64
	err := c.QueryRow(ctx, "SELECT min(u.i) FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY u(pk, sk, i) JOIN "+
		rowsOf(l.table.ID)+" t ON t.pk = u.pk AND t.sk = u.sk", pgx.QueryExecModeDescribeExec, pks, sks).Scan(&stored)
	if err != nil {
		return gone(err)
	}
	if stored != nil { // before the one that is here twice, which was looked for no further
		first = from + int(*stored) - 1
	}
	if first < 0 {
		return fmt.Errorf("%w: a key is there twice, and cannot be found: %w", storage.ErrCorrupt, cause)
	}
	return fmt.Errorf("%w: %w", &storage.DuplicateKey{Row: first}, cause)
}

// Abort implements storage.Loading.
func (l *loading) Abort() error {
	if l.over == nil {
		l.over = errOver
	}
	if l.ended {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortTime)
	defer cancel()
	err := l.db.call(ctx, func(c *pgxpool.Conn) error { return l.db.forsake(ctx, c.Conn(), l.table.ID) })
	l.ended = err == nil
	return errors.Join(err, l.own.release()) // even so: then whoever looks for work makes it DELETING
}

// forsake makes a CREATING table DELETING.
func (db *DB) forsake(ctx context.Context, c *pgx.Conn, id storage.TableID) error {
	err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return db.forsakeIn(ctx, tx, id) })
	db.defs.forget(id)
	return err
}

func (db *DB) forsakeIn(ctx context.Context, tx pgx.Tx, id storage.TableID) error {
	tag, err := tx.Exec(ctx, "UPDATE extenddb.tables SET status = 2, version = version + 1 WHERE id = $1 AND status = 3", int64(id))
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	return db.changed(ctx, tx, id)
}

// endLoads makes tables DELETING whose load ended with its owner.
func (db *DB) endLoads(ctx context.Context, c *pgx.Conn) error {
	rows, err := c.Query(ctx, "SELECT id FROM extenddb.tables WHERE status = 3 ORDER BY id")
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[storage.TableID])
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return db.endLoad(ctx, tx, id) })
		if err != nil && !isConflict(err) { // the next time, then
			return err
		}
	}
	return nil
}

// endLoad waits for nobody: neither for who loads, nor for who has the row.
func (db *DB) endLoad(ctx context.Context, tx pgx.Tx, id storage.TableID) error {
	var free bool
	err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", lockKey{lockLoad, int64(id)}.number()).Scan(&free)
	if err != nil || !free {
		return err
	}
	err = tx.QueryRow(ctx, "SELECT FROM extenddb.tables WHERE id = $1 AND status = 3 FOR UPDATE SKIP LOCKED", int64(id)).Scan()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return db.forsakeIn(ctx, tx, id)
}
