// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/server/storage/postgres"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// The engines, as URLs and backups name them.
const (
	backendSQLite   = "sqlite"
	backendPostgres = "postgres"
)

// database is what a storage URL names.
type database struct {
	backend string
	path    string // of SQLite's file
	url     string // of a PostgreSQL database
}

// memory reports whether it is of the one process that makes it.
func (d database) memory() bool { return d.path == sqlite.Memory }

// parseStorage reads a storage URL. Its errors leave the URL out, which may hold
// a password.
func parseStorage(url string) (database, error) {
	scheme, _, found := strings.Cut(url, ":")
	switch {
	case scheme == "sqlite" && found:
		path, err := sqlitePath(url)
		return database{backend: backendSQLite, path: path}, err
	case (scheme == "postgres" || scheme == "postgresql") && found:
		u, err := postgresURL(url)
		return database{backend: backendPostgres, url: u}, err
	case url == "":
		return database{}, errors.New("names no database; sqlite:FILE or postgres://HOST/DATABASE does")
	case scheme == "file" || scheme == "s3":
		return database{}, errors.New("backups go to --store; a database is sqlite:FILE or postgres://HOST/DATABASE")
	case url == sqlite.Memory || !found && !strings.Contains(url, "=") && !strings.Contains(url, "//") && url != backendPostgres:
		return database{}, fmt.Errorf("must begin with the engine, as in %q", "sqlite:"+url)
	case !found || strings.Contains(scheme, "="): // "host=db password=x", "postgres//db"
		return database{}, errors.New("must begin with the engine, as in postgres://USER@HOST/DATABASE")
	}
	return database{}, fmt.Errorf("engine %q is not available in this version; sqlite and postgres are", scheme)
}

// sqlitePath returns the file of a sqlite: URL. "sqlite:///a/b" and
// "sqlite:/a/b" are absolute, "sqlite:a" and "sqlite://a" relative,
// "sqlite::memory:" is a private temporary database.
func sqlitePath(url string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(url, "sqlite:"), "//")
	switch {
	case path == "":
		return "", errors.New("names no file")
	case strings.ContainsRune(path, 0):
		return "", errors.New("holds a NUL byte")
	case isPostgres(path):
		return "", errors.New("names a PostgreSQL database; leave the sqlite: before it out")
	case strings.ContainsAny(path, "?#"):
		return "", errors.New("takes no parameters")
	}
	return path, nil
}

func checkStorage(url string) error {
	_, err := parseStorage(url)
	return err
}

// database is what the settings name.
func (v values) database() (database, error) { return parseStorage(v.text("storage.url")) }

// masked is the URL of the database, without its password.
func (v values) masked() string { return maskPassword(v.text("storage.url")) }

// storage names the database for people: as masked does, and where that leaves
// something out, what it leads to.
func (v values) storage() string {
	text := v.masked()
	t, ok := v.target()
	if !ok {
		return text
	}
	plain, _, _ := strings.Cut(text, "?")
	_, plain, _ = strings.Cut(plain, "://")
	hosts := strings.Join(t.Hosts, ",")
	for _, h := range []string{hosts, strings.ReplaceAll(hosts, ":5432", "")} {
		if strings.Replace(plain, ":***@", "@", 1) == t.User+"@"+h+"/"+t.Database {
			return text
		}
	}
	return fmt.Sprintf("%s (database %s, user %s, at %s)", text, t.Database, t.User, hosts)
}

// target is where the URL of a PostgreSQL database leads.
func (v values) target() (t postgres.Target, ok bool) {
	d, err := v.database()
	if err == nil && d.backend == backendPostgres {
		t, err = postgres.Resolve(d.url)
		return t, err == nil
	}
	return t, false
}

// opened is a database that this process has open.
type opened struct {
	storage.Engine
	clock   clock.Clock // of the instants in it
	backend string
	isNew   bool // PostgreSQL: it was empty, and was initialised
}

// openStorage opens the database the settings name; socket is where this process
// is administered, if anywhere.
func (a *App) openStorage(ctx context.Context, v values, log *slog.Logger, socket string) (opened, error) {
	d, err := v.database()
	switch {
	case err != nil:
		return opened{}, err
	case d.backend == backendPostgres:
		return a.openPostgres(ctx, v, d, log)
	}
	o := sqliteOptions(v, d, log)
	o.AdminSocket = socket
	db, err := sqlite.Open(ctx, o)
	if err != nil {
		return opened{}, openError(d.path, err)
	}
	return opened{Engine: db, clock: clock.Real{}, backend: backendSQLite}, nil
}

func sqliteOptions(v values, d database, log *slog.Logger) sqlite.Options {
	synchronous := sqlite.Full
	if v.text("storage.sqlite.synchronous") == "normal" {
		synchronous = sqlite.Normal
	}
	return sqlite.Options{
		Path:        d.path,
		Synchronous: synchronous,
		Readers:     v.integer("storage.sqlite.readers"),
		Mmap:        v.bytes("storage.sqlite.mmap_size"),
		Clock:       clock.Real{},
		Log:         log,
	}
}

// openError adds the exit code and what can be done.
func openError(path string, err error) error {
	var locked *storage.Locked
	e := &Error{Code: exitFailed, Err: err}
	switch {
	case errors.As(err, &locked):
		e.Code = exitBusy
		return e.hint("stop that server, or wait for that command; or serve another file with --storage sqlite:FILE")
	case errors.Is(err, sqlite.ErrNoSpace):
		e.Code = exitRefused
		return e.hint("make room there; or keep a copy elsewhere yourself, and run: extenddb migrate --yes --no-copy --storage %s", shown("sqlite:"+path, "sqlite:FILE"))
	case errors.Is(err, sqlite.ErrFull):
		return e.hint("make room there, and run the command again")
	case errors.Is(err, sqlite.ErrKept):
		e.Code = exitRefused
		return e.hint("copy it under another name, and use that; or serve it with the older version of extenddb")
	case versionError(e, err):
		return e
	case errors.Is(err, sqlite.ErrLinked):
		e.Code = exitRefused
		return e.hint("use a file that has one name, in a directory of its own")
	case errors.Is(err, sqlite.ErrForeign):
		e.Code = exitRefused
		return e.hint("choose another file with --storage sqlite:FILE; serve makes one that is not there")
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(path, "~"):
		return e.hint("write the path out, only a shell knows ~")
	case errors.Is(err, fs.ErrNotExist):
		return e.hint("create the directory first: mkdir -p %s", shown(filepath.Dir(path), "DIRECTORY"))
	case errors.Is(err, fs.ErrPermission):
		e.Code = exitDenied
		return e.hint("the file, its %s.lock and their directory must be writable for this user", filepath.Base(path))
	case errors.Is(err, storage.ErrCorrupt):
		return e.hint("keep the file with its -wal and -shm as they are, and serve a copy or a backup")
	}
	return e
}

// versionError completes the error of a database that belongs to another program
// than this one; it reports whether err is such.
func versionError(e *Error, err error) bool {
	switch {
	case errors.Is(err, migrate.ErrNewer):
		e.Hint = "use the version of extenddb that migrated the database, or a newer one"
	case errors.Is(err, migrate.ErrEdited):
		e.Hint = "use the version of extenddb that wrote the database: this one was built from other migrations"
	default:
		return false
	}
	e.Code = exitRefused
	return true
}

func splitAddr(s string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(s)
	if err != nil {
		return "", "", errors.New("must be HOST:PORT, as in 127.0.0.1:8000")
	}
	return host, port, nil
}
