// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
)

// get is the call that reads an item and finds want; "{}" for none.
func get(table, key, want string) call {
	if want != "{}" {
		want = `{"Item":` + want + `}`
	}
	return call{"GetItem", `{"TableName":"` + table + `","ConsistentRead":true,"Key":` + key + `}`, want}
}

func TestPutItem(t *testing.T) {
	t.Parallel()
	const a, ab = `{"pk":{"S":"a"}}`, `{"pk":{"S":"a"},"sk":{"S":"b"}}`
	play(t, map[string][]call{
		"create and replace": {
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"x":{"N":"1.50"}},"ReturnValues":"ALL_OLD"}`, `{}`},
			get("hash", a, `{"pk":{"S":"a"},"x":{"N":"1.5"}}`),
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"y":{"S":""}},"ReturnValues":"ALL_OLD"}`, `{"Attributes":{"pk":{"S":"a"},"x":{"N":"1.5"}}}`},
			get("hash", a, `{"pk":{"S":"a"},"y":{"S":""}}`),
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"y":{"S":""}},"ReturnValues":"ALL_OLD"}`, `{"Attributes":{"pk":{"S":"a"},"y":{"S":""}}}`},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"}},"ReturnValues":"NONE"}`, `{}`},
			get("hash", a, a),
		},
		"by ARN": {
			{"PutItem", `{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/hash","Item":{"pk":{"S":"a"}},"ReturnConsumedCapacity":"TOTAL"}`,
				`{"ConsumedCapacity":{"TableName":"hash","CapacityUnits":1.0}}`},
			get("hash", a, a),
		},
		"condition": {
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"n":{"N":"1"}},"ConditionExpression":"attribute_not_exists(pk)"}`, `{}`},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"n":{"N":"2"}},"ConditionExpression":"attribute_not_exists(pk)"}`, conditionText},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"n":{"N":"2"}},"ConditionExpression":"n = :n","ExpressionAttributeValues":{":n":{"N":"1.0"}}}`, `{}`},
			get("hash", a, `{"n":{"N":"2"},"pk":{"S":"a"}}`),
		},
		"expected": {
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"s":{"S":"active"},"r":{"S":"user"}},"Expected":{"pk":{"Exists":false}}}`, `{}`},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"}},"Expected":{"pk":{"Exists":false}}}`, conditionText},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"}},"Expected":{"s":{"Value":{"S":"active"}},"r":{"Value":{"S":"admin"}}},"ConditionalOperator":"AND"}`, conditionText},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"s":{"S":"hello-world"}},"Expected":{"s":{"Value":{"S":"active"}},"r":{"Value":{"S":"admin"}}},"ConditionalOperator":"OR"}`, `{}`},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"}},"Expected":{"s":{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"S":"hello"}]}}}`, `{}`},
			get("hash", a, a),
		},
		"keys": {
			{"PutItem", `{"TableName":"comp","Item":{"pk":{"S":"a"}}}`, ve + ivp + "Missing the key sk in the item"},
			{"PutItem", `{"TableName":"comp","Item":{}}`, ve + ivp + "Missing the key pk in the item"},
			{"PutItem", `{"TableName":"comp","Item":{"pk":{"N":"1"},"sk":{"N":"1"}}}`, ve + ivp + "Type mismatch for key pk expected: S actual: N"},
			{"PutItem", `{"TableName":"comp","Item":{"pk":{"S":"a"},"sk":{"M":{}}}}`, ve + ivp + "Type mismatch for key sk expected: N actual: M"},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":""}}}`,
				ve + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
			{"PutItem", `{"TableName":"bytes","Item":{"pk":{"B":""},"sk":{"S":"x"}}}`,
				ve + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty binary value. Key: pk"},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"` + strings.Repeat("x", 2049) + `"}}}`, ve + hashTooLong},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"` + strings.Repeat("x", 2048) + `"}}}`, `{}`},
			{"PutItem", `{"TableName":"bytes","Item":{"pk":{"B":"AA=="},"sk":{"S":"` + strings.Repeat("x", 1025) + `"}}}`, ve + rangeTooLong},
			{"PutItem", `{"TableName":"bytes","Item":{"pk":{"B":"AA=="},"sk":{"S":"` + strings.Repeat("x", 1024) + `"}}}`, `{}`},
		},
		"index keys": {
			{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"BOOL":true},"b":{"S":"x"}}}`,
				ve + ivp + "Type mismatch for Index Key g Expected: S Actual: BOOL IndexName: all"},
			{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":""}}}`,
				ve + "One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty string value. IndexName: all, IndexKey: g"},
			{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"b":{"B":""}}}`,
				ve + "One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty binary value. IndexName: keys, IndexKey: b"},
			{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":"` + strings.Repeat("x", 2049) + `"}}}`, ve + hashTooLong},
			{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"l":{"S":"` + strings.Repeat("x", 1025) + `"}}}`, ve + rangeTooLong},
			{"PutItem", `{"TableName":"idx","Item":{"sk":{"S":"b"},"g":{"N":"1"}}}`, ve + ivp + "Missing the key pk in the item"},
			get("idx", ab, `{}`),
		},
		"size": {
			// 2 for the name pk, 1 for its value, 1 for the name v
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"v":{"S":"` + strings.Repeat("x", maxItemSize-4) + `"}}}`, `{}`},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"b"},"v":{"S":"` + strings.Repeat("x", maxItemSize-3) + `"}}}`, ve + "Item size has exceeded the maximum allowed size"},
			get("hash", `{"pk":{"S":"b"}}`, `{}`),
		},
		"depth": {
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"v":` + nested(32) + `}}`, `{}`},
			get("hash", a, `{"pk":{"S":"a"},"v":`+nested(32)+`}`),
		},
	})
}

func TestConditionFailureShowsItem(t *testing.T) {
	t.Parallel()
	onEachStore(t, writeTables(), func(r *rig) {
		r.must("PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"x":{"S":"old"}}}`)
		const failing = `"ConditionExpression":"attribute_exists(nope)"`
		for _, op := range []string{"PutItem", "UpdateItem", "DeleteItem"} {
			for more, want := range map[string]string{
				"": "",
				`,"ReturnValuesOnConditionCheckFailure":"NONE"`:    "",
				`,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`: `{"pk":{"S":"a"},"x":{"S":"old"}}`,
			} {
				_, err := r.try(op, members(op, failing+more))
				if err == nil || err.Code != "ConditionalCheckFailedException" || string(err.Item) != want {
					r.Errorf("%s %s: %v", op, more, err)
				}
			}
			_, err := r.try(op, strings.Replace(members(op, failing+`,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`), `"S":"a"`, `"S":"missing"`, 1))
			if err == nil || err.Code != "ConditionalCheckFailedException" || err.Item != nil {
				r.Errorf("%s of a missing item: %v", op, err)
			}
		}
		r.want("GetItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}}}`, `{"Item":{"pk":{"S":"a"},"x":{"S":"old"}}}`)
	})
}
