// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// TestInUse: it names the holder, and leaves no trace where there is none.
func TestInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	for _, none := range []string{path, filepath.Join(path, "below"), ""} {
		if err := InUse(none); err != nil {
			t.Errorf("%q: %v", none, err)
		}
	}
	if _, err := os.Stat(path + lockSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock file was made: %v", err)
	}
	db := mustOpen(t, Options{Path: path})
	var locked *storage.Locked
	if err := InUse(path); !errors.As(err, &locked) || !strings.HasPrefix(err.Error(), "open "+path+": database is in use by process ") {
		t.Errorf("error %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := InUse(path); err != nil {
		t.Errorf("when it is closed: %v", err)
	}
	mustOpen(t, Options{Path: path}) // nothing keeps the lock
	if err := os.WriteFile(path+".b"+lockSuffix, []byte("# generated\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := InUse(path + ".b"); err != nil {
		t.Errorf("another program's file: %v", err)
	}
}
