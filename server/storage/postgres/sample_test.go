// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// TestSampleUse: the use of a sample is in the catalog before it is returned,
// but not again for ten minutes, by which others keep it for longer; what is
// noted is returned from memory.
func TestSampleUse(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
	tab := mustCreate(t, db, ranged("t"))
	at := time.Date(2026, 7, 8, 9, 10, 11, 0, time.UTC)
	sample := func(db *DB, ix storage.IndexID, now time.Time) int {
		t.Helper()
		s, err := db.Sample(t.Context(), tab, ix, now)
		if err != nil {
			t.Fatal(err)
		}
		return len(s)
	}
	used := func(ix storage.IndexID, want time.Time) {
		t.Helper()
		var got time.Time
		if err := c.QueryRow(t.Context(), "SELECT used FROM extenddb.samples WHERE t = $1 AND ix = $2", int64(tab.ID), int64(ix)).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if !got.Equal(want) {
			t.Errorf("index %d was used at %s, want %s", ix, got, want)
		}
	}
	ix := tab.Indexes[0].ID
	if n := sample(db, ix, at); n != 0 {
		t.Errorf("a sample of %d", n)
	}
	used(ix, at)
	set := storage.EncodeSample([]storage.Position{{P: []byte("p"), S: []byte("s"), PK: []byte("k"), SK: []byte{}}})
	mustExec(t, c, "UPDATE extenddb.samples SET positions = $1", set)
	if n := sample(db, ix, at.Add(usedEvery-1)); n != 0 {
		t.Errorf("a sample that is in use is another all of a sudden: %d", n)
	}
	used(ix, at)
	if n := sample(other, ix, at.Add(time.Minute)); n != 1 {
		t.Errorf("another server reads a sample of %d", n)
	}
	used(ix, at.Add(time.Minute))
	if n := sample(db, ix, at.Add(usedEvery)); n != 1 {
		t.Errorf("after a while, a sample of %d", n)
	}
	used(ix, at.Add(usedEvery))
	if n := sample(other, ix, at.Add(-time.Hour)); n != 1 { // its clock is wrong
		t.Errorf("a sample of %d", n)
	}
	used(ix, at.Add(usedEvery))
	if n := sample(db, 0, at); n != 0 {
		t.Errorf("the table has the sample of an index: %d", n)
	}
	used(0, at)
}

// TestSampleOfDroppedTable leaves nothing behind.
func TestSampleOfDroppedTable(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{hooks: deaf()})
	c := mustConnect(t, db.o.URL)
	tab := mustCreate(t, db, ranged("t"))
	mustExec(t, c, "UPDATE extenddb.tables SET status = 2")
	if _, err := db.Sample(t.Context(), tab, 0, db.o.Clock.Now()); !isNotFound(err) {
		t.Error(err)
	}
	var n int
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM extenddb.samples").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows (%v)", n, err)
	}
}

// TestSamplesAreBounded in memory.
func TestSamplesAreBounded(t *testing.T) {
	t.Parallel()
	var x samples
	at := time.Date(2026, 7, 8, 9, 10, 11, 0, time.UTC)
	for i := range 2*maxNoted + 1 {
		k := sampleKey{storage.TableID(i), 0}
		x.put(k, noted{at, nil})
		if _, ok := x.get(k, at); !ok {
			t.Fatalf("sample %d is not kept", i)
		}
	}
	if n := len(x.noted); n > maxNoted {
		t.Errorf("%d samples are kept", n)
	}
	if _, ok := x.get(sampleKey{2 * maxNoted, 0}, at.Add(usedEvery)); ok {
		t.Error("a note is good for ever")
	}
}

// TestSampleDamage is told.
func TestSampleDamage(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	mustExec(t, mustConnect(t, db.o.URL), "INSERT INTO extenddb.samples (t, ix, used, positions) VALUES ($1, 0, now(), '\\xff')", int64(tab.ID))
	if s, err := db.Sample(t.Context(), tab, 0, db.o.Clock.Now()); err == nil {
		t.Errorf("a sample of %d", len(s))
	}
}
