// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
)

// catalogRelations lists what the migrations make, each relation with its columns.
const catalogRelations = `change_seq
changes at keys kind new old pk seq service size sk t
horizon one seq
ids
index_stats bytes items ix t
indexes id name t
migrations applied digest name version
samples ix positions t used
servers heartbeat host id pid program started
table_stats bytes changed counted items t
tables account created definition id long_keys name status uuid version
tokens account digest expires token`

// missingParts lists those of some parts, a relation and a column that may be
// empty, that are not there.
const missingParts = `SELECT CASE WHEN r.oid IS NULL THEN format('%s is missing', p.rel) ELSE format('%s has no column %s', p.rel, p.col) END
FROM (SELECT 'extenddb.' || a AS rel, b AS col, i FROM unnest($1::text[], $2::text[]) WITH ORDINALITY u(a, b, i)) p, to_regclass(p.rel) r(oid)
WHERE (r.oid IS NULL AND p.col = '') OR (r.oid IS NOT NULL AND p.col <> ''
  AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = r.oid AND a.attname = p.col AND a.attnum > 0 AND NOT a.attisdropped))
ORDER BY p.i`

// whole returns an ErrCorrupt that names what is not there of a catalog of the
// newest version.
func whole(ctx context.Context, q querier) error {
	var relations, columns []string
	for line := range strings.Lines(catalogRelations) {
		parts := strings.Fields(line)
		for _, column := range append([]string{""}, parts[1:]...) {
			relations, columns = append(relations, parts[0]), append(columns, column)
		}
	}
	rows, err := q.Query(ctx, missingParts, relations, columns)
	if err != nil {
		return err
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(missing) == 0 {
		return err
	}
	return notWhole(missing...)
}

func notWhole(missing ...string) error {
	return fmt.Errorf("%w: the catalog of the database is not whole: %s", storage.ErrCorrupt, strings.Join(missing, ", "))
}
