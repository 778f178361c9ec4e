// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

func openLogged(t *testing.T, log io.Writer) *Store {
	t.Helper()
	s, err := Open(Options{Root: newRoot(t), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func unusable(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, backupstore.ErrUnusable) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leave(t, dir, "file")
	for root, want := range map[string]string{
		"":                           "no backup root is given",
		filepath.Join(dir, "none"):   "backup root " + filepath.Join(dir, "none") + " is not usable: ",
		filepath.Join(dir, "file"):   "backup root " + filepath.Join(dir, "file") + " is not a directory",
		filepath.Join(dir, "file/x"): "backup root " + filepath.Join(dir, "file/x") + " is not usable: ",
		dir + "\x00":                 "backup root " + dir + "\x00 is not usable: ",
	} {
		_, err := Open(Options{Root: root})
		unusable(t, err, want)
	}
	if got := tree(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("opening made %q", got)
	}
}

// TestOpenThroughLink: the root itself may be reached through links; that is
// the operator's choice.
func TestOpenThroughLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	link := filepath.Join(dir, "link")
	if err := errors.Join(Init(real), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, link, nil)
	s.mustPut(t, "k", "x")
	if read(t, real, "k") != "x" || filepath.Base(s.Root()) != "real" {
		t.Errorf("opened %s", s.Root())
	}
	if err := s.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestValidateNoticesLostRoot(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "root")
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, dir, nil)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	unusable(t, s.Validate(t.Context()), "backup root "+dir+" is not usable: ")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unusable(t, s.Validate(t.Context()), "backup root "+dir+" is not usable: another directory has taken its place")
	if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	unusable(t, s.Validate(t.Context()), "backup root "+dir+" is not a directory")
}

// TestNotWritable: the same by injection, for whoever tests as root.
func TestNotWritable(t *testing.T) {
	t.Parallel()
	s := open(t, func(op Op, _ string) error {
		if op == OpCreate || op == OpMkdir {
			return syscall.EACCES
		}
		return nil
	})
	notWritable(t, s)
}

func notWritable(t *testing.T, s *Store) {
	t.Helper()
	err := s.Validate(t.Context())
	if want := "permission denied: backup root " + s.name + " is not writable"; !errors.Is(err, backupstore.ErrPermission) || err.Error() != want {
		t.Errorf("validate: %v, want %s", err, want)
	}
	for _, key := range []string{"k", "a/k"} {
		_, err := s.Put(t.Context(), key, strings.NewReader("x"), backupstore.PutOptions{})
		if want := "permission denied: create " + key; !errors.Is(err, backupstore.ErrPermission) || err.Error() != want {
			t.Errorf("put: %v, want %s", err, want)
		}
	}
}

func TestKeysOfFiles(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	temp := ".put-0f0e0d0c-0b0a-4908-8706-050403020100.tmp"
	for key, rule := range map[string]string{
		strings.Repeat("x", 256):               "invalid key: key component is 256 bytes; the maximum in a directory is 255",
		"a/" + strings.Repeat("ü", 128) + "/b": "invalid key: key component is 256 bytes; the maximum in a directory is 255",
		"a/" + temp:                            `invalid key: key ends in "` + temp + `", a name kept for temporary files`,
		lockName:                               `invalid key: "` + lockName + `" is the name of the file that marks a store`,
	} {
		_, err := s.Put(t.Context(), key, strings.NewReader("x"), backupstore.PutOptions{})
		_, head := s.Head(t.Context(), key)
		_, get := s.Get(t.Context(), key)
		for _, err := range []error{err, head, get} {
			if !errors.Is(err, backupstore.ErrInvalidKey) || err.Error() != rule {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	for _, key := range []string{temp + "/k", ".put-.tm", ".put-x", "x.tmp"} { // directories may be called so
		s.mustPut(t, key, "x")
		if read(t, s.Root(), key) != "x" {
			t.Errorf("%s is not there", key)
		}
	}
	if n, err := s.DeletePrefix(t.Context(), ""); n != 4 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}

// TestBelowAnObject: the two cannot coexist, and nothing happens to the first.
func TestBelowAnObject(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.mustPut(t, "a/b", "first")
	for key, want := range map[string]string{
		"a/b/c":   "create a/b/c: an object already exists at an ancestor of the key: ",
		"a/b/c/d": "create a/b/c/d: an object already exists at an ancestor of the key: ",
		"a":       "create a: objects exist below the key: ",
	} {
		for _, o := range []backupstore.PutOptions{{}, {IfAbsent: true}, {IfMatch: "x"}} {
			_, err := s.Put(t.Context(), key, strings.NewReader("second"), o)
			var ioErr *backupstore.IOError
			if !errors.As(err, &ioErr) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("put %s: %v, want %s", key, err, want)
			}
		}
	}
	if got := tree(t, s.Root()); read(t, s.Root(), "a/b") != "first" || !slices.Equal(got, []string{"a/", "a/b"}) {
		t.Errorf("there is %q", got)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.mustPut(t, "a/b", "x")
	for path, want := range map[string]os.FileMode{"a": os.ModeDir | 0o700, "a/b": 0o600, lockName: 0o600} {
		info, err := os.Stat(filepath.Join(s.Root(), path))
		if err != nil {
			t.Fatal(err)
		}
		if os.PathSeparator == '/' && info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
}

// TestClockStandsStill: a newer version has a later time even when the clock
// has gone back since.
func TestClockStandsStill(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	first := s.mustPut(t, "k", "1")
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(s.Root(), "k"), future, future); err != nil {
		t.Fatal(err)
	}
	second := s.mustPut(t, "k", "2")
	meta, err := s.Head(t.Context(), "k")
	if err != nil || !meta.LastModified.After(future.Add(-time.Microsecond)) || first == second || meta.ETag != second {
		t.Errorf("%+v, %v", meta, err)
	}
}

// TestPanickingBody: nothing is left of a put whose body panics.
func TestPanickingBody(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = s.Put(t.Context(), "a/k", panics{}, backupstore.PutOptions{})
	}()
	if got := tree(t, s.Root()); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	s.mustPut(t, "a/k", "x")
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("no body") }

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Root: newRoot(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.mustPut(t, "k", "x")
	r, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(r); string(b) != "x" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"put": func() error {
			_, err := s.Put(t.Context(), "k", strings.NewReader("y"), backupstore.PutOptions{})
			return err
		}(),
		"head":     func() error { _, err := s.Head(t.Context(), "k"); return err }(),
		"delete":   func() error { _, err := s.DeletePrefix(t.Context(), ""); return err }(),
		"validate": s.Validate(t.Context()),
	} {
		if err == nil {
			t.Errorf("%s of a closed store succeeds", name)
		}
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	for range 2 { // the second time it is there
		if err := Init(path); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v", info, err)
	}
	s := openAt(t, path, nil)
	s.mustPut(t, "a/k", "x")
	if err := Init(path); err != nil { // a store in use is one
		t.Error(err)
	}
	if err := openAt(t, newRoot(t), nil).Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leave(t, dir, "file")
	leave(t, dir, "000000000000/music/1/_started") // a store, but not made here
	before := tree(t, dir)
	unusable(t, Init(""), "no backup root is given")
	unusable(t, Init(filepath.Join(dir, "file")), "backup root "+filepath.Join(dir, "file")+" is not a directory")
	unusable(t, Init(dir), "directory "+dir+" is not empty and was not initialised as a backup store")
	unusable(t, Init(filepath.Join(dir, "mnt", "store")), "directory "+filepath.Join(dir, "mnt")+" does not exist")
	if err := Init(filepath.Join(dir, "file", "below")); err == nil {
		t.Error("made a directory in a file")
	}
	if got := tree(t, dir); !slices.Equal(got, before) {
		t.Errorf("there is %q", got)
	}
}

// TestLockWaits: a put waits for another process's, as long as its context
// allows, and goes on once the lock is free.
func TestLockWaits(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	s, other := openAt(t, root, nil), openAt(t, root, nil) // another open file is as good as another process
	release, err := other.lock.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put := func(ctx context.Context, key string) error {
		_, err := s.Put(ctx, key, strings.NewReader("x"), backupstore.PutOptions{})
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := put(ctx, "d/k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	if got := tree(t, root); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	done := make(chan error, 1)
	go func() { done <- put(t.Context(), "d/l") }()
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || read(t, root, "d/l") != "x" {
		t.Errorf("after the release: %v", err)
	}
}

// TestLockFileRemoved: a lock on a file that others no longer find is none.
func TestLockFileRemoved(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.mustPut(t, "a", "x")
	if err := os.Remove(filepath.Join(s.Root(), lockName)); err != nil {
		t.Fatal(err)
	}
	s.mustPut(t, "b", "x")
	info, err := os.Lstat(filepath.Join(s.Root(), lockName))
	if err != nil {
		t.Fatal(err)
	}
	if held, err := s.lock.f.Stat(); err != nil || !os.SameFile(info, held) {
		t.Errorf("holds another file; %v", err)
	}
}

// TestTwoStoresRace: conditions hold between processes.
func TestTwoStoresRace(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	stores := []*Store{openAt(t, root, nil), openAt(t, root, nil), openAt(t, root, noHardLinks), openAt(t, root, noHardLinks)}
	for range 10 {
		won := make(chan error, len(stores))
		for _, s := range stores {
			go func() {
				_, err := s.Put(t.Context(), "d/k", strings.NewReader("x"), backupstore.PutOptions{IfAbsent: true})
				won <- err
			}()
		}
		n := 0
		for range stores {
			if err := <-won; err == nil {
				n++
			} else if !errors.Is(err, backupstore.ErrExists) {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Fatalf("%d of them won", n)
		}
		if _, err := stores[0].DeletePrefix(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCheck: every step works in a directory, and no trace is left.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, p := range backupstore.Check(t.Context(), s) {
		if !p.OK {
			t.Errorf("%+v", p)
		}
	}
	if got := tree(t, s.Root()); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestDirectoryVanishes: a put begins anew when a deletion, or another put
// that gives up, takes its directory away before it has a file there.
func TestDirectoryVanishes(t *testing.T) {
	t.Parallel()
	for _, at := range []call{{OpCreate, "a/b"}, {OpOpenDir, "a/b"}, {OpMkdir, "a/b"}} {
		var s *Store
		times := 2
		s = open(t, func(op Op, path string) error {
			if op == OpCreate {
				path = filepath.ToSlash(filepath.Dir(path))
			}
			if (call{op, path}) == at && times > 0 {
				times--
				return os.RemoveAll(filepath.Join(s.path, "a"))
			}
			return nil
		})
		s.mustPut(t, "a/b/k", "x")
		if times > 0 || read(t, s.Root(), "a/b/k") != "x" {
			t.Errorf("%v: vanished %d times", at, 2-times)
		}
	}
}
