// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInUse: it names the holder, and leaves no trace where there is none.
func TestInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	for _, none := range []string{path, filepath.Join(path, "below"), ""} {
		if held := InUse(none); held != nil {
			t.Errorf("%q: %v", none, held)
		}
	}
	if _, err := os.Stat(path + lockSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock file was made: %v", err)
	}
	db := mustOpen(t, Options{Path: path})
	if held := InUse(path); held == nil || held.Path != path+lockSuffix || !strings.HasPrefix(held.Holder, "process ") {
		t.Errorf("held by %+v", held)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if held := InUse(path); held != nil {
		t.Errorf("when it is closed: %v", held)
	}
	mustOpen(t, Options{Path: path}) // nothing keeps the lock
	if err := os.WriteFile(path+".b"+lockSuffix, []byte("# generated\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if held := InUse(path + ".b"); held != nil {
		t.Errorf("another program's file: %v", held)
	}
}
