// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// getting writes an element of a TransactGetItems on the item "a" of "hash"; the
// last of two members counts.
func getting(more string) string {
	s := `{"Get":{"TableName":"hash","Key":{"pk":{"S":"a"}}`
	if more != "" {
		s += "," + more
	}
	return s + `}}`
}

func TestTransactGetItems(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 5000)
	play(t, map[string][]call{
		"all": {
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"m":{"M":{"x":{"N":"1"},"y":{"N":"2"}}}}}`, `{}`},
			{"PutItem", `{"TableName":"comp","Item":{"pk":{"S":"a"},"sk":{"N":"1"},"v":{"S":"` + big + `"}}}`, `{}`},
			{"TransactGetItems", transact("", getting("")), `{"Responses":[{"Item":{"m":{"M":{"x":{"N":"1"},"y":{"N":"2"}}},"pk":{"S":"a"}}}]}`},
			{"TransactGetItems", transact("",
				getting(`"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/comp","Key":{"pk":{"S":"a"},"sk":{"N":"1.0"}},"ProjectionExpression":"sk"`),
				getting(`"Key":{"pk":{"S":"no"}}`),
				getting(`"ProjectionExpression":"#m.x, nope","ExpressionAttributeNames":{"#m":"m"}`)),
				`{"Responses":[{"Item":{"sk":{"N":"1"}}},{},{"Item":{"m":{"M":{"x":{"N":"1"}}}}}]}`},
			// what a projection leaves nothing of is left out
			{"TransactGetItems", transact("", getting(`"ProjectionExpression":"nope"`)), `{"Responses":[{}]}`},
			{"TransactGetItems", transact(`,"ReturnConsumedCapacity":"TOTAL"`, getting(`"Key":{"pk":{"S":"no"}}`), getting(""), getting(`"TableName":"comp","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"ProjectionExpression":"nope"`)),
				`{"ConsumedCapacity":[{"TableName":"hash","CapacityUnits":4.0,"ReadCapacityUnits":4.0},{"TableName":"comp","CapacityUnits":4.0,"ReadCapacityUnits":4.0}],` +
					`"Responses":[{},{"Item":{"m":{"M":{"x":{"N":"1"},"y":{"N":"2"}}},"pk":{"S":"a"}}},{}]}`},
			{"TransactGetItems", transact(`,"ReturnConsumedCapacity":"INDEXES"`, getting(`"Key":{"pk":{"S":"no"}}`)),
				`{"ConsumedCapacity":[{"TableName":"hash","CapacityUnits":2.0,"ReadCapacityUnits":2.0,"Table":{"CapacityUnits":2.0,"ReadCapacityUnits":2.0}}],"Responses":[{}]}`},
		},
	})
}

func TestTransactGetRefusals(t *testing.T) {
	t.Parallel()
	null := func(path string) string {
		return "Value null at 'transactItems." + path + "' failed to satisfy constraint: Member must not be null"
	}
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	gets := make([]string, 101)
	for i := range gets {
		gets[i] = getting(fmt.Sprintf(`"Key":{"pk":{"S":"%d"}}`, i))
	}
	r.want("TransactGetItems", transact("", gets[1:]...), `{"Responses":[`+strings.TrimSuffix(strings.Repeat("{},", 100), ",")+`]}`)
	gets[1] = `{}`
	got := r.do("TransactGetItems", transact("", gets...))
	if !strings.HasPrefix(got, ve1+"Value '[TransactGetItem(get=Get(key={pk=AttributeValue(s=0, n=null, ") || !strings.HasSuffix(got, "]' at 'transactItems'"+maxLength+"100") ||
		!strings.Contains(got, ", tableName=hash, projectionExpression=null)), TransactGetItem(get=null), Tr") {
		t.Errorf("got %.600s", got)
	}
	for _, c := range []struct{ request, want string }{
		{`{}`, ve1 + "Value null at 'transactItems' failed to satisfy constraint: Member must not be null"},
		{transact(""), ve1 + "Value '[]' at 'transactItems'" + minLength + "1"},
		{transact(`,"ReturnConsumedCapacity":"INVALID"`, getting(`"TableName":"none"`)), ve1 + badCapacity},
		{transact(`,"ReturnConsumedCapacity":"INVALID"`, getting(""), getting("")), ve1 + badCapacity},
		{transact("", `{}`, `{"Get":{}}`), ve + "3 validation errors detected: " + null("1.member.get") + "; " + null("2.member.get.key") + "; " + null("2.member.get.tableName")},
		{transact("", getting(`"TableName":"b!d"`)), ve1 + "Value 'b!d' at 'transactItems.1.member.get.tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		{transact("", getting(`"TableName":"ab"`)), ve + "TableName must be at least 3 characters long and at most 255 characters long"},
		{transact("", getting(`"TableName":"none"`), getting(`"ProjectionExpression":"!!!"`)), ve + `Invalid ProjectionExpression: Syntax error; token: "!", near: "!!"`},
		{transact("", getting(`"ProjectionExpression":""`)), ve + "Invalid ProjectionExpression: The expression can not be empty;"},
		{transact("", getting(`"ProjectionExpression":"#a"`)), ve + "Invalid ProjectionExpression: An expression attribute name used in the document path is not defined; attribute name: #a"},
		{transact("", getting(`"ProjectionExpression":"a","ExpressionAttributeNames":{"#a":"b"}`)), ve + "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}"},
		{transact("", getting(`"ExpressionAttributeNames":{"#a":"b"}`)), ve + "ExpressionAttributeNames can only be specified when using expressions"},
		{transact("", getting(`"TableName":"none","Key":{"pk":{"N":"abc"}}`)), ve + "The parameter cannot be converted to a numeric value: abc"},
		{transact("", getting(""), getting(""), getting(`"TableName":"none"`)), notFound},
		{transact("", getting(`"Key":{}`), getting(""), getting("")), ve + sameItemTwice},
		{transact("", getting(`"Key":{"pk":{"S":""}}`)), ve + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
		{transact("", getting(""), getting(`"Key":{}`), getting(`"Key":{"pk":{"N":"1"}}`)), canceledText + "[None, ValidationError, ValidationError]"},
		{transact("", getting(`"ProjectionExpression":"pk.x"`)), canceledText + "[ValidationError]"},
	} {
		r.want("TransactGetItems", c.request, c.want)
	}
}

func TestTransactGetSize(t *testing.T) {
	t.Parallel()
	const n = 11
	value := `{"S":"` + strings.Repeat("x", 399_000) + `"}`
	onEachStore(t, writeTables(), func(r *rig) {
		gets := make([]string, n)
		for i := range gets {
			r.must("PutItem", fmt.Sprintf(`{"TableName":"hash","Item":{"pk":{"S":"%d"},"v":%s}}`, i, value))
			gets[i] = getting(fmt.Sprintf(`"Key":{"pk":{"S":"%d"}},"ProjectionExpression":"pk"`, i))
		}
		if got := r.must("TransactGetItems", transact("", gets[1:]...)); strings.Count(got, `"Item"`) != n-1 {
			r.Errorf("got %.300s", got)
		}
		r.want("TransactGetItems", transact("", gets...), ve+transactionTooBig) // items count, not what is shown of them
		whole := strings.ReplaceAll(transact("", gets[1:]...), `,"ProjectionExpression":"pk"`, "")
		out := api.Body{Grow: func(n int) bool { return n < 1000 }, Work: &scarce{size: 64 << 20, err: api.Unavailable()}}
		if err := run(r, r.e.TransactGetItems)(whole, &out); err == nil || Fault(err).Code != api.CodeUnavailable {
			r.Errorf("without room: %v", err)
		}
	})
}

func TestTransactGetFaults(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		storage.ErrUnavailable:   unavailable,
		storage.ErrTableNotFound: notFound,
		storage.ErrCorrupt:       "InternalServerError: Internal server error",
	} {
		stub := &storagetest.Stub{Engine: testStores()["memory"](t)}
		stub.OnGetAll = func(context.Context, []storage.TableKey, int) ([]*storage.Row, error) { return nil, err }
		newRig(t, stub, writeTables()...).want("TransactGetItems", transact("", getting("")), want)
	}
	stub := &storagetest.Stub{Engine: testStores()["memory"](t)}
	stale := maxStale - 1
	stub.OnGetAll = func(ctx context.Context, ks []storage.TableKey, budget int) ([]*storage.Row, error) {
		if stale--; stale >= 0 {
			return nil, storage.ErrStale
		}
		return stub.Engine.GetAll(ctx, ks, budget)
	}
	newRig(t, stub, writeTables()...).want("TransactGetItems", transact("", getting("")), `{"Responses":[{}]}`)
	// a row that makes no sense
	stub = &storagetest.Stub{Engine: testStores()["memory"](t)}
	stub.OnGetAll = func(_ context.Context, ks []storage.TableKey, _ int) ([]*storage.Row, error) {
		return []*storage.Row{{Key: ks[0].Key, Item: []byte(`{"pk":`), Ver: 1}}, nil
	}
	newRig(t, stub, writeTables()...).want("TransactGetItems", transact("", getting(`"ProjectionExpression":"pk"`)), "InternalServerError: Internal server error")
}
