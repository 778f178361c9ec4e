// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// keyWait is how long a writer waits for those of the same key before it. Many
// may be, and each gets as long as it takes to find out that the row is held
// outside.
const keyWait = 10 * time.Second

// keyLocks let one writer of this process at a time write a row: those that
// would lose the race, or wait for a row that somebody else holds, wait here,
// where they hold no connection and cost the database nothing. What is stored
// does not depend on them. The zero value is ready.
type keyLocks struct {
	mu   sync.Mutex
	rows map[string]*keyLock // those that somebody holds or waits for
}

type keyLock struct {
	name  string
	users int           // of keyLocks.mu: who holds it and who waits
	token chan struct{} // waiters are served in order
}

// errLate is why a lock was not got: those before do not end.
var errLate = errors.New("those before do not end")

// lockKeys takes the locks of the rows of some changes: ErrConflict when those
// before do not end. Who holds a connection must not call it.
func (db *DB) lockKeys(ctx context.Context, cs ...*change) (unlock func(), err error) {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = lockName(c.w.Table.ID, c.w.Key)
	}
	unlock, err = db.writes.keys.lock(ctx, db.o.Clock, keyWait, 1, names)
	if errors.Is(err, errLate) {
		err = fmt.Errorf("%w: other writes of the key did not end within %s", storage.ErrConflict, keyWait)
	}
	return unlock, err
}

// lock takes the locks of some names, each of which so many may hold, always in
// the same order and within a time: errLate.
func (k *keyLocks) lock(ctx context.Context, clk clock.Clock, within time.Duration, holders int, names []string) (unlock func(), err error) {
	slices.Sort(names)
	own, held := k.find(slices.Compact(names), holders), 0
	unlock = func() {
		for _, l := range own[:held] {
			<-l.token
		}
		k.leave(own)
	}
	var late <-chan time.Time
	for ; held < len(own); held++ {
		token := own[held].token
		select {
		case token <- struct{}{}:
			continue
		default:
		}
		if late == nil {
			after, stop := clk.After(within)
			defer stop()
			late = after
		}
		select {
		case token <- struct{}{}:
		case <-late:
			unlock()
			return nil, errLate
		case <-ctx.Done():
			unlock()
			return nil, ctx.Err()
		}
	}
	return unlock, nil
}

// find returns the locks of some names, which stay until they are left.
func (k *keyLocks) find(names []string, holders int) []*keyLock {
	own := make([]*keyLock, len(names))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rows == nil {
		k.rows = map[string]*keyLock{}
	}
	for i, name := range names {
		l := k.rows[name]
		if l == nil {
			l = &keyLock{name: name, token: make(chan struct{}, holders)}
			k.rows[name] = l
		}
		l.users++
		own[i] = l
	}
	return own
}

func (k *keyLocks) leave(own []*keyLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range own {
		if l.users--; l.users == 0 {
			delete(k.rows, l.name)
		}
	}
}

// lockName names a row.
func lockName(t storage.TableID, key storage.Key) string {
	b := make([]byte, 0, 2*binary.MaxVarintLen64+len(key.PK)+len(key.SK))
	b = binary.AppendUvarint(b, uint64(t))
	b = binary.AppendUvarint(b, uint64(len(key.PK)))
	return string(append(append(b, key.PK...), key.SK...))
}
