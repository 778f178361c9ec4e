// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// BenchmarkKeyOf and BenchmarkDerive: what every read and every write of a
// row costs before storage is asked.
func BenchmarkKeyOf(b *testing.B) {
	table, it := testTable(b), base()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.KeyOf(it); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDerive(b *testing.B) {
	table := testTable(b)
	it := base("g", str("G"), "h", ddb.Int(5), "l", str("L"), "x", str("some text that is not indexed"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Derive(table, it); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecide: what a write costs beside what it decides, over an item of
// which most is in no index.
func BenchmarkDecide(b *testing.B) {
	table := testTable(b)
	it := base("g", str("G"), "h", ddb.Int(5), "l", str("L"))
	for i := range 20 {
		it[fmt.Sprint("other", i)] = ddb.List(str("some text that is not indexed"), ddb.Int(int64(i)))
	}
	next, err := Derive(table, it)
	if err != nil {
		b.Fatal(err)
	}
	row, decide := &Row{Item: next.Item, Size: next.Size}, Decide(func(*Table, *Row) (*Next, error) { return Unchanged, nil })
	b.ReportAllocs()
	for b.Loop() {
		if made, err := decide.Run(table, row); err != nil || len(made.Old) != 4 {
			b.Fatal(made, err)
		}
	}
}
