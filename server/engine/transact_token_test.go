// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// tally adds one to the item "n" under a token.
func tally(token, more string) string {
	return transact(`,"ClientRequestToken":"`+token+`"`+more, set("n", "ADD n :v", one))
}

// counted reads what tally has counted.
func (r *rig) counted(want int) {
	r.Helper()
	r.want("GetItem", `{"TableName":"hash","ConsistentRead":true,"Key":{"pk":{"S":"n"}}}`, fmt.Sprintf(`{"Item":{"n":{"N":"%d"},"pk":{"S":"n"}}}`, want))
}

func TestClientRequestToken(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("t", maxTokenLength)
	onEachStore(t, writeTables(), func(r *rig) {
		r.want("TransactWriteItems", tally("a", ""), `{}`)
		r.want("TransactWriteItems", tally("a", ""), `{}`)
		r.counted(1)
		r.want("TransactWriteItems", tally("b", ""), `{}`)
		r.want("TransactWriteItems", tally(long, ""), `{}`)
		r.want("TransactWriteItems", tally(long, ""), `{}`)
		r.counted(3)
		// the whole request counts, also what only changes its answer
		for _, other := range []string{
			tally("a", `,"ReturnConsumedCapacity":"TOTAL"`),
			tally("a", `,"ReturnItemCollectionMetrics":"SIZE"`),
			transact(`,"ClientRequestToken":"a"`, set("n", "ADD n :v", `":v":{"N":"2"}`)),
			transact(`,"ClientRequestToken":"a"`, set("n", "ADD n :v", one), putA),
			transact(`,"ClientRequestToken":"a"`, putA),
		} {
			r.want("TransactWriteItems", other, mismatchText)
		}
		r.counted(3)
		// one that was cancelled leaves its token free
		r.want("TransactWriteItems", transact(`,"ClientRequestToken":"c"`, act("Delete", fails)), canceledText+"[ConditionalCheckFailed]")
		r.want("TransactWriteItems", tally("c", ""), `{}`)
		r.counted(4)
		// another account's token is another one
		var in api.TransactWriteItemsInput
		if err := api.Decode([]byte(tally("a", "")), &in); err != nil {
			r.Fatal(err)
		}
		other := auth.Identity{Account: "111111111111"}
		if _, err := r.store.CreateTable(r.Context(), other.Account, writeTables()[0], r.clock.Now()); err != nil {
			r.Fatal(err)
		}
		if err := r.e.TransactWriteItems(r.Context(), other, &in, &api.Body{}); err != nil {
			r.Errorf("token of another account: %v", err)
		}
		r.counted(4)
		// it is over after ten minutes
		r.clock.Advance(10*time.Minute - time.Millisecond)
		r.want("TransactWriteItems", tally("a", ""), `{}`)
		r.counted(4)
		r.clock.Advance(time.Millisecond)
		r.want("TransactWriteItems", tally("a", ""), `{}`)
		r.counted(5)
	})
}

// TestReplayedTransaction: what was done before costs reads, whatever its items
// have become.
func TestReplayedTransaction(t *testing.T) {
	t.Parallel()
	value := `{"S":"` + strings.Repeat("x", 5000) + `"}`
	onEachStore(t, writeTables(), func(r *rig) {
		request := transact(`,"ClientRequestToken":"a","ReturnConsumedCapacity":"INDEXES"`,
			act("Put", `"Item":{"pk":{"S":"a"},"v":`+value+`},`+absent),
			act("Put", `"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":"g"}}`),
			act("ConditionCheck", `"Key":{"pk":{"S":"no"}},`+absent))
		units := func(kind, n string) string {
			return `"CapacityUnits":` + n + `,"` + kind + `CapacityUnits":` + n
		}
		r.want("TransactWriteItems", request, `{"ConsumedCapacity":[{"TableName":"hash",`+units("Write", "12.0")+`,"Table":{`+units("Write", "12.0")+`}},`+
			`{"TableName":"idx",`+units("Write", "4.0")+`,"Table":{`+units("Write", "2.0")+`},"GlobalSecondaryIndexes":{"some":{`+units("Write", "2.0")+`}}}]}`)
		again := `{"ConsumedCapacity":[{"TableName":"hash",` + units("Read", "6.0") + `,"Table":{` + units("Read", "6.0") + `}},` +
			`{"TableName":"idx",` + units("Read", "2.0") + `,"Table":{` + units("Read", "2.0") + `}}]}`
		r.want("TransactWriteItems", request, again)
		r.must("DeleteItem", `{"TableName":"idx","Key":{"pk":{"S":"a"},"sk":{"S":"b"}}}`)
		r.want("TransactWriteItems", request, again)
	})
}

// TestDigests: requests that mean the same have the same digest, others not.
func TestDigests(t *testing.T) {
	t.Parallel()
	digest := func(request string) [32]byte {
		var in api.TransactWriteItemsInput
		if err := api.Decode([]byte(request), &in); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		return digestTransaction(&in)
	}
	same := []string{
		transact(`,"ClientRequestToken":"x"`, `{"Put":{"TableName":"hash","Item":{"pk":{"S":"a"},"n":{"N":"1.50"}},"ExpressionAttributeNames":{"#a":"b","#c":"d"}}}`),
		`{"ClientRequestToken":"y","Unknown":1,"TransactItems":[{"Delete":null,"Put":{"ExpressionAttributeNames":{"#c":"d","#a":"b"},"Item":{"n":{"N":"15e-1"},"pk":{"S":"a"}},"TableName":"hash"}}]}`,
	}
	if digest(same[0]) != digest(same[1]) {
		t.Error("the order of members or the spelling of a number changes the digest")
	}
	seen := map[[32]byte]string{}
	for _, request := range []string{
		same[0], transact("", putA), transact("", putA, putA), transact("", act("Delete", "")), transact("", act("ConditionCheck", "")),
		transact("", act("Put", `"TableName":"other"`)), transact("", act("Put", exists)), transact("", act("Put", absent)),
		transact("", act("Put", `"ConditionExpression":""`)), transact("", act("Put", `"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`)),
		transact("", act("Put", `"ExpressionAttributeNames":{"#a":"b"}`)), transact("", act("Put", `"ExpressionAttributeNames":{"#b":"a"}`)),
		transact("", act("Put", `"ExpressionAttributeValues":{":a":{"S":"b"}}`)), transact("", act("Put", `"ExpressionAttributeValues":{":a":{"B":"AA=="}}`)),
		transact("", act("Put", `"Item":{"pk":{"S":"ab"}}`)), transact("", act("Update", "")), transact("", act("Update", `"UpdateExpression":"REMOVE x"`)),
		transact(`,"ReturnConsumedCapacity":"TOTAL"`, putA), transact(`,"ReturnItemCollectionMetrics":"TOTAL"`, putA), transact(`,"ReturnConsumedCapacity":""`, putA),
	} {
		d := digest(request)
		if other, twice := seen[d]; twice {
			t.Errorf("one digest for\n%s\n%s", request, other)
		}
		seen[d] = request
	}
}

// TestOneTokenAtOnce sends one request from many goroutines: it is carried out
// once, and all succeed.
func TestOneTokenAtOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, writeTables(), func(r *rig) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if got := r.do("TransactWriteItems", tally("once", "")); got != `{}` {
					r.Errorf("got %s", got)
				}
			})
		}
		wg.Wait()
		r.counted(1)
	})
}

func TestTransactionCapacityAndMetrics(t *testing.T) {
	t.Parallel()
	const metrics = `{"ItemCollectionKey":{"pk":{"S":"%s"}},"SizeEstimateRangeGB":[0.0,1.0]}`
	item := func(pk, sk string) string {
		return act("Put", `"TableName":"idx","Item":{"pk":{"S":"`+pk+`"},"sk":{"S":"`+sk+`"},"l":{"S":"1"}}`)
	}
	play(t, map[string][]call{
		"total": {
			{"TransactWriteItems", transact(`,"ReturnConsumedCapacity":"TOTAL"`, putA, act("ConditionCheck", `"Key":{"pk":{"S":"b"}},`+absent),
				act("Put", `"TableName":"comp","Item":{"pk":{"S":"a"},"sk":{"N":"1"}}`)),
				`{"ConsumedCapacity":[{"TableName":"hash","CapacityUnits":4.0,"WriteCapacityUnits":4.0},{"TableName":"comp","CapacityUnits":2.0,"WriteCapacityUnits":2.0}]}`},
			{"TransactWriteItems", transact(`,"ReturnConsumedCapacity":"NONE"`, act("Delete", "")), `{}`},
		},
		"indexes": {
			{"TransactWriteItems", transact(`,"ReturnConsumedCapacity":"INDEXES"`, item("a", "1"), item("b", "1")),
				`{"ConsumedCapacity":[{"TableName":"idx","CapacityUnits":8.0,"WriteCapacityUnits":8.0,"Table":{"CapacityUnits":4.0,"WriteCapacityUnits":4.0},` +
					`"LocalSecondaryIndexes":{"local":{"CapacityUnits":4.0,"WriteCapacityUnits":4.0}}}]}`},
		},
		"a check costs what its item weighs": {
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"v":{"S":"` + strings.Repeat("x", 3000) + `"}}}`, `{}`},
			{"TransactWriteItems", transact(`,"ReturnConsumedCapacity":"TOTAL"`, act("ConditionCheck", exists)),
				`{"ConsumedCapacity":[{"TableName":"hash","CapacityUnits":6.0,"WriteCapacityUnits":6.0}]}`},
			{"TransactWriteItems", transact(`,"ReturnConsumedCapacity":"TOTAL"`, act("ConditionCheck", fails)), canceledText + "[ConditionalCheckFailed]"},
		},
		"metrics": {
			{"TransactWriteItems", transact(`,"ReturnItemCollectionMetrics":"SIZE","ReturnConsumedCapacity":"TOTAL"`, item("a", "1"), item("b", "1"), item("a", "2"), putA),
				`{"ConsumedCapacity":[{"TableName":"idx","CapacityUnits":12.0,"WriteCapacityUnits":12.0},{"TableName":"hash","CapacityUnits":2.0,"WriteCapacityUnits":2.0}],` +
					`"ItemCollectionMetrics":{"idx":[` + fmt.Sprintf(metrics, "a") + `,` + fmt.Sprintf(metrics, "b") + `]}}`},
			{"TransactWriteItems", transact(`,"ReturnItemCollectionMetrics":"SIZE"`, putA), `{"ItemCollectionMetrics":{}}`},
			{"TransactWriteItems", transact(`,"ReturnItemCollectionMetrics":"NONE"`, item("a", "1")), `{}`},
		},
	})
	r := newRig(t, &sized{testStores()["memory"](t), 0, storage.ErrUnavailable}, writeTables()...)
	r.want("TransactWriteItems", transact(`,"ReturnItemCollectionMetrics":"SIZE"`, item("a", "1")), unavailable)
}
