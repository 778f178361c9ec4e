// SPDX-License-Identifier: Apache-2.0

//go:build full

package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/test/servers"
)

const failovers = 5

// pair starts a primary and a standby of it, and returns the URL of a database
// of them that leads to whichever is the primary.
func pair(t *testing.T) (primary, standby *servers.PostgreSQL, url string) {
	t.Helper()
	primary = servers.Private(t)
	url = primary.Database(t)
	standby = primary.Standby(t)
	both := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", primary.Port, standby.Port)
	url = strings.Replace(url, fmt.Sprintf("127.0.0.1:%d", primary.Port), both, 1)
	return primary, standby, url + "&target_session_attrs=read-write"
}

// failOver kills the primary and makes the standby one.
func (r *rig) failOver(primary, standby *servers.PostgreSQL) {
	r.t.Helper()
	if err := primary.Crash(); err != nil {
		r.t.Fatal(err)
	}
	r.isReady(http.StatusServiceUnavailable)
	r.refuses()
	standby.Promote(r.t)
	r.isReady(http.StatusOK)
}

// TestFailover: where replication is synchronous, a standby that is promoted
// under load has all that was acknowledged.
func TestFailover(t *testing.T) {
	t.Parallel()
	for range failovers {
		primary, standby, url := pair(t)
		primary.Synchronous(t)
		r := newRig(t, url, url, 2)
		r.mayDoubt = true
		r.under(func() { r.failOver(primary, standby) })
		r.under(func() {})
		r.finish()
	}
}

// TestFailoverLoses: where replication is not synchronous, a standby that was
// behind has lost what was acknowledged since, and nothing else. Servers work on
// with what there is, whatever they remember.
func TestFailoverLoses(t *testing.T) {
	t.Parallel()
	primary, standby, url := pair(t)
	r := newRig(t, url, url, 2)
	r.mayDoubt = true
	r.under(func() {})
	r.tail.stop()
	standby.Unfollow(t, primary)
	r.ledger.lose(true)
	r.start()
	r.await("of those that will be lost")
	r.end()
	must(t, r.http, r.now()[0], "CreateTable", tableOf("lost", "S"), nil)
	for _, srv := range r.now() {
		must(t, r.http, srv, "PutItem", putItem("lost", "a", "0"), nil)
	}
	r.failOver(primary, standby)
	r.ledger.lose(false)
	r.again()
	r.tail = follow(t, url, r.ledger)
	r.under(func() {})
	r.finish()
}

// again makes another table in the place of one that was lost: it has the same
// number.
func (r *rig) again() {
	r.t.Helper()
	must(r.t, r.http, r.now()[0], "CreateTable", tableOf("again", "N"), nil)
	for i, srv := range r.now() {
		must(r.t, r.http, srv, "PutItem", fmt.Sprintf(`{"TableName":"again","Item":{"k":{"N":"%d"}}}`, i), nil)
		for _, operation := range []string{"PutItem", "DescribeTable"} {
			body := putItem("lost", "b", "0")
			if operation == "DescribeTable" {
				body = `{"TableName":"lost"}`
			}
			if a := call(r.http, srv, operation, body); a.kind != "ResourceNotFoundException" {
				r.t.Errorf("%s of a table that was lost: %v", operation, a)
			}
		}
	}
	if items := r.scan(r.now()[0], "again", "", "k"); len(items) != 2 {
		r.t.Errorf("items of two servers: %s", items)
	}
}

// tableOf is the body of CreateTable for a table with the key k.
func tableOf(name, kind string) string {
	return fmt.Sprintf(`{"TableName":%q,"BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],
		"AttributeDefinitions":[{"AttributeName":"k","AttributeType":%q}]}`, name, kind)
}

// lose says whether what is acknowledged from now on will be lost.
func (l *ledger) lose(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lossy = all
}
