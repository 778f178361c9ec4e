// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// benched is a table of 20 partitions of 100 rows of some 400 bytes, each of
// which has rows of 5 others beside it in the index.
func benched(b *testing.B) (*DB, *storage.Table) {
	b.Helper()
	db := mustOpen(b, Options{})
	tab := mustCreate(b, db, ranged("t"))
	var items []ddb.Item
	for i := range 2000 {
		it := row(fmt.Sprint(i/100), i%100, strings.Repeat("x", 350))
		it["g"] = ddb.String(fmt.Sprint(i % 20))
		items = append(items, it)
	}
	c := mustConnect(b, db.o.URL)
	fill(b, c, tab, items...)
	mustExec(b, c, "VACUUM ANALYZE")
	return db, tab
}

func BenchmarkGet(b *testing.B) {
	db, tab := benched(b)
	k := mustKey(b, tab, row("7", 7, ""))
	b.ReportAllocs()
	for b.Loop() {
		if r, err := db.Get(b.Context(), tab, k); err != nil || r == nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetAll(b *testing.B) {
	db, tab := benched(b)
	var ks []storage.TableKey
	for i := range 100 {
		ks = append(ks, storage.TableKey{Table: tab, Key: mustKey(b, tab, row(fmt.Sprint(i%20), i, ""))})
	}
	for _, budget := range []int{0, 16 << 20} {
		b.Run(fmt.Sprint("budget ", budget), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if rows, err := db.GetAll(b.Context(), ks, budget); err != nil || len(rows) != len(ks) {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRange(b *testing.B) {
	db, tab := benched(b)
	g := tab.Indexes[0].ID
	for _, x := range []struct {
		name string
		r    storage.Range
		rows int
	}{
		{"partition", storage.Range{P: []byte("7\x00"), Want: storage.Items}, 100},
		{"limit", storage.Range{P: []byte("7\x00"), Want: storage.Items, AtMost: 1}, 1},
		{"index", storage.Range{Index: g, P: []byte("7\x00"), Want: storage.Items}, 100},
		{"keys of index", storage.Range{Index: g, P: []byte("7\x00"), Want: storage.Keys}, 100},
		{"all", storage.Range{Want: storage.Items}, 2000},
	} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range db.Range(b.Context(), tab, x.r) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != x.rows {
					b.Fatalf("%d rows", n)
				}
			}
		})
	}
}
