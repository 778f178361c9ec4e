// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestDeleteGoesOn: what cannot be removed, or flushed, keeps nothing else,
// whatever order the file system lists it in.
func TestDeleteGoesOn(t *testing.T) {
	t.Parallel()
	stale := "a/b/" + tempName()
	for name, c := range map[string]struct {
		hook func(op Op, path string) error
		n    int // files that are gone
		left []string
	}{
		"no directory can be flushed": {func(op Op, _ string) error {
			if op == OpSyncDir {
				return syscall.ENOSPC
			}
			return nil
		}, 5, []string{"a/", "a/b/", "a/d/"}},
		"one file stays": {func(op Op, path string) error {
			if op == OpRemove && path == "a/b/2" {
				return syscall.ENOSPC
			}
			return nil
		}, 4, []string{"a/", "a/b/", "a/b/2"}},
		"one directory cannot be listed": {func(op Op, path string) error {
			if op == OpOpenDir && path == "a/b" {
				return syscall.ENOSPC
			}
			return nil
		}, 3, []string{"a/", "a/b/", "a/b/2", stale}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t)
			s := openAt(t, root, nil)
			for _, key := range []string{"a/1", "a/b/2", "a/d/3", "a/e"} {
				s.mustPut(t, key, "x")
			}
			leave(t, root, stale)
			s.hook = c.hook
			n, err := s.DeletePrefix(t.Context(), "a")
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("error %v", err)
			}
			if got := tree(t, root); !slices.Equal(got, slices.Sorted(slices.Values(c.left))) {
				t.Errorf("left: %q", got)
			}
			if n != c.n {
				t.Errorf("counted %d, want %d", n, c.n)
			}
		})
	}
}

// TestSweepGoesOn: a directory that cannot be read, or a file that cannot be
// removed, keeps no other.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	var stale []string
	for _, dir := range []string{"a", "b", "c", "d"} {
		stale = append(stale, dir+"/"+tempName())
		leave(t, root, stale[len(stale)-1])
	}
	s := openAt(t, root, func(op Op, path string) error {
		if op == OpOpenDir && path == "b" || op == OpRemove && filepath.Dir(path) == "c" {
			return syscall.EIO
		}
		return nil
	})
	n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour))
	if n != 2 || !errors.Is(err, syscall.EIO) {
		t.Errorf("swept %d, %v", n, err)
	}
	if got, want := tree(t, root), []string{"a/", "b/", stale[1], "c/", stale[2], "d/"}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
}
