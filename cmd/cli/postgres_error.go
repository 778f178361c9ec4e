// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/server/storage/postgres"
)

// SQLSTATEs of a connection that is refused.
const (
	codePassword     = "28P01"
	codeAuthority    = "28000"
	codeNoDatabase   = "3D000"
	codePrivilege    = "42501"
	codeTooMany      = "53300"
	codeClosed       = "55000"
	codeCannotYet    = "57P03"
	codeShuttingDown = "57P01"
)

// postgresError adds the exit code and what can be done.
func postgresError(v values, err error) error {
	open := func(err error) error { return fmt.Errorf("open %s: %w", v.storage(), err) }
	e := &Error{Code: exitFailed, Err: open(err)}
	var (
		locked  *storage.Locked
		refused *postgres.Refused
		misused *postgres.Misused
		nowhere *postgres.Unreached
	)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &locked):
		e.Code = exitBusy
		return e.hint("wait until that has ended, or stop it; --lock-wait of migrate waits longer")
	case errors.Is(err, storage.ErrConflict):
		e.Code = exitBusy
		return e.hint("somebody holds tables of the catalog: pg_stat_activity and pg_blocking_pids tell who; try again when they are done")
	case errors.Is(err, migrate.ErrPending):
		e.Code = exitRefused
		return e.hint("stop all servers of that database, and run: %s", v.sameStorage("extenddb migrate --yes"))
	case versionError(e, err):
		return e
	case errors.Is(err, postgres.ErrForeign):
		e.Code = exitRefused
		return e.hint("name another database; an empty one is initialised by serve")
	case errors.Is(err, storage.ErrCorrupt):
		return e.hint("change nothing in it: restore a dump (pg_dump) or backups into a new database, as docs/postgresql.md shows")
	case errors.As(err, &misused):
		e.Code, e.Err = exitUsage, open(errors.New(misused.Reason))
		if misused.Parameter != "" {
			return e.hint("correct or leave out the parameter %s%s", printable(misused.Parameter), nearest(misused.Parameter, postgres.Parameters()))
		}
		return e.hint("%s", misused.Remedy)
	case errors.As(err, &refused):
		e.Code, e.Err = exitRefused, open(errors.New(refused.Reason))
		if errors.Is(err, postgres.ErrDenied) {
			e.Code = exitDenied
		}
		return e.hint("%s", refused.Remedy)
	case errors.As(err, &nowhere):
		return unreachedError(e, nowhere)
	}
	return e
}

// unreachedError completes the error of a connection that was not made.
func unreachedError(e *Error, err *postgres.Unreached) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && refusedBy(e, pg, err.Target()) {
		return e
	}
	switch {
	case errors.Is(err, postgres.ErrNoTLS):
		e.Code = exitRefused
		return e.hint("turn TLS on in the database server (ssl = on), or do without its protection: sslmode=disable in the URL, or PGSSLMODE")
	case errors.Is(err, postgres.ErrCertificate):
		e.Code = exitRefused
		return e.hint("sslrootcert (PGSSLROOTCERT) names the file with the authority of the certificate, which must be made for the host of the URL")
	case errors.Is(err, postgres.ErrNoSuchHost):
		e.Code = exitBusy
		return e.hint("target_session_attrs (PGTARGETSESSIONATTRS) asks for another kind of server: extenddb needs the primary, which any and read-write find; after a failover try again")
	case pg != nil:
		return e
	}
	e.Code = exitBusy
	return e.hint("is PostgreSQL running there, and reachable? what postgres://USER@HOST:PORT/DATABASE leaves out comes from PGHOST, PGPORT, PGUSER, PGDATABASE; " +
		"where these are not set either: this machine, 5432, your name, and a database of the user's name")
}

// refusedBy completes the error of a database server that said why; it reports
// whether the reason is known.
func refusedBy(e *Error, pg *pgconn.PgError, t postgres.Target) bool {
	switch pg.Code {
	case codePassword, codeAuthority:
		e.Code = exitDenied
		e.Hint = "check user and password (PGUSER, PGPASSWORD, PGPASSFILE or ~/.pgpass), and what pg_hba.conf of the server allows"
	case codePrivilege:
		e.Code = exitDenied
		e.Hint = fmt.Sprintf("as an administrator: GRANT CONNECT ON DATABASE %s TO %s", quoteIdent(t.Database), quoteIdent(t.User))
	case codeNoDatabase:
		e.Code = exitNotFound
		e.Hint = "check the name; docs/postgresql.md tells how to make a database"
	case codeTooMany:
		e.Code = exitBusy
		e.Hint = "lower --postgres-pool of the servers on it, or raise max_connections, or the CONNECTION LIMIT of the role or the database"
	case codeClosed:
		e.Code = exitDenied
		e.Hint = fmt.Sprintf("somebody closed it; as an administrator, from another database: ALTER DATABASE %s ALLOW_CONNECTIONS true", quoteIdent(t.Database))
	case codeCannotYet, codeShuttingDown:
		e.Code = exitBusy
		e.Hint = "the database server is starting or stopping: try again"
	default:
		return false
	}
	return true
}

// quoteIdent is a name in SQL.
func quoteIdent(name string) string { return pgx.Identifier{name}.Sanitize() }
