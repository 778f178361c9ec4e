// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore/storetest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		return storetest.Harness{Store: open(t, nil), Now: time.Now}
	})
}

// TestSuiteWithoutLinks: the fallback for file systems without hard links
// keeps the same promises.
func TestSuiteWithoutLinks(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		return storetest.Harness{Store: open(t, noHardLinks), Now: time.Now}
	})
}

// open opens a new store, checks in the end that no temporary file is left,
// and closes it.
func open(t *testing.T, hook func(Op, string) error) *Store {
	t.Helper()
	s := openAt(t, newRoot(t), hook)
	t.Cleanup(func() {
		for _, path := range tree(t, s.Root()) {
			if isTemp(filepath.Base(path)) {
				t.Errorf("left behind: %s", path)
			}
		}
	})
	return s
}

// newRoot makes an empty store.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := Init(root); err != nil {
		t.Fatal(err)
	}
	return root
}

func openAt(t *testing.T, root string, hook func(Op, string) error) *Store {
	t.Helper()
	s, err := Open(Options{Root: root, Hook: hook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tree lists what is below a directory but the lock file, directories with a
// "/" at the end.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root || path == filepath.Join(root, lockName) {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if d.IsDir() {
			rel += "/"
		}
		all = append(all, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, strings.Compare)
	return all
}
