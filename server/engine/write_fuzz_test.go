// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"log/slog"
	"testing"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// FuzzWrites sends requests of any shape to every write: nothing may panic, and
// nothing but the service's own errors comes out.
func FuzzWrites(f *testing.F) {
	store := storagetest.NewMemory(10)
	e := New(Options{Storage: store, Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler), Region: "us-east-1", Wake: func() {}})
	for _, def := range writeTables() {
		if _, err := store.CreateTable(context.Background(), auth.DefaultAccount, def, clock.Real{}.Now()); err != nil {
			f.Fatal(err)
		}
	}
	for _, seed := range []string{
		`{"TableName":"hash","Item":{"pk":{"S":"a"}},"Key":{"pk":{"S":"a"}},"ReturnValues":"ALL_OLD","ReturnConsumedCapacity":"INDEXES"}`,
		`{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":"c"}},"Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"ReturnItemCollectionMetrics":"SIZE"}`,
		`{"TableName":"hash","Key":{"pk":{"S":"a"}},"UpdateExpression":"SET l[1] = if_not_exists(a.b, :v) REMOVE c ADD n :n DELETE s :s","ExpressionAttributeValues":{":v":{"L":[]},":n":{"N":"1"},":s":{"SS":["x"]}}}`,
		`{"TableName":"hash","Item":{"pk":{"S":"a"}},"Key":{"pk":{"S":"a"}},"ConditionExpression":"#a = :v OR NOT contains(pk, :v)","ExpressionAttributeNames":{"#a":"pk"},"ExpressionAttributeValues":{":v":{"S":"x"}}}`,
		`{"TableName":"hash","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"x":{"Action":"ADD","Value":{"N":"1"}},"y":{}},"Expected":{"a":{"Exists":false},"b":{"ComparisonOperator":"IN","AttributeValueList":[{"S":"1"}]}},"ConditionalOperator":"OR"}`,
		`{"RequestItems":{"hash":[{"PutRequest":{"Item":{"pk":{"S":"a"}}}},{"DeleteRequest":{"Key":{"pk":{"S":"b"}}}},{}],"comp":[]}}`,
		`{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/hash/index/x","Item":{"":{"N":"1e999"}}}`,
		`{"TableName":null,"Item":null,"Key":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		fuzzOne(t, request, e.PutItem)
		fuzzOne(t, request, e.UpdateItem)
		fuzzOne(t, request, e.DeleteItem)
		fuzzOne(t, request, e.BatchWriteItem)
	})
}

func fuzzOne[T any](t *testing.T, request []byte, op func(context.Context, auth.Identity, *T, *api.Body) error) {
	var in T
	if api.Decode(request, &in) != nil {
		return
	}
	var out api.Body
	if err := op(t.Context(), auth.Anonymous(), &in, &out); err != nil && Fault(err).Status >= 500 {
		t.Errorf("%T %s: %v", in, request, err)
	}
}
