// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/servers"
)

// TestTwoServers: two servers serve one database under load, and tables are
// created, changed, dropped and made anew on one while the other serves them.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	r := newRig(t, url, url, 2)
	r.under(func() {
		var churning sync.WaitGroup
		deadline := time.Now().Add(long)
		for i := range 2 {
			churning.Go(func() {
				c := churn{rig: r, table: fmt.Sprintf("churn-%d", i)}
				for c.lives < 2 || time.Now().Before(deadline) {
					if err := c.live(); err != nil {
						r.ledger.problem("table %s in its life %d: %w", c.table, c.lives, err)
						return
					}
				}
			})
		}
		churning.Wait()
	})
	r.finish()
}

// churn is a table that lives many times, each time with other keys.
type churn struct {
	*rig
	table string
	lives int
}

// expect makes a call of one of the servers, which must answer with a status
// and, when it is no 200, an error of a kind.
func (c *churn) expect(srv *proc.Server, status int, kind, operation, members string) (answer, error) {
	a := call(c.http, srv, operation, fmt.Sprintf(`{"TableName":%q%s}`, c.table, members))
	if a.err != nil || a.status != status || a.kind != kind {
		return a, fmt.Errorf("%s%s, want %d %s: %v", operation, members, status, kind, a)
	}
	return a, nil
}

// step is a call and what must come of it.
type step struct {
	server          int
	status          int
	kind            string
	operation, body string
	contains        string // what the answer must show
}

// live creates the table, uses it on both servers, changes and drops it. What
// one server has answered, the other knows.
func (c *churn) live() error {
	c.lives++
	key, other, kind := "a", "b", "S"
	if c.lives%2 == 0 {
		key, other, kind = "b", "a", "N"
	}
	value := fmt.Sprintf(`{"%s":"%d"}`, kind, c.lives)
	item := fmt.Sprintf(`{%q:%s,"g":{"S":"g"},"life":{"N":"%d"}}`, key, value, c.lives)
	shown := fmt.Sprintf(`"life":{"N":"%d"}`, c.lives)
	one := rand.IntN(2)
	two := 1 - one
	const notFound, invalid = "ResourceNotFoundException", "ValidationException"
	query := `,"IndexName":"by-g","KeyConditionExpression":"g = :g","ExpressionAttributeValues":{":g":{"S":"g"}}`
	if err := c.create(one, key, kind); err != nil {
		return err
	}
	for _, s := range []step{
		{two, 200, "", "Scan", ``, `"Count":0`}, // nothing of the life before
		{two, 200, "", "Query", query, `"Count":0`},
		{two, 200, "", "PutItem", `,"Item":` + item, ``},
		{one, 200, "", "GetItem", fmt.Sprintf(`,"ConsistentRead":true,"Key":{%q:%s}`, key, value), shown},
		{one, 200, "", "Query", query, shown},
		{two, 400, invalid, "GetItem", fmt.Sprintf(`,"Key":{%q:{"S":"x"}}`, other), ``},
		{one, 400, invalid, "PutItem", fmt.Sprintf(`,"Item":{%q:{"S":"x"}}`, other), ``},
		{two, 200, "", "UpdateTable", `,"DeletionProtectionEnabled":true`, ``},
		{one, 400, invalid, "DeleteTable", ``, ``},
		{one, 200, "", "DescribeTable", ``, `"DeletionProtectionEnabled":true`},
		{one, 200, "", "UpdateTable", `,"DeletionProtectionEnabled":false`, ``},
		{two, 200, "", "DeleteTable", ``, ``},
		{one, 400, notFound, "PutItem", `,"Item":` + item, ``},
		{two, 400, notFound, "Query", query, ``},
	} {
		a, err := c.expect(c.now()[s.server], s.status, s.kind, s.operation, s.body)
		if err != nil {
			return err
		}
		if !strings.Contains(string(a.body), s.contains) {
			return fmt.Errorf("%s%s on the other server does not show %s: %v", s.operation, s.body, s.contains, a)
		}
	}
	return nil
}

// create makes the table as soon as the one before is gone.
func (c *churn) create(server int, key, kind string) error {
	body := fmt.Sprintf(`,"BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":%q,"KeyType":"HASH"}],
		"AttributeDefinitions":[{"AttributeName":%q,"AttributeType":%q},{"AttributeName":"g","AttributeType":"S"}],
		"GlobalSecondaryIndexes":[{"IndexName":"by-g","KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}]`, key, key, kind)
	for began := time.Now(); ; rest(10 * time.Millisecond) {
		a, err := c.expect(c.now()[server], http.StatusOK, "", "CreateTable", body)
		if err == nil || a.kind != "ResourceInUseException" || time.Since(began) > time.Minute {
			return err
		}
	}
}
