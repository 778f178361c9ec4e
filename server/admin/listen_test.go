// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func mustListen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// entries are the names in a directory.
func entries(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestListen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.sock")
	l := mustListen(t, path)
	if got := entries(t, dir); got != "a.sock" || l.Addr().String() != path {
		t.Errorf("the directory holds %s, the address is %s", got, l.Addr())
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second server: %v", err)
	}
	if got := entries(t, dir); got != "a.sock" {
		t.Errorf("the directory holds %s", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := entries(t, dir); got != "" {
		t.Errorf("after the end the directory holds %s", got)
	}
	mustListen(t, path)
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
	if got := entries(t, dir); got != "a.sock" {
		t.Errorf("the old server removed the new one's socket: %s", got)
	}
}

func TestListenReplacesADeadSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.sock")
	dead(t, path)
	mustListen(t, path)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		prepare    func(path string) error
	}{
		{"file", "no socket", func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) }},
		{"directory", "no socket", func(p string) error { return os.Mkdir(p, 0o700) }},
		{"link", "no socket", func(p string) error { return os.Symlink(filepath.Join(filepath.Dir(p), "gone"), p) }},
		{"no directory", "no such file or directory", func(p string) error { return os.Remove(filepath.Dir(p)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.sock")
			if err := c.prepare(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			after, _ := os.Lstat(path)
			if before != nil && !os.SameFile(before, after) {
				t.Error("what was in the way is gone")
			}
		})
	}
}

func TestSocketIsPrivateFromTheBeginning(t *testing.T) {
	t.Parallel()
	if privateByDirectory {
		t.Skip("on this system the directory's permissions decide")
	}
	path := filepath.Join(t.TempDir(), "a.sock")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if info, err := os.Lstat(path); err == nil && info.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("the socket was seen with mode %v", info.Mode())
				return
			}
		}
	})
	for range 200 {
		if err := mustListen(t, path).Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestSocketPath(t *testing.T) { // sets the environment
	run, tmp := filepath.Join(t.TempDir(), "run"), t.TempDir()
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp)
	root := t.TempDir()
	long := filepath.Join(root, strings.Repeat("d", maxPath))
	t.Chdir(root)
	for _, c := range []struct{ name, runtime, db, dir string }{
		{"beside", run, filepath.Join(root, "a.db"), root},
		{"relative", run, "a.db", root},
		{"runtime directory", run, long, run},
		{"no runtime directory", "", long, privateDir()},
		{"relative runtime directory", "run", long, privateDir()},
		{"missing runtime directory", run + "x", long, privateDir()},
		{"long runtime directory", run + strings.Repeat("/.", maxPath), long, privateDir()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", c.runtime)
			got := SocketPath(c.db)
			if filepath.Dir(got) != c.dir || len(got) > maxPath || !strings.HasSuffix(got, ".sock") {
				t.Errorf("got %s, want it in %s", got, c.dir)
			}
			if got != SocketPath(c.db) || got == SocketPath(c.db+"x") {
				t.Error("one database, one socket")
			}
			mustListen(t, got) // in a directory made for it
			if _, err := NewClient(got).dial(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := Listen(filepath.Join(root, strings.Repeat("a", systemMax))); err == nil || !strings.Contains(err.Error(), "choose a shorter one") {
		t.Errorf("a path that is too long: %v", err)
	}
	exact := filepath.Join(root, strings.Repeat("e", maxPath-len(root)-1-len(suffix)))
	if got := SocketPath(exact); got != exact+suffix {
		t.Errorf("got %s", got)
	}
	mustListen(t, exact+suffix)
}

func TestRuntimeSocket(t *testing.T) { // sets the environment
	run, tmp := filepath.Join(t.TempDir(), "run"), t.TempDir()
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp)
	elsewhere := privateDir()
	if isWritable(systemDir) { // of this machine
		elsewhere = systemDir
	}
	for _, c := range []struct{ name, runtime, dir string }{
		{"runtime directory", run, run},
		{"none", "", elsewhere},
		{"relative", "run", elsewhere},
		{"missing", run + "x", elsewhere},
		{"long", run + strings.Repeat("/.", maxPath), elsewhere},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", c.runtime)
			got := RuntimeSocket("8000")
			if want := filepath.Join(c.dir, "extenddb-8000.sock"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			mustListen(t, got) // in a directory made for it
		})
	}
}
