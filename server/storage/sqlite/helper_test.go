// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

const acct = "000000000000"

func instant() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC) }

// definition has the key pk/sk and an index on g.
func definition(name string) ddb.TableDefinition {
	attr := func(n string) ddb.AttributeDefinition {
		return ddb.AttributeDefinition{AttributeName: n, AttributeType: "S"}
	}
	return ddb.TableDefinition{
		TableName: name, BillingMode: ddb.PayPerRequest,
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: ddb.Hash}, {AttributeName: "sk", KeyType: ddb.Range}},
		AttributeDefinitions: []ddb.AttributeDefinition{attr("g"), attr("pk"), attr("sk")},
		GlobalSecondaryIndexes: []ddb.IndexDefinition{{
			IndexName: "by-g", KeySchema: []ddb.KeySchemaElement{{AttributeName: "g", KeyType: ddb.Hash}},
			Projection: ddb.Projection{ProjectionType: ddb.ProjectAll},
		}},
	}
}

// plain is definition without the index.
func plain(name string) ddb.TableDefinition {
	def := definition(name)
	def.GlobalSecondaryIndexes, def.AttributeDefinitions = nil, def.AttributeDefinitions[1:]
	return def
}

func create(t testing.TB, db *DB, def ddb.TableDefinition) *storage.Table {
	t.Helper()
	tab, err := db.CreateTable(context.Background(), acct, def, instant())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func item(pk, sk string, more ...string) ddb.Item {
	it := ddb.Item{"pk": ddb.String(pk), "sk": ddb.String(sk)}
	for i := 0; i < len(more); i += 2 {
		it[more[i]] = ddb.String(more[i+1])
	}
	return it
}

func key(t testing.TB, tab *storage.Table, pk, sk string) storage.Key {
	t.Helper()
	k, err := tab.KeyOf(item(pk, sk))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// put is a write that replaces a row.
func put(t testing.TB, tab *storage.Table, it ddb.Item) storage.Write {
	t.Helper()
	k, err := tab.KeyOf(it)
	if err != nil {
		t.Fatal(err)
	}
	return storage.Write{Table: tab, Key: k, Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		return storage.Derive(t, it)
	}}
}

func mustPut(t testing.TB, db *DB, tab *storage.Table, items ...ddb.Item) {
	t.Helper()
	ws := make([]storage.Write, len(items))
	for i, it := range items {
		ws[i] = put(t, tab, it)
	}
	for _, r := range db.WriteEach(context.Background(), ws) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

func get(t testing.TB, db *DB, tab *storage.Table, pk, sk string) *storage.Row {
	t.Helper()
	row, err := db.Get(context.Background(), tab, key(t, tab, pk, sk))
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func check(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// gated is an open database whose writer can be held between two batches.
type gated struct {
	*DB
	queued chan struct{} // one token per request
	hold   sync.Mutex    // while held, the writer takes nothing

	mu      sync.Mutex
	batches []int // requests of each batch committed
}

func openGated(t testing.TB, o Options) *gated {
	t.Helper()
	if o.Path == "" {
		o.Path = Memory
	}
	if o.Clock == nil { // else a batch may end early
		o.Clock = clock.NewFake(instant())
	}
	g := &gated{queued: make(chan struct{}, 4096)}
	o.hooks = hooks{
		queued: func() { g.queued <- struct{}{} },
		batch:  func() { g.hold.Lock(); g.hold.Unlock() }, //nolint:staticcheck // waits for the holder
		committed: func(n int) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.batches = append(g.batches, n)
		},
	}
	g.DB = mustOpen(t, o)
	return g
}

// during runs fs at the same time, holding the writer until each has queued a
// request, and waits for them. It returns the batches that came of it.
func (g *gated) during(fs ...func()) []int {
	for len(g.queued) > 0 {
		<-g.queued
	}
	g.mu.Lock()
	g.batches = nil
	g.mu.Unlock()
	g.hold.Lock()
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Go(f)
		<-g.queued // in order
	}
	g.hold.Unlock()
	wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.batches
}

// crashImage copies the files of an open database as a crash would leave them.
func crashImage(t testing.TB, db *DB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crashed.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(db.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func many(n int, size int) []ddb.Item {
	items := make([]ddb.Item, n)
	pad := make([]byte, size)
	for i := range pad {
		pad[i] = 'x'
	}
	for i := range items {
		items[i] = item(fmt.Sprintf("p%d", i%7), fmt.Sprintf("%06d", i), "g", fmt.Sprintf("g%d", i%5), "pad", string(pad))
	}
	return items
}

// busy reports whether the statement stands on a row.
func (s *stmt) busy() bool { return lib.Xsqlite3_stmt_busy(s.c.tls, s.p) != 0 }
