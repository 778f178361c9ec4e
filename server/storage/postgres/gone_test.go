// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// calls are one of each kind of the catalog and around it.
func calls(db *DB) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Ping": db.Ping,
		"CreateTable": func(ctx context.Context) error {
			_, err := db.CreateTable(ctx, "a", hashTable("New"), time.Unix(0, 0))
			return err
		},
		"UpdateTable": func(ctx context.Context) error {
			_, err := db.UpdateTable(ctx, "a", "T", protect(true))
			return err
		},
		"DropTable": func(ctx context.Context) error {
			_, err := db.DropTable(ctx, "a", "T", agree)
			return err
		},
		"Table": func(ctx context.Context) error {
			_, err := db.Table(ctx, "a", "other")
			return err
		},
		"Describe": func(ctx context.Context) error {
			_, _, err := db.Describe(ctx, "a", "T")
			return err
		},
		"Tables": func(ctx context.Context) error {
			_, _, err := db.Tables(ctx, "a", "", 10)
			return err
		},
		"Servers": func(ctx context.Context) error {
			_, err := listServers(ctx, db)
			return err
		},
		"lock": func(ctx context.Context) error {
			_, err := db.lock(ctx, lockKey{9, 9})
			return err
		},
	}
}

// A database that is stopped and comes back needs no restart of this server.
func TestDatabaseGoesAway(t *testing.T) {
	t.Parallel()
	s := servers.Private(t)
	db := mustOpen(t, Options{URL: s.URL("postgres")})
	createHashTable(t, db, "T")
	own, err := db.lock(t.Context(), lockKey{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	wake, woken := signal()
	db.OnWork(wake)
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	db.o.AcquireTimeout = 300 * time.Millisecond
	for name, call := range calls(db) {
		if err := call(t.Context()); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for own.held() == nil {
		if err := db.Ping(t.Context()); err == nil {
			t.Fatal("the database answers")
		}
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	<-woken
	db.o.AcquireTimeout = 5 * time.Second
	if seen, _, err := db.Describe(t.Context(), "a", "T"); err != nil || seen.Version != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
	if err := own.held(); !errors.Is(err, storage.ErrNoWork) {
		t.Errorf("still held: %v", err)
	}
	if o, err := db.lock(t.Context(), lockKey{1, 1}); err != nil || o.release() != nil {
		t.Errorf("lock: %v", err)
	}
	if list, err := listServers(t.Context(), db); err != nil || len(list) != 1 {
		t.Errorf("servers %+v, %v", list, err)
	}
}

func TestCloseWhileDatabaseIsAway(t *testing.T) {
	t.Parallel()
	s := servers.Private(t)
	db, err := Open(t.Context(), Options{URL: s.URL("postgres")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	db.o.AcquireTimeout = 50 * time.Millisecond
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for name, call := range calls(db) {
		if err := call(t.Context()); !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	createHashTable(t, db, "T")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(db) {
		if err := call(over); !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// In the middle of a statement; one that has not begun would not hear of it.
	c, look := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	mustExec(t, c, "BEGIN; LOCK TABLE extenddb.tables IN ACCESS EXCLUSIVE MODE")
	for name, call := range calls(db) {
		if name == "Servers" || name == "lock" { // they do not wait for that
			continue
		}
		left := blocked(t, look, 0) // of a call that did not wait for the end of its statement
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		for len(ended) == 0 && !slices.ContainsFunc(blocked(t, look, 0), func(pid uint32) bool { return !slices.Contains(left, pid) }) {
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustExec(t, c, "ROLLBACK")
	if err := db.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each call meets a connection that somebody has ended: it fails, or it is
// made again, and the next one works.
func TestConnectionsAreTerminated(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 4})
	createHashTable(t, db, "T")
	admin := mustConnect(t, db.o.URL)
	for name, call := range calls(db) {
		mustExec(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
		if name == "DropTable" || name == "CreateTable" || name == "Table" {
			name, call = "Describe", calls(db)["Describe"]
		}
		for try := 1; ; try++ {
			err := call(t.Context())
			if err == nil || errors.Is(err, storage.ErrClaimed) {
				break
			}
			if !errors.Is(err, storage.ErrUnavailable) || try > 8 {
				t.Fatalf("%s, try %d: %v", name, try, err)
			}
		}
	}
}

func TestHeartbeatAfterReconnect(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	db := mustOpen(t, Options{Clock: fake})
	err := db.withConn(t.Context(), func(c *pgxpool.Conn) error {
		_, err := c.Exec(t.Context(), "DELETE FROM extenddb.servers")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wake, woken := signal()
	db.OnWork(wake)
	killSession(t, db)
	<-woken
	if list, err := listServers(t.Context(), db); err != nil || len(list) != 1 || list[0].ID != db.id {
		t.Errorf("%+v, %v", list, err)
	}
}
