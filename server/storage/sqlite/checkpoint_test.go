// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// logSize is the size of the log's file, in pages.
func logSize(t *testing.T, db *DB) int64 {
	t.Helper()
	info, err := os.Stat(db.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size() / pageSize
}

// TestLogStaysShort although there is always a reader.
func TestLogStaysShort(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal, Clock: clock.NewFake(instant())}
	db := mustOpen(t, o)
	tab := create(t, db, plain("t"))
	items := many(500, 1000)
	mustPut(t, db, tab, items...)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for ; !stop.Load(); i++ {
				k, _ := tab.KeyOf(items[i%len(items)])
				if row, err := db.Get(t.Context(), tab, k); row == nil || err != nil {
					t.Errorf("row %v (%v)", row, err)
					return
				}
			}
		})
	}
	written := int64(0)
	for written < 4*checkpointPages*pageSize {
		mustPut(t, db, tab, items...)
		written += int64(len(items) * 1000)
	}
	stop.Store(true)
	wg.Wait()
	if n := logSize(t, db); n > 3*checkpointPages {
		t.Errorf("the log has grown to %d pages", n)
	}
	check(t, db)
}

// TestLogOfALongRead grows, is warned of once per doubling, holds no write up
// for long, and is free again when the read ends.
func TestLogOfALongRead(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	db := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: Normal, Log: slog.New(slog.NewTextHandler(&out, nil))})
	db.w.log.warnPages = 2 * checkpointPages // before it looks
	tab := create(t, db, plain("t"))
	items := many(1000, 1000)
	mustPut(t, db, tab, items...)
	rows := 0
	for _, err := range db.Range(t.Context(), tab, storage.Range{Want: storage.Items}) {
		if err != nil {
			t.Fatal(err)
		}
		if rows++; rows != 1 {
			continue
		}
		for logSize(t, db) < 5*checkpointPages {
			mustPut(t, db, tab, items...)
			mustPut(t, db, tab, item("new", fmt.Sprint(logSize(t, db))))
		}
	}
	if rows != len(items) {
		t.Errorf("%d rows of one instant", rows)
	}
	for i := range 20 * lookCommits { // pages that do not change are not written
		mustPut(t, db, tab, item("p", "s", "pad", strings.Repeat(string(rune('a'+i%26)), 300_000)))
	}
	pages := int64(-1)
	err := db.read(t.Context(), func(s *session) (err error) {
		if err := s.run(sqlPing); err != nil { // else it tells what it saw last
			return err
		}
		st, err := s.stmt(sqlLogSize)
		if err != nil {
			return err
		}
		defer st.reset()
		_, err = st.step()
		pages = st.colInt(1)
		return err
	})
	if err != nil || pages > 3*checkpointPages {
		t.Errorf("the log still has %d pages (%v)", pages, err)
	}
	if err := db.Close(); err != nil { // the writer has ended: out is ours
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "write-ahead log grows"); n < 1 || n > 3 {
		t.Errorf("%d warnings: %s", n, out.String())
	}
	if strings.Contains(out.String(), "ERROR") {
		t.Error(out.String())
	}
}

// TestPauseGivesUp when a read goes on, and gives back what it took.
func TestPauseGivesUp(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(instant())
	db := mustOpen(t, Options{Path: Memory, Readers: 3})
	err := db.read(t.Context(), func(*session) error {
		paused := make(chan func())
		go func() { paused <- db.pool.pause(clk) }()
		clk.WaitTimers(1)
		clk.Advance(pauseTime)
		(<-paused)()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	db.pool.pause(clk)()
	assertIdle(t, db)
}
