// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// TestKeyLocks: a row has one writer at a time, in order; who gives up leaves
// nothing locked, and several rows are taken in one order.
func TestKeyLocks(t *testing.T) {
	t.Parallel()
	var locks keyLocks
	tab := &storage.Table{ID: 1}
	lock := func(ctx context.Context, pks ...string) (unlock func(), err error) {
		var names []string
		for _, pk := range pks {
			names = append(names, lockName(tab.ID, storage.Key{PK: []byte(pk)}))
		}
		return locks.lock(ctx, clock.Real{}, keyWait, 1, names)
	}
	counters, all := map[string]int{"a": 0, "b": 0}, []string{"a", "b"}
	err := together(8, func(i int) error {
		for range 200 {
			own := []string{all[i%2], all[1-i%2], all[i%2]}[:1+i%3] // the same one twice, too
			unlock, err := lock(t.Context(), own...)
			if err != nil {
				return err
			}
			if len(own) > 1 {
				counters["a"]++
				counters["b"]++
			}
			unlock()
		}
		return nil
	})
	if want := 200 * 5; err != nil || counters["a"] != want || counters["b"] != want {
		t.Errorf("%v, want %d of each: %v", counters, want, err)
	}
	unlock, err := lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, "a", "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	for i := range 10_000 { // others are not held up
		other, err := lock(ctx, fmt.Sprint("other", i))
		if err != nil {
			t.Fatal(err)
		}
		defer other()
	}
	if unlock(); len(locks.rows) != 10_000 {
		t.Errorf("%d rows are locked", len(locks.rows))
	}
	t.Cleanup(func() {
		if len(locks.rows) != 0 {
			t.Errorf("%d locks stay", len(locks.rows))
		}
	})
}

// TestLockNames: no two rows share a lock.
func TestLockNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, id := range []storage.TableID{1, 2, 300} {
		for _, k := range []storage.Key{
			{PK: []byte("a"), SK: []byte("bc")}, {PK: []byte("ab"), SK: []byte("c")}, {PK: []byte("abc")}, {PK: []byte("\x01a"), SK: []byte("bc")},
		} {
			seen[lockName(id, k)] = true
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d names of 12 rows", len(seen))
	}
}

// TestWriteEachConnections: all calls together leave connections to others.
func TestWriteEachConnections(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 7})
	tab := create(t, db, hashTable("t"))
	var ws []storage.Write
	for i := range 40 {
		ws = append(ws, put(tab, item(fmt.Sprint("k", i))))
	}
	mustWrite(t, db, ws...)
	c, holder := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	mustExec(t, holder, "BEGIN")
	mustExec(t, holder, "SELECT 1 FROM "+rowsOf(tab.ID)+" FOR UPDATE")
	done := make(chan error, 2)
	for i := range 2 {
		go func() {
			var errs []error
			for _, r := range db.WriteEach(context.WithoutCancel(t.Context()), ws[20*i:20*i+20]) {
				errs = append(errs, r.Err)
			}
			done <- errors.Join(errs...)
		}()
	}
	if n := len(blocked(t, c, 5)); n > 5 { // two calls, three helpers
		t.Errorf("%d connections are in use, want 5", n)
	}
	if _, err := db.Table(t.Context(), acct, "none"); !errors.Is(err, storage.ErrTableNotFound) { // it needs one
		t.Errorf("error %v", err)
	}
	mustExec(t, holder, "COMMIT")
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := db.writes.helpers.Load(); n != 0 {
		t.Errorf("%d helpers are left", n)
	}
}

// TestWriteMissingRelation: a table whose relation is gone is damaged; nobody tries
// again once the definition that was read again is the same.
func TestWriteMissingRelation(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, indexed("t", "a"))
	mustWrite(t, db, put(tab, item("x", "a", "1")))
	mustExec(t, mustConnect(t, db.o.URL), "DROP TABLE "+entriesOf(tab.Indexes[0].ID))
	for name, write := range map[string]func(w storage.Write) error{
		"Write":    func(w storage.Write) error { _, err := db.Write(t.Context(), w); return err },
		"WriteAll": func(w storage.Write) error { _, err := db.WriteAll(t.Context(), []storage.Write{w}, nil); return err },
	} {
		before := db.pool.Stat().AcquireCount()
		err := write(put(tab, item("x", "a", "2")))
		if !errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrStale) || !strings.Contains(err.Error(), "a relation is missing") {
			t.Errorf("%s: %v", name, err)
		}
		if n := db.pool.Stat().AcquireCount() - before; n > 4 {
			t.Errorf("%s took %d connections, one after the other", name, n)
		}
	}
}

// TestCorruptRow: a row that nobody can read is not written over as if it were
// not there.
func TestCorruptRow(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	for i, text := range []string{"no item", `{"a":{"S":"x"}}`} {
		tab := create(t, db, indexed(fmt.Sprint("table", i), "a"))
		mustExec(t, c, "INSERT INTO "+rowsOf(tab.ID)+" (ver, size, flags, pk, sk, item) VALUES (1, 1, 0, $1, '', $2)", key(tab, "x").PK, []byte(text))
		for _, err := range []error{
			db.WriteEach(t.Context(), []storage.Write{put(tab, item("x"))})[0].Err,
			func() error {
				_, err := db.WriteAll(t.Context(), []storage.Write{put(tab, item("x"))}, nil)
				return err
			}(),
		} {
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("error %v, want ErrCorrupt", err)
			}
		}
	}
}

// TestClosedWrites: a closed engine writes nothing.
func TestClosedWrites(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, hashTable("t"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, one := db.Write(t.Context(), put(tab, item("x")))
	_, all := db.WriteAll(t.Context(), []storage.Write{put(tab, item("x"))}, nil)
	_, horizon := db.Horizon(t.Context())
	_, records := db.Records(t.Context(), tab.ID, 0, 1, 1, 0)
	for i, err := range []error{one, all, horizon, records, db.WriteEach(t.Context(), []storage.Write{put(tab, item("x"))})[0].Err} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
