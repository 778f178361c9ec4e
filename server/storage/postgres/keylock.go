// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// stripes is the number of locks that all keys share.
const stripes = 4096

// keyWait is how long a writer waits for those of the same key before it. Many
// may be, and each gets as long as it takes to find out that the row is held
// outside.
const keyWait = 10 * time.Second

// keyLocks let one writer of this process at a time write a row: those that
// would lose the race, or wait for a row that somebody else holds, wait here,
// where they hold no connection and cost the database nothing. What is stored
// does not depend on them. The zero value is ready.
type keyLocks struct {
	once  sync.Once
	seed  maphash.Seed
	locks [stripes]chan struct{} // one token each: waiters are served in order
}

// lockKeys takes the locks of the rows of some changes: ErrConflict when those
// before do not end. Who holds a connection must not call it.
func (db *DB) lockKeys(ctx context.Context, cs ...*change) (unlock func(), err error) {
	return db.writes.keys.lock(ctx, db.o.Clock, cs...)
}

// lock takes the locks of some rows, always in the same order.
func (k *keyLocks) lock(ctx context.Context, clk clock.Clock, ws ...*change) (unlock func(), err error) {
	k.once.Do(func() {
		k.seed = maphash.MakeSeed()
		for i := range k.locks {
			k.locks[i] = make(chan struct{}, 1)
		}
	})
	own := make([]int, len(ws))
	for i, c := range ws {
		own[i] = k.stripe(c.w.Table.ID, c.w.Key)
	}
	slices.Sort(own)
	own = slices.Compact(own)
	held := 0
	unlock = func() {
		for _, i := range own[:held] {
			<-k.locks[i]
		}
	}
	var late <-chan time.Time
	for _, i := range own {
		select {
		case k.locks[i] <- struct{}{}:
			held++
			continue
		default:
		}
		if late == nil {
			after, stop := clk.After(keyWait)
			defer stop()
			late = after
		}
		select {
		case k.locks[i] <- struct{}{}:
			held++
		case <-late:
			unlock()
			return nil, fmt.Errorf("%w: other writes of the key did not end within %s", storage.ErrConflict, keyWait)
		case <-ctx.Done():
			unlock()
			return nil, ctx.Err()
		}
	}
	return unlock, nil
}

func (k *keyLocks) stripe(t storage.TableID, key storage.Key) int {
	var h maphash.Hash
	h.SetSeed(k.seed)
	var id [8]byte
	binary.NativeEndian.PutUint64(id[:], uint64(t))
	_, _ = h.Write(id[:]) // never fails, nor do those that follow
	_, _ = h.Write(key.PK)
	_, _ = h.Write(key.SK)
	return int(h.Sum64() % stripes)
}
