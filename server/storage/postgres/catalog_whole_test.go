// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/test/servers"
)

// The list is what the migrations make.
func TestCatalogList(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	rows, err := mustConnect(t, db.o.URL).Query(t.Context(), `SELECT concat_ws(' ', c.relname,
			(SELECT string_agg(a.attname, ' ' ORDER BY a.attname COLLATE "C") FROM pg_attribute a
			WHERE a.attrelid = c.oid AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped))
		FROM pg_class c WHERE c.relnamespace = 'extenddb'::regnamespace AND c.relkind <> 'i' ORDER BY c.relname COLLATE "C"`)
	if err != nil {
		t.Fatal(err)
	}
	made, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if listed := strings.Split(catalogRelations, "\n"); !slices.Equal(made, listed) {
		t.Errorf("the migrations make\n%s\nand listed is\n%s", strings.Join(made, "\n"), catalogRelations)
	}
}

// TestHalfCatalog: of a catalog that is not whole, what is missing is told, and
// nothing is made.
func TestHalfCatalog(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"DROP TABLE extenddb.tokens":        "extenddb.tokens is missing",
		"DROP SCHEMA extenddb_data":         "schema extenddb_data is missing",
		"DROP SEQUENCE extenddb.change_seq": "extenddb.change_seq is missing",
		"ALTER TABLE extenddb.samples DROP used, DROP t; DROP TABLE extenddb.servers": "extenddb.samples has no column t, extenddb.samples has no column used, extenddb.servers is missing",
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			url := servers.Database(t)
			must(t, mustOpen(t, Options{URL: url}).Close())
			c := mustConnect(t, url)
			mustExec(t, c, sql)
			_, plan := Plan(t.Context(), Options{URL: url})
			_, migration := Migrate(t.Context(), Options{URL: url}, migrate.Options{})
			_, open := Open(t.Context(), Options{URL: url})
			for _, err := range []error{plan, migration, open} {
				if !errors.Is(err, storage.ErrCorrupt) || !strings.HasSuffix(err.Error(), "not whole: "+want) {
					t.Errorf("error %v, want %s", err, want)
				}
			}
		})
	}
}
