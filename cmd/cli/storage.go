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
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// sqlitePath returns the file of a sqlite: URL. "sqlite:///a/b" and
// "sqlite:/a/b" are absolute, "sqlite:a" and "sqlite://a" relative,
// "sqlite::memory:" is a private temporary database.
func sqlitePath(url string) (string, error) {
	rest, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		scheme, _, found := strings.Cut(url, ":")
		switch {
		case url == "":
			return "", errors.New("names no database; sqlite:FILE does")
		case scheme == "file" || scheme == "s3":
			return "", errors.New("backups go to --store; a database is sqlite:FILE")
		case url == sqlite.Memory || !found:
			return "", fmt.Errorf("must begin with the engine, as in %q", "sqlite:"+url)
		}
		return "", fmt.Errorf("engine %q is not available in this version; sqlite is", scheme)
	}
	rest = strings.TrimPrefix(rest, "//")
	switch {
	case rest == "":
		return "", errors.New("names no file")
	case strings.ContainsRune(rest, 0):
		return "", errors.New("holds a NUL byte")
	case strings.ContainsAny(rest, "?#"):
		return "", errors.New("takes no parameters")
	}
	return rest, nil
}

func checkStorage(url string) error {
	_, err := sqlitePath(url)
	return err
}

// backend is the kind of the one engine there is, as backups name it.
const backend = "sqlite"

// openStorage opens the engine the settings name; socket is where this process
// is administered, if anywhere.
func openStorage(ctx context.Context, v values, log *slog.Logger, socket string) (storage.Engine, error) {
	path, err := sqlitePath(v.text("storage.url"))
	if err != nil {
		return nil, err
	}
	synchronous := sqlite.Full
	if v.text("storage.sqlite.synchronous") == "normal" {
		synchronous = sqlite.Normal
	}
	db, err := sqlite.Open(ctx, sqlite.Options{
		Path:        path,
		Synchronous: synchronous,
		Readers:     v.integer("storage.sqlite.readers"),
		Mmap:        v.bytes("storage.sqlite.mmap_size"),
		AdminSocket: socket,
		Clock:       clock.Real{},
		Log:         log,
	})
	if err != nil {
		return nil, openError(path, err)
	}
	return db, nil
}

// openError adds the exit code and what can be done.
func openError(path string, err error) error {
	var locked *storage.Locked
	e := &Error{Code: exitFailed, Err: err}
	switch {
	case errors.As(err, &locked):
		e.Code = exitBusy
		return e.hint("stop that server, or wait for that command; or serve another file with --storage sqlite:FILE")
	case errors.Is(err, migrate.ErrNewer):
		return e.hint("use the version of extenddb that wrote the file, or a newer one")
	case errors.Is(err, sqlite.ErrForeign):
		return e.hint("choose another file with --storage sqlite:FILE; serve makes one that is not there")
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(path, "~"):
		return e.hint("write the path out, only a shell knows ~")
	case errors.Is(err, fs.ErrNotExist):
		return e.hint("create the directory first: mkdir -p %s", filepath.Dir(path))
	case errors.Is(err, fs.ErrPermission):
		e.Code = exitDenied
		return e.hint("the file, its %s.lock and their directory must be writable for this user", filepath.Base(path))
	case errors.Is(err, storage.ErrCorrupt):
		return e.hint("keep the file with its -wal and -shm as they are, and serve a copy or a backup")
	}
	return e
}

func splitAddr(s string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(s)
	if err != nil {
		return "", "", errors.New("must be HOST:PORT, as in 127.0.0.1:8000")
	}
	return host, port, nil
}
