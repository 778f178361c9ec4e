// SPDX-License-Identifier: Apache-2.0

//go:build full

package postgres

import (
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestReadersStall: who reads may stop for longer than a silent network is borne, with more
// on its way than the network holds.
func TestReadersStall(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{0, 64} { // asked for at a time; 0: as it comes
		db := mustOpen(t, Options{hooks: hooks{snapRows: func() int { return rows }}})
		tab, _ := snapshotTable(t, db, 200, 390_000)
		for name, read := range map[string]func(yield func(*storage.Row, error) bool){
			"snapshot": mustSnapshot(t, db).Rows(t.Context()),
			"range":    db.Range(t.Context(), tab, storage.Range{Want: storage.Items, Bytes: maxAhead}),
		} {
			if name == "range" && rows > 0 {
				db.reads.pace(itemsOf(tab.ID)).width.Store(maxAhead / int64(rows))
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := 0
				for _, err := range read {
					if err != nil {
						t.Fatalf("after row %d: %v", n, err)
					}
					if n++; n == 1 {
						over, _ := clock.Real{}.After(lostAfter + lostAfter/2)
						<-over
					}
				}
				if n != 200 {
					t.Errorf("%d of 200 rows", n)
				}
			})
		}
	}
}

// TestCloseOnSilentNetwork: a database that takes what it is sent and answers
// nothing does not hold an engine up for long, however many snapshots are open.
func TestCloseOnSilentNetwork(t *testing.T) {
	t.Parallel()
	r, through := newRelay(t, servers.Database(t))
	o := Options{URL: through, MaxConns: 8}
	rounds(&o)
	db := mustOpen(t, o)
	tab, _ := snapshotTable(t, db, 64, 390_000)
	for range 4 {
		mustSnapshot(t, db)
	}
	db.stats.touch(tab.ID, 1)
	r.mute()
	began := time.Now()
	must(t, db.Close())
	if took := time.Since(began); took > closeTime+2*time.Second {
		t.Errorf("it took %v", took)
	}
	r.cut()
}

// TestSnapshotEndsOnSilentNetwork soon, and gives its place back.
func TestSnapshotEndsOnSilentNetwork(t *testing.T) {
	t.Parallel()
	r, through := newRelay(t, servers.Database(t))
	o := Options{URL: through, MaxConns: 4}
	rounds(&o)
	db := mustOpen(t, o)
	snapshotTable(t, db, 3, 3)
	s := mustSnapshot(t, db)
	r.mute()
	began := time.Now()
	must(t, s.Close())
	if took := time.Since(began); took > 2*endTime {
		t.Errorf("it took %v", took)
	}
	if n := db.snaps.Len(); n != 0 {
		t.Errorf("%d are open", n)
	}
	r.cut()
}
