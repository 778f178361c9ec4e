// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/extenddb/extenddb/server/clock"
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
		return opened{}, postgresError(v, err)
	}
	return opened{db, db.Clock(), backendPostgres, db.Info().New}, nil
}

// initialised returns an error unless the database holds a catalog.
func (a *App) initialised(ctx context.Context, v values, d database) error {
	// What there is to warn of is told when the database is opened for the work.
	p, err := postgres.Plan(ctx, postgresOptions(v, d, a.Build.complete().Version, slog.New(slog.DiscardHandler)))
	switch {
	case err != nil:
		return postgresError(v, err)
	case p.From == 0:
		return (&Error{Code: exitNotFound, Err: fmt.Errorf("database %s is empty", v.storage())}).
			hint("name another with --storage; serve, migrate or a restore initialises an empty one")
	}
	return nil
}
