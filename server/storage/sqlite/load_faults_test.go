// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// TestCrashInLoad: whatever a process that dies in a load leaves, the next one
// drops, or finds the table whole.
func TestCrashInLoad(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal}
	var images []string
	keep := func() {}
	o.hooks.spill = 4 << 10
	o.hooks.step = func() { keep() }         // in a transaction
	o.hooks.committed = func(int) { keep() } // after it
	db := mustOpen(t, o)
	tab := create(t, db, definition("other"))
	mustPut(t, db, tab, many(20, 10)...)
	keep = func() { images = append(images, crashImage(t, db)) }
	var rowsOf [3][]ddb.Item
	const rows = 1500 // whose entries take two transactions
	l := beginLoad(t, db, wide("t"))
	for i, it := range many(rows, 10) {
		it["h"], it["i"] = it["pk"], it["sk"]
		rowsOf[i*3/rows] = append(rowsOf[i*3/rows], it)
	}
	for _, items := range rowsOf {
		mustAdd(t, l, items...)
	}
	if err := l.Finish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	keep = func() {}
	if len(images) < 10 {
		t.Fatalf("%d images", len(images))
	}
	seen := map[storage.Status]int{}
	for i, path := range images {
		seen[crashed(t, i, path, rows)]++
	}
	if seen[storage.Deleting] < 8 || seen[storage.Active] != 1 || seen[0] != 0 {
		t.Errorf("after a crash the table is %v", seen)
	}
}

// crashed opens what a crash in a load left; of some images three times: in
// the first two lives the process dies again. It returns the status of the
// table.
func crashed(t *testing.T, i int, path string, rows int) storage.Status {
	t.Helper()
	run := loadFiles(path, 2)(1)
	if err := os.WriteFile(run, []byte("of the process before"), 0o600); err != nil {
		t.Fatal(err)
	}
	var version int64
	lives := 1 + 2*(i%4/3)
	for life := range lives {
		db := mustOpen(t, Options{Path: path, Synchronous: Normal})
		if files := loadFilesOf(t, db); len(files) != 0 {
			t.Fatalf("image %d: files left: %q", i, files)
		}
		other, err := db.Table(t.Context(), acct, "other")
		if err != nil || get(t, db, other, "p0", "000000") == nil {
			t.Fatalf("image %d: the other table: %v", i, err)
		}
		tab, stats, err := db.Describe(t.Context(), acct, "t")
		if err != nil {
			t.Fatalf("image %d: %v", i, err)
		}
		if version == 0 {
			version = tab.Version
		}
		if tab.Version != version || tab.Status == storage.Creating {
			t.Fatalf("image %d, life %d: %s, version %d, was %d", i, life, tab.Status, tab.Version, version)
		}
		if life < lives-1 {
			path = crashImage(t, db)
			continue
		}
		if tab.Status == storage.Active {
			if stats.Items != int64(rows) || get(t, db, tab, "p0", "000000") == nil {
				t.Errorf("image %d: ACTIVE with statistics %+v", i, stats)
			}
			check(t, db)
			return tab.Status
		}
		finish(t, db, storage.TableDrop, instant())
		check(t, db)
		for _, table := range []string{"r", "x"} { // the other table's are left
			if n := rowsIn(t, db, table); n != 20 {
				t.Errorf("image %d: %d rows of %s are left", i, n, table)
			}
		}
		return tab.Status
	}
	return 0
}

// rowsIn counts what is in a table of the database, as a reader sees it: the
// writer's connection is the writer's.
func rowsIn(t *testing.T, db *DB, table string) int64 {
	t.Helper()
	s, err := db.openReader(true)
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.c.queryInt("SELECT count(*) FROM " + table)
	if err := errors.Join(err, s.close()); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDiskFullInLoad: a load ends when the disk is full, wherever that is;
// others are not harmed, and with space again its table is dropped.
func TestDiskFullInLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spill int
		pad   int
	}{"rows": {1 << 30, 3000}, "runs": {16 << 10, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := smallDisk(t, 14<<20)
			o := Options{Path: filepath.Join(dir, "a.db")}
			o.hooks.spill = c.spill
			db := mustOpen(t, o)
			other := create(t, db, definition("other"))
			mustPut(t, db, other, many(20, 10)...)
			filler := filepath.Join(dir, "filler")
			if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			l := beginLoad(t, db, wide("t"))
			var err error
			for i := 0; err == nil && i < 500_000; i += 200 {
				rows := many(200, c.pad)
				for j := range rows {
					rows[j] = item(fmt.Sprintf("p%07d", i+j), "s", "g", "g", "h", "h", "i", "i", "pad", strings.Repeat("x", c.pad))
				}
				err = l.Add(t.Context(), loadRowsOf(t, l.table, rows...))
			}
			wantErr(t, err, storage.ErrUnavailable)
			if files := loadFilesOf(t, db); len(files) != 0 {
				t.Errorf("files left: %q", files)
			}
			if get(t, db, other, "p0", "000000") == nil {
				t.Error("the other table lost a row")
			}
			err = l.Abort()
			if err != nil {
				wantErr(t, err, storage.ErrUnavailable)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			finish(t, db, storage.TableDrop, instant())
			if err := l.Abort(); err != nil {
				t.Error(err)
			}
			mustPut(t, db, other, many(100, 10)...)
			check(t, db)
		})
	}
}

// TestLoadsLeftOnFullDisk: a database with half a load can be opened and read
// while the disk is full; the table is dropped when there is space.
func TestLoadsLeftOnFullDisk(t *testing.T) {
	t.Parallel()
	source := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal})
	other := create(t, source, definition("other"))
	mustPut(t, source, other, many(20, 10)...)
	mustAdd(t, beginLoad(t, source, definition("t")), many(500, 100)...)
	image := crashImage(t, source)
	c, err := openConn(image) // what the log holds is put where it belongs
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.exec("PRAGMA wal_checkpoint(TRUNCATE)"), c.close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	dir := smallDisk(t, 4<<20)
	path, filler := filepath.Join(dir, "a.db"), filepath.Join(dir, "filler")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	db := openFull(t, path, filler)
	if get(t, db, other, "p0", "000000") == nil {
		t.Error("a row is lost")
	}
	if got := statusOf(t, db, "t"); got != storage.Creating {
		t.Fatalf("the disk is not full: the table is %s", got)
	}
	w, ok := work(t, db, storage.TableDrop, instant())
	if !ok {
		t.Fatal("no drop is due")
	}
	lease, err := db.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lease.Step(t.Context(), instant())
	wantErr(t, err, storage.ErrUnavailable)
	if err := errors.Join(lease.Release(), os.Remove(filler)); err != nil {
		t.Fatal(err)
	}
	finish(t, db, storage.TableDrop, instant())
	_, err = db.Table(context.Background(), acct, "t")
	wantErr(t, err, storage.ErrTableNotFound)
	check(t, db)
}

// openFull opens a database on a disk that has just the space that takes, and
// not a page for anything to be written; filler takes the rest.
func openFull(t *testing.T, path, filler string) *DB {
	t.Helper()
	full, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close() //nolint:errcheck // holds nothing of worth
	size := int64(0)
	for err == nil {
		var n int
		n, err = full.Write(make([]byte, pageSize))
		size += int64(n)
	}
	for range 100 {
		size -= pageSize
		if err := full.Truncate(size); err != nil {
			t.Fatal(err)
		}
		db, err := Open(t.Context(), Options{Path: path})
		if err == nil {
			t.Cleanup(func() { _ = db.Close() })
			return db
		}
	}
	t.Fatal("the database cannot be opened with 400 KB of space")
	return nil
}

// TestLoadWithoutDatabase: what cannot be written when a load ends is done by
// the drop, which is due as soon as nobody loads the table.
func TestLoadWithoutDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	o := Options{Path: path}
	o.hooks.spill = 1 << 10
	db := mustOpen(t, o)
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	l := beginLoad(t, db, definition("t"))
	mustAdd(t, l, many(200, 1)...)
	err := l.Finish(t.Context(), func(done, total int64) {
		if done == total {
			move(path, path+".away")
		}
	})
	wantErr(t, err, storage.ErrUnavailable)
	if files := loadFilesOf(t, db); len(files) != 0 {
		t.Errorf("files left: %q", files)
	}
	if db.dropping(db.cat.Load().byID[l.Table().ID]) {
		t.Error("a table is to be dropped whose load was not aborted")
	}
	wantErr(t, l.Abort(), storage.ErrUnavailable)
	if got := statusOf(t, db, "t"); got != storage.Creating {
		t.Errorf("the table is %s", got)
	}
	move(path+".away", path)
	finish(t, db, storage.TableDrop, instant())
	if err := l.Abort(); err != nil {
		t.Error(err)
	}
	check(t, db)
}

// TestLoadLosesNoEntry: a run that lost its end is noticed.
func TestLoadLosesNoEntry(t *testing.T) {
	t.Parallel()
	o := Options{Path: Memory}
	o.hooks.spill = 1 << 10
	db := mustOpen(t, o)
	l := beginLoad(t, db, definition("t"))
	mustAdd(t, l, many(200, 1)...)
	if err := os.Truncate(loadFilesOf(t, db)[0], 0); err != nil {
		t.Fatal(err)
	}
	wantErr(t, l.Finish(t.Context(), nil), storage.ErrCorrupt)
	if err := l.Abort(); err != nil {
		t.Fatal(err)
	}
	finish(t, db, storage.TableDrop, instant())
	check(t, db)
}
