// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// Times of connections. One whose network has gone silent is given up when
// lostAfter has passed, on both sides: a server that cannot be reached any more
// must not hold locks for hours.
const (
	connectTimeout = 10 * time.Second
	pingTimeout    = 5 * time.Second // of one that rested, before it is used
	pingAfter      = time.Second     // of rest
	lifeJitter     = 6 * time.Minute // so that they do not all end at once
	lostAfter      = 30 * time.Second
	probeIdle      = 15 * time.Second
	probeEvery     = 5 * time.Second
	probeCount     = 3
)

// Nobody waits for a lock for longer than lockTime, unless it says so in its
// transaction: what others hold must not take the whole pool. And no
// transaction stands still for longer than idleTime, but those that wait for
// whoever reads: the database ends that of a server that is frozen, and with it
// its locks.
const (
	lockTime = 2 * time.Second
	idleTime = 10 * time.Second
)

// mayIdle lets a transaction stand still that only reads.
const mayIdle = "SET LOCAL idle_in_transaction_session_timeout = 0"

// Refused is a database that cannot be used as it is, and what to do about it.
type Refused struct{ Reason, Remedy string }

func (e *Refused) Error() string { return e.Reason + ": " + e.Remedy }

// Unwrap returns storage.ErrUnsupported.
func (e *Refused) Unwrap() error { return storage.ErrUnsupported }

// configure makes the settings of the pool. No error of it holds a password.
func configure(o *Options) (*pgxpool.Config, error) {
	plain, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, unsecret(o.URL, err)
	}
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, unsecret(o.URL, err)
	}
	switch _, given := plain.RuntimeParams["pool_max_conns"]; {
	case o.MaxConns > 0:
		cfg.MaxConns = int32(o.MaxConns)
	case !given:
		cfg.MaxConns = int32(max(4*runtime.NumCPU(), 16))
	}
	if cfg.MaxConns < minConns {
		return nil, &Misused{Refused: &Refused{fmt.Sprintf("a pool of %d connections is too small", cfg.MaxConns),
			fmt.Sprintf("give it %d at least", minConns)}}
	}
	cfg.AfterConnect = prepareConn
	cfg.ShouldPing = isSuspect
	cfg.BeforeConnect = cancelOnServer
	cfg.PingTimeout = cmp.Or(cfg.PingTimeout, pingTimeout)
	cfg.MaxConnLifetimeJitter = cmp.Or(cfg.MaxConnLifetimeJitter, lifeJitter)
	c := cfg.ConnConfig
	switch c.DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol: // values come as text then
		return nil, &Misused{Refused: &Refused{"the connection string asks for default_query_exec_mode " + c.DefaultQueryExecMode.String(),
			"leave that out, or use cache_statement, cache_describe or describe_exec"}}
	}
	if o.StatementCache > 0 {
		c.StatementCacheCapacity = o.StatementCache
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	dialer := net.Dialer{
		Timeout: c.ConnectTimeout, Control: dialControl,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeIdle, Interval: probeEvery, Count: probeCount},
	}
	c.DialFunc = dialer.DialContext
	if path := exposed(o.URL, &c.Config); path != "" {
		o.Log.Warn("others can read the password file: take their rights away (chmod 600)", "path", path)
	}
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "extenddb")
	return cfg, nil
}

// isSuspect tells connections that are to be tried before they are used: those
// that rested, or through which something came unasked. That is most often their
// end, and who finds it out by writing does not know whether it was written.
func isSuspect(_ context.Context, p pgxpool.ShouldPingParams) bool {
	if p.IdleDuration > pingAfter {
		return true
	}
	w := wireOf(p.Conn)
	return w != nil && w.cameUnasked()
}

// cameUnasked reports whether there is something to read, or an end.
func (w *wire) cameUnasked() bool {
	c, ok := w.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	return err != nil || cameUnasked(raw)
}

// minConns is what the checks at the start need, and a snapshot beside a request.
const minConns = 2

// setUp is sent on each new connection, as one simple query: statements of
// their own, since poolers refuse most settings at the start of a connection.
// Read committed is what the guard needs (see the package comment); other limits
// of the role or the database would end snapshots, builds and loads; an
// acknowledged write is durable.
func setUp() string {
	return fmt.Sprintf(`SET statement_timeout = 0; SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
SET search_path = pg_catalog; SET client_encoding = 'UTF8'; SET jit = off;
`+planner+`
SET tcp_keepalives_idle = %d; SET tcp_keepalives_interval = %d; SET tcp_keepalives_count = %d; SET tcp_user_timeout = %d;
SET lock_timeout = %d; SET idle_in_transaction_session_timeout = %d;
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout');
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off' `,
		int(probeIdle.Seconds()), int(probeEvery.Seconds()), probeCount, lostAfter.Milliseconds(),
		lockTime.Milliseconds(), idleTime.Milliseconds())
}

// proveSetUp is a query of its own: a transaction keeps the level that it began
// with, and the statements of one simple query are one.
const proveSetUp = `SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'),
  current_setting('synchronous_commit'), pg_is_in_recovery()`

// prepareConn sets a new connection up and proves it.
func prepareConn(ctx context.Context, c *pgx.Conn) error {
	version := c.PgConn().ParameterStatus("server_version")
	if n, err := strconv.Atoi(leadingDigits(version)); err == nil && n < oldest {
		return &Refused{"the database server is PostgreSQL " + version, fmt.Sprintf("version %d or newer is needed", oldest)}
	}
	if _, err := c.PgConn().Exec(ctx, setUp()).ReadAll(); err != nil {
		return fmt.Errorf("%w: set up the connection: %w", storage.ErrUnavailable, err)
	}
	got, err := simpleRow(ctx, c, proveSetUp, 4)
	if err != nil {
		return err
	}
	const remedy = "a pooler or proxy changes what is set; connect to the database itself"
	switch level, readOnly, commit := string(got[0]), string(got[1]), string(got[2]); {
	case string(got[3]) == "t":
		return standby()
	case level != "read committed":
		return &Refused{fmt.Sprintf("the connection is in isolation level %q and cannot be set to read committed", level), remedy}
	case readOnly != "off":
		return &Refused{"the connection is read-only and cannot be set to read-write", remedy}
	case commit == "off":
		return &Refused{"the connection has synchronous_commit off and cannot be set to on", remedy}
	}
	return nil
}

func leadingDigits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

// simpleRow runs a simple query, which no pooler and no cache of statements
// stands in the way of, and returns its row of n columns.
func simpleRow(ctx context.Context, c *pgx.Conn, sql string, n int) ([][]byte, error) {
	results, err := c.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: check the connection: %w", storage.ErrUnavailable, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != n {
		return nil, &Refused{"the connection does not answer as PostgreSQL does", "connect to the database itself"}
	}
	return results[0].Rows[0], nil
}

func standby() error {
	return &Refused{"the database server is a standby, which is read-only",
		"connect to the primary; with several hosts in the connection string add target_session_attrs=read-write"}
}
