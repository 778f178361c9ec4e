// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// TestBusy: a database that another command works on, or that a server holds
// that does not answer, is exit code 11 and names the holder.
func TestBusy(t *testing.T) {
	t.Parallel()
	for name, socket := range map[string]string{"another command": "", "a dead socket": "gone.sock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, 1)
			w.mustRun(t, "backup", "create", "music", "--storage", w.db, "--store", w.store)
			if socket != "" {
				socket = w.file(socket)
			}
			db, err := sqlite.Open(t.Context(), sqlite.Options{Path: w.file("data.db"), AdminSocket: socket})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, args := range [][]string{
				{"backup", "create", "music"},
				{"restore", "latest:music", "--as", "copy"},
			} {
				code, stdout, stderr := run(t.Context(), append(args, "--storage", w.db, "--store", w.store)...)
				if code != exitBusy || stdout != "" || !strings.Contains(stderr, "database is in use by process ") || !strings.Contains(stderr, "hint: ") {
					t.Errorf("%v: exit code %d, stdout %q, stderr:\n%s", args, code, stdout, stderr)
				}
			}
			// What reads the store alone needs no database.
			w.mustRun(t, "backup", "verify", "--all", "--store", w.store)
		})
	}
}

// TestHolderGoes: a command that finds the database held works by itself once
// the holder has gone.
func TestHolderGoes(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 1)
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: w.file("data.db"), AdminSocket: w.file("gone.sock")})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		code, _, stderr := run(t.Context(), "backup", "create", "music", "--storage", w.db, "--store", w.store)
		if code != exitOK {
			ended <- stderr
		}
		close(ended)
	}()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if failure := <-ended; failure != "" {
		t.Error(failure)
	}
}
