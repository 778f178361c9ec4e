// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

func sampleSize(t *testing.T, db *DB, tab *storage.Table, now time.Time) int {
	t.Helper()
	s, err := db.Sample(t.Context(), tab, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	return len(s)
}

// TestFirstSampleWaitsForScans: a parallel scan that began while there was no
// sample found everything in its first segment. Were the first sample to end
// that segment earlier, the rest would never be read.
func TestFirstSampleWaitsForScans(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(instant())
	db := mustOpen(t, Options{Path: Memory, Clock: clk})
	tab := create(t, db, definition("t"))
	mustPut(t, db, tab, many(30, 10)...)
	for range 3 { // a page from time to time
		if n := sampleSize(t, db, tab, clk.Now()); n != 0 {
			t.Fatalf("sample of %d in the middle of a scan", n)
		}
		clk.Advance(countAfter)
		if _, due := work(t, db, storage.Statistics, clk.Now()); due {
			finish(t, db, storage.Statistics, clk.Now())
		}
	}
	if _, due := work(t, db, storage.Statistics, clk.Now().Add(sampleHeld-3*time.Minute)); due {
		t.Error("due before the scan may be over")
	}
	clk.Advance(sampleHeld)
	finish(t, db, storage.Statistics, clk.Now()) // although nothing changed
	if n := sampleSize(t, db, tab, clk.Now()); n != 30 {
		t.Errorf("sample of %d", n)
	}
	clk.Advance(sampleHeld)
	if _, due := work(t, db, storage.Statistics, clk.Now()); due {
		t.Error("due although there is a sample and nothing changed")
	}
}

// TestScansWaitForSamples that are on their way: no scan begins on one that is
// about to be replaced.
func TestScansWaitForSamples(t *testing.T) {
	t.Parallel()
	g := openGated(t, Options{})
	tab := create(t, g.DB, definition("t"))
	mustPut(t, g.DB, tab, many(30, 10)...)
	now := instant().Add(countAfter)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := g.stats.use(ended, tab.ID, 0, instant().Add(-time.Hour)); err != nil { // nothing to wait for
		t.Fatal(err)
	}
	var asked sync.WaitGroup
	g.during(func() { finish(t, g.DB, storage.Statistics, now) }, func() {
		_, _, err := g.stats.use(ended, tab.ID, 0, now)
		wantErr(t, err, context.Canceled)
		asked.Go(func() {
			if n := sampleSize(t, g.DB, tab, now); n != 30 {
				t.Errorf("sample of %d", n)
			}
		})
		mustPut(t, g.DB, tab, item("p", "s")) // lets the writer go on
	})
	asked.Wait()
}

// TestSamplesOutliveCrashes: scans go on after a crash, even of a server that
// wrote nothing.
func TestSamplesOutliveCrashes(t *testing.T) {
	t.Parallel()
	for name, crashed := range map[string]bool{"crashed": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clock.NewFake(instant())
			o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Clock: clk}
			db := mustOpen(t, o)
			tab := create(t, db, definition("t"))
			mustPut(t, db, tab, many(30, 10)...)
			clk.Advance(countAfter)
			finish(t, db, storage.Statistics, clk.Now())
			mustPut(t, db, tab, many(40, 10)...)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			clk.Advance(2 * sampleHeld)
			want := 40 // nobody scanned lately
			if crashed {
				want = 30
				db = mustOpen(t, o)
				o.Path = crashImage(t, db)
			}
			db = mustOpen(t, o)
			finish(t, db, storage.Statistics, clk.Now())
			if n := sampleSize(t, db, tab, clk.Now()); n != want {
				t.Errorf("sample of %d, want %d", n, want)
			}
		})
	}
}

// TestFirstSampleWaitsAcrossRestarts: a scan that found no sample may go on
// after a restart.
func TestFirstSampleWaitsAcrossRestarts(t *testing.T) {
	t.Parallel()
	for name, crashed := range map[string]bool{"crashed": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clock.NewFake(instant())
			o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Clock: clk}
			db := mustOpen(t, o)
			tab := create(t, db, definition("t"))
			mustPut(t, db, tab, many(30, 10)...)
			if n := sampleSize(t, db, tab, clk.Now()); n != 0 {
				t.Fatalf("sample of %d before any count", n)
			}
			if crashed {
				o.Path = crashImage(t, db)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = mustOpen(t, o)
			tab, err := db.Table(t.Context(), acct, "t")
			if err != nil {
				t.Fatal(err)
			}
			clk.Advance(countAfter)
			finish(t, db, storage.Statistics, clk.Now())
			if n := sampleSize(t, db, tab, clk.Now()); n != 0 {
				t.Errorf("sample of %d while the scan may go on", n)
			}
			clk.Advance(sampleHeld)
			finish(t, db, storage.Statistics, clk.Now()) // although nothing changed
			if n := sampleSize(t, db, tab, clk.Now()); n != 30 {
				t.Errorf("sample of %d once it is over", n)
			}
		})
	}
}
