// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

func noHardLinks(op Op, _ string) error {
	if op == OpLink {
		return syscall.EPERM
	}
	return nil
}

// call is one operation a store asked for. The names of temporary files are
// all the same.
type call struct {
	op   Op
	path string
}

// recorder takes the calls down and fails one of them.
type recorder struct {
	mu     sync.Mutex
	on     bool
	calls  []call
	failAt int // index of the call to fail; negative: none
	err    error
	from   bool // fail all later ones as well
	links  bool // the file system has links
}

func (r *recorder) hook(op Op, path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dir, name := filepath.Split(path); isTemp(name) {
		path = dir + "TEMP"
	}
	if !r.on {
		return nil
	}
	r.calls = append(r.calls, call{op, path})
	if i := len(r.calls) - 1; i == r.failAt || r.from && i > r.failAt {
		return r.err
	}
	if !r.links {
		return noHardLinks(op, path)
	}
	return nil
}

// during records, and fails, only what do does.
func (r *recorder) during(do func()) {
	r.on = true
	do()
	r.on = false
}

const newKey, oldKey = "new/dir/k", "old/dir/k"

// putCase is a put whose every operation is to fail once.
type putCase struct {
	name, key string
	o         func(tag string) backupstore.PutOptions
	noLinks   bool
}

func putCases() []putCase {
	plain := func(string) backupstore.PutOptions { return backupstore.PutOptions{} }
	absent := func(string) backupstore.PutOptions { return backupstore.PutOptions{IfAbsent: true} }
	match := func(tag string) backupstore.PutOptions { return backupstore.PutOptions{IfMatch: tag} }
	return []putCase{
		{"new directories", newKey, plain, false},
		{"one new directory", "old/new/k", plain, false},
		{"beside", "old/dir/l", plain, false},
		{"replacing", oldKey, plain, false},
		{"if absent", newKey, absent, false},
		{"if match", oldKey, match, false},
		{"replacing without links", oldKey, plain, true},
		{"if absent without links", newKey, absent, true},
	}
}

// body is more than one buffer.
func body() string { return strings.Repeat("new ", copyBuffer/2) }

// run prepares a store with one object and puts under a recorder.
func (c putCase) run(t *testing.T, r *recorder) (root string, err error) {
	t.Helper()
	r.links = !c.noLinks
	root = newRoot(t)
	tag := openAt(t, root, nil).mustPut(t, oldKey, "old")
	s := openAt(t, root, r.hook)
	r.during(func() { _, err = s.Put(t.Context(), c.key, strings.NewReader(body()), c.o(tag)) })
	return root, err
}

func (s *Store) mustPut(t *testing.T, key, text string) (tag string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a lock may be lost
	defer cancel()
	res, err := s.Put(ctx, key, strings.NewReader(text), backupstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res.ETag
}

// read returns the text of an object; "" when there is none.
func read(t *testing.T, root, key string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(key)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// TestPutFaults fails each operation of each kind of put, in turn: the error
// names operation and object, and nothing has changed.
func TestPutFaults(t *testing.T) {
	t.Parallel()
	for _, c := range putCases() {
		clean := &recorder{failAt: -1}
		if _, err := c.run(t, clean); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for i, at := range clean.calls {
			for _, errno := range []error{syscall.ENOSPC, syscall.EIO} {
				if c.noLinks && at.op == OpLink {
					continue // fails already
				}
				t.Run(fmt.Sprintf("%s/%d %s %s/%v", c.name, i, at.op, at.path, errno), func(t *testing.T) {
					t.Parallel()
					c.fail(t, i, at, errno)
				})
			}
			if at.op == OpWrite {
				t.Run(fmt.Sprintf("%s/%d short write", c.name, i), func(t *testing.T) {
					t.Parallel()
					c.fail(t, i, at, io.ErrShortWrite)
				})
			}
		}
	}
}

func (c putCase) fail(t *testing.T, i int, at call, errno error) {
	t.Helper()
	root, err := c.run(t, &recorder{failAt: i, err: errno})
	if at.op == OpRemove { // of what is no longer needed
		if err != nil || read(t, root, c.key) != body() {
			t.Errorf("a put that was done failed: %v", err)
		}
		return
	}
	var ioErr *backupstore.IOError
	if !errors.As(err, &ioErr) || !errors.Is(err, errno) || !strings.HasSuffix(ioErr.Op, " "+c.key) {
		t.Fatalf("error %v, want an *IOError that names an operation on %s", err, c.key)
	}
	if strings.Contains(err.Error(), tempSuffix) {
		t.Errorf("%q tells a temporary name", err)
	}
	old := read(t, root, oldKey)
	switch kept := !c.noLinks || at.op != OpSyncDir || at.path != "old/dir"; {
	case kept && old != "old":
		t.Errorf("the old object is gone: %.20q", old)
	case !kept && old != "old" && old != body():
		t.Errorf("the object is neither the old nor the new one: %.20q", old)
	}
	if got, want := tree(t, root), []string{"old/", "old/dir/", oldKey}; !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}

// TestPutFaultsMeetEveryClass: the table above is as wide as it claims to be.
func TestPutFaultsMeetEveryClass(t *testing.T) {
	t.Parallel()
	met := map[Op]bool{}
	for _, c := range putCases() {
		r := &recorder{failAt: -1}
		if _, err := c.run(t, r); err != nil {
			t.Fatal(err)
		}
		for _, at := range r.calls {
			met[at.op] = true
		}
	}
	for _, op := range []Op{OpLstat, OpOpenDir, OpMkdir, OpCreate, OpWrite, OpSync, OpClose, OpRename, OpLink, OpRemove, OpSyncDir, OpLock} {
		if !met[op] {
			t.Errorf("no put does %s", op)
		}
	}
}

// changes are the calls that matter for durability.
func (r *recorder) changes() []call {
	return slices.DeleteFunc(slices.Clone(r.calls), func(c call) bool {
		return c.op == OpLstat || c.op == OpOpenDir || c.op == OpLock
	})
}

// TestPutOrder: the file is durable before its name, the name and every new
// directory before the put returns.
func TestPutOrder(t *testing.T) {
	t.Parallel()
	write := func(dir string, place ...call) []call {
		temp := dir + "/TEMP"
		return slices.Concat([]call{{OpCreate, temp}, {OpWrite, temp}, {OpWrite, temp}, {OpSync, temp}, {OpClose, temp}}, place)
	}
	newDirs := []call{{OpMkdir, "new"}, {OpSyncDir, "."}, {OpMkdir, "new/dir"}, {OpSyncDir, "new"}}
	oldDirs := []call{{OpSyncDir, "."}, {OpSyncDir, "old"}} // whoever made them may not have come so far
	for _, x := range []struct {
		c    putCase
		want []call
	}{
		{putCases()[0], append(newDirs, write("new/dir", call{OpRename, newKey}, call{OpSyncDir, "new/dir"})...)},
		{putCases()[2], append(oldDirs, write("old/dir", call{OpRename, "old/dir/l"}, call{OpSyncDir, "old/dir"})...)},
		{putCases()[3], append(oldDirs, write("old/dir", call{OpLink, "old/dir/TEMP"}, call{OpRename, oldKey},
			call{OpSyncDir, "old/dir"}, call{OpRemove, "old/dir/TEMP"})...)},
		{putCases()[4], append(newDirs, write("new/dir", call{OpLink, newKey}, call{OpSyncDir, "new/dir"},
			call{OpRemove, "new/dir/TEMP"})...)},
	} {
		r := &recorder{failAt: -1}
		if _, err := x.c.run(t, r); err != nil {
			t.Fatal(err)
		}
		if got := r.changes(); !slices.Equal(got, x.want) {
			t.Errorf("%s:\n got %v\nwant %v", x.c.name, got, x.want)
		}
	}
}

// TestDirectoriesAreSyncedOnce per store, and again when they are new.
func TestDirectoriesAreSyncedOnce(t *testing.T) {
	t.Parallel()
	r := &recorder{failAt: -1, links: true, on: true}
	s := open(t, r.hook)
	above := func(key string) (n int) {
		r.calls = nil
		s.mustPut(t, key, "x")
		for _, c := range r.calls {
			if c.op == OpSyncDir && c.path != "a/b" {
				n++
			}
		}
		return n
	}
	if n := above("a/b/1"); n != 2 {
		t.Errorf("%d directories above the object were synced, want 2", n)
	}
	if n := above("a/b/2"); n != 0 {
		t.Errorf("%d directories were synced twice", n)
	}
	if _, err := s.DeletePrefix(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if n := above("a/b/1"); n != 2 {
		t.Errorf("%d directories were synced after they were made anew, want 2", n)
	}
	for i := range maxSynced {
		s.setSynced(fmt.Sprint(i), nil)
	}
	if n := len(s.synced); n > maxSynced {
		t.Errorf("%d directories are remembered", n)
	}
}

// TestReadFaults: what cannot be read is an error, never an absent object.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	all := func(s *Store, prefix string) (keys []string, err error) {
		for meta, err := range s.List(t.Context(), prefix) {
			if err != nil {
				return keys, err
			}
			keys = append(keys, meta.Key)
		}
		return keys, nil
	}
	for name, do := range map[string]func(s *Store) error{
		"get": func(s *Store) error {
			r, err := s.Get(t.Context(), oldKey)
			if err != nil {
				return err
			}
			_, err = io.ReadAll(r)
			return errors.Join(err, r.Close())
		},
		"head":            func(s *Store) error { _, err := s.Head(t.Context(), oldKey); return err },
		"list everything": func(s *Store) error { _, err := all(s, ""); return err },
		"list below":      func(s *Store) error { _, err := all(s, "old/dir"); return err },
		"list one":        func(s *Store) error { _, err := all(s, oldKey); return err },
		"delete":          func(s *Store) error { _, err := s.DeletePrefix(t.Context(), "old"); return err },
		"delete all":      func(s *Store) error { _, err := s.DeletePrefix(t.Context(), ""); return err },
		"validate":        func(s *Store) error { return s.Validate(t.Context()) },
		"sweep":           func(s *Store) error { _, err := s.Sweep(t.Context(), time.Now().Add(time.Hour)); return err },
	} {
		run := func(t *testing.T, r *recorder) error {
			root := newRoot(t)
			s := openAt(t, root, r.hook)
			s.mustPut(t, oldKey, "old")
			s.mustPut(t, "old/l", "x")
			if name == "sweep" {
				leave(t, root, "old/dir/"+tempName())
			}
			var err error
			r.during(func() { err = do(s) })
			return err
		}
		clean := &recorder{failAt: -1, links: true}
		if err := run(t, clean); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, at := range clean.calls {
			t.Run(fmt.Sprintf("%s/%d %s %s", name, i, at.op, at.path), func(t *testing.T) {
				t.Parallel()
				err := run(t, &recorder{failAt: i, err: syscall.EIO, links: true})
				var ioErr *backupstore.IOError
				if !errors.As(err, &ioErr) || !errors.Is(err, syscall.EIO) {
					t.Errorf("error %v, want an *IOError", err)
				}
				denied := run(t, &recorder{failAt: i, err: syscall.EACCES, links: true})
				if !errors.Is(denied, backupstore.ErrPermission) {
					t.Errorf("error %v, want %v", denied, backupstore.ErrPermission)
				}
			})
		}
	}
}

// TestDeleteFaults: after a failed deletion another one ends what it began.
func TestDeleteFaults(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, r *recorder) (s *Store, n int, err error) {
		s = open(t, r.hook)
		for _, key := range []string{"a/1", "a/b/2", "a/b/3", "z"} {
			s.mustPut(t, key, "x")
		}
		r.during(func() { n, err = s.DeletePrefix(t.Context(), "a") })
		return s, n, err
	}
	clean := &recorder{failAt: -1, links: true}
	if _, n, err := run(t, clean); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	for i, at := range clean.calls {
		t.Run(fmt.Sprintf("%d %s %s", i, at.op, at.path), func(t *testing.T) {
			t.Parallel()
			s, n, err := run(t, &recorder{failAt: i, err: syscall.EIO, links: true})
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("error %v", err)
			}
			m, err := s.DeletePrefix(t.Context(), "a")
			if n+m != 3 || err != nil {
				t.Errorf("deleted %d, then %d; error %v", n, m, err)
			}
			if got := tree(t, s.Root()); !slices.Equal(got, []string{"z"}) {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// leave puts a file beside the store's own doings.
func leave(t *testing.T, root, path string) {
	t.Helper()
	full := filepath.Join(root, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte("half an obj"), 0o600); err != nil {
		t.Fatal(err)
	}
}
