// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestModes: ways of sending statements whose answers the engine cannot read
// are refused.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exec", "simple_protocol"} {
		_, err := Open(t.Context(), Options{URL: "postgres://127.0.0.1:1/none?default_query_exec_mode=" + mode})
		if refused := new(Refused); !errors.As(err, &refused) || refused.Remedy == "" {
			t.Errorf("%s: %v, want a refusal", mode, err)
		}
	}
}

// guardCase is one shape of writing statement, made by the engine itself. The
// row x is there before, the row y is not.
type guardCase struct {
	name  string
	def   ddb.TableDefinition
	build bool // the indexes are being built
	any   bool // by a statement that does anything to entries
	all   bool // by WriteAll
	blind bool
	key   string
	item  ddb.Item // nil deletes
}

// guardCases has each form that statement() writes.
func guardCases() []guardCase {
	plain, two := hashTable("t"), indexed("t", "a", "b")
	stream := streaming(two, ddb.ViewBoth)
	same := item("x", "a", "a", "b", "b", "pad", "p")
	cases := []guardCase{
		{name: "put", def: plain, blind: true, key: "x", item: item("x")},
		{name: "put new", def: plain, blind: true, key: "y", item: item("y")},
		{name: "remove", def: plain, blind: true, key: "x"},
		{name: "insert", def: plain, key: "y", item: item("y")},
		{name: "update", def: plain, key: "x", item: item("x")},
		{name: "delete", def: plain, key: "x"},
		{name: "insert with entries", def: two, key: "y", item: item("y", "a", "1", "b", "2")},
		{name: "update that moves, adds and drops entries", def: indexed("t", "a", "b", "c"), key: "x", item: item("x", "a", "new", "c", "c")},
		{name: "update that changes a size", def: two, key: "x", item: item("x", "a", "a", "b", "b", "pad", "longer")},
		{name: "update that leaves entries", def: two, key: "x", item: same},
		{name: "update while indexes are built", def: two, build: true, key: "x", item: same},
		{name: "delete with entries", def: two, key: "x"},
		{name: "insert with record", def: stream, key: "y", item: item("y", "a", "1")},
		{name: "update with record", def: stream, key: "x", item: item("x", "a", "1")},
		{name: "delete with record", def: stream, key: "x"},
		{name: "insert in a transaction", def: stream, all: true, key: "y", item: item("y", "a", "1")},
		{name: "update in a transaction", def: stream, all: true, key: "x", item: item("x", "a", "1")},
		{name: "update in a transaction while indexes are built", def: two, build: true, all: true, key: "x", item: same},
		{name: "delete in a transaction", def: stream, all: true, key: "x"},
		{name: "nothing in a transaction", def: two, all: true, key: "y"},
	}
	for _, gc := range cases {
		if len(gc.def.GlobalSecondaryIndexes) > 0 {
			gc.any, gc.name = true, gc.name+", in general"
			cases = append(cases, gc)
		}
	}
	return cases
}

// guarded is a server, a table and a write under test.
type guarded struct {
	testing.TB
	db     *DB
	c      *pgx.Conn // observes and bumps
	gc     guardCase
	tab    *storage.Table
	last   int64  // version of the last Decide
	inside func() // runs in each Decide
	done   chan error
}

// start makes the table and, when warm, runs writes of the same shape until
// their plans are generic ones.
func (gc guardCase) start(t testing.TB, db *DB, c *pgx.Conn, name string, warm bool) *guarded {
	t.Helper()
	if gc.def.TableName = name; gc.build {
		gc.def.TableName += "building"
	}
	if gc.any {
		gc.def.TableName += "general"
	}
	g := &guarded{TB: t, db: db, c: c, gc: gc, tab: create(t, db, gc.def), done: make(chan error, 1)}
	reset := func() {
		mustWrite(t, db, put(g.tab, item("x", "a", "a", "b", "b", "pad", "p")), remove(g.tab, "y"))
	}
	reset()
	for range 12 {
		if !warm {
			break
		}
		if err := g.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		reset()
	}
	return g
}

func (g *guarded) write(ctx context.Context) error {
	w := storage.Write{Table: g.tab, Key: key(g.tab, g.gc.key), Blind: g.gc.blind}
	w.Decide = func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		if g.last = t.Version; g.inside != nil {
			g.inside()
		}
		if g.gc.item == nil {
			return nil, nil
		}
		return storage.Derive(t, g.gc.item)
	}
	if g.gc.all {
		_, err := g.db.WriteAll(ctx, []storage.Write{w}, nil)
		return err
	}
	_, err := g.db.Write(ctx, w)
	return err
}

func (g *guarded) begin() { go func() { g.done <- g.write(context.WithoutCancel(g.Context())) }() }

// bump gives the table another version, of which the server hears nothing.
func (g *guarded) bump() {
	g.Helper()
	mustExec(g, g.c, "UPDATE extenddb.tables SET version = version + 1 WHERE id = $1", int64(g.tab.ID))
}

// Modes are how statements may be sent: the engine's own way, and what a
// connection string can ask for.
func allModes() []string {
	return []string{"cache_statement", "cache_describe", "describe_exec"}
}

func someModes() []string { return []string{"cache_statement", "describe_exec"} }

// guardServers opens an engine per mode, each on a database of its own.
func guardServers(t *testing.T, modes []string, run func(t *testing.T, db *DB, c, other *pgx.Conn)) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o := Options{URL: servers.Database(t) + "&default_query_exec_mode=" + mode, MaxConns: 2}
			o.hooks.write.building = func(t *storage.Table, _ storage.IndexID) bool { return strings.Contains(t.Name(), "building") }
			o.hooks.write.general = func(t *storage.Table) bool { return strings.HasSuffix(t.Name(), "general") }
			db := mustOpen(t, o)
			run(t, db, mustConnect(t, db.o.URL), mustConnect(t, db.o.URL))
		})
	}
}

// TestGuardBehindBarrier: a write that waits for the barrier finds the
// definition that is behind it.
func TestGuardBehindBarrier(t *testing.T) {
	t.Parallel()
	guardServers(t, allModes(), func(t *testing.T, db *DB, c, other *pgx.Conn) {
		for i, gc := range guardCases() {
			for _, warm := range []bool{false, true} {
				g := gc.start(t, db, c, fmt.Sprintf("table%d%v", i, warm), warm)
				mustExec(t, other, "BEGIN")
				mustExec(t, other, "LOCK TABLE "+rowsOf(g.tab.ID)+" IN SHARE MODE")
				g.begin()
				blocked(t, c, 1)
				g.bump()
				mustExec(t, other, "COMMIT")
				if err := <-g.done; err != nil {
					t.Errorf("%s: %v", gc.name, err)
				}
				if g.last != g.tab.Version+1 {
					t.Errorf("%s (warm %v): written by version %d, want %d", gc.name, warm, g.last, g.tab.Version+1)
				}
				checkTable(t, c, g.tab)
			}
		}
	})
}

// TestGuardControls: the faults that the guard keeps away are there without
// it, so the tests above can see them.
func TestGuardControls(t *testing.T) {
	t.Parallel()
	unguarded := func(sql string) string { return strings.Replace(sql, "version = $1::bigint", "$1::bigint > 0", 1) }
	for name, fault := range map[string]func(db *DB){
		"no guard":        func(db *DB) { db.o.hooks.write.text = unguarded },
		"repeatable read": func(db *DB) { repeatableRead(t, db) },
	} {
		db := mustOpen(t, Options{})
		db.o.hooks.write.general = func(t *storage.Table) bool { return strings.HasSuffix(t.Name(), "general") }
		fault(db)
		c, other := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
		for i, gc := range guardCases() {
			if gc.all { // a transaction reads the version a second time, and says BEGIN ISOLATION LEVEL
				continue
			}
			g := gc.start(t, db, c, fmt.Sprint("table", i), true)
			mustExec(t, other, "BEGIN")
			mustExec(t, other, "LOCK TABLE "+rowsOf(g.tab.ID)+" IN SHARE MODE")
			g.begin()
			blocked(t, c, 1)
			g.bump()
			mustExec(t, other, "COMMIT")
			if err := <-g.done; err != nil {
				t.Errorf("%s, %s: %v", name, gc.name, err)
			}
			if g.last != g.tab.Version {
				t.Errorf("%s, %s: written by version %d: the test sees no fault", name, gc.name, g.last)
			}
		}
	}
}

// repeatableRead gives an engine connections that must not be.
func repeatableRead(t testing.TB, db *DB) {
	t.Helper()
	cfg, prepare := db.pool.Config(), db.pool.Config().AfterConnect
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if err := prepare(ctx, c); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "SET default_transaction_isolation = 'repeatable read'")
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	db.pool.Close()
	db.pool = pool
}

// holders are what somebody may do to the row of a write before it.
func (g *guarded) holders() map[string][]string {
	rows := rowsOf(g.tab.ID)
	if g.gc.key == "y" {
		return map[string][]string{"inserts": {
			"INSERT INTO " + rows + " (ver, size, flags, pk, sk, item) SELECT 7, 2, 0, $1, '', convert_to('{\"k\":{\"S\":\"y\"}}', 'UTF8')",
		}}
	}
	deletes := []string{"DELETE FROM " + rows + " WHERE pk = $1"}
	for _, ix := range g.tab.Indexes {
		deletes = append(deletes, "DELETE FROM "+entriesOf(ix.ID)+" WHERE pk = $1")
	}
	return map[string][]string{
		"locks":   {"SELECT 1 FROM " + rows + " WHERE pk = $1 FOR UPDATE"},
		"updates": {"UPDATE " + rows + " SET ver = ver + 1 WHERE pk = $1"},
		"deletes": deletes,
	}
}

// TestBarrierBehindRowLock: a write that has passed its guard and waits for a
// row keeps the barrier waiting. Whoever is behind the barrier sees it, or it
// is made by the definition that is behind the barrier, too.
func TestBarrierBehindRowLock(t *testing.T) {
	t.Parallel()
	guardServers(t, someModes(), func(t *testing.T, db *DB, c, other *pgx.Conn) {
		barrier := mustConnect(t, db.o.URL)
		for i, gc := range guardCases() {
			for kind := range gc.start(t, db, c, fmt.Sprintf("kinds%d", i), false).holders() {
				for _, end := range []string{"ROLLBACK", "COMMIT"} {
					g := gc.start(t, db, c, fmt.Sprintf("table%d%s%s", i, kind, end), false)
					g.rowLock(barrier, other, kind, end)
				}
			}
		}
	})
}

// rowLock lets somebody stand in front of the row.
func (g *guarded) rowLock(barrier, other *pgx.Conn, kind, end string) {
	g.Helper()
	name := fmt.Sprintf("%s, of a row that somebody %s (%s)", g.gc.name, kind, end)
	mustExec(g, other, "BEGIN")
	for _, sql := range g.holders()[kind] {
		mustExec(g, other, sql, key(g.tab, g.gc.key).PK)
	}
	g.begin()
	write := blocked(g, g.c, 1)
	g.bump()
	mustExec(g, barrier, "BEGIN")
	passed := make(chan error, 1)
	go func() {
		_, err := barrier.Exec(context.WithoutCancel(g.Context()), "LOCK TABLE "+rowsOf(g.tab.ID)+" IN SHARE MODE")
		passed <- err
	}()
	if both := blocked(g, g.c, 2); len(both) != 2 || !slices.Contains(both, write[0]) {
		g.Errorf("%s: %v wait, want the write %v and the barrier", name, both, write)
	}
	mustExec(g, other, end)
	if err := <-passed; err != nil {
		g.Fatal(err)
	}
	rows, err := storedRows(g.Context(), barrier, g.tab.ID)
	if err != nil {
		g.Fatal(err)
	}
	mustExec(g, barrier, "COMMIT")
	if err := <-g.done; err != nil {
		g.Errorf("%s: %v", name, err)
	}
	i := slices.IndexFunc(rows, func(s stored) bool { return s.Key.Equal(key(g.tab, g.gc.key)) })
	seen := i < 0
	if g.gc.item != nil {
		seen = i >= 0 && string(rows[i].Item) == string(ddb.AppendItem(nil, g.gc.item))
	}
	if now := g.tab.Version + 1; !seen && g.last != now {
		g.Errorf("%s: written by version %d, unseen behind the barrier of %d", name, g.last, now)
	}
	checkTable(g, g.c, g.tab)
}

// TestGuardInTransaction: a definition that changes while a transaction holds
// its rows undoes all of it, and it is decided anew.
func TestGuardInTransaction(t *testing.T) {
	t.Parallel()
	guardServers(t, someModes(), func(t *testing.T, db *DB, c, _ *pgx.Conn) {
		for i, gc := range guardCases() {
			if !gc.all || gc.item == nil && gc.key == "y" {
				continue
			}
			g := gc.start(t, db, c, fmt.Sprintf("table%d", i), false)
			var once sync.Once
			g.inside = func() { once.Do(g.bump) }
			if err := g.write(t.Context()); err != nil {
				t.Errorf("%s: %v", gc.name, err)
			}
			if g.last != g.tab.Version+1 {
				t.Errorf("%s: written by version %d, want %d", gc.name, g.last, g.tab.Version+1)
			}
			checkTable(t, c, g.tab)
		}
	})
}
