// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Table implements storage.Catalog.
func (db *DB) Table(ctx context.Context, account, name string) (*storage.Table, error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	if t := db.defs.named(account, name); t != nil {
		return t, ctx.Err()
	}
	var t *storage.Table
	err := db.withConn(ctx, func(c *pgxpool.Conn) (err error) {
		if t, err = readTable(ctx, c, byName, account, name); err == nil {
			db.defs.put(t)
		}
		return err
	})
	return t, err
}

// CreateTable implements storage.Catalog.
func (db *DB) CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
	var made *storage.Table
	err := db.call(ctx, func(c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			made, err = db.createTable(ctx, tx, account, def, at, storage.Active)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	db.defs.put(made)
	return made, nil
}

// createTable adds a table with its relations.
func (db *DB) createTable(
	ctx context.Context, tx pgx.Tx, account string, def ddb.TableDefinition, at time.Time, status storage.Status,
) (*storage.Table, error) {
	// One creation at a time per account: the number of its tables is bounded.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 2))", account); err != nil {
		return nil, err
	}
	if there, err := readTable(ctx, tx, byName, account, def.TableName); err == nil {
		return nil, &storage.TableExists{Table: there}
	} else if !isNotFound(err) {
		return nil, err
	}
	var n int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM extenddb.tables WHERE account = $1", account).Scan(&n); err != nil {
		return nil, err
	}
	if n >= db.o.MaxTables {
		return nil, storage.ErrTooManyTables
	}
	names := indexNames(&def)
	ids, err := newIDs(ctx, tx, 1+len(names))
	if err != nil {
		return nil, err
	}
	t := storage.Table{
		ID: storage.TableID(ids[0]), UUID: uuid.NewString(), Account: account, Version: 1, Status: status,
		Created: at.UTC().Truncate(time.Millisecond), Def: def,
	}
	text, err := json.Marshal(def)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	var ddl strings.Builder
	ddl.WriteString(createRows(t.ID))
	indexes := make([]storage.IndexID, len(names))
	for i := range names {
		indexes[i] = storage.IndexID(ids[i+1])
		ddl.WriteString(createEntries(indexes[i], status == storage.Active))
	}
	if _, err := tx.Exec(ctx, ddl.String()); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO extenddb.tables (id, version, status, created, uuid, account, name, definition)
		VALUES ($1, $2, $3, $4, $5::uuid, $6, $7, $8)`,
		int64(t.ID), t.Version, int16(status), t.Created, t.UUID, account, def.TableName, text); err != nil {
		return nil, err
	}
	// Whoever notes statistics updates this row, or finds that the table is gone.
	// One that is empty need not be counted.
	if _, err := tx.Exec(ctx, "INSERT INTO extenddb.table_stats (t, counted) SELECT $1, CASE WHEN $3 THEN $2::timestamptz END",
		int64(t.ID), t.Created, status == storage.Active); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO extenddb.indexes (id, t, name) SELECT unnest($1::bigint[]), $2, unnest($3::text[])",
		ids[1:], int64(t.ID), names); err != nil {
		return nil, err
	}
	return storage.NewTable(t, indexes)
}

func newIDs(ctx context.Context, tx pgx.Tx, n int) ([]int64, error) {
	rows, err := tx.Query(ctx, "SELECT nextval('extenddb.ids') FROM generate_series(1, $1)", n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// indexNames lists the indexes of a definition, global ones first.
func indexNames(def *ddb.TableDefinition) []string {
	var names []string
	for _, d := range def.GlobalSecondaryIndexes {
		names = append(names, d.IndexName)
	}
	for _, d := range def.LocalSecondaryIndexes {
		names = append(names, d.IndexName)
	}
	return names
}

// createRows makes the relation of a table's rows.
func createRows(id storage.TableID) string {
	return "CREATE TABLE " + rowsOf(id) + ` (
  ver bigint NOT NULL, size integer NOT NULL, flags smallint NOT NULL, pk bytea NOT NULL, sk bytea NOT NULL, item bytea NOT NULL,
  PRIMARY KEY (pk, sk)) WITH (fillfactor = 90);`
}

// createEntries makes the relation of an index; one that is filled in bulk gets
// its key afterwards.
func createEntries(id storage.IndexID, keyed bool) string {
	key := ""
	if keyed {
		key = ", PRIMARY KEY (p, s, pk, sk)"
	}
	return "CREATE TABLE " + entriesOf(id) +
		" (size integer NOT NULL, p bytea NOT NULL, s bytea NOT NULL, pk bytea NOT NULL, sk bytea NOT NULL" + key + ");"
}
