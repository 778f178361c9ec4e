// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// Texts of several tests.
const (
	ve            = "ValidationException: "
	ve1           = ve + "1 validation error detected: "
	ivp           = "One or more parameter values were invalid: "
	notFound      = "ResourceNotFoundException: Requested resource not found"
	unavailable   = "ServiceUnavailable: The service is temporarily unavailable, try again"
	conditionText = "ConditionalCheckFailedException: The conditional request failed"
	badCapacity   = "Value 'INVALID' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
	badReturns    = "Failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]"
	badMetrics    = "Value 'INVALID' at 'returnItemCollectionMetrics' failed to satisfy constraint: Member must satisfy enum value set: [SIZE, NONE]"
	schemaText    = ve + "The provided key element does not match the schema"
)

// writeTables are the tables of the tests of writes.
func writeTables() []ddb.TableDefinition {
	return []ddb.TableDefinition{
		testTable("hash", "pk:S"),
		testTable("comp", "pk:S/sk:N"),
		testTable("bytes", "pk:B/sk:S"),
		testTable("idx", "pk:S/sk:S",
			testIndex{"all", "g:S/h:N", "ALL"},
			testIndex{"keys", "b:B", "KEYS_ONLY"},
			testIndex{"some", "g:S", "x,y"},
			testIndex{"multi", "m1:S,m2:N/m3:S,m4:S", "KEYS_ONLY"},
			testIndex{"local", "/l:S", "ALL"}),
	}
}

// call is a request and what it answers.
type call struct{ op, request, want string }

// play makes the calls of named scenarios one after the other, each scenario on
// fresh tables of each engine.
func play(t *testing.T, scenarios map[string][]call) {
	t.Helper()
	for name, calls := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, writeTables(), func(r *rig) {
				for _, c := range calls {
					r.want(c.op, c.request, c.want)
				}
			})
		})
	}
}

// members joins members of a JSON object that has TableName "hash" and a key.
func members(op, more string) string {
	object := "Key"
	if op == "PutItem" {
		object = "Item"
	}
	s := `{"TableName":"hash","` + object + `":{"pk":{"S":"a"}}`
	if more != "" {
		s += "," + more
	}
	return s + "}"
}

// TestWriteMembers checks what Put, Update and Delete refuse in the request
// alone, and that they agree where they should.
func TestWriteMembers(t *testing.T) {
	t.Parallel()
	const conditionEmpty = `"ConditionExpression":""`
	long := strings.Repeat("a", 256)
	name := func(s string) string { return `"TableName":"` + s + `"` }
	all := []string{"PutItem", "UpdateItem", "DeleteItem"}
	cases := []struct {
		ops        []string
		more, want string
	}{
		{all, name(""), ve1 + "Value '' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{all, name("") + `,"ReturnValues":"INVALID","ReturnConsumedCapacity":"INVALID"`,
			ve1 + "Value '' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{all, `"TableName":null`, ve1 + "Value null at 'tableName' failed to satisfy constraint: Member must not be null"},
		{all, name(long), ve1 + "Value '" + long + "' at 'tableName' failed to satisfy constraint: Member must have length less than or equal to 255"},
		{all, name("bad table!@#"), ve1 + "Value 'bad table!@#' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		{all, name("none"), notFound},
		{all, name("arn:aws:dynamodb:us-east-1:000000000000:table/none"), notFound},
		{[]string{"PutItem"}, `"ReturnConsumedCapacity":"INVALID","ReturnValues":"INVALID","ReturnItemCollectionMetrics":"INVALID"`,
			ve + "3 validation errors detected: " + badCapacity + "; " + badReturns + "; " + badMetrics},
		{[]string{"DeleteItem"}, `"ReturnConsumedCapacity":"INVALID","ReturnValues":"INVALID"`,
			ve + "2 validation errors detected: " + badCapacity + "; " + badReturns},
		{[]string{"UpdateItem"}, `"ReturnConsumedCapacity":"INVALID","ReturnValues":"INVALID"`, ve1 + badReturns},
		{all, `"ReturnConsumedCapacity":"INVALID"`, ve1 + badCapacity},
		{all, `"ReturnItemCollectionMetrics":"INVALID"`, ve1 + badMetrics},
		{all, `"ReturnConsumedCapacity":"INVALID",` + name("none"), ve1 + badCapacity},
		{all, `"ReturnValuesOnConditionCheckFailure":"ALL_NEW"`,
			ve1 + "Value 'ALL_NEW' at 'returnValuesOnConditionCheckFailure' failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, NONE]"},
		{all, `"Expected":{"a":{"ComparisonOperator":"XX"}}`,
			ve1 + "Value 'XX' at 'expected.a.member.comparisonOperator' failed to satisfy constraint: Member must satisfy enum value set: " +
				"[IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS]"},
		{[]string{"UpdateItem"}, `"AttributeUpdates":{"a":{"Action":"SET","Value":{"S":"x"}}}`,
			ve1 + "Value 'SET' at 'attributeUpdates.a.member.action' failed to satisfy constraint: Member must satisfy enum value set: [ADD, PUT, DELETE]"},
		{[]string{"PutItem", "DeleteItem"}, `"ReturnValues":"ALL_NEW"`, ve1 + "ReturnValues can only be ALL_OLD or NONE"},
		{[]string{"PutItem", "DeleteItem"}, `"ReturnValues":"UPDATED_NEW",` + name("none"), ve1 + "ReturnValues can only be ALL_OLD or NONE"},

		{[]string{"PutItem", "DeleteItem"}, `"Expected":{"a":{"Exists":false}},` + conditionEmpty,
			ve1 + "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {Expected} Expression parameters: {ConditionExpression}"},
		{[]string{"UpdateItem"}, `"AttributeUpdates":{"a":{"Action":"DELETE"}},"Expected":{"a":{"Exists":false}},"UpdateExpression":"",` + conditionEmpty,
			ve1 + "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {AttributeUpdates, Expected} Expression parameters: {UpdateExpression, ConditionExpression}"},
		{[]string{"PutItem", "DeleteItem"}, `"ExpressionAttributeValues":{":v":{"S":"x"}}`, ve1 + "ExpressionAttributeValues can only be specified when using expressions"},
		{all, `"ExpressionAttributeNames":{"#a":"x"}`, ve1 + "ExpressionAttributeNames can only be specified when using expressions"},
		{[]string{"UpdateItem"}, `"ExpressionAttributeValues":{":v":{"S":"x"}}`,
			ve1 + "ExpressionAttributeValues can only be specified when using expressions: UpdateExpression and ConditionExpression are null"},
		{all, `"ConditionExpression":"a = :v","ExpressionAttributeValues":{}`, ve1 + "ExpressionAttributeValues must not be empty"},
		{all, `"ConditionExpression":"a = :v","ExpressionAttributeNames":{}`, ve1 + "ExpressionAttributeNames must not be empty"},
		{all, `"ConditionExpression":"a = :v","ExpressionAttributeValues":{"v":{"S":"x"}}`, ve1 + `ExpressionAttributeValues contains invalid key: Syntax error; key: "v"`},
		{all, conditionEmpty, ve1 + "Invalid ConditionExpression: The expression can not be empty;"},
		{all, `"ConditionExpression":"a = = b"`, ve1 + `Invalid ConditionExpression: Syntax error; token: "=", near: "= = b"`},
		{all, `"ConditionExpression":"a = :v"`, ve1 + "Invalid ConditionExpression: An expression attribute value used in expression is not defined; attribute value: :v"},
		{all, `"ConditionExpression":"#a = :v","ExpressionAttributeValues":{":v":{"S":"x"}}`,
			ve1 + "Invalid ConditionExpression: An expression attribute name used in the document path is not defined; attribute name: #a"},
		{all, `"ConditionExpression":"a = :v","ExpressionAttributeValues":{":v":{"S":"x"},":w":{"S":"x"}}`,
			ve1 + "Value provided in ExpressionAttributeValues unused in expressions: keys: {:w}"},
		{all, `"ConditionExpression":"a = :v","ExpressionAttributeNames":{"#b":"b"},"ExpressionAttributeValues":{":v":{"S":"x"}}`,
			ve1 + "Value provided in ExpressionAttributeNames unused in expressions: keys: {#b}"},
		{all, `"ConditionExpression":"pk.x = :v","ExpressionAttributeValues":{":v":{"S":"x"}}`,
			ve + "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk"},

		{all, `"Expected":{"a":{"Exists":true}}`, ve1 + ivp + "Value must be provided when Exists is true for Attribute: a"},
		{all, `"Expected":{"a":{}}`, ve1 + ivp + "Value must be provided when Exists is null for Attribute: a"},
		{all, `"Expected":{"a":{"Exists":false,"Value":{"S":"x"}}}`, ve1 + ivp + "Value cannot be used when Exists is false for Attribute: a"},
		{all, `"Expected":{"a":{"Value":{"S":"x"},"AttributeValueList":[{"S":"x"}],"ComparisonOperator":"EQ"}}`,
			ve1 + ivp + "Value and AttributeValueList cannot be used together for Attribute: a"},
		{all, `"Expected":{"a":{"ComparisonOperator":"EQ"}}`, ve1 + ivp + "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a"},
		{all, `"Expected":{"a":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"S":"x"}]}}`,
			ve1 + ivp + "Invalid number of argument(s) for the BETWEEN ComparisonOperator"},
		{all, `"Expected":{"a":{"Value":{"S":"x"}}},"ConditionalOperator":"AND"`,
			ve1 + "ConditionalOperator can only be used when Filter or Expected has two or more elements"},
		{all, `"ConditionalOperator":"AND"`, ve1 + "ConditionalOperator cannot be used without Filter or Expected"},
		{all, `"Expected":{"a":{"Exists":false},"b":{"Exists":false}},"ConditionalOperator":"XOR"`,
			ve1 + "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"},
	}
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	for _, c := range cases {
		for _, op := range c.ops {
			r.want(op, members(op, c.more), c.want)
		}
	}
}

func TestWriteWithoutObject(t *testing.T) {
	t.Parallel()
	const key = "Value null at 'key' failed to satisfy constraint: Member must not be null"
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	for _, c := range []call{
		{"PutItem", `{"TableName":"hash"}`, ve1 + "Value null at 'item' failed to satisfy constraint: Member must not be null"},
		{"DeleteItem", `{"TableName":"hash"}`, ve1 + key},
		{"UpdateItem", `{"TableName":"hash"}`, ve1 + key},
		{"UpdateItem", `{}`, ve + "2 validation errors detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null; " + key},
		{"UpdateItem", `{"TableName":""}`,
			ve + "2 validation errors detected: Value '' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 1; " + key},
		{"UpdateItem", `{"TableName":"","ReturnValues":"BOGUS","ReturnConsumedCapacity":"INVALID","ConditionalOperator":"XOR"}`,
			ve + "5 validation errors detected: Value 'XOR' at 'conditionalOperator' failed to satisfy constraint: Member must satisfy enum value set: [OR, AND]; " +
				badCapacity + "; Value '' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 1; " +
				"Value 'BOGUS' at 'returnValues' failed to satisfy constraint: Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]; " + key},
	} {
		r.want(c.op, c.request, c.want)
	}
}

// TestWriteOrder checks which of two faults a write reports.
func TestWriteOrder(t *testing.T) {
	t.Parallel()
	const (
		badNumber = `{"N":"abc"}`
		number    = ve1 + "The parameter cannot be converted to a numeric value: abc"
	)
	big := `{"S":"` + strings.Repeat("x", maxItemSize) + `"}`
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	for _, c := range []call{
		// members before everything
		{"PutItem", `{"TableName":"none","Item":{"pk":` + badNumber + `},"ReturnValues":"INVALID"}`, ve1 + badReturns},
		// mix, expression parameters, item values, ReturnValues, item size, Expected, expressions, table
		{"PutItem", `{"TableName":"none","Item":{"pk":` + badNumber + `},"Expected":{},"ConditionExpression":""}`,
			ve1 + "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {Expected} Expression parameters: {ConditionExpression}"},
		{"PutItem", `{"TableName":"none","Item":{"pk":` + badNumber + `},"ExpressionAttributeNames":{}}`, ve1 + "ExpressionAttributeNames can only be specified when using expressions"},
		{"PutItem", `{"TableName":"none","Item":{"pk":` + badNumber + `},"ReturnValues":"ALL_NEW"}`, number},
		{"PutItem", `{"TableName":"none","Item":{"pk":` + big + `},"ReturnValues":"ALL_NEW"}`, ve1 + "ReturnValues can only be ALL_OLD or NONE"},
		{"PutItem", `{"TableName":"none","Item":{"pk":` + big + `},"Expected":{"a":{}}}`, ve + itemTooBig},
		{"PutItem", `{"TableName":"none","Item":{"pk":` + big + `},"ConditionExpression":""}`, ve + itemTooBig},
		{"PutItem", `{"TableName":"none","Item":{"pk":{"S":"a"}},"ConditionExpression":""}`, ve1 + "Invalid ConditionExpression: The expression can not be empty;"},
		// mix, key values, AttributeUpdates values and actions, Expected, expressions
		{"UpdateItem", `{"TableName":"none","Key":{"pk":` + badNumber + `},"AttributeUpdates":{"a":{}}}`, number},
		{"UpdateItem", `{"TableName":"none","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"a":{"Value":` + badNumber + `}},"Expected":{"a":{}}}`, number},
		{"UpdateItem", `{"TableName":"none","Key":{"pk":{"S":"a"}},"AttributeUpdates":{"a":{}},"Expected":{"a":{}}}`,
			ve1 + ivp + "Only DELETE action is allowed when no attribute value is specified"},
		{"UpdateItem", `{"TableName":"none","Key":{"pk":{"S":"a"}},"UpdateExpression":"","ConditionExpression":""}`,
			ve1 + "Invalid UpdateExpression: The expression can not be empty;"},
		// table, then key, then key targets, then condition
		{"UpdateItem", `{"TableName":"none","Key":{},"UpdateExpression":"REMOVE pk"}`, notFound},
		{"UpdateItem", `{"TableName":"hash","Key":{},"UpdateExpression":"REMOVE pk"}`, schemaText},
		{"UpdateItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}},"UpdateExpression":"REMOVE pk","ConditionExpression":"attribute_exists(pk)"}`,
			ve + ivp + "Cannot update attribute pk. This attribute is part of the key"},
		{"DeleteItem", `{"TableName":"hash","Key":{"pk":{"S":""}},"ConditionExpression":"attribute_exists(pk)"}`,
			ve + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
		// index keys before the condition
		{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"N":"1"}},"ConditionExpression":"attribute_exists(pk)"}`,
			ve + ivp + "Type mismatch for Index Key g Expected: S Actual: N IndexName: all"},
	} {
		r.want(c.op, c.request, c.want)
	}
}
