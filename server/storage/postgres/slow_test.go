// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestRangeMeetsWideRows where narrow ones were the rule: the page that is
// served is read, and what the network has taken by then, not all that was
// asked for.
func TestRangeMeetsWideRows(t *testing.T) {
	t.Parallel()
	direct := servers.Database(t)
	r, through := newRelay(t, direct)
	db := mustOpen(t, Options{URL: through})
	tab := mustCreate(t, db, ranged("t"))
	var items []ddb.Item
	for i := range 400 { // 156 MB
		items = append(items, row("p", i, strings.Repeat("x", 390_000)))
	}
	fill(t, mustConnect(t, direct), tab, items...)
	part := []byte("p\x00")
	for name, x := range map[string]storage.Range{
		"of a partition": {P: part}, "long": {P: part, Rows: 2000}, "of an index": {P: []byte("Gp\x00"), Index: tab.Indexes[0].ID},
		"of all": {}, "of some": {AtMost: 200}, "backwards": {P: part, Reverse: true, Bytes: 1 << 20},
	} {
		x.Want = storage.Items
		p := db.reads.pace(paceKey{tab.ID, x.Index, true})
		p.width.Store(50)
		p.long.Store(x.Rows > 0)
		before, rows := r.answered.Load(), 0
		for _, err := range db.Range(t.Context(), tab, x) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if rows++; rows == 3 {
				break
			}
		}
		if read := (r.answered.Load() - before) >> 20; rows != 3 || read > 48 { // the buffers of four sockets
			t.Errorf("%s: %d rows, and %d MB were read", name, rows, read)
		}
		if width := p.width.Load(); width < 390_000 {
			t.Errorf("%s: rows are taken to be of %d bytes", name, width)
		}
	}
	free(t, db)
}

// TestUnknownRowsAreFew: what is asked for first is little, and grows.
func TestUnknownRowsAreFew(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	var items []ddb.Item
	for i := range 100 {
		items = append(items, row("p", i, "text"))
	}
	fill(t, mustConnect(t, db.o.URL), tab, items...)
	r := storage.Range{P: []byte("p\x00"), Want: storage.Items}
	for i, want := range []bool{false, true, true} { // once they are known, one statement yields all
		s := newScan(db, tab, &r)
		c, err := db.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.c = c
		all, err := s.tryOnce(t.Context(), min(s.pace.fits(s.budget), onceRows))
		if s.end(t.Context()); err != nil || all != want {
			t.Errorf("query %d: all at once %t, %v", i, all, err)
		}
		n := 0
		for _, err := range db.Range(t.Context(), tab, r) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != len(items) {
			t.Errorf("query %d: %d rows", i, n)
		}
	}
}

// TestReadersMayStall: the limits of time of a connection do not hold for those
// that wait for whoever reads, and hold again afterwards.
func TestReadersMayStall(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 2})
	tab, _ := snapshotTable(t, db, 3, 3)
	want := func(who string, c *pgx.Conn, limits ...string) {
		t.Helper()
		var network, idle string
		err := c.QueryRow(t.Context(), "SELECT current_setting('tcp_user_timeout'), current_setting('idle_in_transaction_session_timeout')").Scan(&network, &idle)
		if err != nil || network != limits[0] || idle != limits[1] {
			t.Errorf("%s: limits %s and %s, want %s; %v", who, network, idle, limits, err)
		}
	}
	s := mustSnapshot(t, db).(*snapshot)
	want("snapshot", s.c.Conn(), "0", "0")
	must(t, s.Close())
	sc := newScan(db, tab, &storage.Range{Rows: 1})
	c, err := db.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want("connection", c.Conn(), "30000", "10s")
	sc.c = c
	must(t, sc.open(t.Context(), 1))
	must(t, sc.cur.drain())
	want("cursor", c.Conn(), "0", "0")
	must(t, sc.cur.end(t.Context()))
	want("connection", c.Conn(), "30000", "10s")
	sc.end(t.Context())
}

// TestReadersEndWithTheirContext while they wait for a lock.
func TestReadersEndWithTheirContext(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab, holder := snapshotTable(t, db, 3, 3)
	watch := mustConnect(t, db.o.URL)
	mustExec(t, holder, "BEGIN")
	mustExec(t, holder, "LOCK TABLE "+rowsOf(tab.ID)+" IN ACCESS EXCLUSIVE MODE")
	scan := func(r storage.Range) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, err := range db.Range(ctx, tab, r) {
				return err
			}
			return nil
		}
	}
	for name, read := range map[string]func(context.Context) error{
		"scan": scan(storage.Range{}), "query": scan(storage.Range{P: []byte("p\x00")}), "some": scan(storage.Range{AtMost: 1}),
		"snapshot": func(ctx context.Context) error {
			_, err := db.Snapshot(ctx, snapAccount, "t")
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- read(ctx) }()
		blocked(t, watch, 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustExec(t, holder, "ROLLBACK")
	free(t, db)
}
