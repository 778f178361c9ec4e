// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

// TestOpenWantsStore: only what Init made, or what holds objects of an account,
// is a store; any other directory may be the mount point of one.
func TestOpenWantsStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files, dirs, links []string
		is                 bool
	}{
		"empty":                       {},
		"another program's":           {files: []string{"readme.txt", "lost+found/x"}},
		"marked":                      {files: []string{lockName}, is: true},
		"marked, not empty":           {files: []string{lockName, "readme.txt"}, is: true},
		"copied without the mark":     {files: []string{"readme.txt", "000000000000/music/1/_started"}, is: true},
		"account 2":                   {dirs: []string{"000000000000"}, files: []string{"123456789012/x"}, is: true},
		"an empty account":            {dirs: []string{"000000000000"}},
		"an account that is a file":   {files: []string{"000000000000"}},
		"11 digits":                   {files: []string{"00000000000/music/1/_started"}},
		"13 digits":                   {files: []string{"0000000000000/music/1/_started"}},
		"no digits":                   {files: []string{"00000000000a/music/1/_started"}},
		"a store below":               {files: []string{"backups/" + lockName}},
		"a mark that is a directory":  {dirs: []string{lockName}},
		"a mark that is a link":       {files: []string{"x"}, links: []string{lockName}},
		"an account that is a link":   {files: []string{"x/y"}, links: []string{"000000000000"}},
		"the mark of the lock of old": {files: []string{".put-lock.tmp"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, path := range c.files {
				leave(t, root, path)
			}
			for _, path := range c.dirs {
				if err := os.Mkdir(filepath.Join(root, path), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, path := range c.links {
				if err := os.Symlink("x", filepath.Join(root, path)); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, root)
			s, err := Open(Options{Root: root})
			if c.is {
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					t.Error(err)
				}
			} else if want := root + " is not a backup store"; !errors.Is(err, backupstore.ErrUnusable) || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
			if got := tree(t, root); !slices.Equal(got, before) {
				t.Errorf("opening made %q of %q", got, before)
			}
		})
	}
}

// TestMarkStays: the mark is no object, and nothing removes it.
func TestMarkStays(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.mustPut(t, "a/"+lockName, "x") // elsewhere it is a name like others
	for _, prefix := range []string{"", lockName} {
		for meta, err := range s.List(t.Context(), prefix) {
			if err != nil || meta.Key != "a/"+lockName {
				t.Errorf("listed %v, %v", meta, err)
			}
		}
	}
	if n, err := s.DeletePrefix(t.Context(), lockName); n != 0 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if n, err := s.DeletePrefix(t.Context(), ""); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if _, err := s.Sweep(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if is, err := s.isMarked(); !is || err != nil {
		t.Errorf("marked: %v, %v", is, err)
	}
}

// TestCopyGetsMark: a store that came without its mark is written like others,
// and read without a trace.
func TestCopyGetsMark(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	leave(t, root, "000000000000/music/1/_started")
	s := openAt(t, root, nil)
	r, err := s.Get(t.Context(), "000000000000/music/1/_started")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if is, err := s.isMarked(); is || err != nil {
		t.Errorf("after reading it is marked: %v, %v", is, err)
	}
	s.mustPut(t, "000000000000/music/2/_started", "")
	if is, err := s.isMarked(); !is || err != nil {
		t.Errorf("after writing it is marked: %v, %v", is, err)
	}
}

// TestOpenFaults: a directory that cannot be looked into is not called
// something else.
func TestOpenFaults(t *testing.T) {
	t.Parallel()
	for _, at := range []call{
		{OpLstat, lockName}, {OpOpenDir, "."}, {OpReadDir, "."}, {OpLstat, "000000000000"},
		{OpOpenDir, "000000000000"}, {OpReadDir, "000000000000"},
	} {
		root := t.TempDir()
		leave(t, root, "000000000000/music/1/_started")
		s := openAt(t, root, nil)
		s.hook = func(op Op, path string) error {
			if (call{op, path}) == at {
				return &fs.PathError{Op: string(op), Path: path, Err: syscall.EACCES}
			}
			return nil
		}
		if is, err := s.isStore(); is || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v: %v, %v", at, is, err)
		}
	}
}
