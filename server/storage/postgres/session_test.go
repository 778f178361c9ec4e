// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// signal returns a func for OnWork and the channel that it fills.
func signal() (func(), <-chan struct{}) {
	c := make(chan struct{}, 1)
	return func() {
		select {
		case c <- struct{}{}:
		default:
		}
	}, c
}

// killSession ends the connection that owns and listens.
func killSession(t testing.TB, db *DB) {
	t.Helper()
	var pid uint32
	err := db.session.do(t.Context(), func(_ context.Context, c *pgx.Conn) error {
		pid = c.PgConn().PID()
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, mustConnect(t, db.o.URL), "SELECT pg_terminate_backend($1)", int32(pid))
}

func TestLock(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	other := mustOpen(t, Options{URL: db.o.URL})
	k := lockKey{int32(storage.TableDrop), 7}
	own, err := db.lock(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*DB{"the same process": db, "another": other} {
		if _, err := d.lock(t.Context(), k); !errors.Is(err, storage.ErrClaimed) {
			t.Errorf("%s owns it too: %v", name, err)
		}
		for _, free := range []lockKey{{k.space, 8}, {lockLoad, k.id}} {
			o, err := d.lock(t.Context(), free)
			if err != nil {
				t.Fatalf("%v for %s: %v", free, name, err)
			}
			if err := o.release(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := own.held(); err != nil {
		t.Error(err)
	}
	for range 2 { // the second does nothing
		if err := own.release(); err != nil {
			t.Error(err)
		}
	}
	if err := own.held(); !errors.Is(err, storage.ErrNoWork) {
		t.Errorf("held after release: %v", err)
	}
	if o, err := other.lock(t.Context(), k); err != nil || o.held() != nil {
		t.Errorf("not free after release: %v", err)
	}
}

func TestLockOfCallerThatGoesAway(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	k := lockKey{1, 1}
	busy, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = db.session.do(t.Context(), func(context.Context, *pgx.Conn) error {
			close(busy)
			<-free
			return nil
		}, nil)
	}()
	<-busy
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.lock(ctx, k); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went away got %v", err)
	}
	close(free)
	// The task that is running when its caller goes away is undone.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	returned, undone := make(chan struct{}), make(chan struct{})
	err := db.session.do(ctx, func(context.Context, *pgx.Conn) error {
		cancel()
		<-returned
		return nil
	}, func(context.Context, *pgx.Conn) error {
		close(undone)
		return nil
	})
	close(returned)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-undone
	if o, err := db.lock(t.Context(), k); err != nil || o.release() != nil {
		t.Errorf("lock afterwards: %v", err)
	}
}

func TestSessionIsLost(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	other := mustOpen(t, Options{URL: db.o.URL})
	made, err := db.CreateTable(t.Context(), "a", hashTable("T"), db.Clock().Now())
	if err != nil {
		t.Fatal(err)
	}
	k := lockKey{1, 1}
	own, err := db.lock(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	wake, woken := signal()
	db.OnWork(wake)
	killSession(t, db)
	<-woken // it is back
	if err := own.held(); !errors.Is(err, storage.ErrNoWork) {
		t.Errorf("still held: %v", err)
	}
	if err := own.release(); err != nil {
		t.Errorf("release of what was lost: %v", err)
	}
	if db.defs.get(made.ID) != nil {
		t.Error("a definition outlived the connection that hears of its end")
	}
	o, err := other.lock(t.Context(), k)
	if err != nil {
		t.Fatalf("not free: %v", err)
	}
	if _, err := db.lock(t.Context(), k); !errors.Is(err, storage.ErrClaimed) {
		t.Errorf("owned by two: %v", err)
	}
	if err := o.release(); err != nil {
		t.Error(err)
	}
	if _, err := db.lock(t.Context(), k); err != nil {
		t.Errorf("the new session does not own: %v", err)
	}
}

func TestCloseFreesLocks(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	db, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	own, err := db.lock(t.Context(), lockKey{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := own.held(); !errors.Is(err, storage.ErrNoWork) {
		t.Errorf("held after close: %v", err)
	}
	if _, err := db.lock(t.Context(), lockKey{1, 2}); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("lock after close: %v", err)
	}
	other := mustOpen(t, Options{URL: url})
	o, err := other.lock(t.Context(), lockKey{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.release(); err != nil {
		t.Error(err)
	}
}

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	other := mustOpen(t, Options{URL: db.o.URL})
	if _, err := db.CreateTable(t.Context(), "a", hashTable("T"), db.Clock().Now()); err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		t.Helper()
		_, err := other.Table(t.Context(), "a", "T")
		if err != nil {
			t.Fatal(err)
		}
		return other.defs.named("a", "T") != nil
	}
	c := mustConnect(t, db.o.URL)
	for payload, forgets := range map[string]bool{
		"t 999999 3":      false, // another table
		"t 1 1":           false, // what it knows already
		"t 1 2":           true,
		"t 1":             true, // it is gone
		"t 1 rubbish":     true,
		"":                true,
		"t":               true,
		"t rubbish":       true,
		"something newer": true,
	} {
		if !known() {
			t.Fatal("not cached")
		}
		wake, woken := signal()
		other.OnWork(wake)
		mustExec(t, c, "SELECT pg_notify('extenddb', $1)", payload)
		<-woken
		if got := other.defs.named("a", "T") == nil; got != forgets {
			t.Errorf("%q: forgotten: %v", payload, got)
		}
	}
	other.OnWork(nil) // and nobody is called
	mustExec(t, c, "SELECT pg_notify('extenddb', '')")
}

func TestHeartbeatMeasuresTheClock(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(1e9, 0))
	db := mustOpen(t, Options{Clock: fake})
	started := db.Clock().Now()
	fake.WaitTimers(1)
	fake.Advance(time.Hour) // it did not pass for the database
	fake.WaitTimers(1)
	if now := db.Clock().Now(); now.Sub(started).Abs() > 10*time.Minute {
		t.Errorf("the database's clock went from %v to %v", started, now)
	}
}
