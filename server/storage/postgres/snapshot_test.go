// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

const snapAccount = "000000000000"

// snapshotTable is a table "t" of n rows, each with so many bytes of text.
func snapshotTable(t *testing.T, db *DB, n, text int) (*storage.Table, *pgx.Conn) {
	t.Helper()
	tab, c := mustCreate(t, db, ranged("t")), mustConnect(t, db.o.URL)
	var items []ddb.Item
	for i := range n {
		items = append(items, row("p", i, strings.Repeat("x", text)))
	}
	fill(t, c, tab, items...)
	return tab, c
}

func mustSnapshot(t *testing.T, db *DB) storage.Snapshot {
	t.Helper()
	s, err := db.Snapshot(t.Context(), snapAccount, "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// free: every connection of the pool can be had, and one more snapshot opened.
func free(t *testing.T, db *DB) {
	t.Helper()
	var all []*pgxpool.Conn
	for range db.o.MaxConns {
		c, err := db.acquire(t.Context())
		if err != nil {
			t.Errorf("%d connections are left: %v", len(all), err)
			break
		}
		all = append(all, c)
	}
	for _, c := range all {
		c.Release()
	}
	if err := mustSnapshot(t, db).Close(); err != nil {
		t.Error(err)
	}
}

// TestSnapshotMarker names the instant as PostgreSQL does.
func TestSnapshotMarker(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	snapshotTable(t, db, 1, 1)
	kind, value := mustSnapshot(t, db).Marker()
	if kind != "pg_current_snapshot" || !regexp.MustCompile(`^\d+:\d+:[\d,]*$`).MatchString(value) {
		t.Errorf("marker %s %s", kind, value)
	}
}

// TestSnapshotErrors: what the server gives up is ErrSnapshotExpired.
func TestSnapshotErrors(t *testing.T) {
	t.Parallel()
	c := mustConnect(t, mustOpen(t, Options{}).o.URL)
	for code, want := range map[string]error{
		"40001": storage.ErrSnapshotExpired, "72000": storage.ErrSnapshotExpired,
		"57014": storage.ErrUnavailable, "53100": storage.ErrUnavailable, "XX001": storage.ErrCorrupt,
	} {
		_, err := c.Exec(t.Context(), "DO $$ BEGIN RAISE EXCEPTION SQLSTATE '"+code+"'; END $$")
		if got := snapshotError(t.Context(), err); !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", code, got, want)
		}
	}
}

// TestSnapshotWakes whoever waits for the table when the last snapshot of it
// ends, and not before: the table is free then.
func TestSnapshotWakes(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{hooks: deaf()})
	tab, c := snapshotTable(t, db, 10, 10)
	var woken atomic.Int32
	db.OnWork(func() { woken.Add(1) })
	locked := func() (n int) {
		t.Helper()
		err := c.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE relation = $1::regclass AND pid <> pg_backend_pid()", rowsOf(tab.ID)).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, end := range []struct {
		name string
		end  func(s storage.Snapshot)
	}{
		{"closed", func(s storage.Snapshot) { _ = s.Close() }},
		{"drained", func(s storage.Snapshot) {
			for range s.Rows(t.Context()) {
			}
		}},
		{"abandoned", func(s storage.Snapshot) {
			for range s.Rows(t.Context()) {
				break
			}
		}},
	} {
		a, b := mustSnapshot(t, db), mustSnapshot(t, db)
		if n := locked(); n == 0 {
			t.Error("the table is not locked")
		}
		before := woken.Load()
		end.end(a)
		if n := woken.Load(); n != before {
			t.Errorf("%s: woken while another is open", end.name)
		}
		end.end(b)
		if n := woken.Load(); n != before+1 {
			t.Errorf("%s: woken %d times", end.name, n-before)
		}
		if n := locked(); n != 0 {
			t.Errorf("%s: %d locks are left", end.name, n)
		}
		_ = a.Close()
		_ = b.Close()
		if n := woken.Load(); n != before+1 {
			t.Errorf("%s: woken again", end.name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	db.o.hooks.snapDefinition = cancel
	before := woken.Load()
	if _, err := db.Snapshot(ctx, snapAccount, "t"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := woken.Load(); n != before+1 {
		t.Errorf("an opening that is cancelled wakes %d times", n-before)
	}
}

// TestSnapshotsLeaveConnections: however many are opened, requests go on.
func TestSnapshotsLeaveConnections(t *testing.T) {
	t.Parallel()
	for conns, want := range map[int]int{2: 1, 3: 1, 4: 2, 10: 5} {
		db := mustOpen(t, Options{MaxConns: conns})
		tab, _ := snapshotTable(t, db, 3, 3)
		for range want {
			mustSnapshot(t, db)
		}
		if _, err := db.Snapshot(t.Context(), snapAccount, "t"); !errors.Is(err, storage.ErrTooManySnapshots) {
			t.Errorf("pool of %d: %v", conns, err)
		}
		if _, err := db.Get(t.Context(), tab, mustKey(t, tab, row("p", 1, ""))); err != nil {
			t.Errorf("pool of %d: %v", conns, err)
		}
	}
	db := mustOpen(t, Options{MaxConns: 4}) // loads hold what snapshots may
	snapshotTable(t, db, 3, 3)
	for range 2 {
		release, ok := db.longs.try()
		if !ok {
			t.Fatal("no permit")
		}
		defer release()
	}
	if _, err := db.Snapshot(t.Context(), snapAccount, "t"); !errors.Is(err, storage.ErrTooManySnapshots) {
		t.Errorf("beside two loads: %v", err)
	}
}

// TestSnapshotOfWhatGoes: the relation was dropped after the catalog was read,
// or is just being dropped by somebody who does not come to an end.
func TestSnapshotOfWhatGoes(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab, c := snapshotTable(t, db, 3, 3)
	mustExec(t, c, "BEGIN")
	mustExec(t, c, "LOCK TABLE "+rowsOf(tab.ID)+" IN ACCESS EXCLUSIVE MODE")
	if _, err := db.Snapshot(t.Context(), snapAccount, "t"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("locked: %v", err)
	}
	mustExec(t, c, "ROLLBACK")
	free(t, db)
	mustExec(t, c, "DROP TABLE "+rowsOf(tab.ID))
	if _, err := db.Snapshot(t.Context(), snapAccount, "t"); !errors.Is(err, storage.ErrTableNotFound) {
		t.Errorf("dropped: %v", err)
	}
	if n := db.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are held", n)
	}
}

// TestSnapshotLost: the connection goes away under it, before and while rows
// are read.
func TestSnapshotLost(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	_, c := snapshotTable(t, db, 3000, 2000)
	for _, after := range []int{0, 1, 1500} {
		s, n := mustSnapshot(t, db), 0
		kill := func() {
			mustExec(t, c, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'AccessShareLock' AND pid <> pg_backend_pid()
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		}
		if after == 0 {
			kill()
		}
		var last error
		for _, err := range s.Rows(t.Context()) {
			if last = err; err != nil {
				break
			}
			if n++; n == after {
				kill()
			}
		}
		if !errors.Is(last, storage.ErrUnavailable) {
			t.Errorf("after %d rows: ends after %d with %v", after, n, last)
		}
		free(t, db)
	}
}

// TestSnapshotClosedInTheMiddle of what is on its way: it is not read to its
// end first, however much that is.
func TestSnapshotClosedInTheMiddle(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{hooks: hooks{snapRows: func() int { return 64 }}})
	snapshotTable(t, db, 64, 300_000)
	for i := range 3 {
		s, n := mustSnapshot(t, db), 0
		for _, err := range s.Rows(t.Context()) {
			if err != nil {
				if !errors.Is(err, storage.ErrClosed) {
					t.Error(err)
				}
				break
			}
			if n++; n == i+1 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				free(t, db)
			}
		}
		if n != i+1 {
			t.Errorf("%d rows, closed after %d", n, i+1)
		}
	}
}

// TestSnapshotAsksForLess when rows are large: by four megabytes, about.
func TestSnapshotAsksForLess(t *testing.T) {
	t.Parallel()
	fetches := 0
	db := mustOpen(t, Options{hooks: hooks{snapRead: func() { fetches++ }}})
	tab, c := mustCreate(t, db, ranged("t")), mustConnect(t, db.o.URL)
	var items []ddb.Item
	for i := range 300 {
		items = append(items, row("p", i, strings.Repeat("x", 100_000)))
	}
	fill(t, c, tab, items...)
	n := 0
	for _, err := range mustSnapshot(t, db).Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if want := 1 + (300-unknownRows)*100_000/snapshotBytes; n != 300 || fetches < want || fetches > want+3 {
		t.Errorf("%d rows with %d fetches, want about %d", n, fetches, want)
	}
}

// TestSnapshotDoesNotStopWriters or anybody but who drops the table.
func TestSnapshotDoesNotStopWriters(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab, c := snapshotTable(t, db, 3, 3)
	mustSnapshot(t, db)
	mustExec(t, c, "SET lock_timeout = '2s'")
	mustExec(t, c, "UPDATE "+rowsOf(tab.ID)+" SET ver = 7")
	mustExec(t, c, fmt.Sprintf("BEGIN; LOCK TABLE %s IN SHARE MODE; COMMIT", rowsOf(tab.ID)))
	if _, err := c.Exec(t.Context(), "DROP TABLE "+rowsOf(tab.ID)); codeOf(err) != codeLockTimeout {
		t.Errorf("dropped under a snapshot: %v", err)
	}
}
