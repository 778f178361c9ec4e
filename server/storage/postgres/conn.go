// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// setUp is sent on each new connection: see the package comment on READ
// COMMITTED.
const setUp = "SET default_transaction_isolation = 'read committed'; SET search_path = pg_catalog; SHOW transaction_isolation"

// configure makes the settings of the pool.
func configure(o Options) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("read the connection string: %w", err) // pgx leaves the password out
	}
	cfg.MaxConns = int32(o.MaxConns)
	cfg.AfterConnect = prepareConn
	return cfg, nil
}

func prepareConn(ctx context.Context, c *pgx.Conn) error {
	results, err := c.PgConn().Exec(ctx, setUp).ReadAll()
	if err != nil {
		return fmt.Errorf("set up the connection: %w", err)
	}
	last := results[len(results)-1]
	if level := string(last.Rows[0][0]); level != "read committed" {
		return fmt.Errorf("the connection is in isolation level %q and cannot be set to read committed", level)
	}
	return nil
}
