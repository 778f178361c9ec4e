// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// smallDisk mounts a file system of that many bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("needs root on Linux to mount a small tmpfs")
	}
	dir := t.TempDir()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "tmpfs", dir).CombinedOutput()
	if err != nil {
		t.Skipf("cannot mount a tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// TestDiskFull: writes fail while the disk is full, and only they; nothing
// acknowledged is lost; with space again everything works.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 18<<20)
	o := Options{Path: filepath.Join(dir, "a.db")}
	db := mustOpen(t, o)
	tab := create(t, db, definition("t"))
	filler := filepath.Join(dir, "filler") // leaves 6 MiB; freed, room to write all of the log back
	if err := os.WriteFile(filler, make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	acked := map[string]bool{}
	write := func(sk string) error {
		_, err := db.Write(t.Context(), put(t, tab, item("p", sk, "g", "g"+sk, "pad", strings.Repeat("x", 3000))))
		if err == nil {
			mu.Lock()
			acked[sk] = true
			mu.Unlock()
		}
		return err
	}
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := range 5000 {
				if err := write(fmt.Sprintf("%d-%d", c, i)); err != nil {
					if !errors.Is(err, storage.ErrUnavailable) {
						t.Errorf("full disk answers %v", err)
					}
					return
				}
			}
			t.Error("the disk did not fill up")
		})
	}
	wg.Wait()
	allThere := func(db *DB) {
		t.Helper()
		for sk := range acked {
			if get(t, db, tab, "p", sk) == nil {
				t.Fatalf("acknowledged row %s is lost", sk)
			}
		}
		check(t, db)
	}
	allThere(db)
	var err error // writing the log back may have made a little room
	for i := 0; err == nil && i < 5000; i++ {
		err = write(fmt.Sprint("more-", i))
	}
	wantErr(t, err, storage.ErrUnavailable)
	_, err = db.CreateTable(t.Context(), acct, definition("u"), instant())
	if err != nil { // it may fit, when the log was just written back
		wantErr(t, err, storage.ErrUnavailable)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := write(fmt.Sprint("after-", i)); err != nil {
			t.Fatalf("with space again: %v", err)
		}
	}
	allThere(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	allThere(mustOpen(t, o))
}

// childPath names the database of a child process that is to be killed.
const childPath = "EXTENDDB_TEST_SQLITE_CHILD"

// TestKilledWriters: what a process acknowledged before it was killed is
// there, and the database is sound. The child is this test, run again.
func TestKilledWriters(t *testing.T) {
	t.Parallel()
	if path := os.Getenv(childPath); path != "" {
		writeForEver(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "a.db")
	acked := map[string]bool{}
	for round := range killRounds {
		killed(t, path, fmt.Sprint(round), 400, acked)
		db := mustOpen(t, Options{Path: path}) // the lock died with the child
		tab, err := db.Table(t.Context(), acct, "t")
		if err != nil {
			t.Fatal(err)
		}
		for sk := range acked {
			if get(t, db, tab, "p", sk) == nil {
				t.Errorf("acknowledged row %s is lost", sk)
			}
		}
		check(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killed runs a child until it has acknowledged some writes, then kills it.
func killed(t *testing.T, path, round string, acks int, acked map[string]bool) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestKilledWriters$")
	cmd.Env = append(os.Environ(), childPath+"="+path, childPath+"_ROUND="+round)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, n := bufio.NewScanner(out), 0
	for lines.Scan() { // also what it managed to say before it died
		if sk, ok := strings.CutPrefix(lines.Text(), "acked "); ok {
			acked[sk] = true
			if n++; n == acks {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if err := cmd.Wait(); err == nil || n < acks {
		t.Fatalf("the child ended by itself after %d writes (%v)", n, err)
	}
}

func writeForEver(t *testing.T, path string) {
	ctx := context.Background()
	db := mustOpen(t, Options{Path: path})
	tab, err := db.Table(ctx, acct, "t")
	if errors.Is(err, storage.ErrTableNotFound) {
		tab = create(t, db, definition("t"))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range 32 {
		wg.Go(func() {
			for i := 0; ; i++ {
				sk := fmt.Sprintf("%s-%d-%d", os.Getenv(childPath+"_ROUND"), c, i)
				if _, err := db.Write(ctx, put(t, tab, item("p", sk, "g", fmt.Sprint(i%3)))); err != nil {
					panic(err)
				}
				mu.Lock()
				fmt.Println("acked " + sk)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// TestStartFaults: why a database cannot be opened is said in plain words, and
// one that cannot be written is not opened at all.
func TestStartFaults(t *testing.T) {
	t.Parallel()
	if _, err := openConn(filepath.Join(t.TempDir(), "a.db")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
	dir := smallDisk(t, 1<<20)
	path := filepath.Join(dir, "a.db")
	ours(t, path, "")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	_, open := Open(t.Context(), Options{Path: path})
	_, migration := Migrate(t.Context(), Options{Path: path}, migrate.Options{NoCopy: true})
	for _, err := range []error{open, migration} {
		wantErr(t, err, storage.ErrUnavailable)
		wantErr(t, err, ErrFull)
		if want := "open " + path + ": no space left on the disk of " + dir; err.Error() != want {
			t.Errorf("a full disk: %v, want %s", err, want)
		}
	}
	if left := filesOf(t, dir); left != "a.db, filler" {
		t.Errorf("left behind: %s", left)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	ours(t, path, "")
	if out, err := exec.Command("mount", "-o", "remount,ro,bind", dir).CombinedOutput(); err != nil {
		t.Fatalf("remount: %s", out)
	}
	if _, err := openConn(path); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a file that cannot be written: %v", err)
	}
}
