// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// Finish implements storage.Loading.
func (l *loading) Finish(ctx context.Context, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	err := l.step(func() error {
		walk, err := l.index(ctx, progress)
		if err != nil {
			return err
		}
		return l.publish(ctx, walk)
	})
	if err != nil {
		return err
	}
	l.over, l.ended = errOver, true
	if err := l.own.release(); err != nil { // nobody owns it then, and nobody asks
		l.db.o.Log.DebugContext(ctx, "giving up a load that is finished failed", "err", err)
	}
	return nil
}

// index sorts the entries into their indexes, and takes samples: it reads every key,
// and so finds out that all that was added is there. No connection is held
// while progress is told.
func (l *loading) index(ctx context.Context, progress func(done, total int64)) (*count, error) {
	done, total := int64(0), int64(0)
	for _, s := range l.stats.Indexes {
		total += s.Items
	}
	progress(done, total)
	walk := &count{db: l.db, t: l.table}
	if err := l.walk(ctx, walk, storage.IndexStats{Items: l.stats.Items, Bytes: l.stats.Bytes}); err != nil {
		return nil, err
	}
	for _, ix := range l.table.Indexes {
		err := l.conn(ctx, func(c *pgxpool.Conn) error { return l.sort(ctx, c.Conn(), ix) })
		if err != nil {
			return nil, err
		}
		if err := l.walk(ctx, walk, l.stats.Indexes[ix.ID]); err != nil {
			return nil, err
		}
		done += l.stats.Indexes[ix.ID].Items
		progress(done, total)
	}
	return walk, nil
}

// sort moves the entries of an index to where they belong, in order, each page
// in a transaction of its own. They are sorted in one that only reads, which
// leaves them in a file of the session: no stream waits for it, nor does it hold
// a snapshot for longer. Then they are nowhere else: the disk need not hold them
// three times.
func (l *loading) sort(ctx context.Context, c *pgx.Conn, ix *storage.Index) (err error) {
	defer func() {
		if err != nil {
			l.db.session.fail(c) // with what it has sorted
		}
	}()
	err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := l.creating(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT set_config('work_mem', current_setting('maintenance_work_mem'), true); DECLARE "+cursorName+
			" NO SCROLL CURSOR WITH HOLD FOR SELECT size, p, s, pk, sk FROM "+unsortedOf(ix.ID)+" ORDER BY p, s, pk, sk")
		return err
	})
	if err == nil {
		err = l.dropUnsorted(ctx, c, ix)
	}
	if err != nil {
		return gone(err)
	}
	for page := []byte(nil); ; {
		var rows int
		if page, rows, err = fetchTuples(ctx, c, page[:0]); err != nil {
			return err
		}
		if err := l.db.o.hooks.load("page"); err != nil {
			return err
		}
		if err := l.owned(); err != nil {
			return err
		}
		if err := copyIn(ctx, c, entriesOf(ix.ID)+entryColumns, newCopyStream(slices.Values([][]byte{page}))); err != nil {
			return gone(err)
		}
		if rows < countPage {
			return l.sorted(ctx, c, ix)
		}
	}
}

// fetchTuples appends the next tuples of a cursor over entries, as COPY takes
// them.
func fetchTuples(ctx context.Context, c *pgx.Conn, to []byte) (tuples []byte, rows int, err error) {
	r := c.PgConn().ExecParams(ctx, fetch(countPage), nil, nil, nil, []int16{pgx.BinaryFormatCode})
	for ; r.NextRow(); rows++ {
		values := r.Values()
		to = binary.BigEndian.AppendUint16(to, uint16(len(values)))
		for _, v := range values {
			to = appendField(to, v)
		}
	}
	_, err = r.Close()
	return to, rows, err
}

// dropUnsorted removes entries that were sorted. Autovacuum may take as long as
// it likes before it gives way: nobody else has the relation.
func (l *loading) dropUnsorted(ctx context.Context, c *pgx.Conn, ix *storage.Index) error {
	_, err := c.Exec(ctx, "SET LOCAL lock_timeout = 0; DROP TABLE "+unsortedOf(ix.ID))
	return err
}

// sorted ends the sorting of an index.
func (l *loading) sorted(ctx context.Context, c *pgx.Conn, ix *storage.Index) error {
	_, err := c.Exec(ctx, "CLOSE "+cursorName)
	if err == nil {
		_, err = c.Exec(ctx, "SET LOCAL lock_timeout = 0; ANALYZE "+entriesOf(ix.ID))
	}
	if err != nil {
		return gone(err)
	}
	return l.db.o.hooks.load("key")
}

// walk reads the next target of a walk, which is to be as it was added.
func (l *loading) walk(ctx context.Context, n *count, want storage.IndexStats) error {
	for {
		seen := 0
		err := l.conn(ctx, func(c *pgxpool.Conn) (err error) {
			seen, err = n.page(ctx, c.Conn())
			return err
		})
		if err != nil {
			return err
		}
		if seen == countPage {
			continue
		}
		if got := (storage.IndexStats{Items: n.items, Bytes: n.bytes}); got != want {
			return fmt.Errorf("%w: of %+v that were added to table %q, %+v are there", storage.ErrCorrupt, want, l.table.Name(), got)
		}
		n.next(l.table)
		return nil
	}
}

// publish makes the table ACTIVE, with statistics and samples.
func (l *loading) publish(ctx context.Context, walk *count) error {
	err := l.conn(ctx, func(c *pgxpool.Conn) error {
		if _, err := c.Exec(ctx, "SET LOCAL lock_timeout = 0; ANALYZE "+rowsOf(l.table.ID)); err != nil {
			return gone(err)
		}
		if err := l.owned(); err != nil {
			return err
		}
		return l.db.inTx(ctx, c, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, "UPDATE extenddb.tables SET status = 1, version = version + 1 WHERE id = $1 AND status = 3",
				int64(l.table.ID))
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return storage.ErrTableNotFound
			}
			if err := walk.storeIn(ctx, tx, l.table.Created); err != nil {
				return err
			}
			if err := l.db.changed(ctx, tx, l.table.ID); err != nil {
				return err
			}
			return l.db.o.hooks.load("publish")
		})
	})
	l.db.defs.forget(l.table.ID)
	if errors.Is(err, storage.ErrInDoubt) && l.isActive() {
		return nil
	}
	return err
}

// isActive reports whether the table is known to be published.
func (l *loading) isActive() bool {
	ctx, cancel := context.WithTimeout(context.Background(), abortTime)
	defer cancel()
	active := false
	err := l.db.withConn(ctx, func(c *pgxpool.Conn) error {
		t, err := readTable(ctx, c, byID, int64(l.table.ID))
		if active = err == nil && t.Status == storage.Active; active {
			err = replicate(ctx, c.Conn())
		}
		return err
	})
	return err == nil && active
}
