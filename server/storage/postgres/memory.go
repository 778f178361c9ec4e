// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// memory guards what this process remembers of the database. After a failover
// that lost commits none of it need be so: definitions, ids and numbers may
// come again for something else.
type memory struct {
	epoch atomic.Int64 // counts how often all was forgotten

	mu       sync.Mutex
	timeline string // that the last connection was to; "": not known
}

// forgetAll is for when it is not known what has changed.
func (db *DB) forgetAll() {
	db.memory.epoch.Add(1)
	db.defs.forgetAll()
	db.defs.texts.forgetAll()
	db.writes.long.forget()
	db.samples.forget()
	db.claims.forget()
}

// timelineNow changes with each promotion of a standby, and with each restore
// of the database server to an instant.
const timelineNow = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

// recall forgets all when a new connection leads to another timeline than the
// one before, before it is used: the session may take a while to find out.
// Where the database does not tell, that has to do.
func (db *DB) recall(ctx context.Context, c *pgx.Conn) error {
	row, err := simpleRow(ctx, c, timelineNow, 1)
	if errors.As(err, new(*pgconn.PgError)) && !c.IsClosed() {
		return nil
	}
	if err != nil {
		return err
	}
	m, now := &db.memory, string(row[0])
	m.mu.Lock()
	other := m.timeline != "" && m.timeline != now
	m.timeline = now
	m.mu.Unlock()
	if other {
		db.o.Log.WarnContext(ctx, "the database was promoted or restored: what is remembered of it is forgotten")
		db.forgetAll()
	}
	return nil
}

func (l *longKeys) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted = nil
}

func (x *texts) forgetAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tables = nil
}

func (x *samples) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.noted = nil
}

func (k *claims) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counted = nil
}
