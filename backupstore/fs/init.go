// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/extenddb/extenddb/backupstore"
)

// Init makes a directory a store: it creates it and what is missing above it,
// for its owner only, or takes one that is empty or was initialised before.
// ErrUnusable, ErrPermission, *IOError.
func Init(path string) (err error) {
	if path == "" {
		return &backupstore.UnusableError{Text: "no backup root is given"}
	}
	op := "create backup root " + path
	if path, err = filepath.Abs(path); err != nil {
		return failure(op, err)
	}
	if err := makeAll(path); err != nil {
		return failure(op, err)
	}
	s, err := Open(Options{Root: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = s.root.lstat(lockName)
	if errors.Is(err, fs.ErrNotExist) {
		err = initEmpty(s)
	}
	return failure(op, err)
}

// initEmpty leaves the lock file in the root: it tells a store from any other
// directory.
func initEmpty(s *Store) error {
	entries, err := s.root.entries()
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return &backupstore.UnusableError{Text: fmt.Sprintf("directory %s is not empty and was not initialised as a backup store; "+
			"choose another (a store that holds backups already needs no init)", s.path)}
	}
	f, err := s.root.create(lockName)
	if err != nil {
		return err
	}
	return errors.Join(f.sync(), f.close(), s.root.sync())
}

// makeAll creates a directory and what is missing above it, durably.
func makeAll(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return notDirectory(path)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(path)
	if err := makeAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}
