// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// TestWaitForStandbyIsCancelled: what is acknowledged is on the standby, though
// somebody cancels those who wait for that, or ends them.
func TestWaitForStandbyIsCancelled(t *testing.T) {
	t.Parallel()
	primary := servers.Private(t)
	url := primary.Database(t)
	standby := primary.Standby(t)
	primary.Synchronous(t)
	db := mustOpen(t, Options{URL: url})
	plain, rich := create(t, db, hashTable("plain")), create(t, db, streaming(indexed("rich", "a"), ddb.ViewBoth))
	for i := range 10 {
		mustWrite(t, db, put(plain, item(fmt.Sprint(i))), put(rich, item(fmt.Sprint(i), "a", "old")))
	}
	write := func(w storage.Write) error {
		_, err := db.Write(t.Context(), w)
		return err
	}
	all := func(token *storage.Token, ws ...storage.Write) error {
		_, err := db.WriteAll(t.Context(), ws, token)
		return err
	}
	for how, end := range map[string]string{"cancel": "pg_cancel_backend", "terminate": "pg_terminate_backend"} {
		ops := []func() error{
			func() error { return write(put(plain, item("0", "by", how))) },
			func() error { return write(put(rich, item("0", "a", how))) },
			func() error { return all(nil, put(plain, item("1", "by", how)), put(rich, item("1", "a", how))) },
			func() error {
				token := &storage.Token{Account: acct, Token: how, Now: instant()}
				return all(token, put(rich, item("2", "a", how)), put(rich, item("new "+how)))
			},
			func() error {
				_, err := db.CreateTable(t.Context(), acct, hashTable(how), instant())
				return err
			},
		}
		if how == "cancel" { // of the others it can be told that they are there
			ops = append(ops, func() error { return write(blind(put(plain, item("4", "by", how)))) },
				func() error { return write(remove(rich, "5")) })
		}
		must(t, standby.Crash())
		primary.Await(t, "SELECT count(*) = 0 FROM pg_stat_replication")
		answers := make(chan error, len(ops))
		for _, op := range ops {
			go func() { answers <- op() }()
		}
		const waiting = " FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname LIKE 'test%' AND query NOT LIKE '%extenddb.servers%'"
		const again = " AND query LIKE '%pg_logical_emit_message%'"
		primary.Await(t, fmt.Sprint("SELECT count(*) >= ", len(ops), waiting))
		primary.Await(t, fmt.Sprint("SELECT count(", end, "(pid)) > 0", waiting))
		primary.Await(t, fmt.Sprint("SELECT count(*) >= ", len(ops), waiting, again))
		select {
		case err := <-answers:
			t.Errorf("%s: acknowledged, and a failover may lose it: %v", how, err)
		default:
		}
		must(t, standby.Start())
		for range len(ops) {
			if err := <-answers; err != nil {
				t.Errorf("%s: %v", how, err)
			}
		}
	}
	checkTable(t, mustConnect(t, url), rich)
}

// TestCallerOfUnreplicatedLeaves: who leaves while that is waited for is told
// that nobody knows.
func TestCallerOfUnreplicatedLeaves(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c, err := db.acquire(t.Context())
	must(t, err)
	defer c.Release()
	wireOf(c.Conn()).unreplicated.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var d *doubt
	if err := replicated(ctx, c.Conn()); !errors.As(err, &d) || !errors.Is(err, errUnreplicated) {
		t.Errorf("a caller that left is told %v", err)
	}
	if err := replicated(t.Context(), c.Conn()); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
