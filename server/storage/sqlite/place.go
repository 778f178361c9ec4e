// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/extenddb/extenddb/server/storage"
)

// maxLinks bounds a chain of symbolic links.
const maxLinks = 40

// resolve makes the path of the database absolute and follows links, also to a
// file that is still to be made, so that two names of one file share one lock.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find database: %w", err)
	}
	for range maxLinks {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real, nil
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", fmt.Errorf("find database: %w", err)
		}
		path = filepath.Join(dir, filepath.Base(path))
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // no link: a new file
		}
		if path = target; !filepath.IsAbs(target) {
			path = filepath.Join(dir, target)
		}
	}
	return "", fmt.Errorf("find database: too many links at %s", path)
}

// makeFile makes an empty file, for its owner's eyes only as SQLite would not,
// unless there is one; it refuses what cannot be a database.
func makeFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
			return nil, fmt.Errorf("make database: %w", err)
		}
		info, err = f.Stat()
		err = errors.Join(err, f.Close()) // before SQLite knows the file
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("find database: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: no regular file", ErrForeign)
	case names(info) > 1:
		return nil, fmt.Errorf("%w: it has hard links", ErrLinked)
	case isMounted(path):
		return nil, fmt.Errorf("%w: it is mounted by itself; mount its directory instead", ErrLinked)
	}
	return info, nil
}

// isMounted reports whether a file is a mount point, as in "docker run -v
// FILE:FILE". Only Linux has such, and tells.
func isMounted(path string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	path = strings.ReplaceAll(path, " ", `\040`)
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}

// fileID is a file and the name it must keep.
type fileID struct {
	path string
	info fs.FileInfo
}

// inPlace returns an ErrUnavailable when the database or its lock is no longer
// found under its name: what is written then would be lost, or another server
// owns the database by now.
func (db *DB) inPlace() error {
	for _, f := range db.files {
		info, err := os.Stat(f.path)
		if err == nil && !os.SameFile(info, f.info) {
			err = errors.New("another file is there")
		}
		if err != nil {
			return fmt.Errorf("%w: %s was removed or replaced while the server runs, put it back or stop the server: %w",
				storage.ErrUnavailable, f.path, err)
		}
	}
	return nil
}
