// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
)

const (
	oneError     = "1 validation error detected: "
	invalidParam = "One or more parameter values were invalid: "
)

// refusal is a request, built from a form by format and members, and the
// answer to it.
type refusal struct{ request, want string }

func (r *reading) refusals(op string, cases []refusal) {
	r.Helper()
	for _, c := range cases {
		if got := r.refused(op, c.request); got != c.want {
			r.Errorf("%s %s\n got %s\nwant %s", op, c.request, got, c.want)
		}
	}
}

func TestQueryConstraints(t *testing.T) {
	t.Parallel()
	const q = `{"TableName":"music","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`
	const selects = " failed to satisfy constraint: Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]"
	eq := `"ComparisonOperator":"NULL"`
	forReading(t, func(r *reading) {
		r.standard()
		r.refusals("Query", []refusal{
			{`{}`, oneError + "Value null at 'tableName' failed to satisfy constraint: Member must not be null"},
			{`{"TableName":""}`, "2 validation errors detected: Value '' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 1; " +
				"Value '' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
			{with(q, `"Limit":0`), oneError + "Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
			{with(q, `"Select":"INVALID"`), oneError + "Value 'INVALID' at 'select'" + selects},
			{with(q, `"Select":"x"`, `"ReturnConsumedCapacity":"y"`), "2 validation errors detected: Value 'x' at 'select'" + selects +
				"; Value 'y' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"},
			{with(q, `"IndexName":"a"`), oneError + "Value 'a' at 'indexName' failed to satisfy constraint: Member must have length greater than or equal to 3"},
			{with(q, `"IndexName":"a b"`), oneError + "Value 'a b' at 'indexName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
			{with(q, `"AttributesToGet":[]`), oneError + "Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have length greater than or equal to 1"},
			{`{"TableName":"music","KeyConditions":{"a":{}}}`, oneError + "Value null at 'keyConditions.a.member.comparisonOperator' failed to satisfy constraint: Member must not be null"},
			{`{"TableName":"music","QueryFilter":{"a":{"ComparisonOperator":"X"}}}`, oneError + "Value 'X' at 'queryFilter.a.member.comparisonOperator' failed to satisfy constraint: " +
				"Member must satisfy enum value set: [IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS]"},
			{`{"TableName":"music","Select":"x","ConditionalOperator":"XOR","QueryFilter":{"a":{` + eq + `},"b":{` + eq + `}}}`,
				"Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"},
			{`{"TableName":"ab","KeyConditions":{}}`, "TableName must be at least 3 characters long and at most 255 characters long"},
		})
	})
}

func TestQueryRequestRefusals(t *testing.T) {
	t.Parallel()
	const (
		q      = `{"TableName":"absent","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`
		legacy = `{"TableName":"absent","KeyConditions":{"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"p"}]}}}`
		kc     = `{"TableName":"absent","KeyConditionExpression":%q,"ExpressionAttributeValues":{":p":{"S":"p"},":n":{"N":"1"},":t":{"BOOL":true}}}`
		null   = `"ComparisonOperator":"NULL"`
		absent = "ResourceNotFoundException: Requested resource not found"
	)
	forReading(t, func(r *reading) {
		r.refusals("Query", []refusal{
			{q, absent},
			{`{"TableName":"absent"}`, "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."},
			{with(q, `"KeyConditions":{}`, `"AttributesToGet":["a"]`, `"ProjectionExpression":"a"`, `"FilterExpression":""`, `"QueryFilter":{}`, `"ConditionalOperator":"OR"`),
				"Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {AttributesToGet, QueryFilter, ConditionalOperator, KeyConditions} " +
					"Expression parameters: {ProjectionExpression, FilterExpression, KeyConditionExpression}"},
			{with(legacy, `"FilterExpression":"attribute_exists(a)"`), absent},
			{with(legacy, `"FilterExpression":"attribute_exists(a)"`, `"ExpressionAttributeNames":{"#a":"b"}`), "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}"},
			{with(legacy, `"ExpressionAttributeNames":{"#a":"b"}`), "ExpressionAttributeNames can only be specified when using expressions"},
			{with(legacy, `"ExpressionAttributeValues":{":a":{"S":"b"}}`), "ExpressionAttributeValues can only be specified when using expressions: FilterExpression and KeyConditionExpression are null"},
			{with(legacy, `"ExpressionAttributeValues":{":a":{"S":"b"}}`, `"ProjectionExpression":"a"`), "ExpressionAttributeValues can only be specified when using expressions: FilterExpression and KeyConditionExpression are null"},
			{with(legacy, `"QueryFilter":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"SS":[]}]}}`), invalidParam + "An string set  may not be empty"},
			{with(legacy, `"QueryFilter":{"a":{"ComparisonOperator":"EQ"}}`), invalidParam + "Invalid number of argument(s) for the EQ ComparisonOperator"},
			{with(legacy, `"ConditionalOperator":"OR"`), "ConditionalOperator cannot be used without Filter or Expected"},
			{with(legacy, `"ConditionalOperator":"OR"`, `"QueryFilter":{"a":{`+null+`}}`), "ConditionalOperator can only be used when Filter or Expected has two or more elements"},
			{with(legacy, `"AttributesToGet":["a","a"]`, `"ExclusiveStartKey":{"a":{}}`), invalidParam + "Duplicate value in attribute name: a"},
			{`{"TableName":"absent","ExclusiveStartKey":{"a":{}}}`, "The provided starting key is invalid: Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"},
			{`{"TableName":"absent","ExclusiveStartKey":{"a":{"S":"a","N":"1"}}}`, "The provided starting key is invalid: Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"},
			{`{"TableName":"absent","ExclusiveStartKey":{"a":{"SS":[]}}}`, "The provided starting key is invalid: " + invalidParam + "An string set  may not be empty"},
			{`{"TableName":"absent","ExclusiveStartKey":{"a":{"NS":[]}}}`, invalidParam + "An number set  may not be empty"},
			{`{"TableName":"absent","ExclusiveStartKey":{"a":{"SS":["b","a","b"]}}}`, invalidParam + `Input collection ["a", "b", "b"] contains duplicates.`},
			{`{"TableName":"absent","ExclusiveStartKey":{"a":{"N":"x"}}}`, "The parameter cannot be converted to a numeric value: x"},
			{with(q, `"ProjectionExpression":""`, `"FilterExpression":""`), "Invalid ProjectionExpression: The expression can not be empty;"},
			{with(q, `"FilterExpression":"#x = :p"`), "Invalid FilterExpression: An expression attribute name used in the document path is not defined; attribute name: #x"},
			{with(q, `"ExpressionAttributeNames":{"#x":"a"}`), "Value provided in ExpressionAttributeNames unused in expressions: keys: {#x}"},
			{`{"TableName":"absent","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"},":q":{"S":"p"}}}`, "Value provided in ExpressionAttributeValues unused in expressions: keys: {:q}"},
			{`{"TableName":"absent","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"N":""}}}`, "The parameter cannot be converted to a numeric value: "},
			{`{"TableName":"absent","KeyConditionExpression":""}`, "Invalid KeyConditionExpression: The expression can not be empty;"},
			{fmt.Sprintf(kc, "pk = :p and sk = :n or a = :t"), "Invalid operator used in KeyConditionExpression: OR"},
			{fmt.Sprintf(kc, "pk = :p and pk = :n and a = :t"), "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key"},
			{fmt.Sprintf(kc, "pk = :p and begins_with(sk, :n) and a = :t"), "Invalid KeyConditionExpression: Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
			{`{"TableName":"absent","KeyConditions":{}}`, "Conditions can be of length 1 or 2 only"},
			{`{"TableName":"absent","KeyConditions":{"a":{"ComparisonOperator":"IN","AttributeValueList":[{"S":"a"},{"N":"1"}]}}}`, invalidParam + "AttributeValues inside AttributeValueList must be of same type"},
			{with(q, `"Select":"SPECIFIC_ATTRIBUTES"`), oneError + "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"},
			{with(q, `"Select":"COUNT"`, `"ProjectionExpression":"a"`), oneError + "Cannot specify the ProjectionExpression when choosing to get only the Count"},
			{with(legacy, `"Select":"ALL_ATTRIBUTES"`, `"AttributesToGet":["a"]`), oneError + "Cannot specify the AttributesToGet when choosing to get ALL_ATTRIBUTES"},
			{with(q, `"Select":"ALL_PROJECTED_ATTRIBUTES"`), "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName"},
		})
	})
}

func TestQueryTableRefusals(t *testing.T) {
	t.Parallel()
	const (
		values = `"ExpressionAttributeValues":{":p":{"S":"p"},":n":{"N":"1"}}`
		missed = "Query condition missed key schema element: "
		gap    = "RANGE key attributes r must have equality conditions specified in the query because a condition is present on key attribute n"
		scalar = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
		noKey  = " can only contain non-primary key attributes: Primary key attribute: "
		kind   = invalidParam + "Condition parameter type does not match schema type"
		empty  = "The AttributeValue for a key attribute cannot contain an empty string value. "
	)
	on := func(table, condition string, members ...string) string {
		vals := `"ExpressionAttributeValues":{`
		for _, v := range []string{`":p":{"S":"p"}`, `":q":{"S":"q"}`, `":n":{"N":"1"}`, `":z":{"BOOL":true}`, `":e":{"S":""}`, `":l":{"S":"` + strings.Repeat("x", 1025) + `"}`, `":h":{"S":"` + strings.Repeat("x", 2049) + `"}`} {
			if strings.Contains(condition+strings.Join(members, " "), v[1:3]) {
				vals += v + ","
			}
		}
		return with(fmt.Sprintf(`{"TableName":%q,"KeyConditionExpression":%q,%s}}`, table, condition, strings.TrimSuffix(vals, ",")), members...)
	}
	index := func(name string) string { return `"IndexName":"` + name + `"` }
	legacy := func(conditions string, members ...string) string {
		return with(`{"TableName":"music","KeyConditions":{`+conditions+`}}`, members...)
	}
	const isP = `{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"p"}]}`
	forReading(t, func(r *reading) {
		r.standard()
		r.refusals("Query", []refusal{
			{on("music", "pk = :p", index("none")), "The table does not have the specified index: none"},
			{on("music", "h = :p", index("g-all"), `"ConsistentRead":true`), "Consistent reads are not supported on global secondary indexes"},
			{on("music", "sk = :p"), missed + "pk"},
			{on("music", "attr1 = :p"), missed + "pk"},
			{on("music", "pk = :p and attr1 = :p"), missed + "sk"},
			{on("music", "pk = :p and sk = :p and n = :n"), "The number of query conditions (3) exceeds the number of key attributes defined in the schema (2)"},
			{on("solo", "pk = :p and sk = :p"), "The number of query conditions (2) exceeds the number of key attributes defined in the schema (1)"},
			{on("music", "pk < :p"), "Query key condition not supported"},
			{on("music", "pk = :n"), kind},
			{on("music", "pk = :z"), kind},
			{on("music", "pk = :p and sk > :n"), kind},
			{on("music", "h = :p", index("g-multi")), missed + "i"},
			{on("music", "h = :p and i = :n and n = :n", index("g-multi")), gap},
			{on("music", "h = :p and i = :n and r > :p and n = :n", index("g-multi")), gap},
			{legacy(`"pk":{"ComparisonOperator":"NULL"}`), "Attempted conditional constraint is not an indexable operation"},
			{legacy(`"pk":` + isP + `,"sk":` + isP + `,"n":` + isP), "Conditions can be of length 1 or 2 only"},
			{on("music", "pk = :p", `"FilterExpression":"sk = :p"`), "Filter Expression" + noKey + "sk"},
			{on("music", "pk = :p", `"FilterExpression":"sk = :p and pk[1] = :p"`), scalar + "Key: pk"},
			{on("music", "h = :p", index("g-all"), `"FilterExpression":"n = :n"`), "Filter Expression" + noKey + "n"},
			{legacy(`"pk":`+isP, `"QueryFilter":{"pk":`+isP+`}`), "QueryFilter" + noKey + "pk"},
			{on("music", "pk = :p", `"FilterExpression":"n.x = :p"`), scalar + "IndexKey: n"},
			{on("music", "h = :p", index("g-all"), `"FilterExpression":"pk[0] = :p"`), scalar + "Key: pk"},
			{on("music", "pk = :p", `"ProjectionExpression":"sk[0]"`), scalar + "Key: sk"},
			{on("music", "h = :p", index("g-keys"), `"Select":"ALL_ATTRIBUTES"`), invalidParam + "Select type ALL_ATTRIBUTES is not supported for global secondary index g-keys because its projection type is not ALL"},
			{on("music", "h = :p", index("g-inc"), `"ProjectionExpression":"a, y.z, sk, h, r, x, y.a"`), invalidParam + "Global secondary index g-inc does not project [y, x]"},
			{on("music", "h = :p", index("g-inc"), `"FilterExpression":"y = :p or a = :p or attribute_exists(b)"`), invalidParam + "Secondary index g-inc does not project one or more filter attributes: [b, y]"},
			{on("music", "pk = :p", index("l-inc"), `"FilterExpression":"b = :p"`), invalidParam + "Secondary index l-inc does not project one or more filter attributes: [b]"},
			{on("music", "pk = :e"), "One or more parameter values are not valid. " + empty + "Key: pk"},
			{on("music", "pk = :p and begins_with(sk, :e)"), "One or more parameter values are not valid. " + empty + "Key: sk"},
			{on("music", "pk = :p and sk = :e"), "One or more parameter values are not valid. " + empty + "Key: sk"},
			{on("music", "h = :e", index("g-keys")), "One or more parameter values are not valid. A value specified for a secondary index key is not supported. " + empty + "IndexName: g-keys, IndexKey: h"},
			{on("music", "pk = :h"), invalidParam + "Size of hashkey has exceeded the maximum size limit of2048 bytes"},
			{on("music", "pk = :p and sk = :l"), invalidParam + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"},
			{on("music", "pk = :p and sk < :l"), invalidParam + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"},
		})
	})
}

func TestQueryStartKeyRefusals(t *testing.T) {
	t.Parallel()
	const (
		q      = `{"TableName":"music","KeyConditionExpression":"pk = :p and sk between :a and :b","ExpressionAttributeValues":{":p":{"S":"p"},":a":{"S":"b"},":b":{"S":"d"}}}`
		whole  = `{"TableName":"music","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`
		full   = `{"TableName":"music","KeyConditionExpression":"pk = :p and sk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`
		solo   = `{"TableName":"solo","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`
		global = `{"TableName":"music","IndexName":"g-inc","KeyConditionExpression":"h = :p and r < :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`
	)
	from := func(request, key string) string { return with(request, `"ExclusiveStartKey":`+key) }
	forReading(t, func(r *reading) {
		r.standard()
		var cases []refusal
		for _, key := range []string{
			`{}`, `{"pk":{"S":"p"}}`, `{"pk":{"S":"p"},"x":{"S":"c"}}`, `{"pk":{"S":"p"},"sk":{"S":"c"},"x":{"S":"c"}}`,
			`{"pk":{"S":"p"},"sk":{"N":"1"}}`, `{"pk":{"NULL":true},"sk":{"S":"c"}}`, `{"pk":{"S":"p"},"sk":{"S":""}}`,
			`{"pk":{"S":"p"},"sk":{"S":"` + strings.Repeat("c", 1025) + `"}}`,
		} {
			cases = append(cases, refusal{from(q, key), startKeyInvalid})
		}
		for _, key := range []string{
			`{"pk":{"S":"p"},"sk":{"S":"c"}}`, `{"h":{"S":"p"},"r":{"S":"c"}}`, `{"pk":{"S":"p"},"sk":{"S":"c"},"h":{"S":"p"}}`,
			`{"pk":{"S":"p"},"sk":{"S":"c"},"h":{"S":"p"},"r":{"N":"1"}}`, `{"pk":{"N":"1"},"sk":{"S":"c"},"h":{"S":"p"},"r":{"S":"a"}}`,
			`{"pk":{"S":"p"},"sk":{"S":"c"},"h":{"S":"p"},"r":{"S":"a"},"n":{"N":"1"}}`,
		} {
			cases = append(cases, refusal{from(global, key), startKeyInvalid})
		}
		cases = append(cases,
			refusal{from(q, `{"pk":{"S":"p"},"sk":{"S":"a"}}`), startKeyUnmatched},
			refusal{from(q, `{"pk":{"S":"p"},"sk":{"S":"e"}}`), startKeyUnmatched},
			refusal{from(q, `{"pk":{"S":"q"},"sk":{"S":"c"}}`), startKeyElsewhere},
			refusal{from(whole, `{"pk":{"S":"q"},"sk":{"S":"c"}}`), startKeyElsewhere},
			refusal{from(global, `{"pk":{"S":"p"},"sk":{"S":"c"},"h":{"S":"p"},"r":{"S":"q"}}`), startKeyUnmatched},
			refusal{from(global, `{"pk":{"S":"p"},"sk":{"S":"c"},"h":{"S":"q"},"r":{"S":"a"}}`), startKeyElsewhere},
			refusal{from(full, `{"pk":{"S":"p"},"sk":{"S":"p"}}`), startKeyUseless},
			refusal{from(solo, `{"pk":{"S":"p"}}`), startKeyUseless},
			refusal{from(solo, `{"pk":{"N":"1"}}`), startKeyInvalid},
		)
		r.refusals("Query", cases)
		// A key that names no row is as good as any other.
		if l := r.list("Query", from(q, `{"pk":{"S":"p"},"sk":{"S":"c"}}`)); l.Count != 0 || l.LastEvaluatedKey != nil {
			r.Errorf("behind an absent row: %+v", l)
		}
	})
}
