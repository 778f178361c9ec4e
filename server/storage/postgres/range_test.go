// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// ranged defines a table with a global and a local index, one of each kind of
// projection.
func ranged(name string) ddb.TableDefinition {
	key := func(names ...string) []ddb.KeySchemaElement {
		return []ddb.KeySchemaElement{{AttributeName: names[0], KeyType: ddb.Hash}, {AttributeName: names[1], KeyType: ddb.Range}}
	}
	return ddb.TableDefinition{
		TableName: name, BillingMode: "PAY_PER_REQUEST", KeySchema: key("pk", "sk"),
		AttributeDefinitions: []ddb.AttributeDefinition{
			{AttributeName: "g", AttributeType: "S"}, {AttributeName: "n", AttributeType: "N"},
			{AttributeName: "pk", AttributeType: "S"}, {AttributeName: "sk", AttributeType: "N"},
		},
		GlobalSecondaryIndexes: []ddb.IndexDefinition{
			{IndexName: "g", KeySchema: key("g", "n"), Projection: ddb.Projection{ProjectionType: ddb.ProjectAll}},
		},
		LocalSecondaryIndexes: []ddb.IndexDefinition{
			{IndexName: "l", KeySchema: key("pk", "n"), Projection: ddb.Projection{ProjectionType: ddb.ProjectKeysOnly}},
		},
	}
}

func mustCreate(t testing.TB, db *DB, def ddb.TableDefinition) *storage.Table {
	t.Helper()
	tab, err := db.CreateTable(t.Context(), "000000000000", def, db.o.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// row makes an item of ranged: partition p, place i in it; text fills it up.
func row(p string, i int, text string) ddb.Item {
	return ddb.Item{"pk": ddb.String(p), "sk": ddb.Int(int64(i)), "g": ddb.String("G" + p), "n": ddb.Int(int64(-i)), "x": ddb.String(text)}
}

// fill loads rows and entries past the engine, in bulk.
func fill(t testing.TB, c *pgx.Conn, tab *storage.Table, items ...ddb.Item) {
	t.Helper()
	var rows [][]any
	entries := map[storage.IndexID][][]any{}
	for i, it := range items {
		next, err := storage.Derive(tab, it)
		if err != nil {
			t.Fatal(err)
		}
		k, err := tab.KeyOf(it)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, []any{int64(i + 1), int32(next.Size), int16(next.Flags), k.PK, k.SK, next.Item})
		for _, e := range next.Entries {
			entries[e.Index] = append(entries[e.Index], []any{int32(e.Size), e.P, e.S, k.PK, k.SK})
		}
	}
	into := func(relation string, cols []string, rows [][]any) {
		t.Helper()
		if _, err := c.CopyFrom(t.Context(), strings.Split(relation, "."), cols, pgx.CopyFromRows(rows)); err != nil {
			t.Fatal(err)
		}
	}
	into(rowsOf(tab.ID), []string{"ver", "size", "flags", "pk", "sk", "item"}, rows)
	for ix, rows := range entries {
		into(entriesOf(ix), []string{"size", "p", "s", "pk", "sk"}, rows)
	}
}

// variants are all kinds of Range.
func variants() []variant {
	var all []variant
	flags := []bool{false, true}
	for _, index := range flags {
		for _, part := range flags {
			for _, lower := range flags {
				for _, upper := range flags {
					for _, reverse := range flags {
						for _, limit := range flags {
							for want := storage.Sizes; want <= storage.Items; want++ {
								v := variant{index, part, lower, upper, reverse, limit, false, want}
								if all = append(all, v); index && want == storage.Items {
									v.whole = true
									all = append(all, v)
								}
							}
						}
					}
				}
			}
		}
	}
	return all
}

// explain returns the plan of a statement with some parameters.
func explain(t *testing.T, c *pgx.Conn, sql string, args []any) string {
	t.Helper()
	values, oids, err := encodeArgs(c, args)
	if err != nil {
		t.Fatal(err)
	}
	r := c.PgConn().ExecParams(t.Context(), "EXPLAIN (COSTS OFF) "+sql, values, oids, []int16{1}, nil).Read()
	if r.Err != nil {
		t.Fatalf("%s: %v", sql, r.Err)
	}
	var lines []string
	for _, row := range r.Rows {
		lines = append(lines, string(row[0]))
	}
	return strings.Join(lines, "\n")
}

// explainGeneric returns the plan that is kept for a prepared statement.
func explainGeneric(t *testing.T, c *pgx.Conn, sql string, args []any) string {
	t.Helper()
	kinds, values := make([]string, len(args)), make([]string, len(args))
	for i, a := range args {
		kinds[i], values[i] = "bytea", "'\\x61'"
		if _, ok := a.(int64); ok {
			kinds[i], values[i] = "bigint", fmt.Sprint(a)
		}
	}
	mustExec(t, c, "PREPARE q ("+strings.Join(kinds, ", ")+") AS "+sql)
	defer mustExec(t, c, "DEALLOCATE q")
	rows, err := c.Query(t.Context(), "EXPLAIN (COSTS OFF) EXECUTE q ("+strings.Join(values, ", ")+")", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestPlans: every kind of Range reads its index in order, whatever the
// statistics say and whether the plan is made for the values or for any: no
// sort, no scan of a relation.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	c := mustConnect(t, db.o.URL)
	mustExec(t, c, "SET search_path = pg_catalog; SET jit = off; "+planner)
	states := []struct {
		name string
		make func()
	}{
		{"empty", func() {}},
		{"loaded in bulk", func() {
			var items []ddb.Item
			for i := range 20_000 {
				items = append(items, row(fmt.Sprint(i%100), i, strings.Repeat("x", 100)))
			}
			fill(t, c, tab, items...)
		}},
		{"analysed", func() { mustExec(t, c, "VACUUM ANALYZE "+rowsOf(tab.ID)+", "+entriesOf(tab.Indexes[0].ID)) }},
	}
	for _, state := range states {
		state.make()
		for _, v := range variants() {
			ix := storage.IndexID(0)
			if v.index {
				ix = tab.Indexes[0].ID
			}
			sql, args := v.sql(tab.ID, ix), anyArguments(v, tab.ID)
			for kind, plan := range map[string]string{"for values": explain(t, c, sql, args), "for any": explainGeneric(t, c, sql, args)} {
				if problem := planProblem(v, plan); problem != "" {
					t.Fatalf("%s, %s: %+v: %s\n%s\n%s", state.name, kind, v, problem, sql, plan)
				}
			}
		}
	}
}

func anyArguments(v variant, id storage.TableID) []any {
	some := make([][]byte, len(v.keys()))
	for i := range some {
		some[i] = []byte("a")
	}
	args := v.arguments(id, &storage.Range{P: []byte("a")}, some, some)
	if v.limit {
		args = append(args, int64(100))
	}
	return args
}

func planProblem(v variant, plan string) string {
	for _, bad := range []string{"Sort", "Seq Scan", "Bitmap", "Hash", "Materialize", "Memoize", "Parallel", "Gather"} {
		if strings.Contains(plan, bad) {
			return bad
		}
	}
	scan := "Index Scan"
	if v.index && (v.want == storage.Keys || v.whole) {
		scan = "Index Only Scan"
	}
	if v.reverse {
		scan += " Backward"
	}
	relation := "t_"
	if v.index {
		relation = "x_"
	}
	if !strings.Contains(plan, scan+" using "+relation) {
		return "no " + scan + " using " + relation
	}
	if v.part && !strings.Contains(plan, "Index Cond") {
		return "no condition on the index"
	}
	return ""
}

// TestPlansOfKeys: reads by key find their rows, and the guard's, by index.
func TestPlansOfKeys(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	a, b := mustCreate(t, db, ranged("a")), mustCreate(t, db, ranged("b"))
	c := mustConnect(t, db.o.URL)
	mustExec(t, c, "SET search_path = pg_catalog; SET jit = off; "+planner)
	q := newAllQuery([]storage.TableKey{{Table: a, Key: storage.Key{PK: []byte("p")}}, {Table: b, Key: storage.Key{PK: []byte("p")}}})
	for sql, args := range map[string][]any{
		getRow(a.ID):  {int64(a.ID), []byte("p"), []byte("s")},
		q.sql(false):  q.args(0),
		q.sql(true):   q.args(1000),
		currentStatus: {int64(a.ID), int64(1)},
	} {
		plan := explain(t, c, sql, args)
		if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") {
			t.Errorf("%s\n%s", sql, plan)
		}
	}
}

// wants is what a Range over some rows of ranged is to yield.
func wants(tab *storage.Table, items []ddb.Item, r storage.Range) []string {
	var all []storage.Position
	for _, it := range items {
		var ix *storage.Index
		if r.Index != 0 {
			ix = tab.Index("g")
		}
		pos, err := tab.PositionOf(ix, it)
		if err != nil {
			panic(err)
		}
		all = append(all, pos)
	}
	slices.SortFunc(all, storage.Position.Compare)
	if r.Reverse {
		slices.Reverse(all)
	}
	var keys []string
	for _, p := range all {
		if r.P == nil || string(r.P) == string(p.PK) && r.Index == 0 || string(r.P) == string(p.P) {
			keys = append(keys, string(p.PK)+string(p.SK))
		}
	}
	return keys
}

// TestRangeSizes: whatever the number of rows is beside those that are asked
// for at a time, and whatever was learnt before, all come, once, in order.
func TestRangeSizes(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	c := mustConnect(t, db.o.URL)
	var items []ddb.Item
	for i, n := range []int{1, unknownRows, unknownRows + 1, onceRows - 1, onceRows, onceRows + 1, 2100} {
		for j := range n {
			items = append(items, row(fmt.Sprint(i), j, strings.Repeat("x", 10*i)))
		}
	}
	fill(t, c, tab, items...)
	for round := range 3 {
		for _, p := range []string{"", "0", "1", "2", "3", "4", "5", "6", "none"} {
			for i, r := range []storage.Range{{}, {Reverse: true}, {Rows: 1}, {Bytes: 1}, {Rows: 50, Bytes: 1 << 20}} {
				for _, ix := range []storage.IndexID{0, tab.Indexes[0].ID} {
					r.Index, r.Want = ix, storage.Items-storage.Want((round+i)%3)
					if p != "" {
						r.P = append([]byte(p), 0)
						if ix != 0 {
							r.P = append([]byte("G"+p), 0)
						}
					}
					var got []string
					for row, err := range db.Range(t.Context(), tab, r) {
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, string(row.Key.PK)+string(row.Key.SK))
					}
					if want := wants(tab, items, r); !slices.Equal(got, want) {
						t.Fatalf("partition %q, %+v: %d rows, want %d", p, r, len(got), len(want))
					}
				}
			}
		}
	}
}

// TestRangeAtMost: who promises to read no more gets as many, by one statement.
func TestRangeAtMost(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	var items []ddb.Item
	for i := range 300 {
		items = append(items, row("p", i, "text"))
	}
	fill(t, mustConnect(t, db.o.URL), tab, items...)
	for _, n := range []int{1, 5, 100, 300, 400} {
		got := 0
		for _, err := range db.Range(t.Context(), tab, storage.Range{AtMost: n, Want: storage.Items}) {
			if err != nil {
				t.Fatal(err)
			}
			if got++; got == n {
				break
			}
		}
		if want := min(n, 300); got != want {
			t.Errorf("at most %d: %d rows", n, got)
		}
	}
}

// TestShortRangeHoldsNothing: what one statement can answer is read when the
// first row is yielded, and the connection given back; a long one needs it as
// long as it is read, but no longer.
func TestShortRangeHoldsNothing(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	var items []ddb.Item
	for i := range 3000 {
		items = append(items, row("long", i, "text"))
	}
	for i := range 40 {
		items = append(items, row("short", i, "text"))
	}
	fill(t, mustConnect(t, db.o.URL), tab, items...)
	for _, x := range []struct {
		name string
		r    storage.Range
		held int32
	}{
		{"short", storage.Range{P: []byte("short\x00")}, 0},
		{"promised", storage.Range{AtMost: 40}, 0},
		{"long", storage.Range{P: []byte("long\x00")}, 1},
		{"long again", storage.Range{P: []byte("long\x00")}, 1},
		{"all", storage.Range{}, 1},
	} {
		x.r.Want = storage.Items
		for _, err := range db.Range(t.Context(), tab, x.r) {
			if err != nil {
				t.Fatal(err)
			}
			if n := db.pool.Stat().AcquiredConns(); n != x.held {
				t.Errorf("%s: %d connections are held while a row is yielded, want %d", x.name, n, x.held)
			}
			break
		}
		if n := db.pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%s: %d connections are held afterwards", x.name, n)
		}
	}
}

// TestRangeOneInstant: what is changed while a range is read does not show,
// however it is read.
func TestRangeOneInstant(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	for i, r := range []storage.Range{{}, {Rows: 1}, {Reverse: true, Bytes: 1}, {P: []byte("p\x00")}, {P: []byte("p\x00"), Rows: 3}} {
		for _, n := range []int{10, 700, 5000} {
			for _, indexed := range []bool{false, true} {
				tab, r := mustCreate(t, db, ranged(fmt.Sprint("t", i, n, indexed))), r
				if indexed {
					r.Index = tab.Indexes[0].ID
					if r.P != nil {
						r.P = []byte("Gp\x00")
					}
				}
				var items []ddb.Item
				for i := range n {
					items = append(items, row("p", i, "before"))
				}
				fill(t, c, tab, items...)
				got := 0
				r.Want = storage.Items
				for row, err := range db.Range(t.Context(), tab, r) {
					if err != nil {
						t.Fatal(err)
					}
					if got == 0 {
						mustExec(t, c, "UPDATE "+rowsOf(tab.ID)+" SET item = 'after', ver = ver + 1 WHERE ver % 2 = 0")
						mustExec(t, c, "DELETE FROM "+rowsOf(tab.ID)+" WHERE ver % 3 = 0")
						mustExec(t, c, "DELETE FROM "+entriesOf(tab.Indexes[0].ID))
					}
					if got++; !strings.Contains(string(row.Item), "before") {
						t.Fatalf("%+v: row %d of %d is of a later instant: %s", r, got, n, row.Item)
					}
				}
				if got != n {
					t.Errorf("%+v: %d rows of %d", r, got, n)
				}
			}
		}
	}
}

// TestRangeLearns how wide rows are.
func TestRangeLearns(t *testing.T) {
	t.Parallel()
	var p pace
	if n := p.fits(readAhead); n != unknownRows {
		t.Errorf("nothing known: %d rows", n)
	}
	p.saw(0, 0)
	p.saw(10, 4000)
	if n := p.fits(40_000); n != 100 {
		t.Errorf("of 400 bytes: %d rows", n)
	}
	p.saw(1, 400_000)
	if n := p.fits(readAhead); n != 2 {
		t.Errorf("a large one: %d rows", n)
	}
	if n := p.fits(1); n != 1 {
		t.Errorf("never none: %d", n)
	}
	for range 100 {
		p.saw(10, 4000)
	}
	if n := p.fits(readAhead); n < fetchRows/2 {
		t.Errorf("small ones again: %d rows", n)
	}
	var x reads
	for i := range maxPaces + 1 {
		x.pace(paceKey{t: storage.TableID(i)}).saw(1, 1)
	}
	if n := len(x.paces); n > maxPaces {
		t.Errorf("%d paces are kept", n)
	}
}

// TestRangeDamage: an entry without its row is told, not passed over.
func TestRangeDamage(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := mustCreate(t, db, ranged("t"))
	c := mustConnect(t, db.o.URL)
	fill(t, c, tab, row("p", 1, ""), row("p", 2, ""))
	mustExec(t, c, "DELETE FROM "+rowsOf(tab.ID)+" WHERE ver = 2")
	for _, r := range []storage.Range{{}, {P: []byte("Gp\x00")}, {AtMost: 5}} {
		r.Index, r.Want = tab.Indexes[0].ID, storage.Items
		if err := rangeError(db, t, tab, r); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if n := db.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are held", n)
	}
}

func rangeError(db *DB, t *testing.T, tab *storage.Table, r storage.Range) error {
	for _, err := range db.Range(t.Context(), tab, r) {
		if err != nil {
			return err
		}
	}
	return nil
}
