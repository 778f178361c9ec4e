// SPDX-License-Identifier: Apache-2.0

package storage

import (
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
