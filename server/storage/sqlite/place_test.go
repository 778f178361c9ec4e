// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
}

// TestLinksToNewFiles: a link whose target is still to be made names the same
// database as the target does.
func TestLinksToNewFiles(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"relative": "sub/../b.db", "absolute": "", "chain": "second.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			target, link := filepath.Join(dir, "b.db"), filepath.Join(dir, "a.db")
			if first == "" {
				first = target
			}
			symlink(t, first, link)
			symlink(t, "b.db", filepath.Join(dir, "second.db"))
			mustOpen(t, Options{Path: link})
			for _, path := range []string{link, target} {
				_, err := Open(t.Context(), Options{Path: path})
				wantErr(t, err, storage.ErrLocked)
			}
		})
	}
	t.Run("loop", func(t *testing.T) {
		t.Parallel()
		link := filepath.Join(t.TempDir(), "a.db")
		symlink(t, "a.db", link)
		if _, err := Open(t.Context(), Options{Path: link}); err == nil || !strings.Contains(err.Error(), "too many links") {
			t.Errorf("error %v", err)
		}
	})
}

func TestHardLinksAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	mustOpen(t, Options{Path: path}) // still open
	if err := os.Link(path, other); err != nil || runtime.GOOS == "windows" {
		t.Skipf("no hard links here: %v", err)
	}
	_, err := Open(t.Context(), Options{Path: other})
	wantErr(t, err, ErrLinked)
	if err := os.Remove(path); err != nil { // now it is only moved, but its log and lock are not
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Path: path})
	wantErr(t, err, storage.ErrLocked)
}

func TestMountedFilesAreRefused(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 1<<20) // where mounting is possible
	path, other := filepath.Join(t.TempDir(), "a.db"), filepath.Join(dir, "b c.db")
	mustOpen(t, Options{Path: path}) // still open
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "--bind", path, other).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a file: %v: %s", err, out)
	}
	_, err := Open(t.Context(), Options{Path: other})
	if out, err := exec.Command("umount", other).CombinedOutput(); err != nil {
		t.Errorf("umount: %s", out)
	}
	wantErr(t, err, ErrLinked)
}

// TestOnlyTheOwnerMayRead what is in the database.
func TestOnlyTheOwnerMayRead(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits on Windows")
	}
	db := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "a.db")})
	create(t, db, definition("t"))
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(db.path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v (%v)", suffix, info.Mode(), err)
		}
	}
}

// TestStartWritesNothing to a database that is up to date: the disk may be
// full.
func TestStartWritesNothing(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db")}
	ours(t, o.Path, "")
	before, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	db := mustOpen(t, o)
	if info, err := os.Stat(db.path + "-wal"); err != nil || info.Size() != 0 {
		t.Errorf("the log has %d bytes (%v)", info.Size(), err)
	}
	if after, err := os.ReadFile(o.Path); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed (%v)", err)
	}
}

// TestFilesTakenAway under a running server: nothing more is acknowledged that
// would be lost, what is there instead is left alone, and all is well when the
// files are back.
func TestFilesTakenAway(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not let go of open files")
	}
	const text = "somebody else's"
	for _, suffix := range []string{"", lockSuffix} {
		for _, replaced := range []bool{false, true} {
			for _, back := range []bool{false, true} {
				name := "database"
				if suffix != "" {
					name = "lock"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					takeAway(t, suffix, replaced, back, text)
				})
			}
		}
	}
}

func takeAway(t *testing.T, suffix string, replaced, back bool, text string) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	tab := create(t, db, definition("t"))
	mustPut(t, db, tab, item("p", "1"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(path+suffix, path+".away"))
	if replaced {
		must(os.WriteFile(path+suffix, []byte(text), 0o600))
	}
	_, err = db.Write(t.Context(), put(t, tab, item("p", "2")))
	wantErr(t, err, storage.ErrUnavailable)
	wantErr(t, db.Ping(t.Context()), storage.ErrUnavailable)
	wantErr(t, db.Check(t.Context()), storage.ErrUnavailable) // it opens a connection
	if get(t, db, tab, "p", "1") == nil {
		t.Error("what is open cannot be read")
	}
	if back {
		must(os.Rename(path+".away", path+suffix))
		must(db.Ping(t.Context()))
		mustPut(t, db, tab, item("p", "3"))
		check(t, db)
		must(db.Close())
		return
	}
	wal, err := os.ReadFile(path + "-wal")
	must(err)
	err = db.Close()
	wantErr(t, err, storage.ErrUnavailable)
	if !strings.Contains(err.Error(), path+suffix+" was removed or replaced") {
		t.Errorf("error %v", err)
	}
	if after, err := os.ReadFile(path + "-wal"); err != nil || string(after) != string(wal) {
		t.Errorf("the log was changed (%v)", err)
	}
	switch found, err := os.ReadFile(path + suffix); {
	case replaced && string(found) != text:
		t.Errorf("what replaced the file was changed: %q (%v)", found, err)
	case !replaced && !errors.Is(err, fs.ErrNotExist):
		t.Errorf("the file was made again (%v)", err)
	}
	must(os.Rename(path+".away", path+suffix))
	again := mustOpen(t, Options{Path: path})
	if get(t, again, tab, "p", "1") == nil {
		t.Error("an acknowledged write is lost")
	}
	check(t, again)
}
