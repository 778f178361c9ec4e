// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
	if err := checkCompanion(path); err != nil {
		return nil, err
	}
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
	return info, checkHeader(path, info)
}

// checkCompanion refuses the name of a file that belongs to another database:
// the log of one that is in use may well be empty, and a new database in it
// would be the end of both.
func checkCompanion(path string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal", lockSuffix} {
		db, ok := strings.CutSuffix(path, suffix)
		if !ok {
			continue
		}
		if info, err := os.Stat(db); err == nil && info.Mode().IsRegular() {
			return fmt.Errorf("%w: the file of that name belongs to %s", ErrForeign, db)
		}
	}
	return nil
}

// sqliteHeader begins every database file.
const sqliteHeader = "SQLite format 3\x00"

// checkHeader refuses a file that is neither empty nor a SQLite database. SQLite
// itself takes a file of a few bytes for an empty database, and overwrites it.
func checkHeader(path string, info fs.FileInfo) error {
	if info.Size() == 0 {
		return nil
	}
	if _, err := os.Lstat(path + "-journal"); err == nil {
		return nil // it was being made when the power went: SQLite restores it
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	header := make([]byte, len(sqliteHeader))
	_, err = io.ReadFull(f, header)
	if err = errors.Join(err, f.Close()); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read database: %w", err)
	}
	if !bytes.Equal(header, []byte(sqliteHeader)) {
		return fmt.Errorf("%w: the file holds something else", ErrForeign)
	}
	return nil
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
