// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// holdRows locks every row of a table, as a person with psql may.
func holdRows(t testing.TB, url string, tab *storage.Table) *pgx.Conn {
	t.Helper()
	c := mustConnect(t, url)
	mustExec(t, c, "BEGIN")
	mustExec(t, c, "SELECT FROM "+rowsOf(tab.ID)+" FOR UPDATE")
	return c
}

// awaitWaiters waits until so many sessions wait for a lock.
func awaitWaiters(t testing.TB, c *pgx.Conn, want int) {
	t.Helper()
	for selectInt(t, c, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") < int64(want) {
		must(t, t.Context().Err())
	}
}

// others makes sure that the rest of the database is served at once.
func others(t testing.TB, db *DB, tab *storage.Table) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lockTime-lockTime/4)
	defer cancel()
	if row, err := db.Get(ctx, tab, key(tab, "x")); err != nil || row == nil {
		t.Errorf("Get beside a row that is held: %v, %v", row, err)
	}
	if _, _, err := db.Tables(ctx, acct, "", 10); err != nil {
		t.Errorf("Tables beside a row that is held: %v", err)
	}
	if err := db.Ping(ctx); err != nil {
		t.Errorf("Ping beside a row that is held: %v", err)
	}
}

// TestHeldRow: those who write a row that somebody else holds take one
// connection of the pool, and succeed when it is free again.
func TestHeldRow(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	db := mustOpen(t, Options{URL: url, MaxConns: 4})
	tab, other := create(t, db, hashTable("held")), create(t, db, hashTable("other"))
	mustWrite(t, db, put(tab, item("a")), put(other, item("x")))
	holder, watch := holdRows(t, url, tab), mustConnect(t, url)
	done := make(chan error, 1)
	go func() {
		done <- together(16, func(i int) error {
			ws := []storage.Write{put(tab, item("a", "by", fmt.Sprint(i)))}
			switch i % 4 {
			case 0:
				ws[0] = blind(ws[0])
			case 1:
				return db.WriteEach(t.Context(), []storage.Write{blind(ws[0]), blind(ws[0])})[0].Err
			case 2:
				_, err := db.WriteAll(t.Context(), ws, nil)
				return err
			}
			_, err := db.Write(t.Context(), ws[0])
			return err
		})
	}()
	awaitWaiters(t, watch, 1)
	others(t, db, other)
	if n := db.pool.Stat().AcquiredConns(); n > 1 {
		t.Errorf("writers of one row hold %d connections", n)
	}
	mustExec(t, holder, "ROLLBACK")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestHeldRows: those who write many rows that somebody else holds get an error
// in the end, and leave connections to others.
func TestHeldRows(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{2, 8} {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			t.Parallel()
			url := servers.Database(t)
			db, watch := mustOpen(t, Options{URL: url, MaxConns: conns, AcquireTimeout: 3 * time.Second}), mustConnect(t, url)
			tab, other := create(t, db, hashTable("held")), create(t, db, hashTable("other"))
			for i := range 8 {
				mustWrite(t, db, put(tab, item(fmt.Sprint(i))))
			}
			mustWrite(t, db, put(other, item("x")))
			holdRows(t, url, tab)
			began, done := db.o.Clock.Now(), make(chan error, 1)
			go func() {
				done <- together(8, func(i int) error {
					_, err := db.Write(t.Context(), blind(put(tab, item(fmt.Sprint(i)))))
					if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrUnavailable) {
						return fmt.Errorf("write of row %d, which is held: %w", i, err)
					}
					return nil
				})
			}()
			awaitWaiters(t, watch, min(conns-1, 5))
			others(t, db, other)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if took := db.o.Clock.Now().Sub(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestHeldTable: however many write a table that somebody else holds, those who
// write another do not wait for that.
func TestHeldTable(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	db, watch, holder := mustOpen(t, Options{URL: url, MaxConns: 8}), mustConnect(t, url), mustConnect(t, url)
	tab, other := create(t, db, hashTable("held")), create(t, db, hashTable("other"))
	mustWrite(t, db, put(other, item("x")))
	mustExec(t, holder, "BEGIN")
	mustExec(t, holder, "LOCK TABLE "+rowsOf(tab.ID)+" IN SHARE MODE")
	done := make(chan error, 1)
	go func() {
		done <- together(40, func(i int) error {
			ws := []storage.Write{put(tab, item(fmt.Sprint(i)))}
			if i%2 == 0 {
				_, err := db.WriteAll(t.Context(), ws, nil)
				return err
			}
			_, err := db.Write(t.Context(), ws[0])
			return err
		})
	}()
	awaitWaiters(t, watch, db.writers.ofOneTable())
	others(t, db, other)
	ctx, cancel := context.WithTimeout(t.Context(), lockTime/2)
	defer cancel()
	if _, err := db.Write(ctx, put(other, item("y"))); err != nil {
		t.Errorf("Write beside a table that is held: %v", err)
	}
	if _, err := db.WriteAll(ctx, []storage.Write{put(other, item("y")), put(other, item("z"))}, nil); err != nil {
		t.Errorf("WriteAll beside a table that is held: %v", err)
	}
	mustExec(t, holder, "ROLLBACK")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestFrozen: the database ends the transaction of a server that stands still
// within it, and that server, when it goes on, makes its change after all.
func TestFrozen(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	var o Options
	o.URL = url
	inside, thaw, times := make(chan struct{}), make(chan struct{}), 0
	o.hooks.write.before = func(context.Context, ...*change) error {
		if times++; times == 2 { // the first one makes the row
			close(inside)
			<-thaw
		}
		return nil
	}
	frozen, db := mustOpen(t, o), mustOpen(t, Options{URL: url})
	tab := create(t, db, hashTable("t"))
	mustWrite(t, frozen, add(tab, "x", 1))
	done := make(chan error, 1)
	go func() {
		_, err := frozen.WriteAll(t.Context(), []storage.Write{add(tab, "x", 10)}, nil)
		done <- err
	}()
	<-inside
	for {
		_, err := db.Write(t.Context(), add(tab, "x", 100))
		if err == nil {
			break
		}
		if !errors.Is(err, storage.ErrConflict) {
			t.Fatalf("a write of what a frozen server holds: %v", err)
		}
	}
	close(thaw)
	if err := <-done; err != nil {
		t.Errorf("the server that stood still: %v", err)
	}
	if got := value(t, mustConnect(t, url), tab, "x", "n"); got != "111" {
		t.Errorf("the row holds %s", got)
	}
}

// TestSlowReaders: who only reads may stand still.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	db := mustOpen(t, Options{URL: url})
	tab := create(t, db, hashTable("t"))
	mustWrite(t, db, put(tab, item("x")))
	s, err := db.Snapshot(t.Context(), acct, "t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it never fails
	c, err := db.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	v := variant{want: storage.Items}
	cur, err := openCursor(t.Context(), c.Conn(), "BEGIN READ ONLY", v.sql(tab.ID, 0), v.arguments(tab.ID, nil, nil, nil), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := cur.drain(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*pgx.Conn{"snapshot": s.(*snapshot).c.Conn(), "cursor": c.Conn()} {
		var limit string
		if err := c.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&limit); err != nil || limit != "0" {
			t.Errorf("a %s may stand still for %q: %v", name, limit, err)
		}
	}
	_ = cur.end(t.Context()) // nothing is in doubt
}
