// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/test/proc"
)

const (
	clients  = 12
	hot      = 6   // journals that all clients write at once
	perList  = 200 // writes of a journal, then another begins: items stay small
	perOwner = 15  // items that a client owns
)

// createJournal and createOwned are the tables of the load.
const (
	createJournal = `{"TableName":"journal","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],
		"AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"},{"AttributeName":"grp","AttributeType":"S"},{"AttributeName":"spot","AttributeType":"N"}],
		"GlobalSecondaryIndexes":[
		{"IndexName":"by-grp","KeySchema":[{"AttributeName":"grp","KeyType":"HASH"},{"AttributeName":"spot","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}},
		{"IndexName":"by-spot","KeySchema":[{"AttributeName":"spot","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}]}`
	createOwned = `{"TableName":"owned","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"owner","KeyType":"HASH"},{"AttributeName":"id","KeyType":"RANGE"}],
		"AttributeDefinitions":[{"AttributeName":"owner","AttributeType":"S"},{"AttributeName":"id","AttributeType":"N"},{"AttributeName":"grp","AttributeType":"S"},{"AttributeName":"n","AttributeType":"N"}],
		"GlobalSecondaryIndexes":[
		{"IndexName":"by-grp","KeySchema":[{"AttributeName":"grp","KeyType":"HASH"},{"AttributeName":"n","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}],
		"LocalSecondaryIndexes":[
		{"IndexName":"by-n","KeySchema":[{"AttributeName":"owner","KeyType":"HASH"},{"AttributeName":"n","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}]}`
)

// load is any number of clients that write until they are told to stop.
type load struct {
	t       *testing.T
	http    *http.Client
	ledger  *ledger
	servers func() []*proc.Server // those that serve now
	// doubtful says whether an answer may leave a write in doubt, and none may
	// come at all: something is being broken on purpose.
	mayDoubt, mayDie bool
	limit            time.Duration // of a call

	numbers [clients]int
	stop    chan struct{}
	running sync.WaitGroup
}

func (l *load) start() {
	l.stop = make(chan struct{})
	for c := range clients {
		l.running.Go(func() {
			for !l.stopped() {
				l.one(c)
			}
		})
	}
}

func (l *load) end() {
	close(l.stop)
	l.running.Wait()
}

func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// one makes one call of a client.
func (l *load) one(c int) {
	switch r := rand.IntN(100); {
	case r < 40:
		l.append(c)
	case r < 55:
		l.transact(c)
	case r < 85:
		l.own(c)
	default:
		l.read()
	}
}

// call makes a call of any server and looks at what every answer must be.
func (l *load) call(operation, body string) answer {
	servers := l.servers()
	a := call(l.http, servers[rand.IntN(len(servers))], operation, body)
	l.ledger.mu.Lock()
	l.ledger.slowest = max(l.ledger.slowest, a.took)
	l.ledger.mu.Unlock()
	if a.took > l.limit {
		l.ledger.problem("%s hangs: %v", operation, a)
	}
	if a.err != nil || a.status == http.StatusServiceUnavailable {
		pause, stop := clock.Real{}.After(10 * time.Millisecond) // as a client would
		select {
		case <-pause:
		case <-l.stop:
		}
		stop()
	}
	return a
}

// verdict is what an answer means for a write.
func (l *load) verdict(operation string, a answer) outcome {
	switch {
	case a.err == nil && a.status == http.StatusOK:
		return acked
	case a.err != nil && l.mayDie && a.unsent():
		return refused
	case a.err != nil && l.mayDie:
		return doubt
	case a.status == http.StatusServiceUnavailable && a.kind == "ServiceUnavailable":
		return refused
	case a.status == http.StatusInternalServerError && a.kind == "InternalServerError" && l.mayDoubt:
		return doubt
	case a.status == http.StatusBadRequest && (a.kind == "TransactionConflictException" || a.kind == "TransactionInProgressException" ||
		a.kind == "TransactionCanceledException" && strings.Contains(string(a.body), "TransactionConflict")):
		return refused
	}
	l.ledger.problem("%s: %v", operation, a)
	return doubt
}

// id names the next write of a client.
func (l *load) id(c int) string {
	l.numbers[c]++
	return fmt.Sprintf("c%d %d", c, l.numbers[c])
}

// journal is the key of a journal that has room.
func (l *load) journal(which int) string {
	l.ledger.mu.Lock()
	defer l.ledger.mu.Unlock()
	for g := 0; ; g++ {
		key := fmt.Sprintf("j%d.%d", which, g)
		if l.ledger.done[key] < perList {
			return key
		}
	}
}

// change is an update that appends an id to a journal.
func change(key, id string) string {
	return fmt.Sprintf(`"TableName":"journal","Key":{"id":{"S":%q}},`+
		`"UpdateExpression":"SET ops = list_append(if_not_exists(ops, :none), :op), grp = :g, spot = :a ADD n :one",`+
		`"ExpressionAttributeValues":{":none":{"L":[]},":op":{"L":[{"S":%q}]},":g":{"S":"g%d"},":a":{"N":"%d"},":one":{"N":"1"}}`,
		key, id, rand.IntN(3), rand.IntN(1000))
}

func (l *load) append(c int) {
	key, id := l.journal(rand.IntN(hot)), l.id(c)
	l.ledger.record(id, []string{key}, l.verdict("UpdateItem", l.call("UpdateItem", "{"+change(key, id)+"}")))
}

// transact changes some journals at once, in any order: two of these wait for
// each other the wrong way round. With a token, one that was refused or is in
// doubt is asked for again.
func (l *load) transact(c int) {
	id := l.id(c)
	var keys, parts []string
	for _, which := range rand.Perm(hot)[:2+rand.IntN(3)] {
		key := l.journal(which)
		keys, parts = append(keys, key), append(parts, `{"Update":{`+change(key, id)+`}}`)
	}
	body := `{"TransactItems":[` + strings.Join(parts, ",") + `]`
	if rand.IntN(2) == 0 {
		l.ledger.record(id, keys, l.verdict("TransactWriteItems", l.call("TransactWriteItems", body+"}")))
		return
	}
	body += fmt.Sprintf(`,"ClientRequestToken":"%s-%d"}`, strings.ReplaceAll(id, " ", "-"), rand.Uint32())
	o := refused
	for range 20 {
		switch l.verdict("TransactWriteItems", l.call("TransactWriteItems", body)) {
		case acked:
			l.ledger.record(id, keys, acked)
			return
		case doubt:
			o = doubt
		}
		if l.stopped() {
			break
		}
	}
	l.ledger.record(id, keys, o)
}

// own puts or deletes an item of the client's own.
func (l *load) own(c int) {
	i := rand.IntN(perOwner)
	key := fmt.Sprintf("c%d/%d", c, i)
	if !l.ledger.usable(key) {
		return
	}
	l.numbers[c]++
	n := l.numbers[c]
	operation := "PutItem"
	body := fmt.Sprintf(`{"TableName":"owned","Item":{"owner":{"S":"c%d"},"id":{"N":"%d"},"n":{"N":"%d"},"grp":{"S":"g%d"},"pad":{"S":"%0300d"}}}`, c, i, n, n%7, n)
	if rand.IntN(4) == 0 {
		n, operation = absent, "DeleteItem"
		body = fmt.Sprintf(`{"TableName":"owned","Key":{"owner":{"S":"c%d"},"id":{"N":"%d"}}}`, c, i)
	}
	l.ledger.recordOwned(key, n, l.verdict(operation, l.call(operation, body)))
}

// journalItem is an item of the table of journals.
type journalItem struct {
	ID  struct{ S string } `json:"id"`
	Ops struct {
		L []struct{ S string }
	} `json:"ops"`
	N struct{ N string } `json:"n"`
}

func (it journalItem) ids() (ids []string) {
	for _, o := range it.Ops.L {
		ids = append(ids, o.S)
	}
	return ids
}

// read gets a journal: everything acknowledged before is in it.
func (l *load) read() {
	key := l.journal(rand.IntN(hot))
	want := l.ledger.ackedIn(key)
	a := l.call("GetItem", fmt.Sprintf(`{"TableName":"journal","Key":{"id":{"S":%q}},"ConsistentRead":true}`, key))
	switch {
	case a.err == nil && a.status == http.StatusOK:
	case a.err != nil && l.mayDie, a.status == http.StatusServiceUnavailable && a.kind == "ServiceUnavailable":
		return
	default:
		l.ledger.problem("GetItem: %v", a)
		return
	}
	var got struct{ Item journalItem }
	if err := json.Unmarshal(a.body, &got); err != nil {
		l.ledger.problem("GetItem: %w in %s", err, a.body)
		return
	}
	ids := got.Item.ids()
	for _, id := range want {
		if !slices.Contains(ids, id) {
			l.ledger.problem("write %s of journal %s was acknowledged, and a later read does not show it", id, key)
		}
	}
}
