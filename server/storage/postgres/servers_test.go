// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

func listServers(ctx context.Context, db *DB) (list []server, err error) {
	err = db.read(ctx, func(c *pgxpool.Conn) (err error) {
		list, err = liveServers(ctx, c)
		return err
	})
	return list, err
}

func TestServers(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	fake := clock.NewFake(time.Unix(0, 0)) // far from the database's
	db := mustOpen(t, Options{URL: url, Program: "1.2.3", Clock: fake})
	c := mustConnect(t, url)
	dead, ancient := uuid.New(), uuid.New()
	mustExec(t, c, `INSERT INTO extenddb.servers VALUES ($1, 'h', 1, 'p', now(), now() - interval '1 minute'),
		($2, 'h', 1, 'p', now(), now() - interval '2 hours')`, dead, ancient)
	other, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	list := func() []server {
		t.Helper()
		s, err := listServers(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := list()
	if len(s) != 2 || s[0].ID != db.id || s[0].PID != os.Getpid() || s[0].Program != "1.2.3" || s[1].ID != other.id {
		t.Fatalf("servers %+v", s)
	}
	if db.Clock().Now().Sub(s[0].Started).Abs() > time.Minute {
		t.Errorf("started at %v by a clock that says %v", s[0].Started, db.Clock().Now())
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if s := list(); len(s) != 1 {
		t.Errorf("a server that was closed is listed: %+v", s)
	}
	mustExec(t, c, "UPDATE extenddb.servers SET heartbeat = heartbeat - interval '1 minute'")
	fake.WaitTimers(1)
	fake.Advance(heartbeatEvery)
	fake.WaitTimers(1)
	if s := list(); len(s) != 1 || s[0].ID != db.id {
		t.Errorf("no heartbeat: %+v", s)
	}
	var n int
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM extenddb.servers WHERE id IN ($1, $2)", dead, ancient).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows of dead servers: %v", n, err)
	}
}

// TestServerThatDied: what it was loading is work for another one as soon as
// that looks around.
func TestServerThatDied(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	db := mustOpen(t, Options{Clock: fake})
	other, c := mustOpen(t, Options{URL: db.o.URL}), mustConnect(t, db.o.URL)
	l := beginLoad(t, other, "t")
	beat := func() {
		fake.WaitTimers(1)
		fake.Advance(heartbeatEvery)
		fake.WaitTimers(1)
	}
	beat()
	terminate(t, c, lockKey{lockLoad, int64(l.table.ID)})
	wake, woken := signal()
	db.OnWork(wake)
	beat()
	<-woken
	complete(t, claimed(t, db, storage.TableDrop, jobNow()), jobNow())
	lost(t, other, l.own)
	must(t, l.Abort())
}

// TestHeartbeatWaitsForNobody who has the row of a server that died long ago.
func TestHeartbeatWaitsForNobody(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	ancient := uuid.New()
	mustExec(t, c, "INSERT INTO extenddb.servers VALUES ($1, 'h', 1, 'p', now(), now() - interval '2 hours')", ancient)
	mustExec(t, c, "BEGIN")
	mustExec(t, c, "SELECT FROM extenddb.servers WHERE id = $1 FOR UPDATE", ancient)
	must(t, db.session.do(t.Context(), db.beat, nil))
	mustExec(t, c, "COMMIT")
	must(t, db.session.do(t.Context(), db.beat, nil))
	if n := selectInt(t, c, "SELECT count(*) FROM extenddb.servers"); n != 1 {
		t.Errorf("%d servers", n)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(1000, 0))
	c := dbClock{local: fake}
	read := func(before, after int64, database time.Time) {
		c.set(time.Unix(0, before*int64(time.Millisecond)), time.Unix(0, after*int64(time.Millisecond)), database)
	}
	at := time.Unix(5000, 0)
	read(1_000_000, 1_000_010, at.Add(5*time.Millisecond)) // in the middle
	if got := c.Now(); !got.Equal(at) {
		t.Errorf("says %v", got)
	}
	fake.Advance(time.Second)
	if got := c.Now(); !got.Equal(at.Add(time.Second)) {
		t.Errorf("says %v a second later", got)
	}
	read(1_001_000, 1_001_100, at.Add(time.Second+90*time.Millisecond)) // the answer was slow: no news
	if got := c.Now(); !got.Equal(at.Add(time.Second)) {
		t.Errorf("followed a slow answer to %v", got)
	}
	read(1_001_000, 1_001_000, at.Add(3*time.Second)) // somebody set it
	if got := c.Now(); !got.Equal(at.Add(3 * time.Second)) {
		t.Errorf("says %v after the database's clock was set", got)
	}
	tick, stop := c.After(time.Second)
	defer stop()
	fake.Advance(time.Second)
	<-tick
}
