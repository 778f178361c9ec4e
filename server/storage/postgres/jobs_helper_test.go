// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

const jobAccount = "000000000000"

func jobNow() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC) }

// jobTable has the key pk/sk and two global indexes, on g and on h/sk.
func jobTable(name string) ddb.TableDefinition {
	def := ddb.TableDefinition{
		TableName: name, BillingMode: ddb.PayPerRequest,
		KeySchema: []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: ddb.Hash}, {AttributeName: "sk", KeyType: ddb.Range}},
	}
	for _, n := range []string{"g", "h", "pk", "sk"} {
		def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: n, AttributeType: "S"})
	}
	all := ddb.Projection{ProjectionType: ddb.ProjectAll}
	def.GlobalSecondaryIndexes = []ddb.IndexDefinition{
		{IndexName: "by-g", KeySchema: []ddb.KeySchemaElement{{AttributeName: "g", KeyType: ddb.Hash}}, Projection: all},
		{IndexName: "by-h", KeySchema: []ddb.KeySchemaElement{
			{AttributeName: "h", KeyType: ddb.Hash}, {AttributeName: "sk", KeyType: ddb.Range},
		}, Projection: all},
	}
	return def
}

// jobItem is in the first index; every third is in the second one too.
func jobItem(i int) ddb.Item {
	it := ddb.Item{
		"pk": ddb.String(fmt.Sprintf("p%03d", i/100)), "sk": ddb.String(fmt.Sprintf("%06d", i)), "g": ddb.String(fmt.Sprint("g", i%7)),
	}
	if i%3 == 0 {
		it["h"] = ddb.String("h")
	}
	return it
}

func jobRows(t testing.TB, tab *storage.Table, items ...ddb.Item) []storage.LoadRow {
	t.Helper()
	rows := make([]storage.LoadRow, len(items))
	for i, it := range items {
		k, err := tab.KeyOf(it)
		if err != nil {
			t.Fatal(err)
		}
		next, err := storage.Derive(tab, it)
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = storage.LoadRow{Key: k, Next: next}
	}
	return rows
}

func jobItems(from, to int) (items []ddb.Item) {
	for i := from; i < to; i++ {
		items = append(items, jobItem(i))
	}
	return items
}

// loaded makes a table of n rows.
func loadedTable(t testing.TB, db *DB, name string, n int) *storage.Table {
	t.Helper()
	l := beginLoad(t, db, name)
	must(t, l.Add(t.Context(), jobRows(t, l.table, jobItems(0, n)...)))
	must(t, l.Finish(t.Context(), nil))
	tab, err := db.Table(t.Context(), jobAccount, name)
	must(t, err)
	return tab
}

func beginLoad(t testing.TB, db *DB, name string) *loading {
	t.Helper()
	l, err := db.Load(t.Context(), jobAccount, jobTable(name), jobNow())
	must(t, err)
	return l.(*loading)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// outsider is a connection of somebody else to the same database.
func outsider(t testing.TB, db *DB, program string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(db.o.URL)
	must(t, err)
	cfg.RuntimeParams["application_name"] = program
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) }) // some are ended by their tests
	return c
}

func selectInt(t testing.TB, c *pgx.Conn, sql string, args ...any) (n int64) {
	t.Helper()
	must(t, c.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// here limits pg_locks to the database of the test.
const here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"

// terminate ends the session that owns a key, as if its server had died.
func terminate(t testing.TB, c *pgx.Conn, k lockKey) {
	t.Helper()
	n := selectInt(t, c, `SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32 | objid::bigint) = $1 AND `+here, k.number())
	if n != 1 {
		t.Fatalf("%d sessions own %+v", n, k)
	}
}

// lost waits until a process knows that it owns something no more.
func lost(t testing.TB, db *DB, o *ownership) {
	t.Helper()
	for o.held() == nil {
		must(t, t.Context().Err())
		_ = db.Ping(t.Context()) // a round trip is long enough a pause
	}
}

func markDropped(t testing.TB, db *DB, name string) *storage.Table {
	t.Helper()
	tab, err := db.DropTable(t.Context(), jobAccount, name, func(*storage.Table) error { return nil })
	must(t, err)
	return tab
}

// due returns the work of a kind that is due.
func due(t testing.TB, db *DB, kind storage.WorkKind, now time.Time) []storage.Work {
	t.Helper()
	ws, err := db.Pending(t.Context(), now)
	must(t, err)
	return slices.DeleteFunc(ws, func(w storage.Work) bool { return w.Kind != kind })
}

// claimed claims the only work of a kind.
func claimed(t testing.TB, db *DB, kind storage.WorkKind, now time.Time) *lease {
	t.Helper()
	ws := due(t, db, kind, now)
	if len(ws) != 1 {
		t.Fatalf("%s: %d pieces of work are due, want 1", kind, len(ws))
	}
	l, err := db.Claim(t.Context(), ws[0])
	must(t, err)
	t.Cleanup(func() { _ = l.Release() })
	return l.(*lease)
}

// complete steps a lease to its end.
func complete(t testing.TB, l storage.Lease, now time.Time) storage.Progress {
	t.Helper()
	for {
		p, err := l.Step(t.Context(), now)
		must(t, err)
		if p.Finished {
			must(t, l.Release())
			return p
		}
	}
}

// checkOrphans: no relation without a row in the catalog, no row of it without
// its relation or its table.
func checkOrphans(t testing.TB, c *pgx.Conn) {
	t.Helper()
	rows, err := c.Query(t.Context(), `WITH relations AS (
		SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'extenddb_data'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
		EXCEPT SELECT 'u_' || i.id FROM extenddb.indexes i JOIN extenddb.tables t ON t.id = i.t WHERE t.status <> 1),
	known AS (SELECT 't_' || id AS name FROM extenddb.tables UNION ALL SELECT 'x_' || id FROM extenddb.indexes)
	SELECT 'relation ' || coalesce(r.name, 'missing: ' || k.name) FROM relations r FULL JOIN known k ON r.name = k.name
		WHERE r.name IS NULL OR k.name IS NULL
	UNION ALL SELECT 'index ' || id FROM extenddb.indexes WHERE t NOT IN (SELECT id FROM extenddb.tables)
	UNION ALL SELECT 'statistics of ' || t FROM extenddb.table_stats WHERE t NOT IN (SELECT id FROM extenddb.tables)
	UNION ALL SELECT 'no statistics of ' || id FROM extenddb.tables WHERE id NOT IN (SELECT t FROM extenddb.table_stats)
	UNION ALL SELECT 'statistics of index ' || ix FROM extenddb.index_stats WHERE ix NOT IN (SELECT id FROM extenddb.indexes)
	UNION ALL SELECT 'sample of ' || t FROM extenddb.samples WHERE t NOT IN (SELECT id FROM extenddb.tables)`)
	must(t, err)
	orphans, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	if len(orphans) > 0 {
		t.Errorf("orphans: %q", orphans)
	}
}
