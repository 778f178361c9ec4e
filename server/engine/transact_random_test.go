// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// TestRandomTransactions compares random transactions on few items with a model:
// which of them are cancelled, the reasons, and what is there in the end.
func TestRandomTransactions(t *testing.T) {
	t.Parallel()
	onEachStore(t, writeTables(), func(r *rig) {
		seed := rand.Uint64()
		r.Logf("seed %d", seed)
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		model := map[string]int{} // the attribute v of the items that are there
		done := 0
		for range 600 {
			if g.transaction(r, model) {
				done++
			}
		}
		if done == 0 || done == 600 {
			r.Errorf("%d of 600 transactions were done", done)
		}
		got := map[string]int{}
		for _, it := range r.items("hash") {
			got[it["pk"].S] = it.number("v")
		}
		if fmt.Sprint(got) != fmt.Sprint(model) {
			r.Errorf("items %v, want %v", got, model)
		}
	})
}

// transaction makes one transaction on both sides and reports whether it was
// done.
func (g *generator) transaction(r *rig, model map[string]int) bool {
	next, actions, codes := map[string]int{}, []string{}, []string{}
	for k, v := range model {
		next[k] = v
	}
	failed := false
	for _, i := range g.Perm(6)[:1+g.IntN(4)] {
		pk := strconv.Itoa(i)
		old, present := model[pk]
		condition, holds := g.condition(present)
		key, v := `{"pk":{"S":"`+pk+`"}`, g.IntN(3)
		code := api.ReasonNone
		if !holds {
			code = api.ReasonCondition
		}
		switch g.IntN(4) {
		case 0:
			actions = append(actions, `{"Put":{"TableName":"hash","Item":`+key+`,"v":{"N":"`+strconv.Itoa(v)+`"}}`+condition+`}}`)
			next[pk] = v
		case 1:
			actions = append(actions, `{"Delete":{"TableName":"hash","Key":`+key+`}`+condition+`}}`)
			delete(next, pk)
		case 2:
			if condition == "" {
				condition = `,"ConditionExpression":"attribute_exists(pk) OR attribute_not_exists(pk)"`
			}
			actions = append(actions, `{"ConditionCheck":{"TableName":"hash","Key":`+key+`}`+condition+`}}`)
		default:
			actions = append(actions, `{"Update":{"TableName":"hash","Key":`+key+`},"UpdateExpression":"SET v = v + :one","ExpressionAttributeValues":{":one":{"N":"1"}}`+condition+`}}`)
			next[pk] = old + 1
			if holds && !present { // nothing to add to
				code = api.ReasonValidation
			}
		}
		codes = append(codes, code)
		failed = failed || code != api.ReasonNone
	}
	want := `{}`
	if failed {
		want = canceledText + "[" + strings.Join(codes, ", ") + "]"
	}
	r.want("TransactWriteItems", transact("", actions...), want)
	if failed {
		return false
	}
	clear(model)
	for k, v := range next {
		model[k] = v
	}
	return true
}

// condition returns a random condition, as members of an action, and whether it
// holds for an item.
func (g *generator) condition(present bool) (members string, holds bool) {
	switch g.IntN(6) {
	case 0:
		return `,"ConditionExpression":"attribute_exists(pk)"`, present
	case 1:
		return `,"ConditionExpression":"attribute_not_exists(pk)"`, !present
	case 2:
		return `,"ConditionExpression":"v = pk"`, false // a number is no string
	}
	return "", true
}

// stored is an item of a response.
type stored map[string]struct{ S, N string }

func (s stored) number(attr string) int {
	n, err := strconv.Atoi(s[attr].N)
	if err != nil {
		return -1 << 30
	}
	return n
}

// items reads a whole small table.
func (r *rig) items(table string) []stored {
	r.Helper()
	var page struct{ Items []stored }
	if err := json.Unmarshal([]byte(r.must("Scan", `{"TableName":"`+table+`","ConsistentRead":true}`)), &page); err != nil {
		r.Fatal(err)
	}
	return page.Items
}

const (
	bankAccounts = 6
	bankBalance  = 100 // of each account at first
)

// bank moves money between accounts, which are rows of "idx" found by their
// balance in indexes too; each transfer leaves an entry in "hash".
type bank struct {
	*rig
	mu     sync.Mutex
	done   map[string]bool // transfers, by id
	failed map[string]int  // by the code of the reason
}

func bankAccount(i int) string { return fmt.Sprintf(`{"pk":{"S":"acct"},"sk":{"S":"%d"}}`, i) }

func (b *bank) open() {
	b.Helper()
	for i := range bankAccounts {
		b.must("PutItem", `{"TableName":"idx","Item":`+strings.TrimSuffix(bankAccount(i), "}")+fmt.Sprintf(`,"g":{"S":"money"},"h":{"N":"%d"}}}`, bankBalance))
	}
}

// transfer moves an amount, perhaps sending the request twice.
func (b *bank) transfer(g *generator, id string) {
	accounts := g.Perm(bankAccounts)
	amount := 1 + g.IntN(40)
	move := func(account int, sign, condition string) string {
		return fmt.Sprintf(`{"Update":{"TableName":"idx","Key":%s,"UpdateExpression":"SET h = h %s :by"%s,"ExpressionAttributeValues":{":by":{"N":"%d"}}}}`,
			bankAccount(account), sign, condition, amount)
	}
	request := transact(`,"ClientRequestToken":"`+id+`"`,
		move(accounts[0], "-", `,"ConditionExpression":"h >= :by"`),
		move(accounts[1], "+", ""),
		`{"ConditionCheck":{"TableName":"idx","Key":`+bankAccount(accounts[2])+`,"ConditionExpression":"attribute_exists(pk)"}}`,
		`{"Put":{"TableName":"hash","Item":{"pk":{"S":"`+id+`"}},"ConditionExpression":"attribute_not_exists(pk)"}}`)
	for range 1 + g.IntN(2) {
		_, err := b.try("TransactWriteItems", request)
		switch {
		case err == nil:
			b.note("", id)
		case err.Code == api.CodeCanceled && (err.Reasons[0].Code == api.ReasonCondition || err.Reasons[0].Code == api.ReasonConflict):
			b.note(err.Reasons[0].Code, id)
		default:
			b.Errorf("transfer %s: %v", id, err)
		}
	}
}

// note counts an outcome; success of one transfer counts once.
func (b *bank) note(failure, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if failure != "" {
		b.failed[failure]++
		return
	}
	b.done[id] = true
}

// audit reads all accounts at once.
func (b *bank) audit() {
	gets := make([]string, bankAccounts)
	for i := range gets {
		gets[i] = `{"Get":{"TableName":"idx","Key":` + bankAccount(i) + `}}`
	}
	body, err := b.try("TransactGetItems", transact("", gets...))
	if err != nil {
		if err.Code != api.CodeCanceled {
			b.Errorf("audit: %v", err)
		}
		return
	}
	var got struct{ Responses []struct{ Item stored } }
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		b.Errorf("audit: %v", err)
		return
	}
	sum := 0
	for _, x := range got.Responses {
		n := x.Item.number("h")
		if n < 0 {
			b.Errorf("a balance of %d: %s", n, body)
		}
		sum += n
	}
	if sum != bankAccounts*bankBalance {
		b.Errorf("%d in all accounts: %s", sum, body)
	}
}

// TestTransfers moves money about from many goroutines while others add it up:
// none is made or lost, no balance falls below nothing, and what was sent twice
// was done once.
func TestTransfers(t *testing.T) {
	t.Parallel()
	const workers, each, auditors = 6, 25, 2
	onEachStore(t, writeTables(), func(r *rig) {
		seed := rand.Uint64()
		r.Logf("seed %d", seed)
		b := &bank{rig: r, done: map[string]bool{}, failed: map[string]int{}}
		b.open()
		var movers, watchers sync.WaitGroup
		over := make(chan struct{})
		for w := range workers {
			movers.Go(func() {
				g := &generator{rand.New(rand.NewPCG(seed, uint64(w)))}
				for i := range each {
					b.transfer(g, fmt.Sprintf("%d-%d", w, i))
				}
			})
		}
		for range auditors {
			watchers.Go(func() {
				for {
					b.audit()
					select {
					case <-over:
						return
					default:
					}
				}
			})
		}
		movers.Wait()
		close(over)
		watchers.Wait()
		b.audit()
		entries := map[string]bool{}
		for _, it := range b.items("hash") {
			entries[it["pk"].S] = true
		}
		if fmt.Sprint(entries) != fmt.Sprint(b.done) || len(entries) == 0 {
			b.Errorf("%d transfers were done and %d entries made (refused: %v)", len(b.done), len(entries), b.failed)
		}
		if err := storagetest.CheckEntries(b.Context(), b.store, b.table("idx")); err != nil {
			b.Error(err)
		}
	})
}

// TestWriteSkew has two transactions put an item each where the other's is
// absent, with a plain put of a third one between them: never are both there.
func TestWriteSkew(t *testing.T) {
	t.Parallel()
	const rounds = 60
	onEachStore(t, writeTables(), func(r *rig) {
		one := func(mine, other string) string {
			return transact("", `{"Put":{"TableName":"hash","Item":{"pk":{"S":"`+mine+`"}}}}`,
				`{"ConditionCheck":{"TableName":"hash","Key":{"pk":{"S":"`+other+`"}},"ConditionExpression":"attribute_not_exists(pk)"}}`)
		}
		done := 0
		for i := range rounds {
			x, y := fmt.Sprintf("x%d", i), fmt.Sprintf("y%d", i)
			var wg sync.WaitGroup
			start := make(chan struct{})
			results := make([]string, 2)
			for k, request := range []string{one(x, y), one(y, x)} {
				wg.Go(func() {
					<-start
					results[k] = r.do("TransactWriteItems", request)
				})
			}
			wg.Go(func() {
				<-start
				r.want("PutItem", `{"TableName":"hash","Item":{"pk":{"S":"z"},"n":{"N":"`+strconv.Itoa(i)+`"}}}`, `{}`)
			})
			close(start)
			wg.Wait()
			for k, got := range results {
				if got != `{}` && got != canceledText+"[None, ConditionalCheckFailed]" && got != canceledText+"[TransactionConflict, TransactionConflict]" {
					r.Errorf("round %d, %d: %s", i, k, got)
				}
			}
			body := r.must("TransactGetItems", transact("", getting(`"Key":{"pk":{"S":"`+x+`"}}`), getting(`"Key":{"pk":{"S":"`+y+`"}}`)))
			there := strings.Count(body, `"Item"`)
			if said := strings.Count(strings.Join(results, "\n"), "{}"); there != said || there > 1 {
				r.Fatalf("round %d: %d items are there: %q", i, there, results)
			}
			done += there
		}
		if done == 0 {
			r.Error("no transaction was ever done")
		}
	})
}
