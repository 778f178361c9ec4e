// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// deaf hears nothing of what other servers announce.
func deaf() hooks { return hooks{heard: func(string) bool { return false }} }

// mustKey is the key of an item.
func mustKey(t testing.TB, tab *storage.Table, it ddb.Item) storage.Key {
	t.Helper()
	k, err := tab.KeyOf(it)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// reading are all ways of reading a table.
func reading(t *testing.T, db *DB, tab *storage.Table, it ddb.Item) map[string]error {
	t.Helper()
	k, errs := mustKey(t, tab, it), map[string]error{}
	_, errs["Get"] = db.Get(t.Context(), tab, k)
	_, errs["GetAll"] = db.GetAll(t.Context(), []storage.TableKey{{Table: tab, Key: k}}, 0)
	_, errs["GetAll with a budget"] = db.GetAll(t.Context(), []storage.TableKey{{Table: tab, Key: k}}, 1)
	_, errs["Sample"] = db.Sample(t.Context(), tab, 0, db.o.Clock.Now())
	for _, ix := range []storage.IndexID{0, tab.Indexes[0].ID, tab.Indexes[1].ID} {
		for want := storage.Sizes; want <= storage.Items; want++ {
			for name, r := range map[string]storage.Range{
				"within a partition": {P: k.PK}, "promised": {AtMost: 3}, "all": {}, "of nothing": {P: []byte("none\x00")},
			} {
				r.Index, r.Want = ix, want
				errs[fmt.Sprintf("Range %s of %d, want %d", name, ix, want)] = rangeError(db, t, tab, r)
			}
		}
	}
	return errs
}

// TestReadsNoticeOtherServers: whatever another server does to a table, a read
// by the old definition is refused, though no announcement arrives, and what is
// known afterwards is the current definition.
func TestReadsNoticeOtherServers(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{hooks: deaf()})
	other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
	tab, it := mustCreate(t, db, ranged("t")), row("p", 1, "")
	fill(t, c, tab, it)
	expect := func(what string, tab *storage.Table, want error) {
		t.Helper()
		for call, err := range reading(t, db, tab, it) {
			if !errors.Is(err, want) {
				t.Errorf("%s: %s: %v, want %v", what, call, err, want)
			}
		}
		if n := db.pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%s: %d connections are held", what, n)
		}
	}
	expect("as it is", tab, nil)
	now, err := other.UpdateTable(t.Context(), tab.Account, "t", func(t *storage.Table) (ddb.TableDefinition, error) {
		def := t.Def
		def.DeletionProtection = true
		return def, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect("changed", tab, storage.ErrStale)
	if known, err := db.Table(t.Context(), tab.Account, "t"); err != nil || known.Version != now.Version {
		t.Errorf("known afterwards: %+v (%v)", known, err)
	}
	expect("changed and looked up", now, nil)
	if _, err := other.DropTable(t.Context(), tab.Account, "t", agree); err != nil {
		t.Fatal(err)
	}
	expect("dropped", now, storage.ErrTableNotFound)
	again := mustCreate(t, other, ranged("again"))
	mustExec(t, c, "DELETE FROM extenddb.tables WHERE id = $1", int64(tab.ID))
	expect("gone", now, storage.ErrTableNotFound)
	mustExec(t, c, "DROP TABLE IF EXISTS "+rowsOf(tab.ID)+", "+entriesOf(tab.Indexes[0].ID)+", "+entriesOf(tab.Indexes[1].ID))
	expect("gone with its relations", now, storage.ErrTableNotFound)
	mustExec(t, c, "UPDATE extenddb.tables SET status = 3 WHERE id = $1", int64(again.ID))
	expect("being loaded", again, storage.ErrTableNotFound)
}

// TestMissingRelation: damage is told, and not taken for an old definition for
// ever.
func TestMissingRelation(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	mustExec(t, mustConnect(t, db.o.URL), "DROP TABLE "+rowsOf(tab.ID))
	if _, err := db.Get(t.Context(), tab, mustKey(t, tab, row("p", 1, ""))); !errors.Is(err, storage.ErrCorrupt) {
		t.Error(err)
	}
	for _, r := range []storage.Range{{Want: storage.Items}, {Want: storage.Keys, AtMost: 1}} {
		if err := rangeError(db, t, tab, r); !errors.Is(err, storage.ErrCorrupt) {
			t.Error(err)
		}
	}
}

// TestRowsAreOwned: rows of Get and GetAll stay as they are, whatever is read
// afterwards by the same connection, and share nothing with what was asked.
func TestRowsAreOwned(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 2})
	tab := mustCreate(t, db, ranged("t"))
	a, b := row("p", 1, strings.Repeat("a", 5000)), row("p", 2, strings.Repeat("b", 5000))
	fill(t, mustConnect(t, db.o.URL), tab, a, b)
	ka, kb := mustKey(t, tab, a), mustKey(t, tab, b)
	one, err := db.Get(t.Context(), tab, ka)
	if err != nil {
		t.Fatal(err)
	}
	both, err := db.GetAll(t.Context(), []storage.TableKey{{Table: tab, Key: ka}, {Table: tab, Key: kb}, {Table: tab, Key: ka}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Get(t.Context(), tab, kb); err != nil {
		t.Fatal(err)
	}
	clear(ka.PK)
	clear(both[2].Item)
	for _, r := range []*storage.Row{one, both[0]} {
		if string(r.Item) != string(ddb.AppendItem(nil, a)) || r.Key.PK[0] != 'p' || r.Ver != 1 || r.Size != a.Size() {
			t.Errorf("row %+v", r)
		}
	}
}

// traffic counts what a connection sends and receives.
type traffic struct {
	net.Conn
	sent     atomic.Int64 // writes
	received atomic.Int64 // bytes
}

func (c *traffic) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

func (c *traffic) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}

// counted opens a connection of which the traffic is counted.
func countedConn(t *testing.T, url string) (*pgx.Conn, *traffic) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	var counted *traffic
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		counted = &traffic{Conn: c}
		return counted, err
	}
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c, counted
}

// TestRoundTrips: a read by key is one, of one table or of several, and so is
// the beginning of a cursor with its first rows.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab, other := mustCreate(t, db, ranged("t")), mustCreate(t, db, ranged("other"))
	c, traffic := countedConn(t, db.o.URL)
	it := row("p", 1, "")
	fill(t, c, tab, it)
	k := mustKey(t, tab, it)
	one := []storage.TableKey{{Table: tab, Key: k}}
	for name, read := range map[string]func() error{
		"Get": func() error { _, err := get(t.Context(), c, tab, k); return err },
		"GetAll of one table": func() error {
			_, err := getAll(t.Context(), c, []*storage.Table{tab}, one, 1000, 0)
			return err
		},
		"GetAll of two tables": func() error {
			_, err := getAll(t.Context(), c, []*storage.Table{tab, other}, append(one, storage.TableKey{Table: other, Key: k}), 1000, 0)
			return err
		},
		"cursor": func() error {
			v := variant{want: storage.Items}
			cur, err := openCursor(t.Context(), c, "BEGIN READ ONLY", v.sql(tab.ID, 0), v.arguments(tab.ID, nil, nil, nil), 10)
			if err != nil {
				return err
			}
			if cols, err := cur.next(); cols == nil || err != nil {
				return fmt.Errorf("no row: %w", err)
			}
			return cur.drain()
		},
	} {
		for range 2 { // the first may prepare
			before := traffic.sent.Load()
			if err := read(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "cursor" {
				defer rollback(t.Context(), c)
			}
			if n := traffic.sent.Load() - before; n != 1 && name == "cursor" || n > 2 {
				t.Errorf("%s: %d writes", name, n)
			}
			if name == "cursor" {
				rollback(t.Context(), c)
			}
		}
		if name == "cursor" {
			continue
		}
		before := traffic.sent.Load()
		if err := read(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := traffic.sent.Load() - before; n != 1 {
			t.Errorf("%s: %d writes, want one", name, n)
		}
	}
}

// TestBudgetIsKeptByTheServer: items beyond the budget do not even come over
// the network, large ones in particular.
func TestBudgetIsKeptByTheServer(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab, other := mustCreate(t, db, ranged("t")), mustCreate(t, db, ranged("other"))
	c, traffic := countedConn(t, db.o.URL)
	const size = 300_000
	var items []ddb.Item
	var ks []storage.TableKey
	for i := range 20 {
		items = append(items, row("p", i, strings.Repeat(fmt.Sprint(i%10), size)))
		ks = append(ks, storage.TableKey{Table: tab, Key: mustKey(t, tab, items[i])})
	}
	fill(t, c, tab, items...)
	fill(t, c, other, items[10:]...)
	for i := 10; i < 20; i++ {
		ks[i].Table = other
	}
	stored := len(ddb.AppendItem(nil, items[0]))
	for _, x := range []struct {
		ks           []storage.TableKey
		budget, want int
	}{
		{ks[:10], 1, 1}, {ks[:10], stored, 1}, {ks[:10], stored + 1, 2}, {ks[:10], 3 * size, 3}, {ks[:10], 100 * size, 10},
		{ks, 1, 1}, {ks, 12 * size, 12}, {ks, 100 * size, 20}, {slices.Concat(ks[19:], ks[:1], ks[18:19]), 2*size + 1, 3},
		{slices.Concat(ks[19:], ks[:1], ks[18:19]), 1, 1},
	} {
		tables := []*storage.Table{tab}
		if len(x.ks) != 10 {
			tables = append(tables, other)
		}
		before := traffic.received.Load()
		rows, err := getAll(t.Context(), c, tables, x.ks, x.budget, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != x.want && !(x.budget == 2*size+1 && len(rows) == 2) {
			t.Errorf("budget %d: %d rows, want %d", x.budget, len(rows), x.want)
		}
		for i, r := range rows {
			if r == nil || !r.Key.Equal(x.ks[i].Key) {
				t.Errorf("budget %d: row %d is another", x.budget, i)
			}
		}
		if got := traffic.received.Load() - before; got > int64(len(rows)*(stored+1000)+20_000) {
			t.Errorf("budget %d: %d bytes came for %d rows", x.budget, got, len(rows))
		}
	}
}

// TestSurpriseTakesNoMemory: of rows that are wider than was known, no more are
// held than fit. It counts what the process allocates, and so runs alone.
func TestSurpriseTakesNoMemory(t *testing.T) {
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	var items []ddb.Item
	var ks []storage.TableKey
	for i := range 100 { // 39 MB
		items = append(items, row("p", i, strings.Repeat("x", 390_000)))
		ks = append(ks, storage.TableKey{Table: tab, Key: mustKey(t, tab, items[i])})
	}
	fill(t, mustConnect(t, db.o.URL), tab, items...)
	var before, after runtime.MemStats
	db.reads.pace(itemsOf(tab.ID)).width.Store(50)
	runtime.ReadMemStats(&before)
	rows, err := db.GetAll(t.Context(), ks, 1<<20)
	runtime.ReadMemStats(&after)
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows (%v)", len(rows), err)
	}
	// All of them take 38 MiB. The race detector makes pools forget their buffers.
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 24 {
		t.Errorf("it took %d MiB", took)
	}
	if width := db.reads.pace(itemsOf(tab.ID)).width.Load(); width < 390_000 {
		t.Errorf("rows are taken for %d bytes", width)
	}
}

// TestBudgetIsKeptBySurprise: rows that are wider than was known are cut here,
// and known then.
func TestBudgetIsKeptBySurprise(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	var items []ddb.Item
	var ks []storage.TableKey
	for i := range 10 {
		items = append(items, row("p", 10+i, strings.Repeat("x", 1000)))
		ks = append(ks, storage.TableKey{Table: tab, Key: mustKey(t, tab, items[i])})
	}
	fill(t, mustConnect(t, db.o.URL), tab, items...)
	ks = slices.Insert(ks, 1, storage.TableKey{Table: tab, Key: mustKey(t, tab, row("p", 99, ""))}) // absent
	stored := len(ddb.AppendItem(nil, items[0]))
	for budget, want := range map[int]int{0: 11, 1: 1, stored: 1, stored + 1: 3, 3*stored + 1: 5, 100 * stored: 11} {
		for _, width := range []int64{0, 1, 100_000} {
			db.reads.pace(itemsOf(tab.ID)).width.Store(width)
			rows, err := db.GetAll(t.Context(), ks, budget)
			if err != nil || len(rows) != want {
				t.Errorf("budget %d, width %d: %d rows, want %d (%v)", budget, width, len(rows), want, err)
			}
			if got := db.reads.pace(itemsOf(tab.ID)).width.Load(); width < 100_000 && got != int64(stored) {
				t.Errorf("rows of %d bytes are taken for %d", stored, got)
			}
		}
	}
}
