// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// spilledLoad is a load that has entries in files, some of them merged.
func spilledLoad(t *testing.T, db *DB) *loading {
	t.Helper()
	l := beginLoad(t, db, definition("t"))
	mustAdd(t, l, many(2000, 1)...)
	if len(l.entries.levels) < 2 || len(loadFilesOf(t, db)) == 0 {
		t.Fatal("nothing was merged")
	}
	return l
}

// runsOpen lists the runs of a database that the process holds open, also when
// they are removed.
func runsOpen(t *testing.T, db *DB) (open []string) {
	t.Helper()
	const dir = "/proc/self/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if name, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(name, db.path+loadInfix) {
			open = append(open, name)
		}
	}
	return open
}

// TestLoadHoldsNoFile: no end of a load leaves a file open.
func TestLoadHoldsNoFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only /proc of Linux tells which files are open")
	}
	for name, end := range map[string]func(l *loading) error{
		"none":   func(*loading) error { return nil },
		"finish": func(l *loading) error { return l.Finish(t.Context(), nil) },
		"abort":  func(l *loading) error { return l.Abort() },
		"a run that is cut": func(l *loading) error {
			if err := os.Truncate(l.entries.levels[1][0], 1); err != nil {
				return err
			}
			if err := l.Finish(t.Context(), nil); !errors.Is(err, storage.ErrUnavailable) {
				return errors.Join(errors.New("finished"), err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal}
			o.hooks.spill = 1 << 10
			db := mustOpen(t, o)
			l := spilledLoad(t, db)
			if err := end(l); err != nil {
				t.Fatal(err)
			}
			if open := runsOpen(t, db); len(open) != 0 {
				t.Errorf("open: %q", open)
			}
			if err := l.Abort(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCloseInLoad: closing the engine under a load removes its files at once;
// the table is removed after the next opening.
func TestCloseInLoad(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal}
	o.hooks.spill = 1 << 10
	db := mustOpen(t, o)
	l := spilledLoad(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if files := loadFilesOf(t, db); len(files) != 0 {
		t.Errorf("files left: %q", files)
	}
	wantErr(t, l.Finish(t.Context(), nil), storage.ErrClosed)
	wantErr(t, l.Abort(), storage.ErrClosed)
	db = mustOpen(t, o)
	finish(t, db, storage.TableDrop, instant())
	check(t, db)
}
