// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// cursor is a cursor in a transaction. All it yields is of the instant at which
// it was declared, however long reading takes.
type cursor struct {
	c          *pgx.Conn
	batch      *pgconn.MultiResultReader // that the first FETCH is part of
	fetching   *pgconn.ResultReader      // nil between two
	asked, got int                       // of the last FETCH
}

// mayStall lets whoever reads what is on its way stop for as long as it likes:
// the limit of the connection counts the time for which nothing more fits into
// its buffers as well. That the other side lives is asked for nevertheless.
const mayStall = "SET LOCAL tcp_user_timeout = 0"

// cursorName is the only one of its transaction.
const cursorName = "extenddb"

// openCursor declares a cursor and asks for its first rows, if any, all in one
// round trip; begin, when not empty, begins the transaction first.
func openCursor(ctx context.Context, c *pgx.Conn, begin, sql string, args []any, rows int) (*cursor, error) {
	values, oids, err := encodeArgs(c, args)
	if err != nil {
		return nil, err
	}
	var b pgconn.Batch
	results, binary := 1, []int16{pgx.BinaryFormatCode}
	if begin != "" {
		results += 3
		for _, sql := range []string{begin, mayIdle, mayStall} {
			b.ExecParams(sql, nil, nil, nil, nil) // whoever reads may be slow
		}
	}
	b.ExecParams("DECLARE "+cursorName+" NO SCROLL CURSOR FOR "+sql, values, oids, binary, nil)
	if rows > 0 {
		results++
		b.ExecParams(fetch(rows), nil, nil, nil, binary)
	}
	k := &cursor{c: c, batch: c.PgConn().ExecBatch(ctx, &b), asked: rows}
	for range results {
		if !k.batch.NextResult() {
			return nil, errors.Join(k.batch.Close(), k.end(ctx))
		}
	}
	if rows == 0 {
		return k, k.drain()
	}
	k.fetching = k.batch.ResultReader()
	return k, nil
}

func fetch(rows int) string { return "FETCH FORWARD " + strconv.Itoa(rows) + " FROM " + cursorName }

// fetch asks for more rows, after the last ones are read.
func (k *cursor) fetch(ctx context.Context, rows int) {
	k.asked, k.got = rows, 0
	k.fetching = k.c.PgConn().ExecParams(ctx, fetch(rows), nil, nil, nil, []int16{pgx.BinaryFormatCode})
}

// next returns a row, nil when all that was asked for is read. It is valid
// until the next call.
func (k *cursor) next() ([][]byte, error) {
	if k.fetching.NextRow() {
		k.got++
		return k.fetching.Values(), nil
	}
	return nil, k.drain()
}

// atEnd tells, when next has returned nil, that there are no more rows.
func (k *cursor) atEnd() bool { return k.got < k.asked }

// left is how many rows are on their way, at most.
func (k *cursor) left() int {
	if k.fetching == nil {
		return 0
	}
	return k.asked - k.got
}

// drain reads what is left of what was asked for.
func (k *cursor) drain() error {
	var err error
	if k.fetching != nil {
		_, err = k.fetching.Close()
	}
	if k.batch != nil {
		err = k.batch.Close()
	}
	k.fetching, k.batch = nil, nil
	return err
}

// endTime is how long the end of a transaction that only read may take.
const endTime = 5 * time.Second

// end ends the transaction; if that fails, so has the connection, which the
// pool then replaces.
func (k *cursor) end(ctx context.Context) error {
	err := k.drain()
	if !k.c.IsClosed() {
		rollback(ctx, k.c)
	}
	return err
}

// rollback ends a transaction in which nothing is in doubt.
func rollback(ctx context.Context, c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(atOnce(context.WithoutCancel(ctx)), endTime)
	defer cancel()
	if _, err := c.PgConn().Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		_ = c.PgConn().Conn().Close() // the driver would go on asking for the end of it
	}
}

// hangUp ends a connection, and so what is on its way; the pool replaces it.
func hangUp(ctx context.Context, c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(atOnce(context.WithoutCancel(ctx)), endTime)
	defer cancel()
	_ = c.Close(ctx)
}
