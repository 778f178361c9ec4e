// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/extenddb/extenddb/server/storage"
)

// WriteEach implements storage.Writer. Each write is a statement of its own on
// a connection of its own: the database commits those that arrive together
// with one flush. All calls together take at most half of the pool beside the
// one connection that each has anyway.
func (db *DB) WriteEach(ctx context.Context, ws []storage.Write) []storage.Result {
	if err := db.life.Enter(); err != nil {
		return storage.Failed(ws, err)
	}
	defer db.life.Leave()
	results := make([]storage.Result, len(ws))
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(ws)); i = next.Add(1) - 1 {
			results[i] = db.write(ctx, ws[i])
		}
	}
	var wg sync.WaitGroup
	for range len(ws) - 1 {
		if !db.takeHelper() {
			break
		}
		wg.Go(func() {
			defer db.writes.helpers.Add(-1)
			work()
		})
	}
	work()
	wg.Wait()
	return results
}

func (db *DB) takeHelper() bool {
	if int(db.writes.helpers.Add(1)) <= max(1, db.o.MaxConns/2) {
		return true
	}
	db.writes.helpers.Add(-1)
	return false
}
