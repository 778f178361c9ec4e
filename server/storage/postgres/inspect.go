// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
)

// Info describes an open database, for people.
type Info struct {
	Version  string // of the database server: "15.4 (Debian 15.4-1)"
	Database string
	User     string
	Host     string // "10.0.0.7:5432", or the path of a socket
	TLS      bool
	MaxConns int  // of the pool
	New      bool // the database was empty, and was initialised
}

// Info returns what was found when the database was opened.
func (db *DB) Info() Info { return db.info }

func (i Info) log(ctx context.Context, log *slog.Logger) {
	log.InfoContext(ctx, "database opened", "engine", "postgres", "version", i.Version, "host", i.Host, "database", i.Database,
		"user", i.User, "tls", i.TLS, "pool", i.MaxConns)
}

// oldest is the first PostgreSQL that has all that is used.
const oldest = 14

// facts are what a database server says about itself.
type facts struct {
	encoding string
	fsync    string
	lz4      bool // it can compress with it
}

// refuse returns why such a server cannot be used.
func (f facts) refuse() error {
	if f.encoding != "UTF8" {
		return &Refused{fmt.Sprintf("the database has encoding %s", f.encoding),
			"names need UTF8; make one with CREATE DATABASE .. ENCODING 'UTF8' TEMPLATE template0"}
	}
	return nil
}

// inspect finds out about the server, and whether it can be used.
func (db *DB) inspect(ctx context.Context, c *pgx.Conn) (Info, error) {
	f, i := facts{}, Info{MaxConns: db.o.MaxConns}
	err := c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_encoding'), current_setting('fsync'), current_database()::text, current_user::text,
		coalesce((SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'), false)`).
		Scan(&i.Version, &f.encoding, &f.fsync, &i.Database, &i.User, &f.lz4)
	if err != nil {
		return i, fmt.Errorf("%w: ask the database server about itself: %w", storage.ErrUnavailable, err)
	}
	if err := f.refuse(); err != nil {
		return i, err
	}
	conn := c.PgConn().Conn()
	_, i.TLS = conn.(*tls.Conn)
	if i.Host = conn.RemoteAddr().String(); i.Host == "" {
		i.Host = c.Config().Host
	}
	db.lz4 = f.lz4
	if f.fsync == "off" {
		db.o.Log.WarnContext(ctx, "fsync is off in the database server: when its machine fails, data is lost or damaged")
	}
	return i, nil
}

// provingTime bounds the wait for a connection that a pooler may have to find.
const provingTime = 5 * time.Second

// proveSessions refuses a pooler that gives a connection another session from
// transaction to transaction: settings, locks, announcements and prepared
// statements belong to a session. Two connections tell: in a transaction on the
// second, the first one still has its own session.
func proveSessions(ctx context.Context, a, b *pgx.Conn) error {
	wait, cancel := context.WithTimeout(ctx, provingTime)
	defer cancel()
	before, err := simpleRow(wait, a, backend, 1)
	if err != nil {
		return err
	}
	first, err := simpleTx(wait, b)
	if err != nil {
		return notSession(ctx, err)
	}
	after, err := simpleRow(wait, a, backend, 1)
	if err != nil {
		return notSession(ctx, err)
	}
	if _, err := b.PgConn().Exec(wait, "ROLLBACK").ReadAll(); err != nil {
		return notSession(ctx, err)
	}
	if string(before[0]) != string(after[0]) || string(before[0]) == first {
		return &Refused{"a connection changes its session: a pooler is in the way, in transaction or statement mode", sessionRemedy}
	}
	return nil
}

const (
	backend       = "SELECT pg_backend_pid()"
	sessionRemedy = "set it to session mode (pgbouncer: pool_mode = session), or connect to the database itself"
)

// simpleTx begins a transaction and returns its backend.
func simpleTx(ctx context.Context, c *pgx.Conn) (string, error) {
	if _, err := c.PgConn().Exec(ctx, "BEGIN").ReadAll(); err != nil {
		return "", err
	}
	row, err := simpleRow(ctx, c, backend, 1)
	if err != nil {
		return "", err
	}
	return string(row[0]), nil
}

// notSession says what an error of proveSessions means: a pooler that refuses
// transactions, or that has no second session to give. ctx is the caller's.
func notSession(ctx context.Context, err error) error {
	var pg *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &pg) && strings.Contains(pg.Message, "transaction blocks not allowed"):
		return &Refused{"a pooler is in the way, in statement mode", sessionRemedy}
	case errors.Is(err, context.DeadlineExceeded):
		return &Refused{fmt.Sprintf("two connections do not get a session each within %s", provingTime), sessionRemedy}
	}
	return err
}
