// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

const acct = "000000000000"

func instant() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC) }

// indexed defines a table with the key k and global indexes by-a (key a,
// everything), by-b (key b, keys only), ... for the attributes given.
func indexed(name string, attrs ...string) ddb.TableDefinition {
	def := hashTable(name)
	for i, a := range attrs {
		def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: a, AttributeType: "S"})
		project := ddb.Projection{ProjectionType: ddb.ProjectAll}
		if i%2 == 1 {
			project.ProjectionType = ddb.ProjectKeysOnly
		}
		def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, ddb.IndexDefinition{
			IndexName: "by-" + a, KeySchema: []ddb.KeySchemaElement{{AttributeName: a, KeyType: ddb.Hash}}, Projection: project,
		})
	}
	return def
}

func streaming(def ddb.TableDefinition, view string) ddb.TableDefinition {
	def.StreamViewType = view
	return def
}

func create(t testing.TB, db *DB, def ddb.TableDefinition) *storage.Table {
	t.Helper()
	tab, err := db.CreateTable(t.Context(), acct, def, instant())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// item is a row with key k and pairs of names and strings.
func item(k string, more ...string) ddb.Item {
	it := ddb.Item{"k": ddb.String(k)}
	for i := 0; i < len(more); i += 2 {
		it[more[i]] = ddb.String(more[i+1])
	}
	return it
}

func key(tab *storage.Table, k string) storage.Key {
	key, err := tab.KeyOf(item(k))
	if err != nil {
		panic(err) // a mistake in a test
	}
	return key
}

func put(tab *storage.Table, it ddb.Item) storage.Write {
	return storage.Write{Table: tab, Key: key(tab, it["k"].Str()), Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		return storage.Derive(t, it)
	}}
}

func blind(w storage.Write) storage.Write {
	w.Blind = true
	return w
}

func remove(tab *storage.Table, k string) storage.Write {
	return storage.Write{Table: tab, Key: key(tab, k), Decide: func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, nil }}
}

// add adds d to attribute n of a row, and gives it some more.
func add(tab *storage.Table, k string, d int, more ...string) storage.Write {
	return storage.Write{Table: tab, Key: key(tab, k), Decide: func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
		n := 0
		if cur != nil {
			it, err := ddb.ParseItem(cur.Item)
			if err != nil {
				return nil, err
			}
			n, err = strconv.Atoi(it["n"].Str())
			if err != nil {
				return nil, err
			}
		}
		return storage.Derive(t, item(k, append([]string{"n", strconv.Itoa(n + d)}, more...)...))
	}}
}

func mustWrite(t testing.TB, db *DB, ws ...storage.Write) {
	t.Helper()
	for _, w := range ws {
		if _, err := db.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
}

// stored is a row as it is in the database.
type stored struct {
	Key         storage.Key
	Ver         int64
	Size, Flags int
	Item        []byte
}

func storedRows(ctx context.Context, q querier, id storage.TableID) ([]stored, error) {
	rows, err := q.Query(ctx, "SELECT pk, sk, ver, size, flags, item FROM "+rowsOf(id)+" ORDER BY pk, sk")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (s stored, err error) {
		err = r.Scan(&s.Key.PK, &s.Key.SK, &s.Ver, &s.Size, &s.Flags, &s.Item)
		return s, err
	})
}

// value returns attribute a of the row k, "" when there is none.
func value(t testing.TB, c *pgx.Conn, tab *storage.Table, k, a string) string {
	t.Helper()
	rows, err := storedRows(t.Context(), c, tab.ID)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(rows, func(s stored) bool { return s.Key.Equal(key(tab, k)) })
	if i < 0 {
		return ""
	}
	it, err := ddb.ParseItem(rows[i].Item)
	if err != nil {
		t.Fatal(err)
	}
	return it[a].Str()
}

// entryText writes an entry so that it can be compared.
func entryText(p, s []byte, k storage.Key, size int) string {
	return fmt.Sprintf("%x/%x/%x/%x %d", p, s, k.PK, k.SK, size)
}

// divergent compares a table, read in one snapshot, with what Derive makes of
// its items, and the entries of its indexes with those; places that were held
// and not given up show as rows of version 0.
func divergent(ctx context.Context, c *pgx.Conn, tab *storage.Table) (problems []string, err error) {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	rows, err := storedRows(ctx, tx, tab.ID)
	if err != nil {
		return nil, err
	}
	want := map[storage.IndexID]map[string]bool{}
	for _, ix := range tab.Indexes {
		want[ix.ID] = map[string]bool{}
	}
	for _, r := range rows {
		it, err := ddb.ParseItem(r.Item)
		if err != nil {
			problems = append(problems, fmt.Sprintf("row %x: %v", r.Key, err))
			continue
		}
		n, err := storage.Derive(tab, it)
		if err != nil || r.Ver == 0 || n.Size != r.Size || int(n.Flags) != r.Flags || !bytes.Equal(n.Item, r.Item) {
			problems = append(problems, fmt.Sprintf("row %x is %+v, want %+v (%v)", r.Key, r, n, err))
			continue
		}
		for _, e := range n.Entries {
			want[e.Index][entryText(e.P, e.S, r.Key, e.Size)] = true
		}
	}
	for _, ix := range tab.Indexes {
		more, err := divergentIndex(ctx, tx, ix, want[ix.ID])
		if err != nil {
			return nil, err
		}
		problems = append(problems, more...)
	}
	return problems, nil
}

func divergentIndex(ctx context.Context, tx pgx.Tx, ix *storage.Index, want map[string]bool) (problems []string, err error) {
	rows, err := tx.Query(ctx, "SELECT p, s, pk, sk, size FROM "+entriesOf(ix.ID))
	if err != nil {
		return nil, err
	}
	var p, s []byte
	var k storage.Key
	var size int
	_, err = pgx.ForEachRow(rows, []any{&p, &s, &k.PK, &k.SK, &size}, func() error {
		if text := entryText(p, s, k, size); !want[text] {
			problems = append(problems, fmt.Sprintf("index %s: entry %s is left over", ix.Name, text))
		} else {
			delete(want, text)
		}
		return nil
	})
	for text := range want {
		problems = append(problems, fmt.Sprintf("index %s: entry %s is missing", ix.Name, text))
	}
	return problems, err
}

func checkTable(t testing.TB, c *pgx.Conn, tab *storage.Table) {
	t.Helper()
	problems, err := divergent(t.Context(), c, tab)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems[:min(len(problems), 10)] {
		t.Error(p)
	}
}

// blocked waits until n sessions of the database wait for locks, and returns
// their process ids.
func blocked(t testing.TB, c *pgx.Conn, n int) []uint32 {
	t.Helper()
	for {
		rows, err := c.Query(t.Context(), `SELECT DISTINCT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE NOT l.granted AND a.datname = current_database() ORDER BY l.pid`)
		if err != nil {
			t.Fatal(err)
		}
		pids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) >= n {
			return pids
		}
	}
}
