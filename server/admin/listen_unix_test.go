// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const privateByDirectory = false

func TestListenAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.sock")
	tmp := filepath.Join(dir, ".s"+tag("a.sock"))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	dead(t, filepath.Join(tmp, "s"))
	mustListen(t, path)
	if got := entries(t, dir); got != "a.sock" {
		t.Errorf("the directory holds %s", got)
	}
}

func TestListenTrustsNoOpenDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tmp := filepath.Join(dir, ".s"+tag("a.sock"))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(filepath.Join(dir, "a.sock")); err == nil || !strings.Contains(err.Error(), tmp+" must be a directory that belongs to this user") {
		t.Errorf("got %v", err)
	}
}

func TestPrivateDirectoryOfAnother(t *testing.T) { // sets the environment
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_RUNTIME_DIR", "")
	socket := SocketPath(filepath.Join(tmp, strings.Repeat("d", maxPath)))
	if err := os.Mkdir(privateDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(privateDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	const want = "must be a directory that belongs to this user, with mode 0700"
	if _, err := Listen(socket); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("listen: %v", err)
	}
	if _, err := NewClient(socket).Version(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("connect: %v", err)
	}
	if os.Geteuid() == 0 { // only root can make a directory somebody else's
		if err := os.Chmod(privateDir(), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(privateDir(), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(socket); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("listen: %v", err)
		}
	}
}
