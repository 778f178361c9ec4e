// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/servers"
)

// freed is how long after a server froze in a transaction others may write what
// it held: the database ends the transaction after 10 s.
const freed = 30 * time.Second

// TestFrozenServer: a server that is frozen in a transaction stops the other one
// from writing what it holds for some seconds, and from nothing else.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	bin, client := proc.Binary(t, t.TempDir()), newClient(t)
	frozen, srv := proc.Start(t, bin, url), proc.Start(t, bin, url, "--postgres-pool", "4")
	for _, table := range []string{"hot", "other"} {
		must(t, client, srv, "CreateTable", fmt.Sprintf(`{"TableName":%q,"BillingMode":"PAY_PER_REQUEST",
			"KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}]}`, table), nil)
		for _, k := range []string{"a", "b"} {
			must(t, client, srv, "PutItem", putItem(table, k, "0"), nil)
		}
	}
	transaction := freezeWithin(t, client, frozen, url)
	began := time.Now()
	var puts sync.WaitGroup
	for i := range 16 {
		puts.Go(func() {
			for {
				a := call(client, srv, "PutItem", putItem("hot", "a", fmt.Sprint(i)))
				if a.err == nil && a.status == http.StatusOK {
					return
				}
				if a.err != nil || a.kind != "TransactionConflictException" && a.status != http.StatusServiceUnavailable || time.Since(began) > freed {
					t.Errorf("a write of what the frozen server holds, %v after: %v", time.Since(began), a)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		puts.Wait()
	}()
	for waiting := true; waiting; {
		for _, c := range []struct{ operation, body string }{
			{"GetItem", `{"TableName":"hot","ConsistentRead":true,"Key":{"k":{"S":"a"}}}`},
			{"PutItem", putItem("other", "a", "1")},
			{"ListTables", `{}`},
		} {
			if a := call(client, srv, c.operation, c.body); a.err != nil || a.status != http.StatusOK {
				t.Errorf("%s beside a frozen server: %v", c.operation, a)
			}
		}
		if status, err := ready(client, srv); err != nil || status != http.StatusOK {
			t.Errorf("/readyz beside a frozen server: %d, %v", status, err)
		}
		select {
		case <-done:
			waiting = false
		default:
		}
	}
	if err := syscall.Kill(frozen.Pid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if a := <-transaction; a.err != nil || a.status != http.StatusOK {
		t.Errorf("the transaction of the server that was frozen: %v", a)
	}
}

func putItem(table, k, n string) string {
	return fmt.Sprintf(`{"TableName":%q,"Item":{"k":{"S":%q},"n":{"S":%q}}}`, table, k, n)
}

// freezeWithin stops a server in a transaction that holds both rows of the table:
// it waits for one of them when it is stopped, and is given that then.
func freezeWithin(t *testing.T, client *http.Client, srv *proc.Server, url string) <-chan answer {
	t.Helper()
	holder, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(t.Context()) //nolint:errcheck // of no more use
	exec := func(sql string) {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	count := func(sql string) (n int) {
		if err := holder.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return n
	}
	id := count("SELECT id FROM extenddb.tables WHERE name = 'hot'")
	exec(fmt.Sprintf("BEGIN; SELECT FROM extenddb_data.t_%d FOR UPDATE", id))
	result := make(chan answer, 1)
	go func() {
		result <- call(client, srv, "TransactWriteItems", fmt.Sprintf(`{"TransactItems":[{"Put":%s},{"Put":%s}]}`, putItem("hot", "a", "t"), putItem("hot", "b", "t")))
	}()
	const waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	for count(waits) == 0 {
	}
	t.Cleanup(func() { _ = syscall.Kill(srv.Pid(), syscall.SIGCONT) }) // or it could not be ended
	if err := syscall.Kill(srv.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	exec("ROLLBACK")
	const idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
	for began := time.Now(); count(idle) == 0; {
		if time.Since(began) > freed {
			t.Fatal("the server is not frozen in its transaction")
		}
	}
	return result
}
