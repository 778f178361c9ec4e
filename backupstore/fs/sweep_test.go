// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	s := openAt(t, root, nil)
	s.mustPut(t, "a/k", "x")
	stale, fresh, upstream := "a/b/"+tempName(), "a/"+tempName(), ".put-validate-x.tmp"
	for _, path := range []string{stale, fresh, upstream, "a/.put-dir.tmp/k", "a/b/kept.tmp"} {
		leave(t, root, path)
	}
	hour := time.Now().Add(-time.Hour)
	for _, path := range []string{stale, upstream, "a/k", "a/.put-dir.tmp", "a/.put-dir.tmp/k", "a/b/kept.tmp", lockName} {
		if err := os.Chtimes(filepath.Join(root, path), hour, hour); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{2, 0} {
		if n, err := s.Sweep(t.Context(), hour.Add(time.Second)); n != want || err != nil {
			t.Errorf("swept %d, %v; want %d", n, err, want)
		}
	}
	want := []string{"a/", "a/.put-dir.tmp/", "a/.put-dir.tmp/k", fresh, "a/b/", "a/b/kept.tmp", "a/k"}
	slices.Sort(want)
	if got := tree(t, root); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
	if _, err := os.Lstat(filepath.Join(root, lockName)); err != nil {
		t.Errorf("the lock file was swept: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.Sweep(ctx, time.Now().Add(time.Hour)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("swept %d, %v", n, err)
	}
}

// TestCutOff: a put that stops for good at any operation leaves no object, or
// all of it; what it leaves is invisible, swept, and in nobody's way.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for _, c := range putCases() {
		clean := &recorder{failAt: -1}
		if _, err := c.run(t, clean); err != nil {
			t.Fatal(err)
		}
		for i, at := range clean.calls {
			t.Run(c.name+" at "+string(at.op)+" "+at.path, func(t *testing.T) {
				t.Parallel()
				root, _ := c.run(t, &recorder{failAt: i, from: true, err: errors.New("killed")})
				s := openAt(t, root, nil)
				for meta, err := range s.List(t.Context(), "") {
					text := read(t, root, meta.Key)
					if err != nil || text != "old" && text != body() || meta.Key != oldKey && meta.Key != c.key {
						t.Errorf("listed %+v (%.20q), %v", meta, text, err)
					}
				}
				if old := read(t, root, oldKey); old == "" {
					t.Error("the old object is gone")
				}
				if _, err := s.Sweep(t.Context(), time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
				for _, path := range tree(t, root) {
					if isTemp(filepath.Base(path)) {
						t.Errorf("left behind: %s", path)
					}
				}
				s.mustPut(t, c.key, "again")
			})
		}
	}
}

// TestKilled kills a process between the writing of the temporary file and its
// renaming.
func TestKilled(t *testing.T) {
	t.Parallel()
	if root := os.Getenv("EXTENDDB_TEST_KILLED"); root != "" {
		putAndHang(t, root)
		return
	}
	root := newRoot(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "EXTENDDB_TEST_KILLED="+root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "renaming"; {
		continue
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
	temps := 0
	for _, path := range tree(t, root) {
		if isTemp(filepath.Base(path)) {
			temps++
		}
	}
	if temps != 1 {
		t.Fatalf("%d temporary files were left: it was not killed in time", temps)
	}
	s := openAt(t, root, nil)
	if meta, err := s.Head(t.Context(), "a/k"); meta != nil || err != nil {
		t.Errorf("head: %v, %v", meta, err)
	}
	for meta, err := range s.List(t.Context(), "") {
		t.Errorf("listed %v, %v", meta, err)
	}
	if n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	s.mustPut(t, "a/k", "x") // the lock died with its holder
}

func putAndHang(t *testing.T, root string) {
	s := openAt(t, root, func(op Op, _ string) error {
		if op == OpRename {
			_, _ = os.Stdout.WriteString("renaming\n")
			select {}
		}
		return nil
	})
	_, err := s.Put(t.Context(), "a/k", strings.NewReader("whole"), backupstore.PutOptions{})
	t.Errorf("put came back: %v", err)
}

// TestCleaningUpFails: the put says why it failed, the log what is left.
func TestCleaningUpFails(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := openLogged(t, &log)
	s.hook = func(op Op, _ string) error {
		if op == OpSync || op == OpRemove {
			return map[Op]error{OpSync: syscall.ENOSPC, OpRemove: syscall.EIO}[op]
		}
		return nil
	}
	_, err := s.Put(t.Context(), "a/k", strings.NewReader("x"), backupstore.PutOptions{})
	if err == nil || err.Error() != "sync a/k: "+syscall.ENOSPC.Error() {
		t.Errorf("error %v", err)
	}
	if n := strings.Count(log.String(), "cleaning up in the backup store failed"); n != 2 {
		t.Errorf("log has %d lines, want 2 (file and directory):\n%s", n, log.String())
	}
}
