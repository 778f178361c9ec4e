// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unicode"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/fs"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/backup"
)

// storeDir returns the directory of a store URL, absolute.
func storeDir(text string) (string, error) {
	if strings.HasPrefix(text, "sqlite:") {
		return "", errors.New("a database goes to --storage; a store is file:///DIRECTORY")
	}
	l, err := backupstore.ParseURL(text)
	if err != nil {
		return "", err
	}
	path := l.Path
	if runtime.GOOS == "windows" && len(path) > 2 && path[0] == '/' && path[2] == ':' {
		path = path[1:] // file:///C:/backups
	}
	if err := checkPath(path); err != nil {
		return "", err
	}
	return filepath.Abs(filepath.FromSlash(path))
}

// fileURL is the URL of an absolute directory.
func fileURL(dir string) string {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") { // C:/backups
		path = "/" + path
	}
	return backupstore.Location{Scheme: backupstore.SchemeFile, Path: path}.String()
}

func checkPath(dir string) error {
	switch {
	case strings.ContainsFunc(dir, unicode.IsControl):
		return errors.New("a directory cannot have a control character in its name")
	case strings.HasPrefix(dir, "~"), strings.HasPrefix(dir, "/~"):
		return errors.New("write the directory out, only a shell knows ~")
	}
	return nil
}

// checkDirectory is checkPath for what must not be a URL: it would be taken as
// the name of a directory in the working directory.
func checkDirectory(dir string) error {
	if scheme, _, ok := strings.Cut(dir, ":"); ok && (strings.Contains(dir, "://") || scheme == backupstore.SchemeFile) {
		return errors.New("must be a directory, not a URL, which store takes")
	}
	return checkPath(dir)
}

func checkStore(text string) error {
	if text == storeFilesystem {
		return nil
	}
	if text == "s3" {
		text = "s3:"
	}
	_, err := storeDir(text)
	return err
}

// storeFilesystem as the store stands for the path of [backup.filesystem].
const storeFilesystem = "filesystem"

// storeURL is the URL of the store that the settings name, absolute, because a
// server that is asked to use it has another working directory; "" when they
// name none.
func storeURL(v values) (string, error) {
	text, dir := v.text("backup.store"), v.text("backup.filesystem.path")
	switch {
	case text == "" && dir == "":
		return "", nil
	case text != "" && text != storeFilesystem:
		return absoluteURL(text)
	case dir == "":
		return "", usagef(`[backup.filesystem] with a path is required when store = "filesystem"`).
			hint("name the directory there, or a URL with --store file:///DIRECTORY")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the store: %w", err)
	}
	return fileURL(dir), nil
}

func absoluteURL(text string) (string, error) {
	dir, err := storeDir(text)
	if err != nil {
		return "", usagef("store %q: %w", text, err)
	}
	return fileURL(dir), nil
}

// wantStore is storeURL for a command that needs one.
func wantStore(v values) (string, error) {
	u, err := storeURL(v)
	if err == nil && u == "" {
		return "", usagef("backups are not configured: no store is named").
			hint("name one with --store file:///DIRECTORY, or as store in section [backup] of the configuration file")
	}
	return u, err
}

// openStore opens the store of an absolute URL. It is never created here.
func openStore(log *slog.Logger, text string) (*fs.Store, error) {
	dir, err := storeDir(text)
	if err != nil {
		return nil, usagef("store %q: %w", text, err)
	}
	s, err := fs.Open(fs.Options{Root: dir, Log: log})
	if err != nil {
		return nil, storeError(text, err)
	}
	return s, nil
}

// storeOpener is openStore for the functions that open stores themselves.
func storeOpener(log *slog.Logger) func(context.Context, string) (backupstore.Store, error) {
	return func(_ context.Context, text string) (backupstore.Store, error) {
		s, err := openStore(log, text)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// storeError adds the exit code and what can be done, for this process and for
// whoever has a server open the store.
func storeError(text string, err error) error {
	unusable := errors.Is(err, backupstore.ErrUnusable)
	e := &backup.Error{Code: backup.NotFound, Err: err}
	switch {
	case errors.Is(err, backupstore.ErrPermission):
		e.Code, e.Hint = backup.Denied, "this tells what is possible there: extenddb store check "+shown(text, "URL")
		if unusable { // which that could not even begin with
			e.Hint = "run the command as a user who may enter and read the directory"
		}
	case !unusable:
		return err
	case isFile(text):
		e.Hint = "name a directory"
	default:
		e.Hint = "check the name, and that its file system is mounted; this makes a new, empty store: extenddb store init " + shown(text, "URL")
	}
	return e
}

// isFile reports whether a store URL names something that is no directory, or
// is below such.
func isFile(text string) bool {
	dir, err := storeDir(text)
	if err != nil {
		return false
	}
	info, err := os.Stat(dir)
	return err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR)
}

// limits are those of the settings.
func limits(v values) backup.Limits {
	return backup.Limits{
		MaxManifest: v.bytes("backup.max_manifest_bytes"),
		TargetBytes: v.bytes("backup.data_file_target_bytes"),
		Read: format.ReadLimits{
			MaxLine:  v.bytes("backup.max_line_bytes"),
			MaxPlain: v.bytes("backup.max_data_file_uncompressed_bytes"),
		},
	}
}
