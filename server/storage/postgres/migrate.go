// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage/migrate"
)

// migrations holds one file per version of the catalog, in order. A file that
// was released never changes: databases remember its digest.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock of who changes the catalog's version.
const migrationLock = 0x45787444_00000001

const createMigrations = `CREATE SCHEMA IF NOT EXISTS extenddb;
CREATE SCHEMA IF NOT EXISTS extenddb_data;
CREATE TABLE IF NOT EXISTS extenddb.migrations (
  version integer PRIMARY KEY, name text NOT NULL, digest bytea NOT NULL, applied timestamptz NOT NULL DEFAULT now()
)`

// initialise makes the catalog of an empty database; it refuses one of another
// version than this program's.
func initialise(ctx context.Context, c *pgx.Conn) error {
	steps, err := migrate.Load(migrations, "migrations")
	if err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		return err
	}
	defer c.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(migrationLock))
	applied, err := appliedSteps(ctx, c)
	if err != nil {
		return err
	}
	plan, err := migrate.Compare(steps, applied)
	if err != nil || len(plan.Steps) == 0 {
		return err
	}
	if plan.From != 0 {
		return &migrate.Pending{Plan: plan}
	}
	for _, s := range plan.Steps {
		if err := apply(ctx, c, s); err != nil {
			return fmt.Errorf("migration %d (%s): %w", s.Version, s.Name, err)
		}
	}
	return nil
}

func appliedSteps(ctx context.Context, c *pgx.Conn) ([]migrate.Applied, error) {
	var there bool
	err := c.QueryRow(ctx, "SELECT to_regclass('extenddb.migrations') IS NOT NULL").Scan(&there)
	if err != nil || !there {
		return nil, err
	}
	rows, err := c.Query(ctx, "SELECT version, digest, applied FROM extenddb.migrations ORDER BY version")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[migrate.Applied])
}

// apply runs a step and notes it, in one transaction.
func apply(ctx context.Context, c *pgx.Conn, s migrate.Step) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if s.Version == 1 {
			if _, err := tx.Exec(ctx, createMigrations); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, s.SQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO extenddb.migrations (version, name, digest) VALUES ($1, $2, $3)", s.Version, s.Name, s.Digest[:])
		return err
	})
}
