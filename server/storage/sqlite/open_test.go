// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

func TestSecondOwnerIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Path: filepath.Join(dir, "a.db"), AdminSocket: "/run/x.sock", Clock: clock.NewFake(instant())}
	db := mustOpen(t, o)
	tab := create(t, db, definition("t"))
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(o.Path, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	for _, path := range []string{o.Path, link} {
		_, err := Open(t.Context(), Options{Path: path})
		wantErr(t, err, storage.ErrLocked)
		var locked *storage.Locked
		if !errors.As(err, &locked) || locked.Path != db.path+".lock" {
			t.Fatalf("error %#v", err)
		}
		if want := fmt.Sprintf("process %d on ", os.Getpid()); !strings.HasPrefix(locked.Holder, want) ||
			!strings.HasSuffix(locked.Holder, "since 2026-05-06T07:08:09Z") {
			t.Errorf("holder %q", locked.Holder)
		}
	}
	text, err := os.ReadFile(db.path + ".lock")
	if err != nil || !strings.HasSuffix(string(text), "\nsocket /run/x.sock\n") {
		t.Errorf("lock file %q (%v)", text, err)
	}
	mustPut(t, db, tab, item("p", "s")) // the refused ones did no harm
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, Options{Path: link})
	if get(t, again, tab, "p", "s") == nil {
		t.Error("row is lost")
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		want error
	}{
		{"not a database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrForeign},
		{"a few bytes", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrForeign},
		{"another program's", func(t *testing.T, path string) { script(t, path, "CREATE TABLE theirs (x)") }, ErrForeign},
		{"another program's, empty", func(t *testing.T, path string) { script(t, path, "PRAGMA application_id = 7; VACUUM") }, ErrForeign},
		{"newer", func(t *testing.T, path string) { ours(t, path, "INSERT INTO migrations VALUES (99, x'00', 0)") }, migrate.ErrNewer},
		{"altered", func(t *testing.T, path string) { ours(t, path, "UPDATE migrations SET digest = x'00'") }, migrate.ErrEdited},
		{"a directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, ErrForeign},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.db")
			c.make(t, path)
			before, _ := os.ReadFile(path)
			if err := os.Remove(path + lockSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			names := filesOf(t, filepath.Dir(path))
			_, err := Migrate(t.Context(), Options{Path: path}, migrate.Options{})
			wantErr(t, err, c.want)
			_, err = Open(t.Context(), Options{Path: path})
			wantErr(t, err, c.want)
			if left := filesOf(t, filepath.Dir(path)); left != names {
				t.Errorf("there is %s, and was %s", left, names)
			}
			if !strings.HasPrefix(err.Error(), "open "+path+": ") {
				t.Errorf("error %q does not name the file", err)
			}
			if after, _ := os.ReadFile(path); errors.Is(c.want, ErrForeign) && !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			_, err = Open(t.Context(), Options{Path: path})
			wantErr(t, err, c.want) // and the lock was given back
		})
	}
}

// filesOf lists a directory.
func filesOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, ", ")
}

// TestCompanionsAreRefused: the log of a database in use may be empty, as a new
// database is.
func TestCompanionsAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := mustOpen(t, Options{Path: path})
	tab := create(t, db, definition("t"))
	for _, suffix := range []string{"-wal", "-shm", "-journal", lockSuffix} {
		name := path + suffix
		before, missing := os.ReadFile(name)
		_, err := Open(t.Context(), Options{Path: name})
		wantErr(t, err, ErrForeign)
		if !strings.Contains(err.Error(), "belongs to "+db.path) {
			t.Errorf("%s: error %q does not name the database", suffix, err)
		}
		after, err := os.ReadFile(name)
		if !bytes.Equal(before, after) || errors.Is(missing, fs.ErrNotExist) != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was changed (%v)", suffix, err)
		}
		if _, err := os.Stat(name + lockSuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s got a lock file: %v", suffix, err)
		}
	}
	mustPut(t, db, tab, item("p", "s"))
	mustOpen(t, Options{Path: filepath.Join(filepath.Dir(path), "my-journal")}) // of nothing
}

// TestForeignLockFile: what another program calls FILE.lock is not overwritten.
func TestForeignLockFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "Cargo")
	text := []byte("# generated\n")
	if err := os.WriteFile(path+lockSuffix, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Path: path})
	wantErr(t, err, ErrForeign)
	if !strings.Contains(err.Error(), path+lockSuffix) {
		t.Errorf("error %q does not name the file", err)
	}
	if after, err := os.ReadFile(path + lockSuffix); err != nil || !bytes.Equal(after, text) {
		t.Errorf("the file was changed to %q (%v)", after, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a database was made: %v", err)
	}
	if err := os.WriteFile(path+lockSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, Options{Path: path})
}

// script runs statements on a file, as another program would.
func script(t *testing.T, path, sql string) {
	t.Helper()
	if err := setUpDriver(); err != nil {
		t.Fatal(err)
	}
	if _, err := makeFile(path); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.exec(sql), c.close()); err != nil {
		t.Fatal(err)
	}
}

// ours makes a database of this package and then runs statements on it.
func ours(t *testing.T, path, sql string) {
	t.Helper()
	db := mustOpen(t, Options{Path: path})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	script(t, path, sql)
}

func TestNowhere(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "no", "such", "dir", "a.db")})
	wantErr(t, err, os.ErrNotExist)
}

func TestMemoryLeavesNothing(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	other := mustOpen(t, Options{Path: Memory})
	tab := create(t, db, definition("t"))
	_ = os.Remove(db.path + lockSuffix) // as tidying up the temporary directory may do
	mustPut(t, db, tab, many(50, 10)...)
	if _, err := other.Table(t.Context(), acct, "t"); !errors.Is(err, storage.ErrTableNotFound) {
		t.Errorf("two databases are one: %v", err)
	}
	if _, err := os.Stat(db.path); err != nil {
		t.Fatal(err)
	}
	check(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(db.tmp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left (%v)", db.tmp, err)
	}
}

// TestCloseLeavesOneFile beside the lock: the log is written back.
func TestCloseLeavesOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := mustOpen(t, Options{Path: filepath.Join(dir, "a.db")})
	mustPut(t, db, create(t, db, definition("t")), many(50, 10)...)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 2 {
		t.Errorf("files %v (%v)", names, err)
	}
}

// TestVersionsNeverRepeat for a key, deleted or not, closed in order or not.
func TestVersionsNeverRepeat(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	seen := map[int64]string{}
	for i := range 6 {
		db := mustOpen(t, Options{Path: path})
		tab, err := db.Table(t.Context(), acct, "t")
		if errors.Is(err, storage.ErrTableNotFound) {
			tab = create(t, db, definition("t"))
		}
		for j := range 3 {
			mustPut(t, db, tab, item("p", "s", "x", fmt.Sprint(i, j)))
			row := get(t, db, tab, "p", "s")
			if was, repeated := seen[row.Ver]; repeated {
				t.Fatalf("version %d of %s is repeated by %s", row.Ver, was, row.Item)
			}
			seen[row.Ver] = string(row.Item)
			w := put(t, tab, item("p", "s"))
			w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, nil }
			if _, err := db.Write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 0 {
			path = crashImage(t, db)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIDsAreNotReused: not even those of dropped tables and indexes.
func TestIDsAreNotReused(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db")}
	tables, indexes := map[storage.TableID]bool{}, map[storage.IndexID]bool{}
	for range 3 {
		db := mustOpen(t, o)
		for range 2 {
			tab := create(t, db, definition("t"))
			if tables[tab.ID] || indexes[tab.Indexes[0].ID] {
				t.Fatalf("table %d or index %d is there again", tab.ID, tab.Indexes[0].ID)
			}
			tables[tab.ID], indexes[tab.Indexes[0].ID] = true, true
			drop1(t, db, "t")
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadedCatalogIsTheSame(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db")}
	db := mustOpen(t, o)
	create(t, db, definition("t"))
	made, err := db.UpdateTable(t.Context(), acct, "t", func(t *storage.Table) (ddb.TableDefinition, error) {
		def := t.Def
		def.DeletionProtection = true
		return def, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	loaded, err := mustOpen(t, o).Table(t.Context(), acct, "t")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v %+v", loaded.Def, *loaded.Indexes[0]), fmt.Sprintf("%+v %+v", made.Def, *made.Indexes[0]); got != want {
		t.Errorf("loaded %s\nwant %s", got, want)
	}
	if loaded.Version != 2 || loaded.UUID != made.UUID || !loaded.Created.Equal(made.Created) || loaded.ID != made.ID {
		t.Errorf("loaded %+v, want %+v", loaded, made)
	}
}

// TestSettings reach the connections.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o              Options
		sync, mmap     int64
		cacheW, cacheR int64
	}{
		{Options{}, 2, 0, 32 << 10, 8 << 10},
		{Options{Synchronous: Normal, Mmap: 8 << 20, CacheBytes: 64 << 20}, 1, 8 << 20, 64 << 10, 16 << 10},
		{Options{Path: Memory, Synchronous: Full}, 0, 0, 32 << 10, 8 << 10},
	} {
		if c.o.Path == "" {
			c.o.Path = filepath.Join(t.TempDir(), "a.db")
		}
		db := mustOpen(t, c.o)
		is := func(conn *conn, pragma string, want int64) {
			t.Helper()
			if got, err := conn.queryInt("PRAGMA " + pragma); got != want || err != nil {
				t.Errorf("%+v: %s is %d, want %d (%v)", c.o, pragma, got, want, err)
			}
		}
		all := func(conn *conn, cache int64) {
			t.Helper()
			is(conn, "synchronous", c.sync)
			is(conn, "mmap_size", c.mmap)
			is(conn, "cache_size", -cache)
			is(conn, "page_size", pageSize)
			is(conn, "wal_autocheckpoint", 0)
			is(conn, "temp_store", 2)
			is(conn, "busy_timeout", 10000)
		}
		tab := create(t, db, definition("t"))
		mustPut(t, db, tab, many(20, 10)...)
		check(t, db)
		if err := db.change(t.Context(), false, func(tx *tx) error { all(tx.w.s.c, c.cacheW); return nil }); err != nil {
			t.Fatal(err)
		}
		if err := db.read(t.Context(), func(s *session) error { all(s.c, c.cacheR); return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryCloseWaits until the database is closed.
func TestEveryCloseWaits(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "a.db")})
	mustPut(t, db, create(t, db, definition("t")), many(500, 1000)...)
	var closers sync.WaitGroup
	for range 8 {
		closers.Go(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(db.path + "-wal"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the log is still there (%v)", err)
			}
		})
	}
	closers.Wait()
}
