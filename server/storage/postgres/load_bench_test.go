// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// BenchmarkLoad loads items of about 400 bytes into a table with two indexes,
// and, to compare, copies their rows alone.
func BenchmarkLoad(b *testing.B) {
	const rows, batch = 200_000, 5000
	db := mustOpen(b, Options{URL: servers.Private(b, "fsync=on").Database(b)})
	c := mustConnect(b, db.o.URL)
	batches := func(yield func([]storage.LoadRow) bool, tab *storage.Table) {
		pad := ddb.String(strings.Repeat("x", 330))
		for from := 0; from < rows; from += batch {
			items := jobItems(from, from+batch)
			for i := range items {
				items[i]["h"], items[i]["pad"] = items[i]["g"], pad
			}
			if !yield(jobRows(b, tab, items...)) {
				return
			}
		}
	}
	b.Run("load", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			l := beginLoad(b, db, fmt.Sprint("t", b.N, "-", i))
			for some := range func(yield func([]storage.LoadRow) bool) { batches(yield, l.table) } {
				must(b, l.Add(b.Context(), some))
			}
			must(b, l.Finish(b.Context(), nil))
		}
		b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("copy of the rows alone", func(b *testing.B) {
		tab, err := db.CreateTable(b.Context(), jobAccount, jobTable("bare"), jobNow())
		must(b, err)
		for b.Loop() {
			mustExec(b, c, "TRUNCATE "+rowsOf(tab.ID))
			for some := range func(yield func([]storage.LoadRow) bool) { batches(yield, tab) } {
				must(b, copyIn(b.Context(), c, rowsOf(tab.ID)+rowColumns, newCopyStream(rowTuples(some))))
			}
		}
		b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("rows made only", func(b *testing.B) {
		tab, err := db.CreateTable(b.Context(), jobAccount, jobTable("made"), jobNow())
		must(b, err)
		for b.Loop() {
			for some := range func(yield func([]storage.LoadRow) bool) { batches(yield, tab) } {
				_ = some
			}
		}
		b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
