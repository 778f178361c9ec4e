// SPDX-License-Identifier: Apache-2.0

// Package fs keeps backups in a directory. An object is a file, a key its path
// below the root.
//
// No symbolic link is ever followed below the root, and no name leads out of
// it: every component is opened relative to its parent and must be the
// directory that was looked at. The root must not be writable by users that
// are trusted less than the process.
//
// A put writes a temporary file ".put-<uuid>.tmp" beside its destination,
// flushes it, moves it into place and flushes the directory. Files of such
// names are invisible, no keys, and swept when old. So is ".extenddb-store" in
// the root, but it stays: Init leaves it there to tell a store from any other
// directory, such as a mount point without its file system. An object and objects
// below it ("a" and "a/b") cannot both exist.
package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/google/uuid"

	"github.com/extenddb/extenddb/backupstore"
)

// Options say how to open a store.
type Options struct {
	Root string       // the directory; it exists
	Log  *slog.Logger // nil: no log
	// Hook, when set, is called before every operation on the file system,
	// with its path relative to the root ("." is the root). The error it
	// returns is that of the operation, which then does not happen; a failing
	// write writes the first half of its bytes. For tests.
	Hook func(op Op, path string) error
}

// Store is a directory of objects. It implements backupstore.Store.
type Store struct {
	path string // of the root: absolute, without symbolic links
	name string // of the root, as it was configured
	log  *slog.Logger
	hook func(op Op, path string) error
	root *dir
	lock *lock

	mu sync.Mutex
	// synced are directories whose own entry is known to be durable. Whoever
	// finds a directory cannot tell whether its maker flushed it yet.
	synced map[string]fs.FileInfo
}

var _ backupstore.Store = (*Store)(nil)

// Open opens the store in an existing directory: one that Init made, or that
// holds a directory of an account with something in it, as a copy without the
// hidden file does. It writes nothing. ErrUnusable, and ErrPermission too when
// the directory may not be entered.
func Open(o Options) (*Store, error) {
	s, err := openDir(o)
	if err != nil {
		return nil, err
	}
	is, err := s.isStore()
	switch {
	case err != nil:
		err = &backupstore.UnusableError{Text: "backup root " + s.name + " is not usable", Err: cause(err)}
	case !is:
		err = &backupstore.UnusableError{Text: s.name + " is not a backup store"}
	default:
		s.hook = o.Hook
		return s, nil
	}
	return nil, errors.Join(err, s.Close())
}

// isStore looks for what tells a store from any other directory.
func (s *Store) isStore() (bool, error) {
	if is, err := s.isMarked(); is || err != nil {
		return is, err
	}
	entries, err := s.root.entries()
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !e.mode.IsDir() || !isAccount(e.name) {
			continue
		}
		account, _, err := s.root.child(e.name)
		if absent(err) {
			continue
		} else if err != nil {
			return false, err
		}
		below, err := account.entries()
		account.close()
		if err != nil || len(below) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// isMarked reports whether Init was here.
func (s *Store) isMarked() (bool, error) {
	info, err := s.root.lstat(lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular(), err
}

// openDir opens a directory as a store, whatever it holds, without its hook.
func openDir(o Options) (*Store, error) {
	unusable := func(err error) error {
		return &backupstore.UnusableError{Text: "backup root " + o.Root + " is not usable", Err: cause(err)}
	}
	if o.Root == "" {
		return nil, &backupstore.UnusableError{Text: "no backup root is given"}
	}
	path, err := filepath.EvalSymlinks(o.Root)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, unusable(err)
	}
	if info, err := os.Stat(path); err != nil {
		return nil, unusable(err)
	} else if !info.IsDir() {
		return nil, notDirectory(o.Root)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, unusable(err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{path: path, name: o.Root, log: o.Log, synced: map[string]fs.FileInfo{}}
	s.root = &dir{s: s, r: root, path: "."}
	s.lock = &lock{root: s.root, turn: make(chan struct{}, 1)}
	return s, nil
}

func notDirectory(path string) error {
	return &backupstore.UnusableError{Text: "backup root " + path + " is not a directory"}
}

// Root returns the path of the root, absolute and without symbolic links.
func (s *Store) Root() string { return s.path }

// Close frees what the store holds open. Objects being read stay readable.
func (s *Store) Close() error { return errors.Join(s.root.r.Close(), s.lock.close()) }

// Validate implements backupstore.Store: the root is the directory that was
// opened, and a file can be written there, flushed and removed.
func (s *Store) Validate(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.inPlace(); err != nil {
		return err
	}
	err := s.probe()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: backup root %s is not writable", backupstore.ErrPermission, s.name)
	}
	return failure("write a probe to backup root "+s.name, err)
}

// inPlace returns an ErrUnusable when the directory that was opened is no longer
// found under its name: what is written to it then, nobody finds.
func (s *Store) inPlace() error {
	here, err := s.root.r.Stat(".")
	if err != nil {
		return &backupstore.UnusableError{Text: "backup root " + s.name + " is not usable", Err: cause(err)}
	}
	switch there, err := os.Lstat(s.path); {
	case err != nil:
		return &backupstore.UnusableError{Text: "backup root " + s.name + " is not usable", Err: cause(err)}
	case !there.IsDir():
		return notDirectory(s.name)
	case !os.SameFile(here, there):
		return &backupstore.UnusableError{Text: "backup root " + s.name + " is not usable", Err: errors.New("another directory has taken its place")}
	}
	return nil
}

func (s *Store) probe() (err error) {
	name := tempPrefix + "validate-" + uuid.NewString() + tempSuffix
	f, err := s.root.create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.root.remove(name)) }()
	_, err = f.Write([]byte("probe\n"))
	return errors.Join(err, f.sync(), f.close())
}

// isSynced reports whether the entry of this very directory is known to be
// durable.
func (s *Store) isSynced(path string, info fs.FileInfo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.synced[path]
	return known != nil && os.SameFile(known, info)
}

// maxSynced bounds what is remembered; forgetting costs a flush.
const maxSynced = 4096

func (s *Store) setSynced(path string, info fs.FileInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.synced) >= maxSynced {
		clear(s.synced)
	}
	s.synced[path] = info
}

func (s *Store) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.synced, path)
}
