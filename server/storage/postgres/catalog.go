// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Table implements storage.Catalog. One that clients cannot use is looked up
// each time: it changes by itself, and another of its name may be there.
func (db *DB) Table(ctx context.Context, account, name string) (*storage.Table, error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	if t := db.defs.named(account, name); t != nil && t.Status == storage.Active {
		return t, ctx.Err()
	}
	var t *storage.Table
	err := unlocked(db.withConn(ctx, func(c *pgxpool.Conn) (err error) {
		if t, err = readTable(ctx, c, byName, account, name); err == nil {
			db.defs.put(t)
		}
		return err
	}))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Describe implements storage.Catalog.
func (db *DB) Describe(ctx context.Context, account, name string) (*storage.Table, storage.Stats, error) {
	var (
		t            *storage.Table
		stats        storage.Stats
		ids          []int64
		items, bytes []int64
	)
	err := db.read(ctx, func(c *pgxpool.Conn) error {
		s, err := scanTable(c.QueryRow(ctx, selectStats+byName, account, name), &stats.Items, &stats.Bytes, &ids, &items, &bytes)
		if err == nil {
			t, err = s.Decode()
		}
		return err
	})
	if err != nil {
		return nil, storage.Stats{}, err
	}
	db.defs.put(t)
	if len(ids) > 0 {
		stats.Indexes = make(map[storage.IndexID]storage.IndexStats, len(ids))
	}
	for i, id := range ids {
		stats.Indexes[storage.IndexID(id)] = storage.IndexStats{Items: items[i], Bytes: bytes[i]}
	}
	return t, stats, nil
}

// Tables implements storage.Catalog. The columns collate by bytes.
func (db *DB) Tables(ctx context.Context, account, after string, limit int) (names []string, more bool, err error) {
	err = db.read(ctx, func(c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, "SELECT name FROM extenddb.tables WHERE account = $1 AND name > $2 ORDER BY name LIMIT $3",
			account, after, int64(limit)+1)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, false, err
	}
	n := min(limit, len(names))
	return names[:n], n < len(names), nil
}

// CreateTable implements storage.Catalog.
func (db *DB) CreateTable(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (*storage.Table, error) {
	var made *storage.Table // by the try before, perhaps
	err := db.certain(ctx, func() error {
		return db.call(ctx, func(c *pgxpool.Conn) error {
			return db.inTx(ctx, c, func(tx pgx.Tx) error {
				t, err := db.createTable(ctx, tx, account, def, at, storage.Active)
				var there *storage.TableExists
				switch {
				case err == nil:
					made = t
				case made != nil && errors.As(err, &there) && there.Table.UUID == made.UUID:
					made = there.Table
					return nil
				}
				return err
			})
		})
	})
	if err != nil {
		return nil, err
	}
	db.defs.put(made)
	return made, nil
}

// UpdateTable implements storage.Catalog.
func (db *DB) UpdateTable(
	ctx context.Context, account, name string, change func(*storage.Table) (ddb.TableDefinition, error),
) (*storage.Table, error) {
	return db.redefine(ctx, account, name, redefinition{db: db, next: change})
}

// DropTable implements storage.Catalog.
func (db *DB) DropTable(ctx context.Context, account, name string, check func(*storage.Table) error) (*storage.Table, error) {
	return db.redefine(ctx, account, name, redefinition{db: db, drop: true, next: func(cur *storage.Table) (ddb.TableDefinition, error) {
		return cur.Def, check(cur)
	}})
}

// createTable adds a table with its relations, unless its name is taken or the
// account full.
func (db *DB) createTable(
	ctx context.Context, tx pgx.Tx, account string, def ddb.TableDefinition, at time.Time, status storage.Status,
) (*storage.Table, error) {
	t := storage.Table{
		UUID: uuid.NewString(), Account: account, Version: 1, Status: status,
		Created: at.UTC().Truncate(time.Millisecond), Def: def,
	}
	names := indexNames(&def)
	if _, err := storage.NewTable(t, make([]storage.IndexID, len(names))); err != nil { // before anything is written
		return nil, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	text, err := json.Marshal(def)
	if err != nil {
		return nil, fmt.Errorf("%w: encode definition: %w", storage.ErrInvalid, err)
	}
	if err := db.room(ctx, tx, account, def.TableName); err != nil {
		return nil, err
	}
	ids, err := newIDs(ctx, tx, 1+len(names))
	if err != nil {
		return nil, err
	}
	t.ID = storage.TableID(ids[0])
	indexes := make([]storage.IndexID, len(names))
	for i := range names {
		indexes[i] = storage.IndexID(ids[i+1])
	}
	if _, err := tx.Exec(ctx, db.createRelations(t.ID, indexes, status == storage.Creating)); err != nil {
		return nil, err
	}
	// Whoever notes statistics updates this row, or finds that the table is gone.
	// One that is empty need not be counted.
	_, err = tx.Exec(ctx, `WITH s AS (
			INSERT INTO extenddb.table_stats (t, counted) SELECT $1, CASE WHEN $3 = 1 THEN $4::timestamptz END),
		x AS (INSERT INTO extenddb.indexes (id, t, name) SELECT i.id, $1, i.name FROM unnest($9::bigint[], $10::text[]) i(id, name))
		INSERT INTO extenddb.tables (id, version, status, created, uuid, account, name, definition)
		VALUES ($1, $2, $3, $4, $5::uuid, $6, $7, $8)`,
		int64(t.ID), t.Version, int16(status), t.Created, t.UUID, account, def.TableName, text, ids[1:], names)
	if err != nil {
		return nil, err
	}
	made, err := storage.NewTable(t, indexes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	return made, nil
}

// room returns nil when an account may have one more table of that name: one
// creation at a time per account, since the number of its tables is bounded.
func (db *DB) room(ctx context.Context, tx pgx.Tx, account, name string) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 2))", "extenddb account "+account); err != nil {
		return err
	}
	there, err := readTable(ctx, tx, byName, account, name)
	if err == nil {
		return &storage.TableExists{Table: there}
	}
	if !isNotFound(err) {
		return err
	}
	var n int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM extenddb.tables WHERE account = $1", account).Scan(&n); err != nil {
		return err
	}
	if n >= db.o.MaxTables {
		return storage.ErrTooManyTables
	}
	return nil
}

// createRelations makes all relations of a table in one go.
func (db *DB) createRelations(id storage.TableID, indexes []storage.IndexID, loading bool) string {
	var ddl strings.Builder
	ddl.WriteString(createRows(id))
	if db.lz4 { // twice as fast as the default, for items of more than 2 KB
		ddl.WriteString("ALTER TABLE " + rowsOf(id) + " ALTER COLUMN item SET COMPRESSION lz4;")
	}
	for _, ix := range indexes {
		ddl.WriteString(createEntries(ix))
		if loading {
			ddl.WriteString(createUnsorted(ix))
		}
	}
	return ddl.String()
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
	for _, list := range [][]ddb.IndexDefinition{def.GlobalSecondaryIndexes, def.LocalSecondaryIndexes} {
		for _, d := range list {
			names = append(names, d.IndexName)
		}
	}
	return names
}

// createRows makes the relation of a table's rows.
func createRows(id storage.TableID) string {
	return "CREATE TABLE " + rowsOf(id) + ` (
  ver bigint NOT NULL, size integer NOT NULL, flags smallint NOT NULL, pk bytea NOT NULL, sk bytea NOT NULL, item bytea NOT NULL,
  PRIMARY KEY (pk, sk)) WITH (fillfactor = 90);`
}

// createEntries makes the relation of an index.
func createEntries(id storage.IndexID) string {
	x := entriesOf(id)
	return "CREATE TABLE " + x + addEntryColumns(x) + ", ADD PRIMARY KEY (p, s, pk, sk);"
}

// createUnsorted makes the relation that entries of an index are loaded into. A
// crash of the database, which empties it, ends the load as well.
func createUnsorted(id storage.IndexID) string {
	x := unsortedOf(id)
	return "CREATE UNLOGGED TABLE " + x + addEntryColumns(x) + ";"
}

// addEntryColumns goes on after the name of a new relation. The widest entry
// fits into a page; columns that are PLAIN from the first keep the database from
// making a TOAST relation with its key for each index.
func addEntryColumns(x string) string {
	return " (size integer NOT NULL); ALTER TABLE " + x +
		" ADD p bytea NOT NULL, ADD s bytea NOT NULL, ADD pk bytea NOT NULL, ADD sk bytea NOT NULL" +
		", ALTER p SET STORAGE PLAIN, ALTER s SET STORAGE PLAIN, ALTER pk SET STORAGE PLAIN, ALTER sk SET STORAGE PLAIN"
}

// unsortedOf names the relation of entries that are not in their index yet.
func unsortedOf(id storage.IndexID) string {
	return "extenddb_data.u_" + strconv.FormatInt(int64(id), 10)
}
