// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestFullPool: as many snapshots as may be are open, and many writers wait for
// rows that somebody else holds. Who only reads finds a connection at once, and
// writers of other rows are served, or told to try again: nobody waits for longer
// than for a connection.
func TestFullPool(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	db, watch := mustOpen(t, Options{URL: url, MaxConns: 4}), mustConnect(t, url)
	tab, other := create(t, db, hashTable("held")), create(t, db, hashTable("other"))
	const rows = 6
	for i := range rows {
		mustWrite(t, db, put(tab, item(fmt.Sprint(i))))
	}
	mustWrite(t, db, put(other, item("x")))
	for range 2 {
		s, err := db.Snapshot(t.Context(), acct, "other")
		must(t, err)
		defer s.Close() //nolint:errcheck // it never fails
	}
	if _, err := db.Snapshot(t.Context(), acct, "other"); !errors.Is(err, storage.ErrTooManySnapshots) {
		t.Errorf("a third snapshot: %v", err)
	}
	holdRows(t, url, tab)
	done := make(chan error, 1)
	go func() {
		done <- together(rows, func(i int) error {
			_, err := db.Write(t.Context(), put(tab, item(fmt.Sprint(i))))
			if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrUnavailable) {
				return fmt.Errorf("write of row %d, which is held: %w", i, err)
			}
			return nil
		})
	}()
	awaitWaiters(t, watch, 1)
	ctx, cancel := context.WithTimeout(t.Context(), lockTime-lockTime/4) // before any of them ends
	defer cancel()
	for range 3 {
		if row, err := db.Get(ctx, other, key(other, "x")); err != nil || row == nil {
			t.Errorf("Get beside a full pool: %v, %v", row, err)
		}
	}
	began := db.o.Clock.Now()
	_, err := db.Write(t.Context(), put(other, item("y")))
	if err != nil && !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Write beside a full pool: %v", err)
	}
	if took := db.o.Clock.Now().Sub(began); took > 2*db.o.AcquireTimeout { // for a permit, then for a connection
		t.Errorf("that took %v", took)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
