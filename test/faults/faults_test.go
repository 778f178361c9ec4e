// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/servers"
)

// TestKillServer ends the server with SIGKILL under load and starts another.
func TestKillServer(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	r := newRig(t, url, url, 1)
	r.mayDie = true
	for range kills {
		r.under(func() {
			r.now()[0].Kill()
			r.srv[0].Store(proc.Start(t, r.bin, r.served))
		})
	}
	r.finish()
}

// away is longer than the server waits for a connection to its database.
const away = 7 * time.Second

// TestCrashDatabase stops PostgreSQL at once under load. The server answers 503
// meanwhile, and recovers by itself.
func TestCrashDatabase(t *testing.T) {
	t.Parallel()
	pg := servers.Private(t, "fsync=on")
	url := pg.Database(t)
	r := newRig(t, url, url, 1)
	r.mayDoubt = true
	for i := range crashes {
		r.under(func() {
			if err := pg.Crash(); err != nil {
				t.Fatal(err)
			}
			r.isReady(http.StatusServiceUnavailable)
			r.refuses()
			if i%4 == 3 {
				rest(away)
			}
			if err := pg.Start(); err != nil {
				t.Fatal(err)
			}
			r.isReady(http.StatusOK)
		})
	}
	r.finish()
}

// refuses waits until calls are answered that the database is away.
func (r *rig) refuses() {
	r.t.Helper()
	r.until(30*time.Second, "no call is answered 503", func() bool {
		a := call(r.http, r.now()[0], "GetItem", `{"TableName":"journal","Key":{"id":{"S":"j0.0"}}}`)
		return a.status == http.StatusServiceUnavailable && a.kind == "ServiceUnavailable"
	})
}

// TestTerminateBackends ends random connections of the server, whatever they
// are at.
func TestTerminateBackends(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	r := newRig(t, url, url, 1)
	r.mayDoubt = true
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	ended := 0
	r.under(func() {
		for began := time.Now(); time.Since(began) < long; rest(time.Duration(rand.IntN(100)) * time.Millisecond) {
			var n int
			if err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM
				(SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) victims`).Scan(&n); err != nil {
				t.Error(err)
				return
			}
			ended += n
		}
	})
	t.Logf("%d connections ended", ended)
	if ended == 0 {
		t.Error("no connection was ended")
	}
	r.finish()
}

// TestConflicts makes deadlocks and serialisation conflicts, and breaks
// nothing: no write is in doubt.
func TestConflicts(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	r := newRig(t, url, url, 1)
	r.under(func() { rest(long) })
	r.finish()
}
