// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"log/slog"
	"testing"

	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// FuzzTransactions sends requests of any shape to transactions and to what tags
// tables: nothing may panic, and nothing but the service's own errors comes out.
func FuzzTransactions(f *testing.F) {
	store := storagetest.NewMemory(10)
	e := New(Options{Storage: store, Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler), Region: "us-east-1", Wake: func() {}})
	for _, def := range writeTables() {
		if _, err := store.CreateTable(f.Context(), auth.DefaultAccount, def, clock.Real{}.Now()); err != nil {
			f.Fatal(err)
		}
	}
	for _, seed := range []string{
		transact(`,"ClientRequestToken":"t","ReturnConsumedCapacity":"INDEXES","ReturnItemCollectionMetrics":"SIZE"`,
			putA, set("b", "SET v = :v", one), act("Delete", `"Key":{"pk":{"S":"c"}},`+fails+`,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`)),
		transact("", act("ConditionCheck", exists), act("Put", `"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":""}}`)),
		transact("", `{"Put":{},"Delete":{},"Update":{}}`, `{}`, act("Update", `"UpdateExpression":"REMOVE pk"`), putA, putA),
		transact(`,"ReturnConsumedCapacity":"TOTAL"`, getting(""), getting(`"ProjectionExpression":"#a.b[1]","ExpressionAttributeNames":{"#a":"x"}`), `{"Get":null}`),
		`{"TransactItems":[null,[]]}`,
		`{"ResourceArn":"arn:aws:dynamodb:us-east-1:000000000000:table/hash","Tags":[{"Key":"a","Value":"b"},{"Key":"aws:x"},{}],"TagKeys":["a"]}`,
		`{"ResourceArn":"arn:::::table/hash/index/x","Tags":[],"TagKeys":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		fuzzOne(t, request, e.TransactWriteItems)
		fuzzOne(t, request, e.TransactGetItems)
		fuzzOne(t, request, e.TagResource)
		fuzzOne(t, request, e.ListTagsOfResource)
		fuzzOne(t, request, e.UntagResource)
	})
}
