// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
)

// lockKey names something that one server at a time may own.
type lockKey struct {
	space int32 // a storage.WorkKind, or one below
	id    int64 // of the table, 0 where there is none
}

// lockLoad is the space of loads: the key of who fills a table.
const lockLoad = 1000

// number is the number of the advisory lock: of 64 bits, so that it meets
// neither another key nor a lock of somebody else in the database.
func (k lockKey) number() int64 {
	h := fnv.New64a()
	b := binary.BigEndian.AppendUint32([]byte("extenddb "), uint32(k.space))
	_, _ = h.Write(binary.BigEndian.AppendUint64(b, uint64(k.id))) // a hash takes everything
	return int64(h.Sum64())
}

// ownership is a key that this process owns until it is released, or until the
// session that holds it is lost.
type ownership struct {
	s    *session
	k    lockKey
	over atomic.Bool // set in the goroutine of the session
}

// lock makes this process the owner of a key: ErrClaimed when somebody, here or
// elsewhere, is. It never waits for the owner.
func (db *DB) lock(ctx context.Context, k lockKey) (*ownership, error) {
	made := &ownership{s: db.session, k: k}
	err := db.session.do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		if db.session.owned[k] != nil { // the database would let its own session in
			return storage.ErrClaimed
		}
		var got bool
		if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", k.number()).Scan(&got); err != nil {
			return err
		}
		if !got {
			return storage.ErrClaimed
		}
		db.session.owned[k] = made
		return nil
	}, made.unlock)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// held returns nil while the key is owned; ErrNoWork when the session was lost,
// after which somebody else may own it, or it was released.
func (o *ownership) held() error {
	if o.over.Load() {
		return fmt.Errorf("%w: the connection that owned it was lost", storage.ErrNoWork)
	}
	return nil
}

// release gives the key up. Idempotent. An error means that the session has
// gone wrong: then nobody owns the key either.
func (o *ownership) release() error {
	if o.over.Load() {
		return nil
	}
	return o.s.do(context.Background(), o.unlock, nil)
}

// unlock runs in the goroutine of the session.
func (o *ownership) unlock(ctx context.Context, c *pgx.Conn) error {
	if o.over.Swap(true) {
		return nil
	}
	delete(o.s.owned, o.k)
	if _, err := c.Exec(ctx, "SELECT pg_advisory_unlock($1)", o.k.number()); err != nil {
		o.s.fail(c) // or it would be held until this process ends
		return err
	}
	return nil
}
