// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/server/storage/postgres"
)

// postgresURL returns the connection URL of a storage URL: what it leaves out
// comes from the PG* variables, all of it with "postgres:". The URL may hold a
// password, so no error repeats any of it.
func postgresURL(text string) (string, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	switch {
	case rest == "":
		return scheme + "://", nil
	case !strings.HasPrefix(rest, "//"):
		return "", errors.New("must be postgres://USER@HOST:PORT/DATABASE, or postgres: alone, which takes all of it from the PG* variables")
	case strings.ContainsRune(rest, 0):
		return "", errors.New("holds a NUL byte")
	}
	if _, err := url.Parse(text); err != nil {
		return "", errors.New("is no URL; in user and password, / is written %2F, ? is %3F, # is %23, @ is %40, % is %25 and a space is %20")
	}
	return text, nil
}

// maskPassword hides the password of a connection string, if it holds one, also
// where a piece of it makes the string unreadable.
func maskPassword(text string) string {
	if scheme, _, _ := strings.Cut(text, ":"); scheme == "sqlite" || scheme == "file" {
		return text
	}
	head, rest, ok := strings.Cut(text, "://")
	if ok {
		head += "://"
	} else if head, rest, ok = strings.Cut(text, ":"); ok {
		head += ":"
	} else {
		head, rest = "", text
	}
	end := len(rest)
	if i := strings.IndexByte(rest, '?'); i >= 0 && strings.Contains(rest[:i], "@") {
		end = i // an @ behind it belongs to a parameter
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		if user, _, has := strings.Cut(rest[:at], ":"); has {
			rest = user + ":***" + rest[at:]
		}
	}
	return maskParameters(head + rest)
}

// maskParameters hides what follows "password=".
func maskParameters(text string) string {
	const word = "password"
	var out strings.Builder
	for {
		i := strings.Index(strings.ToLower(text), word)
		if i < 0 {
			return out.String() + text
		}
		i += len(word)
		out.WriteString(text[:i])
		text = text[i:]
		if trimmed := strings.TrimLeft(text, " "); strings.HasPrefix(trimmed, "=") {
			value := strings.TrimLeft(trimmed[1:], " ")
			end := strings.IndexAny(value, "& ")
			if strings.HasPrefix(value, "'") || end < 0 {
				end = len(value)
			}
			out.WriteString("=***")
			text = value[end:]
		}
	}
}

func postgresOptions(v values, d database, program string, log *slog.Logger) postgres.Options {
	return postgres.Options{
		URL:            d.url,
		MaxConns:       v.integer("storage.postgres.pool"),
		AcquireTimeout: v.duration("storage.postgres.acquire_timeout"),
		StatementCache: v.integer("storage.postgres.statement_cache"),
		Program:        program,
		Clock:          clock.Real{},
		Log:            log,
	}
}

func (a *App) openPostgres(ctx context.Context, v values, d database, log *slog.Logger) (opened, error) {
	db, err := postgres.Open(ctx, postgresOptions(v, d, a.Build.complete().Version, log))
	if err != nil {
		return opened{}, postgresError(v.storage(), err)
	}
	return opened{db, db.Clock(), backendPostgres}, nil
}

// SQLSTATEs of a connection that is refused.
const (
	codePassword     = "28P01"
	codeAuthority    = "28000"
	codeNoDatabase   = "3D000"
	codePrivilege    = "42501"
	codeTooMany      = "53300"
	codeCannotYet    = "57P03"
	codeShuttingDown = "57P01"
)

// postgresError adds the exit code and what can be done; shown is the URL as it
// may be shown.
func postgresError(shown string, err error) error {
	e := &Error{Code: exitFailed, Err: fmt.Errorf("open %s: %w", shown, err)}
	var (
		locked  *storage.Locked
		refused *postgres.Refused
		pg      *pgconn.PgError
		connect *pgconn.ConnectError
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
		return e.hint("stop all servers of that database, and run: extenddb migrate --storage %s --yes", shown)
	case versionError(e, err):
		return e
	case errors.Is(err, postgres.ErrForeign):
		return e.hint("name another database; an empty one is initialised by serve")
	case errors.As(err, &pg) && refusedBy(e, pg, err):
		return e
	case errors.As(err, &refused):
		e.Err = fmt.Errorf("open %s: %s", shown, refused.Reason)
		if strings.HasPrefix(refused.Reason, "the connection string") {
			e.Code = exitUsage
		}
		return e.hint("%s", refused.Remedy)
	case errors.As(err, &connect):
		return e.hint("is PostgreSQL running there, and reachable? the URL is postgres://USER@HOST:PORT/DATABASE; what it leaves out comes from PGHOST, PGPORT, PGUSER, PGDATABASE and the like")
	}
	return e
}

// refusedBy completes the error of a database server that said why; it reports
// whether the reason is known.
func refusedBy(e *Error, pg *pgconn.PgError, err error) bool {
	switch pg.Code {
	case codePassword, codeAuthority:
		e.Code = exitDenied
		e.Hint = "check user and password (PGUSER, PGPASSWORD, PGPASSFILE or ~/.pgpass), and what pg_hba.conf of the server allows"
	case codePrivilege:
		e.Code = exitDenied
		e.Hint = "the role needs to make schemas and tables in that database, or schemas made for it: docs/postgresql.md"
	case codeNoDatabase:
		e.Code = exitNotFound
		e.Hint = "make it with: createdb " + cmp.Or(databaseOf(err), "DATABASE")
	case codeTooMany:
		e.Code = exitBusy
		e.Hint = "the server has no connection left: lower --postgres-pool of the servers on it, or raise its max_connections"
	case codeCannotYet, codeShuttingDown:
		e.Code = exitBusy
		e.Hint = "the database server is starting or stopping: try again"
	default:
		return false
	}
	return true
}

// databaseOf is the name of the database that a connection wanted.
func databaseOf(err error) string {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) || connect.Config == nil {
		return ""
	}
	return connect.Config.Database
}

// initialised returns an error unless the database holds a catalog.
func (a *App) initialised(ctx context.Context, v values, d database) error {
	p, err := postgres.Plan(ctx, postgresOptions(v, d, a.Build.complete().Version, a.commandLog(v)))
	switch {
	case err != nil:
		return postgresError(v.storage(), err)
	case p.From == 0:
		return (&Error{Code: exitNotFound, Err: fmt.Errorf("database %s is empty", v.storage())}).
			hint("name another with --storage; serve, migrate or a restore initialises an empty one")
	}
	return nil
}
