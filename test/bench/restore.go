// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver that the server uses too

	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// bareRows are the rows of a transaction of the reference.
const bareRows = 500

// barePragmas are those of the server's writer, but for the checkpoints: here
// SQLite makes them itself, after as many pages as the server does.
const barePragmas = `PRAGMA busy_timeout = 10000; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 67108864;
PRAGMA wal_autocheckpoint = 1000; PRAGMA cache_size = -32768; PRAGMA mmap_size = 0; PRAGMA synchronous = FULL;
PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL`

// measureBare lets a process of its own insert the rows and entries of the
// table, without anything around.
func measureBare(ctx context.Context, file string, items int) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, childArg, "-kind", "bare", "-file", file, "-items", strconv.Itoa(items))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("insert rows: %w", err)
	}
	return time.ParseDuration(strings.TrimSpace(string(out)))
}

// insertBare makes a database with the server's schema and inserts into it
// over a plain connection, in key order, each row with its entries. Making the
// rows does not count; closing does.
func insertBare(ctx context.Context, file string, items int) (took time.Duration, err error) {
	t, err := emptyTable(ctx, file)
	if err != nil {
		return 0, err
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return 0, err
	}
	defer func() {
		begin := time.Now()
		err = errors.Join(err, db.Close())
		took += time.Since(begin)
	}()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, barePragmas); err != nil {
		return 0, err
	}
	b := bare{ctx: context.WithoutCancel(ctx), db: db, table: t}
	source := newSynthetic()
	var rows []storage.LoadRow
	for i := range items {
		row, err := source.row(t, i)
		if err != nil {
			return 0, err
		}
		if rows = append(rows, row); len(rows) < bareRows && i < items-1 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := b.insert(rows); err != nil {
			return 0, err
		}
		took += time.Since(begin)
		rows = rows[:0]
	}
	return took, b.check(items)
}

// emptyTable makes the database and the table.
func emptyTable(ctx context.Context, file string) (*storage.Table, error) {
	db, err := sqlite.Open(ctx, sqlite.Options{Path: file, Clock: clock.Real{}})
	if err != nil {
		return nil, err
	}
	t, err := db.CreateTable(ctx, auth.DefaultAccount, syntheticDefinition(), time.Now())
	return t, errors.Join(err, db.Close())
}

// bare is a connection that inserts. Its context never ends: one that can
// makes the driver start a goroutine for each statement.
type bare struct {
	ctx   context.Context
	db    *sql.DB
	table *storage.Table
	rows  int64 // inserted

	row, entry     *sql.Stmt // for as many values as the batch before
	nRows, nEntry  int
	values, others []any
}

// insert inserts rows in one transaction, all of them in one statement, and
// their entries in another.
func (b *bare) insert(rows []storage.LoadRow) (err error) {
	b.values, b.others = b.values[:0], b.others[:0]
	for i := range rows {
		r := &rows[i]
		b.rows++
		b.values = append(b.values, b.rows, int64(b.table.ID), r.Key.PK, r.Key.SK, b.rows, int64(r.Next.Size), int64(r.Next.Flags), r.Next.Item)
		for _, e := range r.Next.Entries {
			b.others = append(b.others, int64(e.Index), e.P, e.S, r.Key.PK, r.Key.SK, b.rows, int64(e.Size))
		}
	}
	if err := b.prepare(); err != nil {
		return err
	}
	tx, err := b.db.BeginTx(b.ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.StmtContext(b.ctx, b.row).ExecContext(b.ctx, b.values...)
	if err == nil {
		_, err = tx.StmtContext(b.ctx, b.entry).ExecContext(b.ctx, b.others...)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// prepare makes statements for the values.
func (b *bare) prepare() (err error) {
	const rowValues, entryValues = 8, 7
	rows, entries := len(b.values)/rowValues, len(b.others)/entryValues
	if rows == b.nRows && entries == b.nEntry {
		return nil
	}
	tuples := func(n, values int) string {
		return strings.Join(slices.Repeat([]string{"(?" + strings.Repeat(",?", values-1) + ")"}, n), ",")
	}
	if b.row, err = b.db.PrepareContext(b.ctx, "INSERT INTO r (id, t, pk, sk, ver, size, flags, item) VALUES "+tuples(rows, rowValues)); err != nil {
		return err
	}
	b.nRows, b.nEntry = rows, entries
	b.entry, err = b.db.PrepareContext(b.ctx, "INSERT INTO x (ix, p, s, pk, sk, rid, size) VALUES "+tuples(entries, entryValues))
	return err
}

// check makes sure that everything is there.
func (b *bare) check(items int) error {
	var rows, entries int
	if err := b.db.QueryRowContext(b.ctx, "SELECT (SELECT count(*) FROM r), (SELECT count(*) FROM x)").Scan(&rows, &entries); err != nil {
		return err
	}
	if want := items * len(b.table.Indexes); rows != items || entries != want {
		return fmt.Errorf("%d rows and %d entries were inserted instead of %d and %d", rows, entries, items, want)
	}
	return nil
}
