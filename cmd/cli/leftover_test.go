// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDeleteLeftover: what a backup left that was killed can be deleted when
// it is a day old, by the name that store check gives it.
func TestDeleteLeftover(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "backups")
	store := []string{"--store", fileURL(dir)}
	w := workshop{}
	w.mustRun(t, "store", "init", fileURL(dir))
	const left = "000000000000/music/01757500000123-73d8d5bc"
	object := filepath.Join(dir, filepath.FromSlash(left), "_started")
	if err := os.MkdirAll(filepath.Dir(object), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(object, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	remove := append([]string{"backup", "delete", "--yes", left}, store...)
	if code, _, stderr := run(t.Context(), remove...); code != exitBusy {
		t.Errorf("of today: exit code %d, stderr:\n%s", code, stderr)
	}
	old := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(object, old, old); err != nil {
		t.Fatal(err)
	}
	if got := w.mustRun(t, append([]string{"store", "check"}, store...)...); !strings.Contains(got, "unfinished: "+left) {
		t.Errorf("store check tells nothing of it:\n%s", got)
	}
	if got := w.mustRun(t, remove...); got != "deleted "+left+", 1 object\n" {
		t.Errorf("said %q", got)
	}
	if code, _, stderr := run(t.Context(), remove...); code != exitNotFound {
		t.Errorf("again: exit code %d, stderr:\n%s", code, stderr)
	}
}
