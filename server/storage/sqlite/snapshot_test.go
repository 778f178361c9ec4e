// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

func snapshotOf(t testing.TB, db *DB, name string) storage.Snapshot {
	t.Helper()
	s, err := db.Snapshot(context.Background(), acct, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// drain reads a snapshot to its end.
func drain(t testing.TB, s storage.Snapshot) (rows int) {
	t.Helper()
	for _, err := range s.Rows(context.Background()) {
		if err != nil {
			t.Fatalf("after %d rows: %v", rows, err)
		}
		rows++
	}
	return rows
}

// assertNoSnapshots: all places are free.
func assertNoSnapshots(t testing.TB, db *DB) {
	t.Helper()
	if n := db.snaps.Len(); n > 0 {
		t.Errorf("%d snapshots hold places", n)
	}
}

func TestSnapshotMarker(t *testing.T) {
	t.Parallel()
	for _, path := range []string{Memory, filepath.Join(t.TempDir(), "a.db")} {
		db := mustOpen(t, Options{Path: path})
		create(t, db, plain("t"))
		if kind, value := snapshotOf(t, db, "t").Marker(); kind != "sqlite_wal_read_txn" || value != "" {
			t.Errorf("marker %q %q", kind, value)
		}
	}
}

// TestSnapshotBound is half of the readers.
func TestSnapshotBound(t *testing.T) {
	t.Parallel()
	for readers, bound := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 8: 4, 10: 5} {
		db := mustOpen(t, Options{Path: Memory, Readers: readers})
		create(t, db, plain("t"))
		for range bound {
			snapshotOf(t, db, "t")
		}
		_, err := db.Snapshot(t.Context(), acct, "t")
		wantErr(t, err, storage.ErrTooManySnapshots)
	}
}

// TestSnapshotTakesNoReader: nobody waits for who reads a snapshot, or is
// waited for by it, with a single reader.
func TestSnapshotTakesNoReader(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory, Readers: 1})
	tab := create(t, db, plain("t"))
	items := many(3*snapshotRows/2, 10)
	mustPut(t, db, tab, items...)
	rows := 0
	for _, err := range snapshotOf(t, db, "t").Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if rows++; rows != 3 {
			continue
		}
		assertIdle(t, db)
		err := db.read(t.Context(), func(*session) error { // the only reader is busy: the rest is read all the same
			_, err := db.Write(t.Context(), blind(t, tab, items[0]))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if rows != len(items) {
		t.Errorf("%d rows of %d", rows, len(items))
	}
	assertNoSnapshots(t, db)
}

// TestSnapshotReadsAhead so many rows, and so many bytes but for the last row;
// the place is free as soon as the last row is read, not when it is yielded.
func TestSnapshotReadsAhead(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	for _, c := range []struct {
		name  string
		items []ddb.Item
		page  int // rows
		hook  int
	}{
		{"rows", many(2*snapshotRows+5, 10), snapshotRows, 0},
		{"hook", many(205, 10), 100, 100},
		{"bytes", many(10, size), snapshotBytes/size + 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			o := Options{Path: Memory}
			o.hooks.snapRead = func() { reads++ }
			o.hooks.snapRows = func() int { return c.hook }
			db := mustOpen(t, o)
			mustPut(t, db, create(t, db, plain("t")), c.items...)
			s, rows := snapshotOf(t, db, "t"), 0
			for _, err := range s.Rows(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if rows++; reads != (rows-1)/c.page+1 {
					t.Fatalf("row %d comes after %d reads", rows, reads)
				}
				last := reads == len(c.items)/c.page+1
				if held := db.snaps.Len() == 1; held == last {
					t.Errorf("row %d: the place is held: %v", rows, held)
				}
			}
			if rows != len(c.items) {
				t.Errorf("%d rows of %d", rows, len(c.items))
			}
		})
	}
}

// longItem has a partition key that is shortened.
func longItem(sk string) ddb.Item { return item(strings.Repeat("p", 500), sk) }

func ordered(t *testing.T, db *DB, want bool) {
	t.Helper()
	s := snapshotOf(t, db, "t")
	if got := s.KeyOrdered(); got != want {
		t.Fatalf("key-ordered is %v", got)
	}
	_ = s.Close()
	check(t, db)
}

// TestLongKeysAreRemembered although the row is gone, over restarts and
// changes of the definition, and cost the definition no version.
func TestLongKeysAreRemembered(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal}
	db := mustOpen(t, o)
	tab := create(t, db, plain("t"))
	mustPut(t, db, tab, many(5, 10)...)
	ordered(t, db, true)
	refused := put(t, tab, longItem("1"))
	refused.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, errors.New("no") }
	if _, err := db.Write(t.Context(), refused); err == nil {
		t.Error("not refused")
	}
	ordered(t, db, true)
	before := snapshotOf(t, db, "t")
	mustPut(t, db, tab, longItem("1"), longItem("2"))
	ordered(t, db, false)
	if !before.KeyOrdered() || drain(t, before) != 5 {
		t.Error("a snapshot taken before knows of the long key")
	}
	for _, sk := range []string{"1", "2"} {
		w := put(t, tab, longItem(sk))
		w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, nil }
		if _, err := db.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		ordered(t, db, false)
		if now, err := db.Table(t.Context(), acct, "t"); err != nil || now.Version != tab.Version {
			t.Errorf("table %+v (%v)", now, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = mustOpen(t, o)
	}
	_, err := db.UpdateTable(t.Context(), acct, "t", func(t *storage.Table) (ddb.TableDefinition, error) {
		def := t.Def
		def.DeletionProtection = true
		return def, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, tab, longItem("3"))
	ordered(t, db, false)
	create(t, db, plain("other"))
	if !snapshotOf(t, db, "other").KeyOrdered() {
		t.Error("another table is not ordered")
	}
}

// TestLongKeyOfAFailedBatch is forgotten with it.
func TestLongKeyOfAFailedBatch(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	tab := create(t, db, plain("t"))
	w := put(t, tab, longItem("1"))
	fail := true
	err := db.change(t.Context(), false, func(tx *tx) error {
		c := &change{w: w}
		if err := tx.write(c); err != nil || !fail {
			return err
		}
		fail = false
		return &damage{"made up"}
	})
	wantErr(t, err, storage.ErrCorrupt)
	ordered(t, db, true)
	mustPut(t, db, tab, longItem("1"))
	ordered(t, db, false)
}

// TestMigrationFindsLongKeys of a database from before they were noted.
func TestMigrationFindsLongKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := mustOpen(t, Options{Path: path})
	for _, name := range []string{"t", "short"} {
		tab := create(t, db, plain(name))
		mustPut(t, db, tab, many(20, 10)...)
		if name == "t" {
			mustPut(t, db, tab, longItem("1"))
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	script(t, path, "ALTER TABLE tables DROP COLUMN long_keys; DROP TABLE changes; DELETE FROM migrations WHERE version >= 2")
	db = mustOpen(t, Options{Path: path})
	ordered(t, db, false)
	if drain(t, snapshotOf(t, db, "t")) != 21 || !snapshotOf(t, db, "short").KeyOrdered() {
		t.Error("rows are missing, or the other table is not ordered")
	}
	forgotten := func(tx *tx) error { return tx.run("UPDATE tables SET long_keys = 0") }
	if err := db.change(t.Context(), false, forgotten); err != nil {
		t.Fatal(err)
	}
	wantErr(t, db.Check(t.Context()), storage.ErrCorrupt)
	var last error
	for _, err := range snapshotOf(t, db, "t").Rows(t.Context()) {
		last = err
	}
	wantErr(t, last, storage.ErrCorrupt) // order was promised
}

// TestLogIsCutAfterSnapshots that let it grow, without another write; not
// before the last of them.
func TestLogIsCutAfterSnapshots(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	looked := make(chan struct{}, 16)
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal, Log: slog.New(slog.NewTextHandler(&out, nil)), Clock: clock.Real{}}
	o.hooks.logCut = func() { looked <- struct{}{} }
	db := mustOpen(t, o)
	tab := create(t, db, plain("t"))
	items := many(1000, 10)
	mustPut(t, db, tab, items...)
	n := 0
	write := func() { // pages that do not change are not written
		n++
		mustPut(t, db, tab, item("z", "1", "pad", strings.Repeat(string(rune('a'+n%26)), 390_000)))
	}
	grow := func() {
		for from := logSize(t, db); logSize(t, db) < from+2*checkpointPages; {
			write()
		}
	}
	frames := func() (pages, done int64) { // in the log, and those that are written back
		err := db.read(t.Context(), func(s *session) error {
			st, err := s.stmt(sqlLogSize)
			if err != nil {
				return err
			}
			defer st.reset()
			_, err = st.step()
			pages, done = st.colInt(1), st.colInt(2)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return pages, done
	}
	first, second := snapshotOf(t, db, "t"), snapshotOf(t, db, "t")
	grow()
	if n := drain(t, first); n != len(items) {
		t.Errorf("%d rows", n)
	}
	if n := logSize(t, db); len(looked) > 0 || n < 2*checkpointPages {
		t.Errorf("%d pages while a snapshot is open", n)
	}
	_ = second.Close()
	<-looked
	if pages, done := frames(); done != pages {
		t.Errorf("%d pages of %d of the log are written back", done, pages)
	}
	// Its file stays as it is, unless it is long.
	length := func() int64 {
		info, err := os.Stat(o.Path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if n := length(); n < 2*checkpointPages*pageSize {
		t.Errorf("the file of the log has %d bytes", n)
	}
	long := snapshotOf(t, db, "t")
	for length() <= walLimit {
		write()
	}
	_ = long.Close()
	<-looked
	if n := length(); n != 0 {
		t.Errorf("the file of the long log still has %d bytes", n)
	}
	// What another reader prevents is done later.
	third := snapshotOf(t, db, "t")
	rows := 0
	for _, err := range db.Range(t.Context(), tab, storage.Range{Want: storage.Items}) {
		if err != nil {
			t.Fatal(err)
		}
		if rows++; rows == 1 {
			grow()
			_ = third.Close()
			<-looked
			if n := logSize(t, db); n < 2*checkpointPages {
				t.Errorf("%d pages while a range is read", n)
			}
		}
	}
	for i := 0; ; i++ { // it is tried again when it has grown by half
		write()
		if pages, _ := frames(); pages <= checkpointPages {
			break
		} else if i > 100 {
			t.Fatalf("the log still has %d pages", pages)
		}
	}
	if err := db.Close(); err != nil { // the writer has ended: out is ours
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "ERROR") {
		t.Error(out.String())
	}
}

// TestCloseDuringSnapshots: Close ends those that are open, and waits only for
// one that is being opened.
func TestCloseDuringSnapshots(t *testing.T) {
	t.Parallel()
	opening, resume := make(chan struct{}), make(chan struct{})
	stop := false
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Readers: 8}
	o.hooks.snapItems = func() {
		if stop {
			close(opening)
			<-resume
		}
	}
	db := mustOpen(t, o)
	mustPut(t, db, create(t, db, plain("t")), many(2*snapshotRows, 10)...)
	half := snapshotOf(t, db, "t")
	done := make(chan error, 1)
	rows := 0
	var last error
	for _, err := range half.Rows(t.Context()) {
		if last = err; err != nil {
			break
		}
		if rows++; rows != 5 {
			continue
		}
		stop = true
		opened := make(chan error, 1)
		go func() {
			s, err := db.Snapshot(context.Background(), acct, "t")
			if err == nil {
				for _, err = range s.Rows(context.Background()) {
					break
				}
			}
			opened <- err
		}()
		<-opening
		go func() { done <- db.Close() }()
		close(resume)
		if err := <-opened; err != nil { // else it read a row before Close came by
			wantErr(t, err, storage.ErrClosed)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, last, storage.ErrClosed)
	if rows != 5 {
		t.Errorf("%d rows", rows)
	}
	_, err := db.Snapshot(t.Context(), acct, "t")
	wantErr(t, err, storage.ErrClosed)
	assertNoSnapshots(t, db)
	db = mustOpen(t, Options{Path: o.Path})
	if n := drain(t, snapshotOf(t, db, "t")); n != 2*snapshotRows {
		t.Errorf("%d rows afterwards", n)
	}
}

// blind is a write that reads nothing.
func blind(t testing.TB, tab *storage.Table, it ddb.Item) storage.Write {
	w := put(t, tab, it)
	w.Blind = true
	return w
}

// BenchmarkSnapshot reads 200,000 items of 400 bytes.
func BenchmarkSnapshot(b *testing.B) {
	const rows = 200_000
	for _, scattered := range []bool{false, true} {
		b.Run(fmt.Sprintf("scattered=%v", scattered), func(b *testing.B) {
			db, tab := benchDB(b, Options{Synchronous: Normal})
			ws := make([]storage.Write, 0, 1000)
			pad := strings.Repeat("x", 340)
			for i := range rows {
				n := i
				if scattered {
					n = i * 7919 % rows
				}
				ws = append(ws, blind(b, tab, item(fmt.Sprintf("p%04d", n/100), fmt.Sprintf("%06d", n), "pad", pad)))
				if len(ws) == cap(ws) {
					for _, r := range db.WriteEach(b.Context(), ws) {
						if r.Err != nil {
							b.Fatal(r.Err)
						}
					}
					ws = ws[:0]
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if n := drain(b, snapshotOf(b, db, "t")); n != rows {
					b.Fatal(n)
				}
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
