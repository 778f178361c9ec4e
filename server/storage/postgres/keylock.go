// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/extenddb/extenddb/server/storage"
)

// stripes is the number of locks that all keys share.
const stripes = 1024

// keyLocks let one writer of this process at a time read, decide and write a
// row: those that would lose the race wait here, where they hold no connection
// and cost the database nothing. Nothing depends on them but speed. The zero
// value is ready.
type keyLocks struct {
	once  sync.Once
	seed  maphash.Seed
	locks [stripes]chan struct{} // one token each: waiters are served in order
}

// lock takes the locks of some rows, always in the same order. Who holds a
// connection must not call it.
func (k *keyLocks) lock(ctx context.Context, ws ...*change) (unlock func(), err error) {
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
	for _, i := range own {
		select {
		case k.locks[i] <- struct{}{}:
			held++
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
