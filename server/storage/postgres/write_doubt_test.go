// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// lostCase is a write whose connection is lost. The row x is 5 before, the row
// y is not there.
type lostCase struct {
	name  string
	plain bool // a table without index
	write func(ctx context.Context, db *DB, tab *storage.Table) error
	x, y  string // what is there after it was carried out, once
	// What nobody can tell: that it was not carried out, or that it was.
	hidesFailure, hidesSuccess bool
}

func lostCases() []lostCase {
	one := func(w func(tab *storage.Table) storage.Write) func(context.Context, *DB, *storage.Table) error {
		return func(ctx context.Context, db *DB, tab *storage.Table) error {
			_, err := db.Write(ctx, w(tab))
			return err
		}
	}
	all := func(token *storage.Token, keys ...string) func(context.Context, *DB, *storage.Table) error {
		return func(ctx context.Context, db *DB, tab *storage.Table) error {
			var ws []storage.Write
			for _, k := range keys {
				ws = append(ws, add(tab, k, 1, "a", "new"))
			}
			_, err := db.WriteAll(ctx, ws, token)
			return err
		}
	}
	token := &storage.Token{Account: acct, Token: "once", Digest: [32]byte{1}, Now: instant()}
	return []lostCase{
		{name: "update", write: one(func(tab *storage.Table) storage.Write { return add(tab, "x", 1, "a", "new") }), x: "6"},
		{name: "insert", write: one(func(tab *storage.Table) storage.Write { return add(tab, "y", 1) }), x: "5", y: "1", hidesFailure: true},
		{name: "delete", write: one(func(tab *storage.Table) storage.Write { return remove(tab, "x") }), hidesSuccess: true},
		{name: "put", plain: true, x: "9", hidesFailure: true,
			write: one(func(tab *storage.Table) storage.Write { return blind(put(tab, item("x", "n", "9"))) })},
		{name: "blind delete", plain: true, x: "", hidesFailure: true,
			write: one(func(tab *storage.Table) storage.Write { return blind(remove(tab, "x")) })},
		{name: "transaction", write: all(nil, "y", "x"), x: "6", y: "1"},
		{name: "transaction of new rows", write: all(nil, "y"), x: "5", y: "1", hidesFailure: true},
		{name: "transaction with token", write: all(token, "y", "x"), x: "6", y: "1"},
		{name: "transaction of new rows with token", write: all(token, "y"), x: "5", y: "1"},
	}
}

// TestLostConnection: the connection is lost with the request or with the
// answer of what commits. Where anybody can tell what became of it, the write
// is done, and once; else it is said that nobody knows.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	for _, tc := range lostCases() {
		for _, lostRequest := range []bool{true, false} {
			for _, cold := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, request %v, cold %v", tc.name, lostRequest, cold), func(t *testing.T) {
					t.Parallel()
					tc.run(t, lostRequest, cold)
				})
			}
		}
	}
}

// run loses the connection. cold: the statement is new to it, so that its text
// is lost, and it never runs.
func (tc lostCase) run(t *testing.T, lostRequest, cold bool) {
	direct := servers.Database(t)
	r, through := newRelay(t, direct)
	o := Options{URL: through, MaxConns: 2}
	var armed atomic.Bool
	o.hooks.write.before = func(context.Context, ...*change) error {
		if armed.CompareAndSwap(true, false) {
			r.lose(lostRequest)
		}
		return nil
	}
	db := mustOpen(t, o)
	def := indexed("t", "a")
	if tc.plain {
		def = hashTable("t")
	}
	tab := create(t, db, def)
	reset := []storage.Write{put(tab, item("x", "n", "5", "a", "old")), remove(tab, "y")}
	mustWrite(t, db, reset...)
	if !cold {
		if err := tc.write(t.Context(), db, tab); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, db, reset...)
		mustExec(t, mustConnect(t, direct), "DELETE FROM extenddb.tokens")
	}
	armed.Store(true)
	err := tc.write(t.Context(), db, tab)
	if armed.Load() {
		t.Fatal("nothing was lost")
	}
	done := !lostRequest && !cold
	if doubtful := done && tc.hidesSuccess || !done && tc.hidesFailure; doubtful != errors.Is(err, storage.ErrInDoubt) || !doubtful && err != nil {
		t.Errorf("error %v, in doubt should be %v", err, doubtful)
	}
	x, y := tc.x, tc.y
	if !done && tc.hidesFailure {
		x, y = "5", ""
	}
	c := mustConnect(t, direct)
	if gotX, gotY := value(t, c, tab, "x", "n"), value(t, c, tab, "y", "n"); gotX != x || gotY != y {
		t.Errorf("x is %q and y is %q, want %q and %q", gotX, gotY, x, y)
	}
	checkTable(t, c, tab)
}

// TestLostDatabase: a database that does not come back leaves the doubt.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	r, through := newRelay(t, servers.Database(t))
	o := Options{URL: through}
	o.hooks.write.before = func(context.Context, ...*change) error { r.lose(false); r.refuse(); return nil }
	db := mustOpen(t, o)
	tab := create(t, db, indexed("t", "a"))
	_, err := db.Write(t.Context(), add(tab, "x", 1))
	if !errors.Is(err, storage.ErrInDoubt) {
		t.Errorf("error %v, want a doubt", err)
	}
	r.cut()
	if _, err := db.Write(t.Context(), add(tab, "x", 1)); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrInDoubt) {
		t.Errorf("error %v, want that the database is away", err)
	}
	if _, err := db.WriteAll(t.Context(), []storage.Write{add(tab, "x", 1)}, nil); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrInDoubt) {
		t.Errorf("error %v, want that the database is away", err)
	}
}

// TestTerminated: a session that is ended while it waits for a row did nothing,
// and its write is done by another.
func TestTerminated(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, db *DB, tab *storage.Table) error{
		"Write": func(ctx context.Context, db *DB, tab *storage.Table) error {
			_, err := db.Write(ctx, add(tab, "x", 1))
			return err
		},
		"WriteEach": func(ctx context.Context, db *DB, tab *storage.Table) error {
			return db.WriteEach(ctx, []storage.Write{add(tab, "x", 1)})[0].Err
		},
	} {
		db := mustOpen(t, Options{})
		tab := create(t, db, indexed("t", "n"))
		mustWrite(t, db, put(tab, item("x", "n", "5")))
		c, holder := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
		mustExec(t, holder, "BEGIN")
		mustExec(t, holder, "SELECT 1 FROM "+rowsOf(tab.ID)+" FOR UPDATE")
		done := make(chan error, 1)
		go func() { done <- write(context.WithoutCancel(t.Context()), db, tab) }()
		mustExec(t, c, "SELECT pg_terminate_backend($1)", blocked(t, c, 1)[0])
		mustExec(t, holder, "COMMIT")
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := value(t, c, tab, "x", "n"); got != "6" {
			t.Errorf("%s: x is %s, want 6", name, got)
		}
		checkTable(t, c, tab)
	}
}

// TestTerminatedTransaction: before anything was sent that commits, nothing of
// it is kept, and that is what is said.
func TestTerminatedTransaction(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, indexed("t", "n"))
	mustWrite(t, db, put(tab, item("x", "n", "5")))
	c, holder := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	mustExec(t, holder, "BEGIN")
	mustExec(t, holder, "SELECT 1 FROM "+rowsOf(tab.ID)+" FOR UPDATE")
	done := make(chan error, 1)
	go func() {
		_, err := db.WriteAll(context.WithoutCancel(t.Context()), []storage.Write{add(tab, "x", 1), add(tab, "y", 1)}, nil)
		done <- err
	}()
	mustExec(t, c, "SELECT pg_terminate_backend($1)", blocked(t, c, 1)[0])
	if err := <-done; !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	mustExec(t, holder, "COMMIT")
	if x, y := value(t, c, tab, "x", "n"), value(t, c, tab, "y", "n"); x != "5" || y != "" {
		t.Errorf("x is %q and y is %q", x, y)
	}
}

// TestTerminations: sessions end all the time while rows are counted up. What
// was acknowledged is there, once; what was not may be, where that was said.
func TestTerminations(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, indexed("t", "n"))
	c, killer := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	const workers, each, perKill = 6, 60, 8
	written := make(chan struct{}, workers*each)
	var killing sync.WaitGroup
	kills := 0
	killing.Go(func() {
		n := 0
		for range written {
			if n++; n%perKill > 0 {
				continue
			}
			tag, err := killer.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND state <> 'idle' AND application_name = 'extenddb' ORDER BY random() LIMIT 1) s`)
			if err != nil {
				t.Error(err)
				continue
			}
			kills += int(tag.RowsAffected())
		}
	})
	keys := []string{"a", "b", "shared"}
	acked, doubted := make([]atomic.Int64, 3), make([]atomic.Int64, 3)
	err := together(workers, func(i int) error {
		for n := range each {
			own := []int{i % 2, 2}
			var err error
			token := &storage.Token{Account: acct, Token: fmt.Sprintf("%d-%d", i, n), Now: instant()}
			switch n % 3 {
			case 0:
				_, err = db.WriteAll(t.Context(), []storage.Write{add(tab, keys[own[0]], 1), add(tab, "shared", 1)}, token)
				if errors.Is(err, storage.ErrInDoubt) {
					return fmt.Errorf("in doubt with a token: %w", err)
				}
			case 1:
				_, err = db.WriteAll(t.Context(), []storage.Write{add(tab, keys[own[0]], 1), add(tab, "shared", 1)}, nil)
			default:
				own = own[:1]
				_, err = db.Write(t.Context(), add(tab, keys[own[0]], 1))
			}
			written <- struct{}{}
			for _, k := range own {
				switch {
				case err == nil:
					acked[k].Add(1)
				case errors.Is(err, storage.ErrInDoubt):
					doubted[k].Add(1)
				case !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrConflict):
					return err
				}
			}
		}
		return nil
	})
	close(written)
	killing.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for k, name := range keys {
		got, _ := strconv.ParseInt(value(t, c, tab, name, "n"), 10, 64)
		if low, high := acked[k].Load(), acked[k].Load()+doubted[k].Load(); got < low || got > high {
			t.Errorf("%s is %d, want %d to %d", name, got, low, high)
		}
		t.Logf("%s: %d, of which in doubt %d; %d sessions ended", name, got, doubted[k].Load(), kills)
	}
	checkTable(t, c, tab)
}
