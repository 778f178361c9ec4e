// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// TestReadsThatWaitTooLong: who reads, or looks for work, and meets a lock that
// an administrator holds for longer than it may wait, is told that the database
// could not do it now. Only a write is told of a conflict.
func TestReadsThatWaitTooLong(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 32})
	tab := loadedTable(t, db, "t", 10)
	must(t, db.Ping(t.Context()))
	other := create(t, db, hashTable("other"))
	db.defs.forgetAll()
	k := mustKey(t, tab, jobItem(1))
	scan := func(r storage.Range) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, err := range db.Range(ctx, tab, r) {
				return err
			}
			return nil
		}
	}
	holder := mustConnect(t, db.o.URL)
	mustExec(t, holder, "BEGIN; LOCK TABLE extenddb.tables, extenddb.changes, extenddb.horizon, "+rowsOf(tab.ID)+" IN ACCESS EXCLUSIVE MODE")
	var all sync.WaitGroup
	for name, read := range map[string]func(context.Context) error{
		"Ping": db.Ping,
		"Get":  func(ctx context.Context) error { _, err := db.Get(ctx, tab, k); return err },
		"GetAll": func(ctx context.Context) error {
			_, err := db.GetAll(ctx, []storage.TableKey{{Table: tab, Key: k}}, 0)
			return err
		},
		"scan": scan(storage.Range{}), "query": scan(storage.Range{P: k.PK}), "some": scan(storage.Range{AtMost: 1}),
		"Sample":   func(ctx context.Context) error { _, err := db.Sample(ctx, tab, 0, jobNow()); return err },
		"Table":    func(ctx context.Context) error { _, err := db.Table(ctx, jobAccount, "t"); return err },
		"Describe": func(ctx context.Context) error { _, _, err := db.Describe(ctx, jobAccount, "t"); return err },
		"Tables":   func(ctx context.Context) error { _, _, err := db.Tables(ctx, jobAccount, "", 1); return err },
		"Snapshot": func(ctx context.Context) error { _, err := db.Snapshot(ctx, jobAccount, "t"); return err },
		"Horizon":  func(ctx context.Context) error { _, err := db.Horizon(ctx); return err },
		"Records":  func(ctx context.Context) error { _, err := db.Records(ctx, tab.ID, 0, 1, 1, 1); return err },
		"Pending":  func(ctx context.Context) error { _, err := db.Pending(ctx, jobNow()); return err },
		"Claim": func(ctx context.Context) error {
			_, err := db.Claim(ctx, storage.Work{Kind: storage.Statistics, Table: tab.ID})
			return err
		},
	} {
		all.Go(func() {
			if err := read(t.Context()); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrConflict) {
				t.Errorf("%s: %v, want only %v", name, err, storage.ErrUnavailable)
			}
		})
	}
	all.Wait()
	if _, err := db.Write(t.Context(), storage.Write{Table: tab, Key: k, Decide: remove(other, "x").Decide}); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("Write: %v, want %v", err, storage.ErrConflict)
	}
}
