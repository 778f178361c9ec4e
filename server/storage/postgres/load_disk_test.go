// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// TestSortedEntriesAreNowhereTwice: while the entries of an index are put where
// they belong, the relation that they were loaded into is gone.
func TestSortedEntriesAreNowhereTwice(t *testing.T) {
	t.Parallel()
	var (
		o     Options
		tab   *storage.Table
		pages int
	)
	db := &DB{}
	o.hooks.loading = func(point string) error {
		if point != "page" {
			return nil
		}
		c := mustConnect(t, db.o.URL)
		unsorted := selectInt(t, c, "SELECT count(*) FROM pg_class WHERE relnamespace = 'extenddb_data'::regnamespace AND relname LIKE 'u%'")
		if want := int64(len(tab.Indexes) - 1 - pages); unsorted != want {
			return fmt.Errorf("%d relations of unsorted entries at page %d, want %d", unsorted, pages, want)
		}
		pages++
		return nil
	}
	db = mustOpen(t, o)
	l := beginLoad(t, db, "t")
	tab = l.table
	must(t, l.Add(t.Context(), jobRows(t, tab, jobItems(0, 100)...)))
	must(t, l.Finish(t.Context(), nil))
	if pages != len(tab.Indexes) {
		t.Errorf("%d pages", pages)
	}
}
