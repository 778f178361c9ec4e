// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestAdminSocket: what the holder said is found under every name of the
// file, also when the holder is gone.
func TestAdminSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a.db"), filepath.Join(dir, "link.db")
	if got, err := AdminSocket(path); got != "" || err != nil {
		t.Errorf("never opened: %q, %v", got, err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), Options{Path: path, AdminSocket: "/run/a b.sock"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		if got, err := AdminSocket(name); got != "/run/a b.sock" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := AdminSocket(path); got != "/run/a b.sock" || err != nil {
		t.Errorf("after the holder went: %q, %v", got, err)
	}
	if _, err := AdminSocket(filepath.Join(dir, "absent", "a.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such directory: %v", err)
	}
}

// TestAdminSocketOfOddLockFiles: what is no whole text of ours names nothing.
func TestAdminSocketOfOddLockFiles(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":    "",
		"foreign":  "hello\nsocket /evil.sock\n",
		"one line": "process 1 on h since t\n",
		"cut off":  "process 1 on h since t\nsocket /x.so",
		"no name":  "process 1 on h since t\nsocket \n",
		"another":  "process 1 on h since t\nport 80\n",
	} {
		path := filepath.Join(t.TempDir(), "a.db")
		if err := os.WriteFile(path+lockSuffix, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := AdminSocket(path); got != "" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
