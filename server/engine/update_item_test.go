// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
)

// upd is an UpdateItem of the item "a" of table "hash" (of "idx" with sort key
// "b" when told so), with an expression and what else the request has.
func upd(expression, more, want string) call {
	return call{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"UpdateExpression":"` + expression + `"` + more + `}`, want}
}

func values(v string) string { return `,"ExpressionAttributeValues":{` + v + `}` }

func TestUpdateItem(t *testing.T) {
	t.Parallel()
	const a = `{"pk":{"S":"a"}}`
	put := func(attrs string) call {
		return call{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},` + attrs + `}}`, `{}`}
	}
	play(t, map[string][]call{
		"creates": {
			upd("SET x = :v", values(`":v":{"S":"new"}`), `{}`),
			get("hash", a, `{"pk":{"S":"a"},"x":{"S":"new"}}`),
		},
		"no action creates the bare key": {
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"ReturnValues":"ALL_NEW"}`, `{"Attributes":{"pk":{"S":"a"}}}`},
			get("hash", a, a),
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"b"}},"AttributeUpdates":{}}`, `{}`},
			get("hash", `{"pk":{"S":"b"}}`, `{"pk":{"S":"b"}}`),
		},
		"no action leaves an item alone": {
			put(`"x":{"N":"1"}`),
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"ReturnValues":"ALL_OLD"}`, `{"Attributes":{"pk":{"S":"a"},"x":{"N":"1"}}}`},
			get("hash", a, `{"pk":{"S":"a"},"x":{"N":"1"}}`),
		},
		"removing only creates nothing": {
			upd("REMOVE x", `,"ReturnValues":"ALL_NEW"`, `{}`),
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"x":{"Action":"DELETE"}}}`, `{}`},
			get("hash", a, `{}`),
			upd("REMOVE x", `,"ReturnConsumedCapacity":"TOTAL"`, `{"ConsumedCapacity":{"TableName":"hash","CapacityUnits":1.0}}`),
			get("hash", a, `{}`),
		},
		"arithmetic": {
			put(`"n":{"N":"10"}`),
			upd("SET n = n + :v, m = if_not_exists(m, :v) - :v", values(`":v":{"N":"5"}`), `{}`),
			upd("ADD k :v, n :v", values(`":v":{"N":"0.5"}`), `{}`),
			get("hash", a, `{"k":{"N":"0.5"},"m":{"N":"0"},"n":{"N":"15.5"},"pk":{"S":"a"}}`),
			upd("SET n = n + :v", values(`":v":{"N":"9.9e125"}`), ve+"Attempting to store more than 38 significant digits in a Number"),
			upd("SET n = :v + :v", values(`":v":{"N":"9.9e125"}`), ve+"Number overflow. Attempting to store a number with magnitude larger than supported range"),
			upd("SET n = n + :v", values(`":v":{"S":"x"}`), ve1+"Invalid UpdateExpression: Incorrect operand type for operator or function; operator or function: +, operand type: S"),
		},
		"sets": {
			put(`"s":{"SS":["a","b"]}`),
			upd("ADD s :v", values(`":v":{"SS":["b","c"]}`), `{}`),
			upd("DELETE s :v", values(`":v":{"SS":["a","x"]}`), `{}`),
			get("hash", a, `{"pk":{"S":"a"},"s":{"SS":["b","c"]}}`),
			upd("DELETE s :v", values(`":v":{"SS":["b","c"]}`), `{}`),
			get("hash", a, a),
		},
		"clauses read the item as it was": {
			put(`"x":{"N":"1"},"y":{"N":"2"},"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"}]}`),
			upd("SET x = y, y = x REMOVE l[0], l[1]", "", `{}`),
			get("hash", a, `{"l":{"L":[{"N":"2"}]},"pk":{"S":"a"},"x":{"N":"2"},"y":{"N":"1"}}`),
		},
		"paths": {
			put(`"m":{"M":{"k":{"S":"v"}}},"l":{"L":[]}`),
			upd("SET m.k = :v, l[7] = :v", values(`":v":{"N":"1"}`), `{}`),
			get("hash", a, `{"l":{"L":[{"N":"1"}]},"m":{"M":{"k":{"N":"1"}}},"pk":{"S":"a"}}`),
			upd("SET nope.x = :v", values(`":v":{"N":"1"}`), ve+"The document path provided in the update expression is invalid for update"),
			upd("SET m[0] = :v", values(`":v":{"N":"1"}`), ve+"The document path provided in the update expression is invalid for update"),
			upd("SET x = nope", "", ve+"The provided expression refers to an attribute that does not exist in the item"),
			upd("ADD m.k :v", values(`":v":{"SS":["a"]}`), ve+"An operand in the update expression has an incorrect data type"),
			upd("REMOVE m.nope", "", `{}`),
			upd("SET m.k = :v, m = :v", values(`":v":{"N":"1"}`),
				ve1+"Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [m, k], path two: [m]"),
			get("hash", a, `{"l":{"L":[{"N":"1"}]},"m":{"M":{"k":{"N":"1"}}},"pk":{"S":"a"}}`),
		},
		"depth": {
			put(`"m":{"M":{"k":{"S":"v"}}}`),
			upd("SET m.k = :v", values(`":v":`+nested(31)), `{}`),
			upd("SET m.k = :v", values(`":v":`+nested(32)), ve+tooDeep),
			get("hash", a, `{"m":{"M":{"k":`+nested(31)+`}},"pk":{"S":"a"}}`),
		},
		"return values": {
			put(`"x":{"N":"1"},"y":{"S":"keep"},"m":{"M":{"a":{"N":"1"},"b":{"N":"2"}}}`),
			upd("SET x = :v, m.a = :v", `,"ReturnValues":"UPDATED_OLD"`+values(`":v":{"N":"2"}`), `{"Attributes":{"m":{"M":{"a":{"N":"1"}}},"x":{"N":"1"}}}`),
			upd("SET x = :v, m.a = :v", `,"ReturnValues":"UPDATED_NEW"`+values(`":v":{"N":"3"}`), `{"Attributes":{"m":{"M":{"a":{"N":"3"}}},"x":{"N":"3"}}}`),
			upd("REMOVE x", `,"ReturnValues":"UPDATED_NEW"`, `{}`),
			upd("SET x = :v", `,"ReturnValues":"UPDATED_OLD"`+values(`":v":{"N":"4"}`), `{}`),
			upd("SET x = :v", `,"ReturnValues":"ALL_OLD"`+values(`":v":{"N":"5"}`),
				`{"Attributes":{"m":{"M":{"a":{"N":"3"},"b":{"N":"2"}}},"pk":{"S":"a"},"x":{"N":"4"},"y":{"S":"keep"}}}`),
			upd("REMOVE x, m", `,"ReturnValues":"ALL_NEW"`, `{"Attributes":{"pk":{"S":"a"},"y":{"S":"keep"}}}`),
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"b"}},"ReturnValues":"ALL_OLD"}`, `{}`},
		},
		"condition": {
			upd("SET x = :v", `,"ConditionExpression":"attribute_exists(pk)"`+values(`":v":{"N":"1"}`), conditionText),
			get("hash", a, `{}`),
			upd("SET x = :v", `,"ConditionExpression":"attribute_not_exists(pk)"`+values(`":v":{"N":"1"}`), `{}`),
			upd("SET x = nope", `,"ConditionExpression":"attribute_not_exists(pk)"`, conditionText),
			get("hash", a, `{"pk":{"S":"a"},"x":{"N":"1"}}`),
		},
		"legacy": {
			put(`"n":{"N":"10"},"s":{"SS":["a","b"]},"x":{"S":"old"},"gone":{"S":"x"}`),
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"n":{"Action":"ADD","Value":{"N":"5"}},"s":{"Action":"DELETE","Value":{"SS":["a"]}},` +
				`"x":{"Value":{"S":"new"}},"gone":{"Action":"DELETE"}},"Expected":{"x":{"Value":{"S":"old"}}},"ReturnValues":"ALL_NEW"}`,
				`{"Attributes":{"n":{"N":"15"},"pk":{"S":"a"},"s":{"SS":["b"]},"x":{"S":"new"}}}`},
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"n":{"Action":"ADD","Value":{"SS":["x"]}}}}`, ve + "Type mismatch for attribute to update"},
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"x":{"Action":"ADD","Value":{"S":"x"}}}}`, ve1 + ivp + "ADD action is not supported for the type S"},
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"x":{"Action":"DELETE","Value":{"S":"x"}}}}`, ve1 + ivp + "DELETE action with value is not supported for the type S"},
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"pk":{"Value":{"S":"x"}}}}`, ve + ivp + "Cannot update attribute pk. This attribute is part of the key"},
			{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"x":{"Value":{"S":"n"}}},"Expected":{"x":{"Value":{"S":"old"}}}}`, conditionText},
		},
		"keys": {
			upd("SET pk = :v", values(`":v":{"S":"b"}`), ve+ivp+"Cannot update attribute pk. This attribute is part of the key"),
			upd("REMOVE pk", "", ve+ivp+"Cannot update attribute pk. This attribute is part of the key"),
			upd("SET pk.x = :v", values(`":v":{"S":"b"}`), ve+"Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk"),
			{"UpdateItem", `{"TableName":"comp","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"UpdateExpression":"SET sk = :v","ExpressionAttributeValues":{":v":{"N":"2"}}}`,
				ve + ivp + "Cannot update attribute sk. This attribute is part of the key"},
			{"UpdateItem", `{"TableName":"comp","Key":{"pk":{"S":"a"}}}`, schemaText},
		},
		"size": {
			put(`"v":{"S":"` + strings.Repeat("x", maxItemSize-10) + `"}`),
			upd("SET w = :v", values(`":v":{"S":"12345"}`), `{}`),
			upd("SET w = :v", values(`":v":{"S":"123456"}`), ve+"Item size to update has exceeded the maximum allowed size"),
			upd("SET w = :v REMOVE v", values(`":v":{"S":"123456"}`), `{}`),
			get("hash", a, `{"pk":{"S":"a"},"w":{"S":"123456"}}`),
		},
	})
}

func TestUpdateIndexKeys(t *testing.T) {
	t.Parallel()
	const key = `{"pk":{"S":"a"},"sk":{"S":"b"}}`
	up := func(expression, more, want string) call {
		return call{"UpdateItem", `{"TableName":"idx","Key":` + key + `,"UpdateExpression":"` + expression + `"` + more + `}`, want}
	}
	const failing = `,"ConditionExpression":"attribute_exists(nope)"`
	play(t, map[string][]call{
		"all": {
			{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":"G"},"o":{"N":"1"}}}`, `{}`},
			up("SET g = :v", values(`":v":{"N":"1"}`), ve+ivp+"Type mismatch for Index Key g Expected: S Actual: N IndexName: all"),
			up("SET g = :v", values(`":v":{"S":""}`),
				ve+"One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty string value."),
			up("SET b = :v", values(`":v":{"B":""}`),
				ve+"One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty binary value."),
			up("SET l = :v", values(`":v":{"S":"`+strings.Repeat("x", 1025)+`"}`), ve+rangeTooLong),
			up("SET g.x = :v", values(`":v":{"S":"x"}`), ve+"Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: IndexKey: g"),
			// what the request itself spoils is found before the condition, what the item spoils after it
			up("SET g = :v", failing+values(`":v":{"N":"1"}`), ve+ivp+"Type mismatch for Index Key g Expected: S Actual: N IndexName: all"),
			up("SET g = o", failing, conditionText),
			up("SET g = o", "", ve+ivp+"Type mismatch for Index Key g Expected: S Actual: N IndexName: all"),
			{"UpdateItem", `{"TableName":"idx","Key":` + key + `,"AttributeUpdates":{"g":{"Value":{"N":"1"}}}}`, ve + ivp + "Type mismatch for Index Key g Expected: S Actual: N IndexName: all"},
			get("idx", key, `{"g":{"S":"G"},"o":{"N":"1"},"pk":{"S":"a"},"sk":{"S":"b"}}`),
			up("REMOVE g SET x = :v", values(`":v":{"N":"1"}`), `{}`),
			get("idx", key, `{"o":{"N":"1"},"pk":{"S":"a"},"sk":{"S":"b"},"x":{"N":"1"}}`),
		},
	})
}
