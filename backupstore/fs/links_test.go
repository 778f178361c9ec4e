//go:build !windows

// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
)

// linkStore is a store with symbolic links in all places, and the directory
// outside that some of them lead to.
func linkStore(t *testing.T) (s *Store, outside string) {
	t.Helper()
	s, outside = open(t, nil), t.TempDir()
	s.mustPut(t, "real/dir/k", "inside")
	leave(t, outside, "sub/k")
	for link, target := range map[string]string{
		"out":            outside,
		"in":             "real",
		"real/up":        "../..",
		"real/dir/file":  filepath.Join(outside, "sub", "k"),
		"real/dir/alias": "k",
		"dangling":       "nowhere",
		"loop":           "loop",
	} {
		if err := os.Symlink(target, filepath.Join(s.Root(), filepath.FromSlash(link))); err != nil {
			t.Fatal(err)
		}
	}
	return s, outside
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, backupstore.ErrPermission) || !strings.HasPrefix(err.Error(), "permission denied: ") ||
		!strings.HasSuffix(err.Error(), " is a symlink; keys never resolve through symlinks") {
		t.Errorf("%s: error %v", what, err)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	s, outside := linkStore(t)
	before := tree(t, s.Root())
	for _, key := range []string{
		"out/k", "out/sub/k", "out/new/deep/k", "in/dir/k", "in/new", "in/k", "real/up/k", "real/up/a/b/c",
		"real/dir/file", "real/dir/alias", "real/dir/alias/k", "out", "in", "dangling", "dangling/k", "loop", "loop/k",
	} {
		r, err := s.Get(t.Context(), key)
		if err == nil {
			r.Close()
		}
		refused(t, "get "+key, err)
		_, err = s.Head(t.Context(), key)
		refused(t, "head "+key, err)
		for name, o := range map[string]backupstore.PutOptions{"": {}, " if absent": {IfAbsent: true}, " if match": {IfMatch: "x"}} {
			_, err = s.Put(t.Context(), key, strings.NewReader("evil"), o)
			refused(t, "put"+name+" "+key, err)
		}
	}
	for _, prefix := range []string{"out/sub", "out/nothing", "in/dir", "in/dir/k", "real/up/x", "dangling/x", "loop/x", "real/dir/alias/x"} {
		for _, err := range s.List(t.Context(), prefix) {
			refused(t, "list "+prefix, err)
		}
		n, err := s.DeletePrefix(t.Context(), prefix)
		refused(t, "delete "+prefix, err)
		if n != 0 {
			t.Errorf("deleted %d below %s", n, prefix)
		}
	}
	if got := tree(t, s.Root()); !slices.Equal(got, before) {
		t.Errorf("there is %q, want %q", got, before)
	}
	if got := tree(t, outside); !slices.Equal(got, []string{"sub/", "sub/k"}) || read(t, outside, "sub/k") != "half an obj" {
		t.Errorf("outside there is %q", got)
	}
}

// TestLinkErrorsNameNoTarget: what a link points to is nobody's business.
func TestLinkErrorsNameNoTarget(t *testing.T) {
	t.Parallel()
	s, outside := linkStore(t)
	_, err := s.Head(t.Context(), "out/sub/k")
	if want := "permission denied: " + filepath.Join(s.Root(), "out") + " is a symlink; keys never resolve through symlinks"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if strings.Contains(err.Error(), outside) {
		t.Errorf("%v names the target", err)
	}
}

func TestLinksAreInvisible(t *testing.T) {
	t.Parallel()
	s, _ := linkStore(t)
	for _, prefix := range []string{"", "real", "out", "in", "dangling", "loop", "real/dir/alias"} {
		var got []string
		for meta, err := range s.List(t.Context(), prefix) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, meta.Key)
		}
		var want []string
		if prefix == "" || prefix == "real" {
			want = []string{"real/dir/k"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("list %q: %q", prefix, got)
		}
	}
}

func TestDeleteRemovesLinksThemselves(t *testing.T) {
	t.Parallel()
	s, outside := linkStore(t)
	leave(t, s.Root(), "real/dir/"+tempName())
	for _, x := range []struct {
		prefix string
		want   int
	}{{"out", 1}, {"real/dir", 4}, {"", 4}} {
		n, err := s.DeletePrefix(t.Context(), x.prefix)
		if n != x.want || err != nil {
			t.Errorf("delete %q: %d, %v; want %d", x.prefix, n, err, x.want)
		}
	}
	if got := tree(t, s.Root()); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	if got := tree(t, outside); !slices.Equal(got, []string{"sub/", "sub/k"}) {
		t.Errorf("outside there is %q", got)
	}
}

// TestSwappedDirectory: a directory that becomes a link between the look and
// the step into it is refused, also when the link stays in the store.
func TestSwappedDirectory(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"other", "/"} {
		var s *Store
		armed := false
		s = open(t, func(op Op, path string) error {
			if armed && op == OpOpenDir && path == "a" {
				armed = false
				return errors.Join(os.Rename(filepath.Join(s.path, "a"), filepath.Join(s.path, "b")),
					os.Symlink(target, filepath.Join(s.path, "a")))
			}
			return nil
		})
		s.mustPut(t, "a/k", "x")
		s.mustPut(t, "other/k", "y")
		armed = true
		r, err := s.Get(t.Context(), "a/k")
		if err == nil {
			got, _ := io.ReadAll(r)
			r.Close()
			t.Errorf("read %q through a link to %s", got, target)
		}
		if target == "other" {
			refused(t, "get", err)
		}
		if armed {
			t.Error("the directory was not swapped")
		}
	}
}

// TestSwappedFile is the same for the object itself.
func TestSwappedFile(t *testing.T) {
	t.Parallel()
	var s *Store
	armed := false
	s = open(t, func(op Op, path string) error {
		if armed && op == OpOpen {
			armed = false
			full := filepath.Join(s.path, "a", "k")
			return errors.Join(os.Remove(full), os.Symlink("secret", full))
		}
		return nil
	})
	s.mustPut(t, "a/k", "x")
	s.mustPut(t, "a/secret", "y")
	armed = true
	r, err := s.Get(t.Context(), "a/k")
	if err == nil {
		r.Close()
	}
	refused(t, "get", err)
}

// TestOddFiles: what is neither file nor directory is no object, is not
// replaced, and goes with its directory.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.mustPut(t, "d/k", "x")
	if err := syscall.Mkfifo(filepath.Join(s.Root(), "d", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if meta, err := s.Head(t.Context(), "d/pipe"); meta != nil || err != nil {
		t.Errorf("head: %v, %v", meta, err)
	}
	if _, err := s.Get(t.Context(), "d/pipe"); !errors.Is(err, backupstore.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	var ioErr *backupstore.IOError
	if _, err := s.Put(t.Context(), "d/pipe", strings.NewReader("x"), backupstore.PutOptions{}); !errors.As(err, &ioErr) {
		t.Errorf("put: %v", err)
	}
	for meta, err := range s.List(t.Context(), "d") {
		if err != nil || meta.Key != "d/k" {
			t.Errorf("listed %v, %v", meta, err)
		}
	}
	if n, err := s.DeletePrefix(t.Context(), "d"); n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}

// TestLinksAreTold: whoever keeps a table's backups elsewhere by a link is not
// left to wonder where they are.
func TestLinksAreTold(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := openLogged(t, &log)
	s.mustPut(t, "d/k", "x")
	if err := os.Symlink(t.TempDir(), filepath.Join(s.Root(), "d", "elsewhere")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	n := 0
	for meta, err := range s.List(t.Context(), "") {
		if n++; err != nil || meta.Key != "d/k" {
			t.Errorf("listed %v, %v", meta, err)
		}
	}
	if got := log.String(); n != 1 || strings.Count(got, "skipped") != 1 || !strings.Contains(got, "path=d/elsewhere") {
		t.Errorf("%d listed, told:\n%s", n, got)
	}
}

// TestNamesThatAreNoKeys are skipped, but for deletions.
func TestNamesThatAreNoKeys(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := openLogged(t, &log)
	s.mustPut(t, "d/k", "x")
	leave(t, s.Root(), `d/back\slash`)
	leave(t, s.Root(), "d/tab\there/x")
	if err := os.WriteFile(filepath.Join(s.Root(), "d", "bad\xff"), nil, 0o600); err != nil && !errors.Is(err, syscall.EILSEQ) {
		t.Fatal(err)
	}
	have := len(tree(t, s.Root())) - 2 // two directories
	n := 0
	for meta, err := range s.List(t.Context(), "") {
		if n++; err != nil || meta.Key != "d/k" {
			t.Errorf("listed %v, %v", meta, err)
		}
	}
	if skipped := strings.Count(log.String(), "its name is no key"); n != 1 || skipped != have-1 {
		t.Errorf("%d listed, %d skipped of %d:\n%s", n, skipped, have, log.String())
	}
	if n, err := s.DeletePrefix(t.Context(), "d"); n != have || err != nil {
		t.Errorf("deleted %d of %d, %v", n, have, err)
	}
}

// TestLockFileIsNoLink: the lock of the store cannot be led elsewhere either.
func TestLockFileIsNoLink(t *testing.T) {
	t.Parallel()
	s, outside := open(t, nil), t.TempDir()
	lock := filepath.Join(s.Root(), lockName)
	if err := errors.Join(os.Remove(lock), os.Symlink(filepath.Join(outside, "made"), lock)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), "k", strings.NewReader("x"), backupstore.PutOptions{})
	refused(t, "put", err)
	if got := tree(t, outside); len(got) != 0 {
		t.Errorf("outside there is %q", got)
	}
}
