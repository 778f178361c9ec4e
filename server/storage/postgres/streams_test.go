// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func horizonOf(t testing.TB, db *DB) int64 {
	t.Helper()
	h, err := db.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// reaches waits until the horizon is where it should be: transactions of other
// tests on the same server delay it.
func reaches(t testing.TB, db *DB, want int64) {
	t.Helper()
	h := horizonOf(t, db)
	for ; h < want; h = horizonOf(t, db) {
		if err := pause(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if h != want {
		t.Errorf("horizon %d, want %d", h, want)
	}
}

// TestRecordsInOneStep: a record is there with its row, in transactions too,
// and not when nothing changes or the write is undone.
func TestRecordsInOneStep(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab, other := create(t, db, streaming(indexed("t", "a"), ddb.ViewBoth)), create(t, db, hashTable("other"))
	if h := horizonOf(t, db); h != 0 {
		t.Errorf("horizon of an empty database is %d", h)
	}
	at := instant()
	say := func(w storage.Write) storage.Write {
		w.Change = storage.Change{At: at, Service: true}
		return w
	}
	mustWrite(t, db, say(put(tab, item("x", "a", "1"))), say(put(tab, item("x", "a", "1"))), blind(put(tab, item("x", "a", "2"))),
		remove(tab, "none"), put(other, item("x")), blind(put(other, item("x"))))
	_, err := db.WriteAll(t.Context(), []storage.Write{say(remove(tab, "x")), put(tab, item("y")), unless(tab, "z"), put(other, item("y"))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.WriteAll(t.Context(), []storage.Write{put(tab, item("q")), unless(tab, "y")}, nil)
	if refused := new(storage.Cancelled); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	before := db.Clock().Now()
	reaches(t, db, 4)
	records, err := db.Records(t.Context(), tab.ID, 0, horizonOf(t, db), 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range records {
		got = append(got, fmt.Sprintf("%d %s %s>%s %v", r.Kind, r.Keys, r.Old, r.New, r.Service))
		switch {
		case r.Service && !r.At.Equal(at), !r.Service && (r.At.After(before) || before.Sub(r.At) > 1e11):
			t.Errorf("record %d is of %s", i, r.At)
		case i > 0 && r.Seq <= records[i-1].Seq, r.Table != tab.ID:
			t.Errorf("record %d is %+v", i, r)
		}
	}
	want := []string{
		`1 {"k":{"S":"x"}} >{"a":{"S":"1"},"k":{"S":"x"}} true`,
		`2 {"k":{"S":"x"}} {"a":{"S":"1"},"k":{"S":"x"}}>{"a":{"S":"2"},"k":{"S":"x"}} false`,
		`3 {"k":{"S":"x"}} {"a":{"S":"2"},"k":{"S":"x"}}> true`,
		`1 {"k":{"S":"y"}} >{"k":{"S":"y"}} false`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("records\n%q\nwant\n%q", got, want)
	}
	checkPages(t, db, tab.ID, records)
}

// checkPages reads the same records in parts.
func checkPages(t *testing.T, db *DB, id storage.TableID, all []storage.Record) {
	t.Helper()
	last := all[len(all)-1].Seq
	for _, tc := range []struct {
		after, upTo  int64
		limit, bytes int
		want         []storage.Record
	}{
		{0, last, 2, 0, all[:2]}, {all[0].Seq, last, 100, 0, all[1:]}, {all[0].Seq, all[2].Seq, 100, 0, all[1:3]},
		{0, last, 100, 1, all[:1]}, {0, last, 100, len(all[0].Keys) + len(all[0].New) + 1, all[:2]}, {last, last, 100, 0, nil},
	} {
		got, err := db.Records(t.Context(), id, tc.after, tc.upTo, tc.limit, tc.bytes)
		if err != nil || len(got) != len(tc.want) {
			t.Errorf("%+v: %d records, want %d: %v", tc, len(got), len(tc.want), err)
			continue
		}
		for i := range got {
			if got[i].Seq != tc.want[i].Seq {
				t.Errorf("%+v: record %d is %d, want %d", tc, i, got[i].Seq, tc.want[i].Seq)
			}
		}
	}
}

// TestHorizonWaitsForOlder: what was drawn by a transaction that runs is not
// passed, what comes after it neither; nobody waits for that.
func TestHorizonWaitsForOlder(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, streaming(hashTable("t"), ddb.ViewKeysOnly))
	mustWrite(t, db, put(tab, item("a")))
	const first = 1
	reaches(t, db, first)
	older := mustConnect(t, db.o.URL)
	mustExec(t, older, "BEGIN")
	mustExec(t, older, `INSERT INTO extenddb.changes (seq, t, pk, sk, kind, service, size, at, keys)
		SELECT nextval('extenddb.change_seq'), $1, '', '', 1, false, 0, now(), ''`, int64(tab.ID))
	mustWrite(t, db, put(tab, item("b")))
	for range 3 {
		if h := horizonOf(t, db); h != first {
			t.Errorf("horizon %d has passed what is being written behind %d", h, first)
		}
	}
	mustExec(t, older, "COMMIT")
	reaches(t, db, first+2)
	// A transaction that draws nothing but has an id delays, no more.
	mustExec(t, older, "BEGIN")
	mustExec(t, older, "SELECT pg_current_xact_id()")
	mustWrite(t, db, put(tab, item("c")))
	if h := horizonOf(t, db); h != first+2 {
		t.Errorf("horizon %d, want %d", h, first+2)
	}
	mustExec(t, older, "ROLLBACK")
	reaches(t, db, first+3)
}

// TestHorizonOfServers: what one server has found is known to the others, those
// that start later too, however long somebody delays them.
func TestHorizonOfServers(t *testing.T) {
	t.Parallel()
	one := mustOpen(t, Options{})
	two := mustOpen(t, Options{URL: one.o.URL})
	tab := create(t, one, streaming(hashTable("t"), ddb.ViewKeysOnly))
	mustWrite(t, one, put(tab, item("a")))
	reaches(t, two, 1)
	older := mustConnect(t, one.o.URL)
	mustWrite(t, one, put(tab, item("b")))
	reaches(t, one, 2)
	mustExec(t, older, "BEGIN")
	mustExec(t, older, "SELECT pg_current_xact_id()")
	mustWrite(t, one, put(tab, item("c")))
	for name, db := range map[string]*DB{"the first": one, "the second": two, "a new one": mustOpen(t, Options{URL: one.o.URL})} {
		for range 2 {
			if h := horizonOf(t, db); h != 2 {
				t.Errorf("%s is at %d, want 2", name, h)
			}
		}
	}
	mustExec(t, older, "ROLLBACK")
	reaches(t, two, 3)
}

// TestHorizonIsShared: callers at the same time cost few polls.
func TestHorizonIsShared(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 2})
	tab := create(t, db, streaming(hashTable("t"), ddb.ViewKeysOnly))
	mustWrite(t, db, put(tab, item("a")))
	const want = 1
	reaches(t, db, want)
	h := &db.writes.horizon
	before := h.polls.Load()
	h.turn <- struct{}{}
	started := make(chan struct{}, 50)
	var all sync.WaitGroup
	for range cap(started) {
		all.Go(func() {
			started <- struct{}{}
			if got, err := db.Horizon(t.Context()); err != nil || got != want {
				t.Errorf("horizon %d: %v", got, err)
			}
		})
	}
	for range cap(started) {
		<-started
	}
	<-h.turn
	all.Wait()
	if n := h.polls.Load() - before; n < 1 || n > int64(cap(started))/2 {
		t.Errorf("%d polls for %d callers", n, cap(started))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.turn <- struct{}{}
	if _, err := db.Horizon(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-h.turn
}
