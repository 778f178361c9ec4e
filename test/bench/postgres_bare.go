// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
)

// bareRequests are statements sent by hand: the same as the engine's, with its
// guard, over the pool that pgx makes by default.
type bareRequests struct {
	pool  *pgxpool.Pool
	table *storage.Table
	row   *rowTemplate
}

func (b bareRequests) rows() string { return fmt.Sprintf("extenddb_data.t_%d", b.table.ID) }

func (b bareRequests) get(ctx context.Context) error {
	var (
		version, ver  int64
		status, flags int16
		size          int32
		item          []byte
	)
	err := b.pool.QueryRow(ctx, "SELECT g.version, g.status, t.ver, t.size, t.flags, t.item FROM extenddb.tables g LEFT JOIN "+
		b.rows()+" t ON t.pk = $2 AND t.sk = $3 WHERE g.id = $1", int64(b.table.ID), b.row.key.PK, b.row.key.SK).
		Scan(&version, &status, &ver, &size, &flags, &item)
	if err == nil && len(item) != len(b.row.next.Item) {
		err = fmt.Errorf("get answers %d bytes", len(item))
	}
	return err
}

func (b bareRequests) put(ctx context.Context) error {
	var guards, rows int64
	err := b.pool.QueryRow(ctx, fmt.Sprintf(`WITH guard AS MATERIALIZED (SELECT 1 FROM extenddb.tables WHERE id = %d AND version = $1::bigint AND status = 1),
 w AS (INSERT INTO %s AS t (pk, sk, ver, size, flags, item)
  SELECT $2::bytea, $3::bytea, $4::bigint, $5::integer, $6::smallint, $7::bytea FROM guard ON CONFLICT (pk, sk) DO
  UPDATE SET ver = EXCLUDED.ver, size = EXCLUDED.size, flags = EXCLUDED.flags, item = EXCLUDED.item RETURNING t.pk, t.sk)
SELECT (SELECT count(*) FROM guard), (SELECT count(*) FROM w)`, b.table.ID, b.rows()),
		b.table.Version, b.row.key.PK, b.row.key.SK, rand.Int64(), int32(b.row.next.Size), int16(0), b.row.next.Item).Scan(&guards, &rows)
	if err == nil && (guards != 1 || rows != 1) {
		err = fmt.Errorf("put of %d rows with %d guards", rows, guards)
	}
	return err
}

func (b bareRequests) query(ctx context.Context) error {
	rows, err := b.pool.Query(ctx, `SELECT g.version, g.status, q.sk, q.size, q.ver, q.flags, q.item FROM extenddb.tables g LEFT JOIN LATERAL (
		SELECT sk, size, ver, flags, item FROM `+b.rows()+` WHERE pk = $2::bytea ORDER BY sk LIMIT $3::bigint) q ON true WHERE g.id = $1`,
		int64(b.table.ID), b.row.key.PK, int64(2*perPartition))
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	var (
		version, ver  int64
		status, flags int16
		size          int32
		sk, item      []byte
	)
	for rows.Next() {
		if err := rows.Scan(&version, &status, &sk, &size, &ver, &flags, &item); err != nil {
			return err
		}
		n++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != perPartition {
		return fmt.Errorf("query yields %d rows", n)
	}
	return nil
}

// lockAndUpdate reads a row for update and writes it, in a transaction.
func (b bareRequests) lockAndUpdate(ctx context.Context) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		var (
			ver  int64
			item []byte
		)
		if err := tx.QueryRow(ctx, "SELECT ver, item FROM "+b.rows()+" WHERE pk = $1 AND sk = $2 FOR UPDATE", b.row.key.PK, b.row.key.SK).
			Scan(&ver, &item); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, "UPDATE "+b.rows()+" SET ver = $3, item = $4 WHERE pk = $1 AND sk = $2",
			b.row.key.PK, b.row.key.SK, rand.Int64(), b.row.next.Item)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("update of %d rows", tag.RowsAffected())
		}
		return err
	})
}

// copies makes the reference for indexes: each is a table of its own, with a
// full copy of each item.
func (r *postgresRig) copies(ctx context.Context) error {
	t, err := r.local.db.Table(ctx, account(), indexedName(2))
	if err != nil {
		return err
	}
	sql := fmt.Sprintf(`CREATE SCHEMA bare;
CREATE TABLE bare.base (ver bigint NOT NULL, pk bytea NOT NULL, sk bytea NOT NULL, item bytea NOT NULL, PRIMARY KEY (pk, sk));
INSERT INTO bare.base SELECT ver, pk, sk, item FROM extenddb_data.t_%d;`, t.ID)
	for i := range 2 {
		sql += fmt.Sprintf(`
CREATE TABLE bare.copy%[1]d (p bytea NOT NULL, s bytea NOT NULL, pk bytea NOT NULL, sk bytea NOT NULL, item bytea NOT NULL, PRIMARY KEY (p, s, pk, sk));
CREATE INDEX ON bare.copy%[1]d (pk, sk);
INSERT INTO bare.copy%[1]d SELECT x.p, x.s, x.pk, x.sk, b.item FROM extenddb_data.x_%[2]d x JOIN bare.base b USING (pk, sk) ORDER BY x.pk, x.sk;`, i, t.Indexes[i].ID)
	}
	return r.exec(ctx, inProcess, sql)
}

// copyRequests are those of that shape.
type copyRequests struct {
	pool *pgxpool.Pool
	row  rowBytes
}

// overwrite replaces an item and both of its copies.
func (c copyRequests) overwrite(ctx context.Context) error {
	r := c.row
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		var old []byte
		if err := tx.QueryRow(ctx, "SELECT item FROM bare.base WHERE pk = $1 AND sk = $2 FOR UPDATE", r.pk.text, r.sk.text).Scan(&old); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO bare.base (pk, sk, ver, item) VALUES ($1, $2, $3, $4)"+
			" ON CONFLICT (pk, sk) DO UPDATE SET ver = EXCLUDED.ver, item = EXCLUDED.item", r.pk.text, r.sk.text, rand.Int64(), r.item.text); err != nil {
			return err
		}
		for i, p := range [][]byte{r.g0.text, r.g1.text} {
			table := fmt.Sprintf("bare.copy%d", i)
			if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE pk = $1 AND sk = $2", r.pk.text, r.sk.text); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO "+table+" (p, s, pk, sk, item) VALUES ($1, $2, $3, $4, $5)",
				p, r.sk.text, r.pk.text, r.sk.text, r.item.text); err != nil {
				return err
			}
		}
		return nil
	})
}

// query reads the items, or the keys, of a partition of an index.
func (c copyRequests) query(what string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		rows, err := c.pool.Query(ctx, "SELECT "+what+" FROM bare.copy1 WHERE p = $1 ORDER BY s, pk, sk LIMIT $2", c.row.g1.text, int64(2*perPartition))
		if err != nil {
			return err
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			n++
		}
		if rows.Err() == nil && n != perPartition {
			return fmt.Errorf("query yields %d rows", n)
		}
		return rows.Err()
	}
}
