// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

func TestPoolerInSessionMode(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{URL: servers.PgBouncer(t, servers.Database(t), "session", "")})
	other := mustOpen(t, Options{URL: db.o.URL})
	woken := make(chan struct{}, 1)
	other.OnWork(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	if _, err := db.CreateTable(t.Context(), "a", hashTable("T"), db.Clock().Now()); err != nil {
		t.Fatal(err)
	}
	own, err := db.lock(t.Context(), lockKey{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.lock(t.Context(), lockKey{1, 1}); !errors.Is(err, storage.ErrClaimed) {
		t.Errorf("a lock of two: %v", err)
	}
	if err := own.release(); err != nil {
		t.Error(err)
	}
	if _, err := db.DropTable(t.Context(), "a", "T", agree); err != nil {
		t.Fatal(err)
	}
	<-woken
}

func TestPoolerRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ mode, settings, want string }{
		"transaction":         {"transaction", "", "transaction or statement mode"},
		"transaction, FIFO":   {"transaction", "server_round_robin = 1", "transaction or statement mode"},
		"one session for all": {"transaction", "default_pool_size = 1", "two connections do not get a session each"},
		"statement":           {"statement", "", "statement mode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := Open(t.Context(), Options{URL: servers.PgBouncer(t, servers.Database(t), c.mode, c.settings)})
			if err == nil {
				_ = db.Close()
			}
			var refused *Refused
			if !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.want) || refused.Remedy != sessionRemedy {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
