// SPDX-License-Identifier: Apache-2.0

//go:build unix

package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestEndedWhileIdle: a connection that the database has ended is noticed before
// it is used, however short ago it was: a write that would be in doubt is made.
func TestEndedWhileIdle(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 2})
	c := mustConnect(t, db.o.URL)
	tab := create(t, db, hashTable("t"))
	for i := range 20 {
		mustWrite(t, db, blind(put(tab, item("x"))))
		for _, pooled := range db.pool.AcquireAllIdle(t.Context()) {
			w, pid := wireOf(pooled.Conn()), pooled.Conn().PgConn().PID()
			if isSuspect(t.Context(), pgxpool.ShouldPingParams{Conn: pooled.Conn()}) {
				t.Error("a sound connection is suspect")
			}
			pooled.Release()
			mustExec(t, c, "SELECT pg_terminate_backend($1, 10000)", pid)
			for !w.cameUnasked() { // until the network has told
			}
		}
		mustWrite(t, db, blind(put(tab, item(fmt.Sprint("k", i)))))
	}
}
