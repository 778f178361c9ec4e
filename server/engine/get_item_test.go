// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

func TestGetItem(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.standard()
		r.put("solo", `{"pk":{"S":"a"},"m":{"M":{"x":{"N":"1"},"y":{"S":"2"}}},"l":{"L":[{"S":"0"},{"S":"1"},{"S":"2"}]}}`)
		r.put("solo", `{"pk":{"S":"big"},"t":{"S":"`+strings.Repeat("x", 5000)+`"}}`)
		r.put("plain", `{"pk":{"S":"a"},"sk":{"N":"1.50"},"v":{"S":"y"}}`)
		const whole = `{"l":{"L":[{"S":"0"},{"S":"1"},{"S":"2"}]},"m":{"M":{"x":{"N":"1"},"y":{"S":"2"}}},"pk":{"S":"a"}}`
		for _, c := range []struct{ request, want string }{
			{`{"TableName":"solo","Key":{"pk":{"S":"a"}}}`, `{"Item":` + whole + `}`},
			{`{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/solo","Key":{"pk":{"S":"a"}}}`, `{"Item":` + whole + `}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"b"}}}`, `{}`},
			{`{"TableName":"plain","Key":{"sk":{"N":"15e-1"},"pk":{"S":"a"}}}`, `{"Item":{"pk":{"S":"a"},"sk":{"N":"1.5"},"v":{"S":"y"}}}`},
			{`{"TableName":"plain","Key":{"sk":{"N":"1.51"},"pk":{"S":"a"}},"ConsistentRead":true}`, `{}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"a"}},"ProjectionExpression":"m.y, l[2], l[0]"}`, `{"Item":{"l":{"L":[{"S":"0"},{"S":"2"}]},"m":{"M":{"y":{"S":"2"}}}}}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"a"}},"ProjectionExpression":"#n","ExpressionAttributeNames":{"#n":"pk"}}`, `{"Item":{"pk":{"S":"a"}}}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"a"}},"ProjectionExpression":"nothing"}`, `{"Item":{}}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"b"}},"ProjectionExpression":"nothing"}`, `{}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"a"}},"AttributesToGet":["m","nothing"]}`, `{"Item":{"m":{"M":{"x":{"N":"1"},"y":{"S":"2"}}}}}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"big"}},"AttributesToGet":["pk"],"ReturnConsumedCapacity":"TOTAL"}`,
				`{"Item":{"pk":{"S":"big"}},"ConsumedCapacity":{"TableName":"solo","CapacityUnits":1.0}}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"big"}},"AttributesToGet":["pk"],"ReturnConsumedCapacity":"INDEXES","ConsistentRead":true}`,
				`{"Item":{"pk":{"S":"big"}},"ConsumedCapacity":{"TableName":"solo","CapacityUnits":2.0,"Table":{"CapacityUnits":2.0}}}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"b"}},"ReturnConsumedCapacity":"TOTAL"}`, `{"ConsumedCapacity":{"TableName":"solo","CapacityUnits":0.5}}`},
			{`{"TableName":"solo","Key":{"pk":{"S":"b"}},"ReturnConsumedCapacity":"NONE"}`, `{}`},
		} {
			if got := r.must("GetItem", c.request); got != c.want {
				r.Errorf("%s\n got %s\nwant %s", c.request, got, c.want)
			}
		}
	})
}

func TestGetItemRefusals(t *testing.T) {
	t.Parallel()
	const (
		named   = `{"TableName":"solo","Key":{"pk":{"S":"a"}},`
		pattern = ` failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+`
		oneErr  = "1 validation error detected: "
	)
	forReading(t, func(r *reading) {
		r.standard()
		for _, c := range []struct{ request, want string }{
			{`{}`, `2 validation errors detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null; Value null at 'key' failed to satisfy constraint: Member must not be null`},
			{`{"Key":{}}`, oneErr + `Value null at 'tableName' failed to satisfy constraint: Member must not be null`},
			{`{"TableName":"a!b","Key":{}}`, oneErr + `Value 'a!b' at 'tableName'` + pattern},
			{named + `"ReturnConsumedCapacity":"ALL"}`, oneErr + `Value 'ALL' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]`},
			{named + `"AttributesToGet":[]}`, oneErr + `Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have length greater than or equal to 1`},
			{named + `"AttributesToGet":["a"],"ProjectionExpression":"b"}`, "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}"},
			{named + `"AttributesToGet":["a","b","a"]}`, "One or more parameter values were invalid: Duplicate value in attribute name: a"},
			{named + `"ExpressionAttributeNames":{"#a":"b"}}`, "ExpressionAttributeNames can only be specified when using expressions"},
			{named + `"ExpressionAttributeNames":{},"ProjectionExpression":"a"}`, "ExpressionAttributeNames must not be empty"},
			{named + `"ExpressionAttributeNames":{"#a":"b"},"ProjectionExpression":"a"}`, "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}"},
			{named + `"ProjectionExpression":""}`, "Invalid ProjectionExpression: The expression can not be empty;"},
			{named + `"ProjectionExpression":"!!! INVALID !!!"}`, `Invalid ProjectionExpression: Syntax error; token: "!", near: "!!"`},
			{named + `"ProjectionExpression":"#a"}`, "Invalid ProjectionExpression: An expression attribute name used in the document path is not defined; attribute name: #a"},
			{named + `"ProjectionExpression":"a, a"}`, "Invalid ProjectionExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]"},
			{named + `"ProjectionExpression":"pk.x"}`, "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk"},
			{`{"TableName":"solo","Key":{"pk":{"N":"x"}}}`, "The parameter cannot be converted to a numeric value: x"},
			{`{"TableName":"absent","Key":{"pk":{"N":"x"}}}`, "The parameter cannot be converted to a numeric value: x"},
			{`{"TableName":"ab","Key":{"pk":{"S":"x"}}}`, "TableName must be at least 3 characters long and at most 255 characters long"},
			{`{"TableName":"absent","Key":{"pk":{"S":"x"}}}`, "ResourceNotFoundException: Requested resource not found"},
			{`{"TableName":"solo","Key":{}}`, "The provided key element does not match the schema"},
			{`{"TableName":"solo","Key":{"pk":{"N":"1"}}}`, "The provided key element does not match the schema"},
			{`{"TableName":"solo","Key":{"pk":{"S":"1"},"sk":{"S":"1"}}}`, "The provided key element does not match the schema"},
			{`{"TableName":"plain","Key":{"pk":{"S":"1"}}}`, "The provided key element does not match the schema"},
			{`{"TableName":"plain","Key":{"pk":{"S":"1"},"x":{"N":"1"}}}`, "The provided key element does not match the schema"},
			{`{"TableName":"solo","Key":{"pk":{"S":""}}}`, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
			{`{"TableName":"solo","Key":{"pk":{"S":"` + strings.Repeat("x", 2049) + `"}}}`, "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes"},
		} {
			if got := r.refused("GetItem", c.request); got != c.want {
				r.Errorf("%s\n got %s\nwant %s", c.request, got, c.want)
			}
		}
	})
}

// TestDamagedItems: what is stored is not trusted to be an item.
func TestDamagedItems(t *testing.T) {
	t.Parallel()
	p, err := expr.NewProjection([]string{"b"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[]", "{", `{"a":`, `{"a":{"S":"x"}`, `{"b":{"S"`} {
		it := ddb.Item{}
		if err := readAttributes(it, []byte(text), []string{"b"}); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s is read as %v: %v", text, it, err)
		}
		if got, err := projected(nil, []byte(text), p); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s is projected as %s: %v", text, got, err)
		}
		if it, err := storedItem(&storage.Row{Item: []byte(text)}); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s is decoded as %v: %v", text, it, err)
		}
	}
	if err := readAttributes(ddb.Item{}, []byte(`{"b":{"N":"none"}}`), []string{"b"}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("a number that is none: %v", err)
	}
}
