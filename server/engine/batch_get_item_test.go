// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

func TestBatchGetItem(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		r.put("solo", `{"pk":{"S":"a"},"v":{"N":"1"}}`, `{"pk":{"S":"b"},"v":{"N":"2"},"w":{"S":"`+strings.Repeat("w", 5000)+`"}}`)
		for _, c := range []struct{ request, want string }{
			{`{"RequestItems":{"solo":{"Keys":[{"pk":{"S":"a"}},{"pk":{"S":"x"}}]}}}`,
				`{"Responses":{"solo":[{"pk":{"S":"a"},"v":{"N":"1"}}]},"UnprocessedKeys":{}}`},
			{`{"RequestItems":{"solo":{"Keys":[{"pk":{"S":"a"}}],"ConsistentRead":true},"music":{"Keys":[{"pk":{"S":"q"},"sk":{"S":"none"}}]}}}`,
				`{"Responses":{"music":[],"solo":[{"pk":{"S":"a"},"v":{"N":"1"}}]},"UnprocessedKeys":{}}`},
			{`{"RequestItems":{"solo":{"Keys":[{"pk":{"S":"b"}},{"pk":{"S":"a"}}],"ProjectionExpression":"#v, nought","ExpressionAttributeNames":{"#v":"v"}}}}`,
				`{"Responses":{"solo":[{"v":{"N":"2"}},{"v":{"N":"1"}}]},"UnprocessedKeys":{}}`},
			{`{"RequestItems":{"solo":{"Keys":[{"pk":{"S":"b"}}],"ProjectionExpression":"nought"},"music":{"Keys":[{"pk":{"S":"q"},"sk":{"S":"a"}}],"ProjectionExpression":"id"}}}`,
				`{"Responses":{"music":[{"id":{"S":"7"}}],"solo":[{}]},"UnprocessedKeys":{}}`},
			{`{"RequestItems":{"solo":{"Keys":[{"pk":{"S":"b"}}],"AttributesToGet":["pk","x"]}}}`, `{"Responses":{"solo":[{"pk":{"S":"b"}}]},"UnprocessedKeys":{}}`},
			{`{"RequestItems":{"arn:aws:dynamodb:us-east-1:000000000000:table/solo":{"Keys":[{"pk":{"S":"a"}}]}},"ReturnConsumedCapacity":"TOTAL"}`,
				`{"Responses":{"arn:aws:dynamodb:us-east-1:000000000000:table/solo":[{"pk":{"S":"a"},"v":{"N":"1"}}]},"UnprocessedKeys":{},"ConsumedCapacity":[{"TableName":"solo","CapacityUnits":0.5}]}`},
			{`{"RequestItems":{"solo":{"Keys":[{"pk":{"S":"b"}},{"pk":{"S":"a"}},{"pk":{"S":"x"}}],"AttributesToGet":["pk"]},"music":{"Keys":[{"pk":{"S":"q"},"sk":{"S":"none"}}],"AttributesToGet":["pk"],"ConsistentRead":true}},"ReturnConsumedCapacity":"INDEXES"}`,
				`{"Responses":{"music":[],"solo":[{"pk":{"S":"b"}},{"pk":{"S":"a"}}]},"UnprocessedKeys":{},"ConsumedCapacity":[` +
					`{"TableName":"music","CapacityUnits":1.0,"Table":{"CapacityUnits":1.0}},{"TableName":"solo","CapacityUnits":2.0,"Table":{"CapacityUnits":2.0}}]}`},
		} {
			if got := r.must("BatchGetItem", c.request); got != c.want {
				r.Errorf("%s\n got %s\nwant %s", c.request, got, c.want)
			}
		}
	})
}

// soloKeys lists n keys of solo, "0" and so on.
func soloKeys(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(`{"pk":{"S":"%d"}}`, i)
	}
	return "[" + strings.Join(keys, ",") + "]"
}

func TestBatchGetItemRefusals(t *testing.T) {
	t.Parallel()
	const (
		items   = `{"RequestItems":{%s}}`
		mapKeys = "Map keys must satisfy constraint: [Member must have length less than or equal to 255, Member must have length greater than or equal to 3, " +
			"Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]"
		enum = "'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
		mix  = "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}"
		a    = `"Keys":[{"pk":{"S":"a"}}]`
	)
	var tables []string
	for i := range 101 {
		tables = append(tables, fmt.Sprintf(`"t%03d":{%s}`, i, a))
	}
	manyTables := strings.Join(tables, ",")
	of := func(table, members string) string { return fmt.Sprintf(items, `"`+table+`":{`+members+`}`) }
	forReading(t, func(r *reading) {
		r.standard()
		r.refusals("BatchGetItem", []refusal{
			{`{}`, oneError + "Value null at 'requestItems' failed to satisfy constraint: Member must not be null"},
			{`{"RequestItems":{}}`, oneError + "Value at 'RequestItems' failed to satisfy constraint: Member must have length greater than or equal to 1"},
			{of("solo", ``), oneError + "Value null at 'requestItems.solo.member.keys' failed to satisfy constraint: Member must not be null"},
			{of("solo", `"Keys":[]`), oneError + "Value at 'RequestItems.solo.member.Keys' failed to satisfy constraint: Member must have length greater than or equal to 1"},
			{of("solo", `"Keys":`+soloKeys(101)), oneError + "Value at 'RequestItems.solo.member.Keys' failed to satisfy constraint: Member must have length less than or equal to 100"},
			{of("solo", a+`,"AttributesToGet":[]`), oneError + "Value '[]' at 'requestItems.solo.member.attributesToGet' failed to satisfy constraint: Member must have length greater than or equal to 1"},
			{fmt.Sprintf(items, `"solo":{"Keys":`+soloKeys(100)+`},"plain":{`+a+`}`), "Too many items requested for the BatchGetItem call"},
			{of("bad!name", a), oneError + `Value '{"bad!name":{"Keys":[{"pk":{"S":"a"}}]}}' at 'requestItems' failed to satisfy constraint: ` + mapKeys},
			{of("ab", a+`,"ConsistentRead":false,"ProjectionExpression":"x","ExpressionAttributeNames":{"#b":"c","#a":"d"}`),
				oneError + `Value '{"ab":{"Keys":[{"pk":{"S":"a"}}],"ConsistentRead":false,"ProjectionExpression":"x","ExpressionAttributeNames":{"#a":"d","#b":"c"}}}' at 'requestItems' failed to satisfy constraint: ` + mapKeys},
			{with(of("a b", a+`,"AttributesToGet":["x","y"],"ConsistentRead":true`), `"ReturnConsumedCapacity":"X"`),
				`2 validation errors detected: Value '{"a b":{"Keys":[{"pk":{"S":"a"}}],"AttributesToGet":["x","y"],"ConsistentRead":true}}' at 'requestItems' failed to satisfy constraint: ` + mapKeys + "; Value 'X' at " + enum},
			{with(of("solo", `"Keys":[{"pk":{"S":"a"}},{"pk":{"S":"a"}}]`), `"ReturnConsumedCapacity":"X"`), oneError + "Value 'X' at " + enum},
			{of("solo", a+`,"AttributesToGet":["x"],"ProjectionExpression":"y"`), mix},
			{fmt.Sprintf(items, `"solo":{`+a+`,"AttributesToGet":["x"]},"plain":{`+a+`,"ProjectionExpression":"x"}`), mix},
			{of("solo", a+`,"AttributesToGet":["x","x"]`), invalidParam + "Duplicate value in attribute name: x"},
			{of("solo", a+`,"ExpressionAttributeNames":{"#a":"b"}`), "ExpressionAttributeNames can only be specified when using expressions"},
			{of("solo", a+`,"ExpressionAttributeNames":{"#a":"b"},"ProjectionExpression":"x"`), "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}"},
			{of("solo", a+`,"ProjectionExpression":"x..y"`), `Invalid ProjectionExpression: Syntax error; token: ".", near: "..y"`},
			{of("absent", `"Keys":[{"pk":{"N":"a"}}]`), "The parameter cannot be converted to a numeric value: a"},
			{fmt.Sprintf(items, manyTables), oneError + "Value at 'RequestItems' failed to satisfy constraint: Member must have length less than or equal to 100"},
			{fmt.Sprintf(items, `"a!":{`+a+`},"b!":{`+a+`}`), oneError + `Value '{"a!":{` + a + `},"b!":{` + a + `}}' at 'requestItems' failed to satisfy constraint: ` + mapKeys},
			{of("arn:aws:dynamodb:us-east-1:000000000000:table/a", a), oneError + "Invalid table name in 'arn:aws:dynamodb:us-east-1:000000000000:table/a'. Valid ARN format is arn:aws:dynamodb:us-east-1:000000000000:table/{table-name}"},
			{of("absent", a), "ResourceNotFoundException: Requested resource not found"},
			{fmt.Sprintf(items, `"solo":{"Keys":[{}]},"zzz":{`+a+`}`), "ResourceNotFoundException: Requested resource not found"},
			{of("solo", `"Keys":[{}]`), "The provided key element does not match the schema"},
			{of("solo", `"Keys":[{"pk":{"N":"1"}}]`), "The provided key element does not match the schema"},
			{of("plain", a), "The provided key element does not match the schema"},
			{of("solo", `"Keys":[{"pk":{"S":""}}]`), "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
			{of("solo", `"Keys":[{"pk":{"S":"a"}},{"pk":{"S":"b"}},{"pk":{"S":"a"}}]`), "Provided list of item keys contains duplicates"},
			{of("plain", `"Keys":[{"pk":{"S":"a"},"sk":{"N":"1"}},{"pk":{"S":"a"},"sk":{"N":"1.0"}}]`), "Provided list of item keys contains duplicates"},
			{fmt.Sprintf(items, `"solo":{`+a+`},"arn:aws:dynamodb:us-east-1:000000000000:table/solo":{`+a+`}`), "Provided list of item keys contains duplicates"},
			{of("solo", a+`,"ProjectionExpression":"pk.x"`), "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk"},
		})
	})
}

// batchRead is a response of BatchGetItem.
type batchRead struct {
	Responses       map[string][]json.RawMessage
	UnprocessedKeys json.RawMessage
}

// TestBatchGetItemUnprocessed sends what was left until nothing is.
func TestBatchGetItemUnprocessed(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.standard()
		for i := range 50 {
			r.putItem("solo", ddb.Item{"pk": ddb.String(fmt.Sprint(i)), "v": ddb.String(strings.Repeat("v", 400_000))})
			r.putItem("plain", ddb.Item{"pk": ddb.String("p"), "sk": ddb.Int(int64(i))})
		}
		var plain []string
		for i := range 40 {
			plain = append(plain, fmt.Sprintf(`{"pk":{"S":"p"},"sk":{"N":"%d"}}`, i*2)) // every other one is absent
		}
		rest := `"plain":{"Keys":[` + strings.Join(plain, ",") + `],"ProjectionExpression":"#s","ExpressionAttributeNames":{"#s":"sk"}},` +
			`"solo":{"Keys":` + soloKeys(50) + `,"ConsistentRead":true}`
		total := map[string]int{}
		calls := 0
		for request := "{" + rest + "}"; request != "{}"; calls++ {
			var b batchRead
			if err := json.Unmarshal([]byte(r.must("BatchGetItem", `{"RequestItems":`+request+`}`)), &b); err != nil {
				r.Fatal(err)
			}
			for table, items := range b.Responses {
				total[table] += len(items)
			}
			if request = string(b.UnprocessedKeys); request != "{}" && !strings.Contains(request, `"ConsistentRead":true`) {
				r.Fatalf("unprocessed keys lost their members: %.300s", request)
			}
		}
		// 42 items of 400,000 bytes reach 16 MiB.
		if calls != 2 || !maps.Equal(total, map[string]int{"plain": 25, "solo": 50}) {
			r.Errorf("%d calls found %v", calls, total)
		}
	})
}

func TestBatchGetItemWithoutRoom(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		r.put("solo", `{"pk":{"S":"a"}}`, `{"pk":{"S":"b"}}`)
		const request = `{"RequestItems":{"music":{"Keys":[{"pk":{"S":"q"},"sk":{"S":"a"}},{"pk":{"S":"no"},"sk":{"S":"a"}}],"AttributesToGet":["id"]},` +
			`"solo":{"Keys":[{"pk":{"S":"a"}},{"pk":{"S":"no"}},{"pk":{"S":"b"}}]}},"ReturnConsumedCapacity":"TOTAL"}`
		const head = `{"Responses":{"music":[{"id":{"S":"7"}}],"solo":[`
		solo := func(keys string) string { return `],"UnprocessedKeys":{"solo":{"Keys":[` + keys + `]}},` }
		music := `"ConsumedCapacity":[{"TableName":"music","CapacityUnits":1.0}`
		for room, want := range []string{
			head + `]}` + solo(`{"pk":{"S":"a"}},{"pk":{"S":"no"}},{"pk":{"S":"b"}}`)[1:] + music + `]}`,
			head + `]}` + solo(`{"pk":{"S":"a"}},{"pk":{"S":"no"}},{"pk":{"S":"b"}}`)[1:] + music + `]}`,
			head + `{"pk":{"S":"a"}}]}` + solo(`{"pk":{"S":"b"}}`)[1:] + music + `,{"TableName":"solo","CapacityUnits":1.0}]}`,
			head + `{"pk":{"S":"a"}},{"pk":{"S":"b"}}]},"UnprocessedKeys":{},` + music + `,{"TableName":"solo","CapacityUnits":1.5}]}`,
		} {
			left := room
			out := &api.Body{Grow: func(int) bool { left--; return left >= 0 }}
			if err := r.callInto("BatchGetItem", request, out); err != nil || string(out.B) != want {
				r.Errorf("room for %d: %v\n got %s\nwant %s", room, err, out.B, want)
			}
		}
		const several = `{"RequestItems":{"music":{"Keys":[{"pk":{"S":"q"},"sk":{"S":"a"}},{"pk":{"S":"p"},"sk":{"S":"a"}},{"pk":{"S":"p"},"sk":{"S":"b"}}],"AttributesToGet":["id"]},` +
			`"solo":{"Keys":[{"pk":{"S":"a"}}]}}}`
		out := &api.Body{Grow: func(int) bool { return false }}
		err := r.callInto("BatchGetItem", several, out)
		const want = `{"Responses":{"music":[{"id":{"S":"7"}}],"solo":[]},"UnprocessedKeys":{` +
			`"music":{"Keys":[{"pk":{"S":"p"},"sk":{"S":"a"}},{"pk":{"S":"p"},"sk":{"S":"b"}}],"AttributesToGet":["id"]},"solo":{"Keys":[{"pk":{"S":"a"}}]}}}`
		if err != nil || string(out.B) != want {
			r.Errorf("no room: %v\n got %s\nwant %s", err, out.B, want)
		}
	})
}
