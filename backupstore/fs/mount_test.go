// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

// TestRootOfFileSystem: the root of a file system of its own makes a store,
// with the directory that only the superuser may enter.
func TestRootOfFileSystem(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, lostFound), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Init(root); err != nil {
		t.Fatal(err)
	}
	closed := ""
	s := openAt(t, root, func(op Op, path string) error {
		if op == OpOpenDir && path == closed {
			return &os.PathError{Op: "openat", Path: path, Err: syscall.EACCES}
		}
		return nil
	})
	s.mustPut(t, "a/b", "x")
	s.mustPut(t, "a/"+lostFound+"/b", "x") // elsewhere it is a name like others
	list := func() (n int, err error) {
		for _, err := range s.List(t.Context(), "") {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	closed = lostFound
	if n, err := list(); n != 2 || err != nil {
		t.Errorf("listed %d, %v", n, err)
	}
	if n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	closed = "a/" + lostFound // what may hold a backup is never passed over
	if _, err := list(); !errors.Is(err, backupstore.ErrPermission) {
		t.Errorf("listed with error %v", err)
	}
}

// TestReadOnlyFileSystem: nobody has the right to write there.
func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	openAt(t, root, nil).mustPut(t, "a/b", "x")
	s := openAt(t, root, func(op Op, path string) error {
		switch op {
		case OpMkdir, OpCreate, OpRename, OpLink, OpRemove:
			return &os.PathError{Op: string(op), Path: path, Err: syscall.EROFS}
		}
		return nil
	})
	_, put := s.Put(t.Context(), "a/c", strings.NewReader("x"), backupstore.PutOptions{})
	_, remove := s.DeletePrefix(t.Context(), "a")
	for what, err := range map[string]error{"put": put, "delete": remove, "validate": s.Validate(t.Context())} {
		if !errors.Is(err, backupstore.ErrPermission) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if text := syscall.EROFS.Error(); !strings.HasSuffix(put.Error(), text) || !strings.HasSuffix(remove.Error(), text) {
		t.Errorf("the reason is not told: %v; %v", put, remove)
	}
}

// TestPutNoticesLostRoot: what is put into a directory that was moved away, or
// unmounted, is not where it will be looked for.
func TestPutNoticesLostRoot(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a directory in use cannot be moved here")
	}
	for _, next := range []string{"nothing", "another store"} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "root")
			if err := Init(dir); err != nil {
				t.Fatal(err)
			}
			s := openAt(t, dir, nil)
			s.mustPut(t, "a/1", "x")
			body := readerFunc(func([]byte) (int, error) { // while it is being put
				err := os.Rename(dir, dir+".away")
				if err == nil && next != "nothing" {
					err = Init(dir)
				}
				if err != nil {
					t.Error(err)
				}
				return 0, io.EOF
			})
			_, err := s.Put(t.Context(), "a/2", body, backupstore.PutOptions{})
			unusable(t, err, "backup root "+dir+" is not usable: ")
			if got := tree(t, dir+".away"); !slices.Equal(got, []string{"a/", "a/1"}) {
				t.Errorf("left: %q", got)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
