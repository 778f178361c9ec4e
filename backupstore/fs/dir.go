// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

// Op names an operation on the file system, for Options.Hook.
type Op string

// The operations on the file system.
const (
	OpLstat   Op = "lstat"
	OpOpenDir Op = "opendir" // to walk through it or to list it
	OpReadDir Op = "readdir"
	OpMkdir   Op = "mkdir"
	OpCreate  Op = "create"
	OpOpen    Op = "open" // to read
	OpRead    Op = "read"
	OpWrite   Op = "write"
	OpSync    Op = "sync" // of a file
	OpClose   Op = "close"
	OpTouch   Op = "touch"
	OpRename  Op = "rename"
	OpLink    Op = "link"
	OpRemove  Op = "remove"
	OpSyncDir Op = "syncdir"
	OpLock    Op = "lock"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// tries is how often something is looked at anew that others change meanwhile.
const tries = 100

// dir is an open directory of the store. All its methods take names of direct
// entries and return the errors of package os, or an ErrPermission for a
// symbolic link. They are the only door to the file system below the root.
type dir struct {
	s    *Store
	r    *os.Root
	path string // relative to the root, with "/"; "." is the root
}

// at is the path of an entry, relative to the root.
func (d *dir) at(name string) string { return path.Join(d.path, name) }

// isMark reports whether an entry is the file that makes the root a store.
func (d *dir) isMark(name string) bool { return d == d.s.root && name == lockName }

// lostFound is in the root of many file systems, which may be that of a store.
const lostFound = "lost+found"

// isClosed reports whether err, of opening a directory, is that of lostFound,
// which only the superuser may read and which holds no objects.
func (d *dir) isClosed(name string, err error) bool {
	return d == d.s.root && name == lostFound && errors.Is(err, fs.ErrPermission)
}

// before lets a hook fail an operation.
func (d *dir) before(op Op, name string) error {
	if d.s.hook == nil {
		return nil
	}
	return d.s.hook(op, d.at(name))
}

func (d *dir) lstat(name string) (fs.FileInfo, error) {
	if err := d.before(OpLstat, name); err != nil {
		return nil, err
	}
	return d.r.Lstat(name)
}

// symlink refuses an entry. It names the path, never the target.
func (d *dir) symlink(name string) error {
	return fmt.Errorf("%w: %s is a symlink; keys never resolve through symlinks",
		backupstore.ErrPermission, filepath.Join(d.s.path, filepath.FromSlash(d.at(name))))
}

// child opens a directory in this one. What is opened is what lstat saw, so
// that nobody can slip in a link between the two. fs.ErrNotExist, ENOTDIR.
func (d *dir) child(name string) (*dir, fs.FileInfo, error) {
	for range tries {
		info, err := d.lstat(name)
		switch {
		case err != nil:
			return nil, nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, nil, d.symlink(name)
		case !info.IsDir():
			return nil, nil, syscall.ENOTDIR
		}
		if err := d.before(OpOpenDir, name); err != nil {
			return nil, nil, err
		}
		r, err := d.r.OpenRoot(name)
		if err != nil {
			return nil, nil, err
		}
		opened, err := r.Stat(".")
		if err == nil && os.SameFile(info, opened) {
			return &dir{s: d.s, r: r, path: d.at(name)}, info, nil
		}
		_ = r.Close() // nothing was written through it
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, d.changing(name)
}

func (d *dir) changing(name string) error {
	return fmt.Errorf("%s is replaced again and again", d.at(name))
}

// close closes the directory unless it is the root, which lives as long as
// the store.
func (d *dir) close() {
	if d != d.s.root {
		_ = d.r.Close() // nothing was written through it
	}
}

func (d *dir) mkdir(name string) error {
	if err := d.before(OpMkdir, name); err != nil {
		return err
	}
	return d.r.Mkdir(name, dirMode)
}

func (d *dir) rename(from, to string) error {
	if err := d.before(OpRename, to); err != nil {
		return err
	}
	return d.r.Rename(from, to)
}

// link gives a file a second name, which must not exist.
func (d *dir) link(from, to string) error {
	if err := d.before(OpLink, to); err != nil {
		return err
	}
	return d.r.Link(from, to)
}

// noLinks reports whether an error of link says that the file system has no
// second names for files: 1 is EPERM on Unix and ERROR_INVALID_FUNCTION on
// Windows.
func noLinks(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.Errno(1)) || errors.Is(err, syscall.EMLINK)
}

func (d *dir) touch(name string, at time.Time) error {
	if err := d.before(OpTouch, name); err != nil {
		return err
	}
	return d.r.Chtimes(name, at, at)
}

func (d *dir) remove(name string) error {
	if err := d.before(OpRemove, name); err != nil {
		return err
	}
	return d.r.Remove(name)
}

// rmdir removes an empty directory; false when it is not empty.
func (d *dir) rmdir(name string) (bool, error) {
	err := d.remove(name)
	switch {
	case errors.Is(err, fs.ErrExist): // "not empty" is one of these, on every system
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	d.s.forget(d.at(name))
	return true, nil
}

// sync makes the entries of the directory durable.
func (d *dir) sync() error {
	if err := d.before(OpSyncDir, "."); err != nil {
		return err
	}
	f, err := d.r.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(syncDir(f), f.Close())
}

// entry is what a directory holds.
type entry struct {
	name string
	mode fs.FileMode // its type
}

// entries returns what the directory holds, in no order. What disappears
// meanwhile is left out.
func (d *dir) entries() ([]entry, error) {
	if err := d.before(OpOpenDir, "."); err != nil {
		return nil, err
	}
	f, err := d.r.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written through it
	if err := d.before(OpReadDir, "."); err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make([]entry, 0, len(names))
	for _, name := range names {
		info, err := d.lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		all = append(all, entry{name, info.Mode().Type()})
	}
	return all, nil
}
