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
	case !isPostgresURL(rest[2:]):
		return "", errors.New("is no URL; in user and password, / is written %2F, ? is %3F, # is %23, @ is %40, % is %25 and a space is %20")
	}
	return text, nil
}

// isPostgresURL reports whether what follows "postgres://" is what libpq takes
// for a URL, in which hosts may be paths that are written with %2F. A raw @ in
// hosts or database comes from a password: it would be taken for a host, and
// shown.
func isPostgresURL(rest string) bool {
	if _, err := url.PathUnescape(rest); err != nil || strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return false
	}
	if at := strings.IndexAny(rest, "@/"); at >= 0 && rest[at] == '@' {
		rest = rest[at+1:]
	}
	rest, _, _ = strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(hosts+path, "@#") {
		return false
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if strings.HasPrefix(host, "[") {
			closed := false
			if _, host, closed = strings.Cut(host, "]"); !closed || host != "" && host[0] != ':' {
				return false
			}
		}
		if _, port, _ := strings.Cut(host, ":"); strings.Trim(port, "0123456789") != "" {
			return false
		}
	}
	return true
}

// maskPassword hides the password of a connection string, if it holds one, also
// where a piece of it makes the string unreadable.
func maskPassword(text string) string {
	if scheme, rest, _ := strings.Cut(text, ":"); scheme == "sqlite" || scheme == "file" {
		if isPostgres(strings.TrimLeft(rest, "/")) {
			return scheme + ":" + maskPassword(rest)
		}
		return text
	}
	head, rest, ok := strings.Cut(text, "://")
	if ok {
		head += "://"
	} else if head, rest, ok = strings.Cut(text, ":"); ok && isPostgres(text) && strings.Contains(rest, ":") {
		head += ":"
	} else { // "user:password@host" perhaps
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
	} else if user, port, has := strings.Cut(rest, ":"); has && strings.HasSuffix(head, "://") && !strings.HasPrefix(rest, "[") {
		if end := strings.IndexAny(port+"/", ",/?"); strings.Trim(port[:end], "0123456789") != "" { // who forgets the host
			rest = user + ":***" + port[end:]
		}
	}
	return maskParameters(head + rest)
}

// isPostgres reports whether a text begins as the URL of a PostgreSQL database.
func isPostgres(text string) bool {
	return strings.HasPrefix(text, "postgres:") || strings.HasPrefix(text, "postgresql:")
}

// maskParameters hides what follows "password=", however that is written.
func maskParameters(text string) string {
	const word = "password"
	if head, query, ok := strings.Cut(text, "?"); ok && strings.Contains(query, "%") {
		pairs := strings.Split(query, "&")
		for i, pair := range pairs {
			name, _, _ := strings.Cut(pair, "=")
			if plain, err := url.PathUnescape(name); err == nil && plain != name && strings.Contains(strings.ToLower(plain), word) {
				pairs[i] = name + "=***"
			}
		}
		text = head + "?" + strings.Join(pairs, "&")
	}
	var out strings.Builder
	for {
		i := indexFold(text, word)
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

// indexFold is strings.Index for ASCII letters of any case. A lower-case copy may
// have other places than the text, whose other letters can be of any length.
func indexFold(text, word string) int {
	for i := range max(len(text)-len(word)+1, 0) {
		if strings.EqualFold(text[i:i+len(word)], word) {
			return i
		}
	}
	return -1
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
