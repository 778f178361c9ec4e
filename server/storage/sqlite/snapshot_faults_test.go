// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// TestSnapshotOfDamage ends with an error, never with a backup of it, and
// gives its place back.
func TestSnapshotOfDamage(t *testing.T) {
	t.Parallel()
	const undefined = `UPDATE tables SET definition = CAST(replace(CAST(definition AS TEXT),
		'"AttributeName":"pk","AttributeType"', '"AttributeName":"other","AttributeType"') AS BLOB)`
	for _, c := range []struct {
		name, sql string
		open      bool // the opening fails
	}{
		{"definition", "UPDATE tables SET definition = x'7b'", true},
		{"no definition", "UPDATE tables SET definition = x''", true},
		{"key attribute undefined", undefined, true},
		{"index lost", "DELETE FROM indexes", true},
		{"index of nobody", "INSERT INTO indexes (t, name) SELECT t, x'41' FROM indexes", true},
		{"item", "UPDATE r SET item = x'00' WHERE id = 30", false},
		{"item cut", "UPDATE r SET item = substr(item, 1, length(item) - 1) WHERE id = 30", false},
		{"attribute beside the keys", `UPDATE r SET item = CAST(replace(CAST(item AS TEXT), '"pad":{', '"pad":}') AS BLOB) WHERE id = 30`, false},
		{"key of another type", `UPDATE r SET item = CAST(replace(CAST(item AS TEXT), '"pk":{"S"', '"pk":{"B"') AS BLOB) WHERE id = 30`, false},
		{"another's item", "UPDATE r SET item = (SELECT item FROM r WHERE id = 4) WHERE id = 30", false},
		{"no key", "UPDATE r SET item = CAST('{}' AS BLOB) WHERE id = 30", false},
		{"key", "UPDATE r SET pk = x'6100' WHERE id = 30", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{Path: Memory, Readers: 2})
			mustPut(t, db, create(t, db, definition("t")), many(50, 10)...)
			if err := db.change(t.Context(), false, func(tx *tx) error { return tx.w.s.c.exec(c.sql) }); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				s, err := db.Snapshot(t.Context(), acct, "t")
				if c.open {
					wantErr(t, err, storage.ErrCorrupt)
					assertNoSnapshots(t, db)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				rows := 0
				for _, err = range s.Rows(t.Context()) {
					if err != nil {
						assertNoSnapshots(t, db)
						continue
					}
					rows++
				}
				wantErr(t, err, storage.ErrCorrupt)
				if rows >= 50 || strings.Contains(err.Error(), "xxxx") {
					t.Errorf("%d rows, then %v", rows, err)
				}
			}
		})
	}
}

// TestSnapshotOfABrokenFile: pages that are no pages any more.
func TestSnapshotOfABrokenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := mustOpen(t, Options{Path: path, Synchronous: Normal, Readers: 2})
	mustPut(t, db, create(t, db, plain("t")), many(3000, 300)...)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	junk := []byte(strings.Repeat("junk", pageSize/4))
	for page := info.Size() / pageSize / 2; page < info.Size()/pageSize; page++ {
		if _, err := f.WriteAt(junk, page*pageSize); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, Options{Path: path, Readers: 2})
	for range 2 {
		s, err := db.Snapshot(t.Context(), acct, "t")
		if err != nil {
			t.Fatal(err)
		}
		for _, err = range s.Rows(t.Context()) {
			continue
		}
		wantErr(t, err, storage.ErrCorrupt)
		assertNoSnapshots(t, db)
	}
}

// TestSnapshotWithoutItsFile: another file is there, or none. It is never
// opened for a snapshot, and those that are open go on.
func TestSnapshotWithoutItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := mustOpen(t, Options{Path: path, Readers: 4})
	mustPut(t, db, create(t, db, plain("t")), many(2*snapshotRows, 10)...)
	s := snapshotOf(t, db, "t")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(path, path+".away"))
	for range 3 {
		_, err := db.Snapshot(t.Context(), acct, "t")
		wantErr(t, err, storage.ErrUnavailable)
	}
	must(os.WriteFile(path, nil, 0o600))
	_, err := db.Snapshot(t.Context(), acct, "t")
	wantErr(t, err, storage.ErrUnavailable)
	if n := drain(t, s); n != 2*snapshotRows {
		t.Errorf("%d rows", n)
	}
	assertNoSnapshots(t, db)
	if found, err := os.ReadFile(path); err != nil || len(found) != 0 {
		t.Errorf("the other file was changed (%v)", err)
	}
	must(os.Rename(path+".away", path))
	if n := drain(t, snapshotOf(t, db, "t")); n != 2*snapshotRows {
		t.Errorf("%d rows", n)
	}
}

// TestSnapshotOnAFullDisk needs no room: what is there can be backed up.
func TestSnapshotOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 24<<20)
	db := mustOpen(t, Options{Path: filepath.Join(dir, "a.db")})
	tab := create(t, db, plain("t"))
	items := many(500, 1000)
	mustPut(t, db, tab, items...)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := db.Snapshot(t.Context(), acct, "t")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	write := func(i int) error {
		pad := ddb.Item{"pad": ddb.String(strings.Repeat(string(rune('a'+i%26)), 100_000)), "pk": ddb.String("p0"), "sk": ddb.String("big")}
		_, err := db.Write(t.Context(), put(t, tab, pad))
		return err
	}
	for i := 0; err == nil; i++ { // into the log, which cannot begin anew
		if err = write(i); i > 5000 {
			t.Fatal("the disk did not fill up")
		}
	}
	wantErr(t, err, storage.ErrUnavailable)
	second, err := db.Snapshot(t.Context(), acct, "t")
	if err != nil {
		t.Fatal(err)
	}
	if n := drain(t, second); n < len(items) {
		t.Errorf("%d rows of a new snapshot", n)
	}
	if n := drain(t, held); n != len(items) {
		t.Errorf("%d rows", n)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := write(1); err != nil {
		t.Errorf("with space again: %v", err)
	}
	check(t, db)
}
