// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// names shows items by their attribute "id", "1 2 3".
func names(items []json.RawMessage) string {
	var ids []string
	for _, raw := range items {
		it, err := ddb.ParseItem(raw)
		if err != nil {
			return err.Error()
		}
		ids = append(ids, it["id"].Str())
	}
	return strings.Join(ids, " ")
}

// songs fills music: partition p has six songs, q one.
func (r *reading) songs() {
	r.standard()
	for i, sk := range []string{"a", "ab", "abc", "b", "c\x00", "c\xff"} {
		it := ddb.Item{
			"pk": ddb.String("p"), "sk": ddb.String(strings.ToValidUTF8(sk, "é")), "id": ddb.String(fmt.Sprint(i + 1)),
			"n": ddb.Int(int64(10 - i)), "h": ddb.String("x"), "r": ddb.String(fmt.Sprint(i % 2)), "i": ddb.Int(int64(i % 3)),
			"a": ddb.String("A"), "b": ddb.String("B"),
		}
		if i == 3 { // sparse: in no global index
			delete(it, "h")
		}
		r.putItem("music", it)
	}
	r.put("music", `{"pk":{"S":"q"},"sk":{"S":"a"},"id":{"S":"7"}}`)
}

func TestQueryKeyConditions(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		for _, c := range []struct{ condition, values, members, want string }{
			{"pk = :p", `":p":{"S":"p"}`, ``, "1 2 3 4 5 6"},
			{"pk = :p", `":p":{"S":"p"}`, `"ScanIndexForward":true`, "1 2 3 4 5 6"},
			{"pk = :p", `":p":{"S":"p"}`, `"ScanIndexForward":false`, "6 5 4 3 2 1"},
			{"pk = :p", `":p":{"S":"none"}`, ``, ""},
			{":s = sk and pk = :p", `":p":{"S":"p"},":s":{"S":"ab"}`, ``, "2"},
			{"pk = :p and sk = :s", `":p":{"S":"p"},":s":{"S":"none"}`, ``, ""},
			{"pk = :p and sk = :s", `":p":{"S":"p"},":s":{"S":"b"}`, `"Limit":1`, "4"}, // there cannot be another
			{"pk = :p and sk < :s", `":p":{"S":"p"},":s":{"S":"abc"}`, ``, "1 2"},
			{"pk = :p and sk <= :s", `":p":{"S":"p"},":s":{"S":"abc"}`, ``, "1 2 3"},
			{"pk = :p and sk > :s", `":p":{"S":"p"},":s":{"S":"abc"}`, ``, "4 5 6"},
			{"pk = :p and :s < sk", `":p":{"S":"p"},":s":{"S":"abc"}`, `"ScanIndexForward":false`, "6 5 4"},
			{"pk = :p and sk >= :s", `":p":{"S":"p"},":s":{"S":"abc"}`, ``, "3 4 5 6"},
			{"pk = :p and sk between :s and :t", `":p":{"S":"p"},":s":{"S":"ab"},":t":{"S":"b"}`, ``, "2 3 4"},
			{"pk = :p and begins_with(sk, :s)", `":p":{"S":"p"},":s":{"S":"ab"}`, ``, "2 3"},
			{"pk = :p and begins_with(sk, :s)", `":p":{"S":"p"},":s":{"S":"c"}`, `"ScanIndexForward":false`, "6 5"},
			{"pk = :p", `":p":{"S":"p"}`, `"IndexName":"l-all"`, "6 5 4 3 2 1"},
			{"pk = :p and n > :n", `":p":{"S":"p"},":n":{"N":"6.5"}`, `"IndexName":"l-all","ConsistentRead":true`, "4 3 2 1"},
			{"h = :h", `":h":{"S":"x"}`, `"IndexName":"g-all"`, "6 5 3 2 1"},
			{"h = :h and n between :a and :b", `":h":{"S":"x"},":a":{"N":"8"},":b":{"N":"9.5"}`, `"IndexName":"g-all"`, "3 2"},
			{"i = :i and h = :h", `":h":{"S":"x"},":i":{"N":"0"}`, `"IndexName":"g-multi"`, "1"},
			{"i = :i and h = :h", `":h":{"S":"x"},":i":{"N":"1"}`, `"IndexName":"g-multi","ScanIndexForward":false`, "2 5"},
			{"i = :i and h = :h and r = :r", `":h":{"S":"x"},":i":{"N":"1"},":r":{"S":"1"}`, `"IndexName":"g-multi"`, "2"},
			{"n >= :n and i = :i and h = :h and r = :r", `":h":{"S":"x"},":i":{"N":"1"},":r":{"S":"1"},":n":{"N":"9"}`, `"IndexName":"g-multi"`, "2"},
			{"n > :n and i = :i and h = :h and r = :r", `":h":{"S":"x"},":i":{"N":"1"},":r":{"S":"1"},":n":{"N":"9"}`, `"IndexName":"g-multi"`, ""},
			{"begins_with(r, :r) and i = :i and h = :h", `":h":{"S":"x"},":i":{"N":"1"},":r":{"S":"0"}`, `"IndexName":"g-multi"`, "5"},
		} {
			req := with(fmt.Sprintf(`{"TableName":"music","KeyConditionExpression":%q,"ExpressionAttributeValues":{%s}}`, c.condition, c.values), c.members)
			l := r.list("Query", req)
			if got := names(l.Items); got != c.want || l.Count != len(l.Items) || l.ScannedCount != l.Count || l.LastEvaluatedKey != nil {
				r.Errorf("%s: %q, want %q; %d of %d, then %s", req, got, c.want, l.Count, l.ScannedCount, l.LastEvaluatedKey)
			}
		}
	})
}

func TestQueryLegacyConditions(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		const p = `"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"p"}]}`
		for _, c := range []struct{ conditions, members, want string }{
			{p, ``, "1 2 3 4 5 6"},
			{p + `,"sk":{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"S":"ab"}]}`, ``, "2 3"},
			{p + `,"sk":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"S":"ab"},{"S":"b"}]}`, `"ScanIndexForward":false`, "4 3 2"},
			{p + `,"sk":{"ComparisonOperator":"LE","AttributeValueList":[{"S":"ab"}]}`, ``, "1 2"},
			{p, `"QueryFilter":{"n":{"ComparisonOperator":"GT","AttributeValueList":[{"N":"7"}]}}`, "1 2 3"},
			{p, `"QueryFilter":{"n":{"ComparisonOperator":"GT","AttributeValueList":[{"N":"7"}]},"r":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"1"}]}}`, "2"},
			{p, `"ConditionalOperator":"OR","QueryFilter":{"n":{"ComparisonOperator":"GT","AttributeValueList":[{"N":"9"}]},"h":{"ComparisonOperator":"NULL"}}`, "1 4"},
			{p, `"FilterExpression":"attribute_not_exists(h)"`, "4"},
			{`"h":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"x"}]},"i":{"ComparisonOperator":"EQ","AttributeValueList":[{"N":"1"}]},"r":{"ComparisonOperator":"GE","AttributeValueList":[{"S":"1"}]}`,
				`"IndexName":"g-multi"`, "2"},
		} {
			req := with(`{"TableName":"music","KeyConditions":{`+c.conditions+`}}`, c.members)
			if got := names(r.list("Query", req).Items); got != c.want {
				r.Errorf("%s: %q, want %q", req, got, c.want)
			}
		}
	})
}

func TestQueryShapes(t *testing.T) {
	t.Parallel()
	const (
		whole = `{"a":{"S":"A"},"b":{"S":"B"},"h":{"S":"x"},"i":{"N":"0"},"id":{"S":"1"},"n":{"N":"10"},"pk":{"S":"p"},"r":{"S":"0"},"sk":{"S":"a"}}`
		one   = `{"TableName":"music","KeyConditionExpression":"pk = :p and n = :n","ExpressionAttributeValues":{":p":{"S":"p"},":n":{"N":"10"}},"IndexName":"l-%s"}`
		glob  = `{"TableName":"music","KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"x"}},"IndexName":"g-%s","Limit":1}`
		capac = `"ReturnConsumedCapacity":"INDEXES"`
	)
	keys := func(index, unit, table, total string) string {
		kind := "GlobalSecondaryIndexes"
		if index[0] == 'l' {
			kind = "LocalSecondaryIndexes"
		}
		return `"ConsumedCapacity":{"TableName":"music","CapacityUnits":` + total + `,"Table":{"CapacityUnits":` + table + `},"` + kind + `":{"` + index + `":{"CapacityUnits":` + unit + `}}}`
	}
	forReading(t, func(r *reading) {
		r.songs()
		for _, c := range []struct{ request, want string }{
			{with(fmt.Sprintf(one, "all"), capac), `{"Items":[` + whole + `],"Count":1,"ScannedCount":1,` + keys("l-all", "0.5", "0.0", "0.5") + `}`},
			{with(fmt.Sprintf(one, "keys"), capac), `{"Items":[{"n":{"N":"10"},"pk":{"S":"p"},"sk":{"S":"a"}}],"Count":1,"ScannedCount":1,` + keys("l-keys", "0.5", "0.0", "0.5") + `}`},
			{with(fmt.Sprintf(one, "inc"), capac), `{"Items":[{"a":{"S":"A"},"n":{"N":"10"},"pk":{"S":"p"},"sk":{"S":"a"}}],"Count":1,"ScannedCount":1,` + keys("l-inc", "0.5", "0.0", "0.5") + `}`},
			{with(fmt.Sprintf(one, "keys"), `"Select":"ALL_PROJECTED_ATTRIBUTES"`), `{"Items":[{"n":{"N":"10"},"pk":{"S":"p"},"sk":{"S":"a"}}],"Count":1,"ScannedCount":1}`},
			// A local index reaches back to the table for what it does not project.
			{with(fmt.Sprintf(one, "keys"), `"Select":"ALL_ATTRIBUTES","ConsistentRead":true`, capac), `{"Items":[` + whole + `],"Count":1,"ScannedCount":1,` + keys("l-keys", "1.0", "1.0", "2.0") + `}`},
			{with(fmt.Sprintf(one, "inc"), `"ProjectionExpression":"b, pk"`, capac), `{"Items":[{"b":{"S":"B"},"pk":{"S":"p"}}],"Count":1,"ScannedCount":1,` + keys("l-inc", "0.5", "0.5", "1.0") + `}`},
			{with(fmt.Sprintf(one, "inc"), `"ProjectionExpression":"a, sk","FilterExpression":"attribute_exists(a)"`, capac), `{"Items":[{"a":{"S":"A"},"sk":{"S":"a"}}],"Count":1,"ScannedCount":1,` + keys("l-inc", "0.5", "0.0", "0.5") + `}`},
			{with(fmt.Sprintf(one, "inc"), `"Select":"COUNT"`, capac), `{"Count":1,"ScannedCount":1,` + keys("l-inc", "0.5", "0.0", "0.5") + `}`},
			{with(fmt.Sprintf(one, "keys"), `"Select":"COUNT"`, capac), `{"Count":1,"ScannedCount":1,` + keys("l-keys", "0.5", "0.0", "0.5") + `}`},
			{with(fmt.Sprintf(one, "all"), `"Select":"COUNT","FilterExpression":"attribute_not_exists(a)"`), `{"Count":0,"ScannedCount":1}`},
			{with(fmt.Sprintf(one, "keys"), `"Select":"SPECIFIC_ATTRIBUTES","ProjectionExpression":"sk","FilterExpression":"size(sk) > :n"`), `{"Items":[],"Count":0,"ScannedCount":1}`},
			{with(fmt.Sprintf(one, "keys"), `"Select":"SPECIFIC_ATTRIBUTES","ProjectionExpression":"sk","FilterExpression":"size(sk) < :n"`), `{"Items":[{"sk":{"S":"a"}}],"Count":1,"ScannedCount":1}`},
			{with(fmt.Sprintf(glob, "keys"), capac), `{"Items":[{"h":{"S":"x"},"pk":{"S":"p"},"sk":{"S":"a"}}],"Count":1,"ScannedCount":1,"LastEvaluatedKey":{"h":{"S":"x"},"pk":{"S":"p"},"sk":{"S":"a"}},` + keys("g-keys", "0.5", "0.0", "0.5") + `}`},
			{fmt.Sprintf(glob, "inc"), `{"Items":[{"a":{"S":"A"},"h":{"S":"x"},"pk":{"S":"p"},"r":{"S":"0"},"sk":{"S":"a"}}],"Count":1,"ScannedCount":1,"LastEvaluatedKey":{"h":{"S":"x"},"pk":{"S":"p"},"r":{"S":"0"},"sk":{"S":"a"}}}`},
			{with(fmt.Sprintf(glob, "keys"), `"ProjectionExpression":"h"`), `{"Items":[{"h":{"S":"x"}}],"Count":1,"ScannedCount":1,"LastEvaluatedKey":{"h":{"S":"x"},"pk":{"S":"p"},"sk":{"S":"a"}}}`},
			{with(fmt.Sprintf(glob, "all"), `"Select":"ALL_ATTRIBUTES","ScanIndexForward":false,"FilterExpression":"pk = sk"`), `{"Items":[],"Count":0,"ScannedCount":1,"LastEvaluatedKey":{"h":{"S":"x"},"n":{"N":"10"},"pk":{"S":"p"},"sk":{"S":"a"}}}`},
		} {
			if got := r.must("Query", c.request); got != c.want {
				r.Errorf("%s\n got %s\nwant %s", c.request, got, c.want)
			}
		}
	})
}
