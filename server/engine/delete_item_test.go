// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
)

func TestDeleteItem(t *testing.T) {
	t.Parallel()
	const a = `{"pk":{"S":"a"}}`
	put := call{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"x":{"N":"1"}}}`, `{}`}
	play(t, map[string][]call{
		"delete": {
			put,
			{"DeleteItem", `{"TableName":"hash","Key":` + a + `,"ReturnValues":"ALL_OLD"}`, `{"Attributes":{"pk":{"S":"a"},"x":{"N":"1"}}}`},
			get("hash", a, `{}`),
			{"DeleteItem", `{"TableName":"hash","Key":` + a + `,"ReturnValues":"ALL_OLD"}`, `{}`},
			put,
			{"DeleteItem", `{"TableName":"hash","Key":` + a + `}`, `{}`},
			get("hash", a, `{}`),
		},
		"condition": {
			put,
			{"DeleteItem", `{"TableName":"hash","Key":` + a + `,"ConditionExpression":"x = :x","ExpressionAttributeValues":{":x":{"N":"2"}}}`, conditionText},
			{"DeleteItem", `{"TableName":"hash","Key":{"pk":{"S":"b"}},"ConditionExpression":"attribute_exists(pk)"}`, conditionText},
			{"DeleteItem", `{"TableName":"hash","Key":{"pk":{"S":"b"}},"ConditionExpression":"attribute_not_exists(pk)"}`, `{}`},
			{"DeleteItem", `{"TableName":"hash","Key":` + a + `,"Expected":{"x":{"Exists":false}}}`, conditionText},
			get("hash", a, `{"pk":{"S":"a"},"x":{"N":"1"}}`),
			{"DeleteItem", `{"TableName":"hash","Key":` + a + `,"Expected":{"x":{"Exists":true,"Value":{"N":"1"}}}}`, `{}`},
			get("hash", a, `{}`),
		},
		"keys": {
			{"DeleteItem", `{"TableName":"comp","Key":` + a + `}`, schemaText},
			{"DeleteItem", `{"TableName":"comp","Key":{"pk":{"S":"a"},"sk":{"S":"1"}}}`, schemaText},
			{"DeleteItem", `{"TableName":"comp","Key":{"pk":{"S":"a"},"sx":{"N":"1"}}}`, schemaText},
			{"DeleteItem", `{"TableName":"hash","Key":{"pk":{"S":"a"},"x":{"N":"1"}}}`, schemaText},
			{"DeleteItem", `{"TableName":"hash","Key":{"pk":{"SS":["a"]}}}`, schemaText},
			{"DeleteItem", `{"TableName":"hash","Key":{}}`, schemaText},
			{"DeleteItem", `{"TableName":"bytes","Key":{"pk":{"B":"AA=="},"sk":{"S":""}}}`,
				ve + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: sk"},
			{"DeleteItem", `{"TableName":"hash","Key":{"pk":{"S":"` + strings.Repeat("x", 2049) + `"}}}`, ve + hashTooLong},
		},
	})
}
