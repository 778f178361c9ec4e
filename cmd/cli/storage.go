// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
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

// openStorage opens the engine the settings name.
func openStorage(ctx context.Context, v values, log *slog.Logger) (storage.Engine, error) {
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
		Clock:       clock.Real{},
		Log:         log,
	})
	var locked *storage.Locked
	if errors.As(err, &locked) {
		return nil, (&Error{Code: exitBusy, Err: err}).
			hint("stop that server, or serve another file with --storage sqlite:FILE")
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

func splitAddr(s string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(s)
	if err != nil {
		return "", "", errors.New("must be HOST:PORT, as in 127.0.0.1:8000")
	}
	return host, port, nil
}
