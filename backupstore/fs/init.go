// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/extenddb/extenddb/backupstore"
)

// Init makes a directory a store: it creates it, for its owner only, or takes
// one that is empty or was initialised before. The directory above must be
// there: the path of a file system that is not mounted makes no store on
// another. ErrUnusable, ErrPermission, *IOError.
func Init(path string) (err error) {
	if path == "" {
		return &backupstore.UnusableError{Text: "no backup root is given"}
	}
	op := "create store " + path
	if path, err = filepath.Abs(path); err != nil {
		return failure(op, err)
	}
	if err := makeRoot(path); err != nil {
		return failure(op, err)
	}
	s, err := openDir(Options{Root: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	marked, err := s.isMarked()
	if err == nil && !marked {
		err = initEmpty(s)
	}
	return failure(op, err)
}

// initEmpty leaves in an empty root what tells a store from any other
// directory.
func initEmpty(s *Store) error {
	entries, err := s.root.entries()
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.mode.IsDir() && e.name == lostFound })
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

// makeRoot creates a directory, durably, unless it is there.
func makeRoot(path string) error {
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
	err = os.Mkdir(path, dirMode)
	switch {
	case errors.Is(err, fs.ErrExist): // made meanwhile
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &backupstore.UnusableError{Text: "directory " + parent + " does not exist"}
	case err != nil:
		return err
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}
