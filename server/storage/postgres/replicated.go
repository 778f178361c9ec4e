// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
)

// Where replication is synchronous, who commits waits for the standby. Somebody
// may cancel the wait: then the database answers that it has committed, beside a
// mere warning that a failover may lose that. And what a database had committed
// when it crashed is there again at its start, whatever the standby has of it.
// Neither is acknowledged before a later commit was replicated: what comes
// before it was, then.

// errUnreplicated is why what was committed is in doubt.
var errUnreplicated = errors.New("it was committed, and the wait for the standby was cancelled")

// notice takes a warning of the database. Its text may be in any language.
func notice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine != "SyncRepWaitForLSN" {
		return
	}
	if w := wireBelow(c.Conn()); w != nil {
		w.unreplicated.Store(true)
	}
}

// replicated makes sure of what was just committed on c: a *doubt when it may
// be lost.
func replicated(ctx context.Context, c *pgx.Conn) error {
	if w := wireOf(c); w == nil || !w.unreplicated.Load() {
		return nil
	}
	return replicate(ctx, c)
}

// replicate waits until all that is committed by now is where it has to be, by
// committing something that changes nothing: a *doubt when that fails.
func replicate(ctx context.Context, c *pgx.Conn) error {
	w := wireOf(c)
	if w != nil {
		w.unreplicated.Store(false)
	}
	_, err := c.Exec(ctx, "SELECT pg_logical_emit_message(true, 'extenddb', '')")
	if err != nil {
		return &doubt{fmt.Errorf("%w: %w", errUnreplicated, err)}
	}
	if w != nil && w.unreplicated.Swap(false) {
		return &doubt{fmt.Errorf("%w: %w", storage.ErrUnavailable, errUnreplicated)}
	}
	return nil
}
