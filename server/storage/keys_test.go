// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// keyedRows are rows of the test table and of its indexes.
func keyedRows(t testing.TB, table *Table, items ...ddb.Item) (rows map[*Index][]*Row) {
	t.Helper()
	rows = map[*Index][]*Row{}
	for _, it := range items {
		k, err := table.KeyOf(it)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Derive(table, it)
		if err != nil {
			t.Fatal(err)
		}
		rows[nil] = append(rows[nil], &Row{Key: k, Item: n.Item})
		for _, e := range n.Entries {
			ix := table.Indexes[e.Index-11]
			rows[ix] = append(rows[ix], &Row{Key: k, P: e.P, S: e.S, Item: n.Item})
		}
	}
	return rows
}

// TestKeyWriter: it writes what KeysOf tells, row after row.
func TestKeyWriter(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	rows := keyedRows(t, table,
		base("a", str("A\x00B"), "b", ddb.Int(-1), "c", ddb.Binary([]byte{0, 0xFF}), "d", str("D"), "g", str(`"é`+"\n"), "h", ddb.Int(500), "l", str("L")),
		base("g", str(strings.Repeat("g", 2048)), "h", ddb.Int(1)),
		base("pk", str(strings.Repeat("p", 301)), "g", str("G"), "l", str("L")),
		base("a", str("A"), "b", ddb.Int(0), "c", ddb.Binary([]byte("c")), "d", str(strings.Repeat("d", 40)), "g", str("<&>"), "h", ddb.Int(-12), "l", str("\\")),
	)
	if len(rows) < len(table.Indexes) {
		t.Fatalf("rows of %d of %d indexes", len(rows), len(table.Indexes))
	}
	for ix, rows := range rows {
		w := NewKeyWriter(table, ix)
		for _, row := range rows {
			keys, err := table.KeysOf(ix, row)
			if err != nil {
				t.Fatal(err)
			}
			got, size, err := w.Append([]byte("["), row)
			if want := "[" + string(ddb.AppendItem(nil, keys)); err != nil || string(got) != want || size != keys.Size() {
				t.Errorf("keys %s of %d bytes, want %s of %d (%v)", got, size, want, keys.Size(), err)
			}
		}
	}
}

func TestKeyWriterErrors(t *testing.T) {
	t.Parallel()
	table := testTable(t)
	for name, c := range map[string]struct {
		row  Row
		want error
	}{
		"table hash":  {Row{Key: Key{PK: []byte("p"), SK: []byte{0x80}}}, keyenc.ErrMalformed},
		"table range": {Row{Key: Key{PK: []byte("p\x00"), SK: []byte{1}}}, keyenc.ErrMalformed},
		"index hash":  {Row{Key: Key{PK: []byte("p\x00"), SK: []byte{0x80}}, P: []byte("x"), S: []byte{}}, keyenc.ErrMalformed},
		"no item":     {Row{Key: Key{PK: []byte("p\x01"), SK: []byte{0x80}}}, keyenc.ErrShortened},
	} {
		if keys, _, err := NewKeyWriter(table, table.Index("hash")).Append(nil, &c.row); !errors.Is(err, c.want) {
			t.Errorf("%s: %s, %v", name, keys, err)
		}
	}
	if _, _, err := NewKeyWriter(table, nil).Append(nil, &Row{Key: Key{PK: []byte{0, 1}}, Item: []byte("{")}); err == nil {
		t.Error("an item that is no JSON gives keys")
	}
}

func BenchmarkKeyWriter(b *testing.B) {
	table := testTable(b)
	ix := table.Index("z-all")
	row := keyedRows(b, table, base("g", str("G"), "h", ddb.Int(5)))[ix][0]
	w, buf := NewKeyWriter(table, ix), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, _, err = w.Append(buf[:0], row); err != nil {
			b.Fatal(err)
		}
	}
}
