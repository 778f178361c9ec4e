// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// rounds makes the rounds of an engine those of a test.
func rounds(o *Options) chan<- time.Time {
	ticks := make(chan time.Time)
	o.hooks.round = func() (<-chan time.Time, func()) { return ticks, func() {} }
	return ticks
}

// aRound is one in which the session hears the database.
func aRound(t *testing.T, db *DB, ticks chan<- time.Time) {
	t.Helper()
	if err := db.session.do(t.Context(), func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) }, nil); err != nil {
		t.Fatal(err)
	}
	ticks <- time.Time{}
}

// soon is more than patience, on a machine that is busy, and less than lostAfter.
const soon = 20 * time.Second

// TestPingOnSilentNetwork: who asks whether an engine is ready never waits
// longer than it wants to, and takes no connection from others.
func TestPingOnSilentNetwork(t *testing.T) {
	t.Parallel()
	r, through := newRelay(t, servers.Database(t))
	o := Options{URL: through, MaxConns: 2, AcquireTimeout: time.Second}
	rounds(&o)
	db := mustOpen(t, o)
	r.mute()
	for range 4 {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := db.Ping(ctx)
		cancel()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > patience {
			t.Errorf("after %v: %v", took, err)
		}
	}
	r.cut()
}

// TestContextEndsOnSilentNetwork: a call whose context has ended does not wait
// for long for what it cannot hear; a write that was sent is in doubt.
func TestContextEndsOnSilentNetwork(t *testing.T) {
	t.Parallel()
	r, through := newRelay(t, servers.Database(t))
	o := Options{URL: through, AcquireTimeout: time.Second}
	rounds(&o)
	o.hooks.write.before = func(context.Context, ...*change) error { r.mute(); return nil }
	db := mustOpen(t, o)
	tab := create(t, db, hashTable("t"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, err := db.Write(ctx, add(tab, "x", 1))
	if !errors.Is(err, storage.ErrInDoubt) {
		t.Errorf("error %v, want a doubt", err)
	}
	if _, err := db.Get(ctx, tab, key(tab, "x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get: %v", err)
	}
	if took := time.Since(began); took > soon {
		t.Errorf("that took %v", took)
	}
	r.cut()
}

// TestSilentNetwork: calls that may wait for ever end where nothing comes from
// the database any more, and where nothing comes on their own connection.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]bool{"everything": true, "one connection": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := servers.Database(t)
			r, through := newRelay(t, direct)
			o := Options{URL: through, AcquireTimeout: time.Second}
			ticks := rounds(&o)
			calls, silent := 0, make(chan struct{})
			o.hooks.write.before = func(context.Context, ...*change) error {
				if calls++; calls != 2 { // the first prepares the statements
					return nil
				}
				if all {
					r.mute()
				} else {
					r.muteLast()
				}
				close(silent)
				return nil
			}
			db := mustOpen(t, o)
			tab := create(t, db, hashTable("t"))
			done := make(chan error, 1)
			go func() {
				var err error
				for _, token := range []string{"one", "two"} {
					_, err = db.WriteAll(context.WithoutCancel(t.Context()), []storage.Write{add(tab, "x", 1), add(tab, "y", 1)},
						&storage.Token{Account: acct, Token: token, Now: instant()})
				}
				done <- err
			}()
			<-silent
			var err error
			for ended := false; !ended; {
				if !all {
					aRound(t, db, ticks)
				}
				select {
				case err = <-done:
					ended = true
				case ticks <- time.Time{}:
				}
			}
			if all != errors.Is(err, storage.ErrInDoubt) || !all && err != nil { // with a token, another connection tells
				t.Errorf("error %v", err)
			}
			if all {
				r.cut()
				return
			}
			if got := value(t, mustConnect(t, direct), tab, "x", "n"); got != "2" {
				t.Errorf("x is %q", got)
			}
		})
	}
}

// TestLongWaits: what takes long is not given up, neither a statement nor a
// reader that takes its time, while the database is heard.
func TestLongWaits(t *testing.T) {
	t.Parallel()
	o := Options{}
	ticks := rounds(&o)
	db := mustOpen(t, o)
	tab := create(t, db, hashTable("t"))
	mustWrite(t, db, put(tab, item("x", "n", "5")), put(tab, item("y", "n", "5")))
	snap, err := db.Snapshot(t.Context(), acct, "t")
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	c, holder := mustConnect(t, db.o.URL), mustConnect(t, db.o.URL)
	mustExec(t, holder, "BEGIN")
	mustExec(t, holder, "SELECT 1 FROM "+rowsOf(tab.ID)+" FOR UPDATE")
	done := make(chan error, 1)
	go func() {
		_, err := db.Write(context.WithoutCancel(t.Context()), add(tab, "x", 1))
		done <- err
	}()
	blocked(t, c, 1)
	read := 0
	for _, err := range snap.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		read++
		for range 2 * roundsLost {
			aRound(t, db, ticks)
		}
	}
	mustExec(t, holder, "COMMIT")
	if err := <-done; err != nil || read != 2 {
		t.Errorf("%d rows read; the write: %v", read, err)
	}
	if got := value(t, c, tab, "x", "n"); got != "6" {
		t.Errorf("x is %s, want 6", got)
	}
}

// TestCloseWithCallsOnSilentNetwork: calls that wait for a database that answers
// nothing, and that nobody cancels, hold Close up for some seconds only.
func TestCloseWithCallsOnSilentNetwork(t *testing.T) {
	t.Parallel()
	r, through := newRelay(t, servers.Database(t))
	var log bytes.Buffer
	silent, calls := make(chan struct{}, 1), 0
	o := Options{URL: through, MaxConns: 8, Log: slog.New(slog.NewTextHandler(&log, nil))}
	rounds(&o) // no other watch ends it
	o.hooks.write.before = func(context.Context, ...*change) error {
		if calls++; calls == 2 { // the first prepares the statements
			r.mute()
			silent <- struct{}{}
		}
		return nil
	}
	db := mustOpen(t, o)
	tab := create(t, db, hashTable("t"))
	mustWrite(t, db, add(tab, "x", 1))
	done := make(chan error, 1)
	go func() {
		_, err := db.Write(context.WithoutCancel(t.Context()), add(tab, "x", 1))
		done <- err
	}()
	<-silent
	began := time.Now()
	must(t, db.Close())
	if took := time.Since(began); took < closeTime || took > closeTime+4*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := <-done; !errors.Is(err, storage.ErrInDoubt) {
		t.Errorf("the write: %v", err)
	}
	if !strings.Contains(log.String(), "the database does not answer") {
		t.Errorf("the log tells nothing:\n%s", log.String())
	}
	r.cut()
}

// TestCloseWaitsForCalls for as long as the database answers.
func TestCloseWaitsForCalls(t *testing.T) {
	t.Parallel()
	x, done, ended := &wires{}, make(chan struct{}), make(chan bool, 1)
	go func() { ended <- x.endAfter(time.Second, true, done) }()
	for range 30 {
		tick, _ := clock.Real{}.After(50 * time.Millisecond)
		<-tick
		x.heard.Add(1)
		select {
		case <-ended:
			t.Fatal("connections through which something comes were ended")
		default:
		}
	}
	close(done)
	if <-ended || x.over() {
		t.Error("ended although all is done")
	}
}
