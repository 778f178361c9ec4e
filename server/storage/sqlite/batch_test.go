// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	lib "modernc.org/sqlite/lib"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// writes are functions that put items and collect the errors.
func (g *gated) writes(t *testing.T, tab *storage.Table, errs []error, items []ddb.Item) []func() {
	fs := make([]func(), len(items))
	for i, it := range items {
		w := put(t, tab, it)
		fs[i] = func() { _, errs[i] = g.Write(t.Context(), w) }
	}
	return fs
}

func TestGroupCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		n, size int
		want    []int
	}{
		{"one", 1, 10, []int{1}},
		{"all at once", 100, 10, []int{100}},
		{"at most 256 requests", 300, 10, []int{256, 44}},
		{"at most 4 MiB", 50, 100_000, []int{42, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := openGated(t, Options{})
			tab := create(t, g.DB, plain("t"))
			items, errs := many(c.n, c.size), make([]error, c.n)
			if got := g.during(g.writes(t, tab, errs, items)...); !slices.Equal(got, c.want) {
				t.Errorf("batches %v, want %v", got, c.want)
			}
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for _, it := range items {
				if k, _ := tab.KeyOf(it); mustGet(t, g.DB, tab, k) == nil {
					t.Fatalf("row %v is missing", k)
				}
			}
			check(t, g.DB)
		})
	}
}

func mustGet(t *testing.T, db *DB, tab *storage.Table, k storage.Key) *storage.Row {
	t.Helper()
	row, err := db.Get(t.Context(), tab, k)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// TestBatchEndsInTime: a batch takes no more requests once it lasts.
func TestBatchEndsInTime(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(instant())
	g := openGated(t, Options{Clock: clk})
	slow := func() {
		_ = g.change(t.Context(), false, func(*tx) error { clk.Advance(batchTime); return nil })
	}
	quick := func() { _ = g.change(t.Context(), false, func(*tx) error { return nil }) }
	if got := g.during(quick, slow, quick, quick); !slices.Equal(got, []int{2, 2}) {
		t.Errorf("batches %v", got)
	}
}

// TestLongRequestsKeepOut: background work never delays a batch that began.
func TestLongRequestsKeepOut(t *testing.T) {
	t.Parallel()
	g := openGated(t, Options{})
	request := func(last bool) func() {
		return func() { _ = g.change(t.Context(), last, func(*tx) error { return nil }) }
	}
	got := g.during(request(false), request(true), request(false), request(true))
	if !slices.Equal(got, []int{1, 1, 1, 1}) {
		t.Errorf("batches %v", got)
	}
}

// TestFailuresStayAlone: whatever goes wrong in one request, the others of the
// batch are carried out, and nothing of it stays.
func TestFailuresStayAlone(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	half := func(tx *tx) error {
		return tx.run(sqlInsert, int64(1), []byte("half\x00"), []byte("x"), int64(9), int64(9), int64(0), []byte("{}"))
	}
	for _, c := range []struct {
		name string
		f    func(*tx) error
		want error
	}{
		{"refusal", func(*tx) error { return refused }, refused},
		{"panic", func(tx *tx) error { return errors.Join(half(tx), func() error { panic("oops") }()) }, storage.ErrInvalid},
		{"constraint", func(tx *tx) error { return errors.Join(half(tx), half(tx)) }, storage.ErrCorrupt},
		{"damage", func(tx *tx) error { return errors.Join(half(tx), &damage{"seen"}) }, storage.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := openGated(t, Options{})
			tab := create(t, g.DB, definition("t"))
			items, errs := many(9, 10), make([]error, 9)
			fs := g.writes(t, tab, errs, items)
			var err error
			bad := func() { err = g.change(t.Context(), false, c.f) }
			g.during(slices.Insert(fs, 4, bad)...)
			wantErr(t, err, c.want)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if n, err := rowCount(g.DB); n != 9 || err != nil {
				t.Fatalf("%d rows (%v)", n, err)
			}
			check(t, g.DB)
		})
	}
}

func rowCount(db *DB) (n int64, err error) {
	err = db.read(context.Background(), func(s *session) error {
		n, err = s.c.queryInt("SELECT count(*) FROM r")
		return err
	})
	return n, err
}

// TestDecidePanics is a refusal of that write, before and in the writer.
func TestDecidePanics(t *testing.T) {
	t.Parallel()
	g := openGated(t, Options{})
	tab := create(t, g.DB, definition("t"))
	w := put(t, tab, item("p", "s"))
	w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { panic("oops") }
	_, err := g.Write(t.Context(), w)
	wantErr(t, err, storage.ErrInvalid)
	runs := 0
	w.Decide = func(tab *storage.Table, _ *storage.Row) (*storage.Next, error) {
		if runs++; runs == 2 {
			panic("oops")
		}
		return storage.Derive(tab, item("p", "s", "x", "bad"))
	}
	other := put(t, tab, item("p", "s", "x", "good"))
	var first, second error
	g.during(func() { _, first = g.Write(t.Context(), other) }, func() { _, second = g.Write(t.Context(), w) })
	if first != nil {
		t.Fatal(first)
	}
	wantErr(t, second, storage.ErrInvalid)
	if row := get(t, g.DB, tab, "p", "s"); row == nil || string(row.Item) != string(ddb.AppendItem(nil, item("p", "s", "x", "good"))) {
		t.Fatalf("row %v", row)
	}
	check(t, g.DB)
}

// TestDoomedBatch: an error of the disk fails every request, and the next
// batch works.
func TestDoomedBatch(t *testing.T) {
	t.Parallel()
	for _, code := range []int{lib.SQLITE_FULL, lib.SQLITE_IOERR_WRITE, lib.SQLITE_NOMEM, lib.SQLITE_INTERRUPT, lib.SQLITE_BUSY} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			g := openGated(t, Options{})
			tab := create(t, g.DB, definition("t"))
			items, errs := many(4, 10), make([]error, 4)
			fs := g.writes(t, tab, errs, items)
			var made *storage.Table
			fs = append(fs, func() { made, _ = g.CreateTable(t.Context(), acct, definition("u"), instant()) })
			fs = append(fs, func() { _ = g.change(t.Context(), false, func(*tx) error { return &sqliteError{Code: code} }) })
			g.during(fs...)
			for _, err := range errs {
				wantErr(t, err, storage.ErrUnavailable)
			}
			if made != nil {
				t.Error("a table was made")
			}
			_, err := g.Table(t.Context(), acct, "u")
			wantErr(t, err, storage.ErrTableNotFound)
			if n, err := rowCount(g.DB); n != 0 || err != nil {
				t.Fatalf("%d rows (%v)", n, err)
			}
			mustPut(t, g.DB, tab, items...)
			check(t, g.DB)
		})
	}
}

// TestLostConnection: the writer opens the database again.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	lost := false
	var db *DB
	o := Options{Path: Memory}
	o.hooks.batch = func() {
		if lost {
			db.w.closeConn()
		}
		lost = false
	}
	db = mustOpen(t, o)
	tab := create(t, db, definition("t"))
	err := db.change(t.Context(), false, func(*tx) error { lost = true; return nil }) // in the writer's goroutine
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, tab, many(3, 10)...)
	check(t, db)
}

// TestDecidesAgain: what was decided on a row that changed in the queue is
// decided again, once each.
func TestDecidesAgain(t *testing.T) {
	t.Parallel()
	g := openGated(t, Options{})
	tab := create(t, g.DB, definition("t"))
	const n = 10
	runs, errs, fs := make([]int, n), make([]error, n), make([]func(), n)
	for i := range n {
		w := storage.Write{Table: tab, Key: key(t, tab, "p", "s")}
		w.Decide = func(tab *storage.Table, cur *storage.Row) (*storage.Next, error) {
			runs[i]++
			count := 0
			if cur != nil {
				it, err := ddb.ParseItem(cur.Item)
				if err != nil {
					return nil, err
				}
				count, _ = strconv.Atoi(it["g"].Str())
			}
			return storage.Derive(tab, item("p", "s", "g", strconv.Itoa(count+1)))
		}
		fs[i] = func() { _, errs[i] = g.Write(t.Context(), w) }
	}
	g.during(fs...)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	want := ddb.AppendItem(nil, item("p", "s", "g", strconv.Itoa(n)))
	if row := get(t, g.DB, tab, "p", "s"); string(row.Item) != string(want) {
		t.Errorf("item %s, want %s", row.Item, want)
	}
	for i, r := range runs {
		if want := min(i, 1) + 1; r != want {
			t.Errorf("Decide of write %d ran %d times, want %d", i, r, want)
		}
	}
	check(t, g.DB)
}

// TestDefinitionChangesInQueue: a write behind an update sees the new
// definition, one behind a drop is refused.
func TestDefinitionChangesInQueue(t *testing.T) {
	t.Parallel()
	g := openGated(t, Options{})
	tab := create(t, g.DB, definition("t"))
	update := func() {
		_, _ = g.UpdateTable(t.Context(), acct, "t", func(t *storage.Table) (ddb.TableDefinition, error) { return t.Def, nil })
	}
	var versions []int64
	w := put(t, tab, item("p", "s"))
	decide := w.Decide
	w.Decide = func(tab *storage.Table, cur *storage.Row) (*storage.Next, error) {
		versions = append(versions, tab.Version)
		return decide(tab, cur)
	}
	var r storage.Result
	g.during(update, func() { r, _ = g.Write(t.Context(), w) })
	if r.Err != nil || r.Table.Version != 2 || !slices.Equal(versions, []int64{1, 2}) {
		t.Errorf("result %+v, Decide ran with versions %v", r, versions)
	}
	drop := func() { _, _ = g.DropTable(t.Context(), acct, "t", func(*storage.Table) error { return nil }) }
	g.during(drop, func() { r, _ = g.Write(t.Context(), w) })
	wantErr(t, r.Err, storage.ErrTableNotFound)
}

// TestWithdrawn: a queued request whose context ends is not carried out, and
// its caller does not wait for the writer.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	g := openGated(t, Options{})
	tab := create(t, g.DB, definition("t"))
	<-g.queued // that of the table
	ctx, cancel := context.WithCancel(t.Context())
	g.hold.Lock()
	done := make(chan error)
	go func() {
		_, err := g.Write(ctx, put(t, tab, item("p", "s")))
		done <- err
	}()
	<-g.queued
	cancel()
	wantErr(t, <-done, context.Canceled)
	g.hold.Unlock()
	mustPut(t, g.DB, tab, item("p", "other"))
	if get(t, g.DB, tab, "p", "s") != nil {
		t.Error("a withdrawn write was carried out")
	}
	_, err := g.Write(ctx, put(t, tab, item("p", "s")))
	wantErr(t, err, context.Canceled)
}

// TestTakenIsAwaited: once the writer works on a request its outcome counts,
// whatever became of the context.
func TestTakenIsAwaited(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	ctx, cancel := context.WithCancel(t.Context())
	err := db.change(ctx, false, func(tx *tx) error {
		cancel()
		return tx.run(sqlSetToken, []byte("a"), []byte("b"), []byte("c"), int64(1))
	})
	if err != nil {
		t.Fatalf("carried out, but answered %v", err)
	}
}

// TestConcurrentWritersShareCommits by themselves: while one is
// synced, the next fills.
func TestConcurrentWritersShareCommits(t *testing.T) {
	t.Parallel()
	g := openGated(t, Options{Path: filepath.Join(t.TempDir(), "test.db")})
	tab := create(t, g.DB, definition("t"))
	const clients, each = 16, 40
	errs := make([]error, clients)
	fs := make([]func(), clients)
	for i := range clients {
		fs[i] = func() {
			for j := range each {
				_, err := g.Write(t.Context(), put(t, tab, item(fmt.Sprint(i), fmt.Sprint(j), "g", "v")))
				errs[i] = errors.Join(errs[i], err)
			}
		}
	}
	batches := g.during(fs...)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if len(batches) >= clients*each { // far fewer where a sync takes time
		t.Errorf("%d commits for %d writes", len(batches), clients*each)
	}
	if n, err := rowCount(g.DB); n != clients*each || err != nil {
		t.Errorf("%d rows (%v)", n, err)
	}
	check(t, g.DB)
}

// TestReplayBeforeAnythingElse: a token that was seen answers for tables that
// are gone since.
func TestReplayBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Path: Memory})
	tab := create(t, db, definition("t"))
	ws := []storage.Write{put(t, tab, item("p", "s"))}
	token := &storage.Token{Account: acct, Token: "t", Now: instant()}
	if _, err := db.WriteAll(t.Context(), ws, token); err != nil {
		t.Fatal(err)
	}
	drop1(t, db, "t")
	_, err := db.WriteAll(t.Context(), ws, token)
	wantErr(t, err, storage.ErrReplayed)
	other := *token
	other.Token = "other"
	_, err = db.WriteAll(t.Context(), ws, &other)
	wantErr(t, err, storage.ErrTableNotFound)
}
