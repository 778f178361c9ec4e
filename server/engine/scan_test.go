// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

func TestScan(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		for _, c := range []struct{ members, want string }{
			{``, "1 2 3 4 5 6 7"},
			{`"Limit":3`, "1 2 3"},
			{`"ConsistentRead":true`, "1 2 3 4 5 6 7"},
			{`"IndexName":"l-all"`, "6 5 4 3 2 1"},
			{`"IndexName":"l-all","ConsistentRead":true`, "6 5 4 3 2 1"},
			{`"IndexName":"g-all"`, "6 5 3 2 1"},
			{`"IndexName":"g-multi"`, "1 5 2 3 6"},
			{`"IndexName":"l-inc","Select":"ALL_ATTRIBUTES"`, "6 5 4 3 2 1"},
			{`"IndexName":"l-keys","ProjectionExpression":"id"`, "6 5 4 3 2 1"},
			{`"FilterExpression":"pk = :v and n > :n","ExpressionAttributeValues":{":v":{"S":"p"},":n":{"N":"8"}}`, "1 2"},
			{`"FilterExpression":"n > :n","ExpressionAttributeValues":{":n":{"N":"8"}},"Limit":1`, "1"},
			{`"FilterExpression":"n < :n","ExpressionAttributeValues":{":n":{"N":"8"}},"Limit":3`, ""},
			{`"ScanFilter":{"n":{"ComparisonOperator":"GT","AttributeValueList":[{"N":"8"}]},"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"q"}]}},"ConditionalOperator":"OR"`, "1 2 7"},
			{`"ScanFilter":{"n":{"ComparisonOperator":"IN","AttributeValueList":[{"N":"8"},{"N":"5.0"}]}}`, "3 6"},
			{`"AttributesToGet":["id"]`, "1 2 3 4 5 6 7"},
			{`"Segment":0,"TotalSegments":1`, "1 2 3 4 5 6 7"},
		} {
			req := with(`{"TableName":"music"}`, c.members)
			l := r.list("Scan", req)
			if got := names(l.Items); got != c.want || l.Count != len(l.Items) || (l.LastEvaluatedKey != nil) != strings.Contains(c.members, "Limit") {
				r.Errorf("%s: %q, want %q; %d of %d, then %s", req, got, c.want, l.Count, l.ScannedCount, l.LastEvaluatedKey)
			}
		}
		for req, want := range map[string]string{
			`{"TableName":"music","Select":"COUNT"}`:                                                       `{"Count":7,"ScannedCount":7}`,
			`{"TableName":"music","Select":"COUNT","FilterExpression":"attribute_not_exists(n)"}`:          `{"Count":1,"ScannedCount":7}`,
			`{"TableName":"music","IndexName":"g-inc","Select":"COUNT","ReturnConsumedCapacity":"TOTAL"}`:  `{"Count":5,"ScannedCount":5,"ConsumedCapacity":{"TableName":"music","CapacityUnits":0.5}}`,
			`{"TableName":"music","IndexName":"g-keys","Select":"COUNT","ReturnConsumedCapacity":"TOTAL"}`: `{"Count":5,"ScannedCount":5,"ConsumedCapacity":{"TableName":"music","CapacityUnits":0.5}}`,
			`{"TableName":"solo"}`: `{"Items":[],"Count":0,"ScannedCount":0}`,
			`{"TableName":"music","ProjectionExpression":"nought","Limit":1}`:                             `{"Items":[{}],"Count":1,"ScannedCount":1,"LastEvaluatedKey":{"pk":{"S":"p"},"sk":{"S":"a"}}}`,
			`{"TableName":"music","IndexName":"g-keys","Limit":1,"FilterExpression":"begins_with(sk,h)"}`: `{"Items":[],"Count":0,"ScannedCount":1,"LastEvaluatedKey":{"h":{"S":"x"},"pk":{"S":"p"},"sk":{"S":"a"}}}`,
		} {
			if got := r.must("Scan", req); got != want {
				r.Errorf("%s\n got %s\nwant %s", req, got, want)
			}
		}
	})
}

func TestScanRefusals(t *testing.T) {
	t.Parallel()
	const scalar = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
	on := func(members ...string) string { return with(`{"TableName":"music"}`, members...) }
	gone := func(members ...string) string { return with(`{"TableName":"absent"}`, members...) }
	forReading(t, func(r *reading) {
		r.standard()
		r.refusals("Scan", []refusal{
			{`{}`, oneError + "Value null at 'tableName' failed to satisfy constraint: Member must not be null"},
			{on(`"Limit":0`), oneError + "Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
			{on(`"Segment":-1`, `"TotalSegments":2`), oneError + "Value at 'Segment' failed to satisfy constraint: Member must have value greater than or equal to 0"},
			{on(`"Segment":1000000`, `"TotalSegments":2`), oneError + "Value at 'Segment' failed to satisfy constraint: Member must have value less than or equal to 999999"},
			{on(`"Segment":0`, `"TotalSegments":0`), oneError + "Value at 'TotalSegments' failed to satisfy constraint: Member must have value greater than or equal to 1"},
			{on(`"Segment":0`, `"TotalSegments":1000001`), oneError + "Value at 'TotalSegments' failed to satisfy constraint: Member must have value less than or equal to 1000000"},
			{on(`"Segment":0`), "The TotalSegments parameter is required but was not present in the request when Segment parameter is present"},
			{on(`"TotalSegments":4`), "The Segment parameter is required but was not present in the request when parameter TotalSegments is present"},
			{on(`"Segment":5`, `"TotalSegments":5`), "The Segment parameter is zero-based and must be less than parameter TotalSegments"},
			{on(`"Select":"X"`), oneError + "Value 'X' at 'select' failed to satisfy constraint: Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]"},
			{on(`"ConditionalOperator":"XOR"`), oneError + "Value 'XOR' at 'conditionalOperator' failed to satisfy constraint: Member must satisfy enum value set: [OR, AND]"},
			{on(`"ScanFilter":{"a":{}}`), oneError + "Value null at 'scanFilter.a.member.comparisonOperator' failed to satisfy constraint: Member must not be null"},
			{`{"TableName":"ab"}`, "TableName must be at least 3 characters long and at most 255 characters long"},
			{gone(), "ResourceNotFoundException: Requested resource not found"},
			{gone(`"Select":"SPECIFIC_ATTRIBUTES"`), oneError + "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"},
			{gone(`"AttributesToGet":["a"]`, `"ScanFilter":{}`, `"ConditionalOperator":"OR"`, `"ProjectionExpression":"a"`, `"FilterExpression":"b"`),
				"Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {AttributesToGet, ScanFilter, ConditionalOperator} Expression parameters: {ProjectionExpression, FilterExpression}"},
			{gone(`"ExpressionAttributeValues":{":a":{"S":"a"}}`), "ExpressionAttributeValues can only be specified when using expressions: FilterExpression is null"},
			{gone(`"ExpressionAttributeValues":{":a":{"S":"a"}}`, `"ProjectionExpression":"a"`), "ExpressionAttributeValues can only be specified when using expressions: FilterExpression is null"},
			{gone(`"ExpressionAttributeValues":{":a":{"N":""}}`, `"FilterExpression":"a = :a"`), "ExpressionAttributeValues contains invalid value: The parameter cannot be converted to a numeric value for key :a"},
			{gone(`"AttributesToGet":["a","a"]`, `"ScanFilter":{"a":{"ComparisonOperator":"EQ"}}`), invalidParam + "Duplicate value in attribute name: a"},
			{gone(`"ScanFilter":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"SS":["b","a","b"]}]}}`), invalidParam + "Input collection [b, a, b] contains duplicates."},
			{gone(`"ScanFilter":{"a":{"ComparisonOperator":"EQ"}}`, `"ExclusiveStartKey":{"a":{}}`), invalidParam + "Invalid number of argument(s) for the EQ ComparisonOperator"},
			{gone(`"ExclusiveStartKey":{"a":{"BS":["AA==","AA=="]}}`, `"Segment":0`), invalidParam + "Input collection [AA==, AA==]of type BS contains duplicates."},
			{gone(`"ExclusiveStartKey":{"a":{"NULL":false}}`), "The provided starting key is invalid: " + invalidParam + "Null attribute value types must have the value of true"},
			{gone(`"Segment":0`, `"FilterExpression":"("`), "The TotalSegments parameter is required but was not present in the request when Segment parameter is present"},
			{gone(`"FilterExpression":""`), "Invalid FilterExpression: The expression can not be empty;"},
			{gone(`"ProjectionExpression":"a"`, `"ExpressionAttributeNames":{"#a":"a"}`), "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}"},
			{on(`"IndexName":"none"`), "The table does not have the specified index: none"},
			{on(`"IndexName":"g-inc"`, `"ConsistentRead":true`), "Consistent reads are not supported on global secondary indexes"},
			{on(`"IndexName":"g-inc"`, `"Select":"ALL_ATTRIBUTES"`), invalidParam + "Select type ALL_ATTRIBUTES is not supported for global secondary index g-inc because its projection type is not ALL"},
			{on(`"IndexName":"g-inc"`, `"ProjectionExpression":"b"`), invalidParam + "Global secondary index g-inc does not project [b]"},
			{on(`"IndexName":"l-keys"`, `"FilterExpression":"attribute_exists(b)"`), invalidParam + "Secondary index l-keys does not project one or more filter attributes: [b]"},
			{on(`"FilterExpression":"attribute_exists(pk.a)"`), scalar + "Key: pk"},
			{on(`"FilterExpression":"attribute_exists(n[1])"`), scalar + "IndexKey: n"},
			{on(`"ExclusiveStartKey":{}`), startKeyInvalid},
			{on(`"ExclusiveStartKey":{"pk":{"S":"a"}}`), startKeyInvalid},
			{on(`"ExclusiveStartKey":{"pk":{"S":"a"},"sk":{"N":"1"}}`), startKeyInvalid},
			{on(`"ExclusiveStartKey":{"pk":{"S":"a"},"sk":{"S":"b"},"h":{"S":"b"}}`), startKeyInvalid},
			{on(`"IndexName":"g-keys"`, `"ExclusiveStartKey":{"pk":{"S":"a"},"sk":{"S":"b"}}`), startKeyInvalid},
			{on(`"IndexName":"g-keys"`, `"ExclusiveStartKey":{"pk":{"S":"a"},"sk":{"S":"b"},"h":{"S":""}}`), startKeyInvalid},
			{on(`"Segment":1`, `"TotalSegments":2`, `"ExclusiveStartKey":{"pk":{"S":"a"},"sk":{"S":"b"}}`),
				startKeyInvalid + ": Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: 2 Segment: 1"},
		})
	})
}

func TestScanPages(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		items := r.tied()
		for _, c := range []struct {
			index      string
			order, has []string
			show       []string
		}{
			{"", []string{}, nil, nil},
			{"l-all", []string{}, []string{"n"}, nil},
			{"g-keys", []string{}, []string{"h"}, []string{"h", "pk", "sk"}},
			{"g-inc", []string{}, []string{"h", "r"}, []string{"h", "r", "pk", "sk", "a"}},
			{"g-multi", []string{}, []string{"h", "i", "r", "n"}, nil},
		} {
			request := `{"TableName":"music"}`
			if c.index != "" {
				request = with(request, fmt.Sprintf(`"IndexName":%q`, c.index))
			}
			all, _ := r.walk("Scan", request)
			r.compare(request, all, expected(items, nil, c.order, c.has, c.show, false), c.order)
			for size := 1; size <= len(all)+1; size++ {
				limited := with(request, fmt.Sprintf(`"Limit":%d`, size))
				if got, _ := r.walk("Scan", limited); !slices.Equal(got, all) {
					r.Errorf("%s: pages give\n%s\nwant\n%s", limited, strings.Join(got, "\n"), strings.Join(all, "\n"))
				}
			}
		}
	})
}

// sample lets the statistics job take its sample.
func (r *reading) sample() {
	r.Helper()
	r.clock.Advance(24 * time.Hour) // due by then
	work, err := r.store.Pending(r.Context(), r.clock.Now())
	if err != nil {
		r.Fatal(err)
	}
	for _, w := range work {
		lease, err := r.store.Claim(r.Context(), w)
		if err != nil {
			r.Fatal(err)
		}
		for {
			p, err := lease.Step(r.Context(), r.clock.Now())
			if err != nil {
				r.Fatal(err)
			}
			if p.Finished {
				break
			}
		}
		if err := lease.Release(); err != nil {
			r.Fatal(err)
		}
	}
}

// TestParallelScan checks that segments read every item exactly once, with and
// without a sample, and that with one the work is spread.
func TestParallelScan(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		items := r.tied()
		for _, index := range []string{"", "g-keys", "l-all"} {
			request := `{"TableName":"music"}`
			if index != "" {
				request = with(request, fmt.Sprintf(`"IndexName":%q`, index))
			}
			all, _ := r.walk("Scan", request)
			r.segments(request, all, false)
		}
		r.sample()
		for _, index := range []string{"", "g-keys", "l-all"} {
			request := `{"TableName":"music"}`
			if index != "" {
				request = with(request, fmt.Sprintf(`"IndexName":%q`, index))
			}
			all, _ := r.walk("Scan", request)
			r.segments(request, all, true)
		}
		// What is written after the sample was taken is in one segment too.
		for i, it := range items {
			it["sk"] = ddb.String(fmt.Sprint("new", i))
			r.putItem("music", it)
		}
		all, _ := r.walk("Scan", `{"TableName":"music"}`)
		if len(all) != 2*len(items) {
			r.Fatalf("%d items", len(all))
		}
		r.segments(`{"TableName":"music"}`, all, false)
	})
}

func (r *reading) segments(request string, all []string, spread bool) {
	r.Helper()
	for total := 1; total <= 20; total++ {
		var got []string
		for k := range total {
			part, _ := r.walk("Scan", with(request, fmt.Sprintf(`"Segment":%d,"TotalSegments":%d,"Limit":3`, k, total)))
			got = append(got, part...)
			if mean := (len(all) + total - 1) / total; spread && len(part) > 2*mean+1 {
				r.Errorf("%s: segment %d of %d has %d of %d items", request, k, total, len(part), len(all))
			}
		}
		if !slices.Equal(got, all) { // segments are in key order
			r.Errorf("%s: %d segments give\n%s\nwant\n%s", request, total, strings.Join(got, "\n"), strings.Join(all, "\n"))
		}
	}
	far := r.list("Scan", with(request, `"Segment":999999,"TotalSegments":1000000,"ReturnConsumedCapacity":"TOTAL"`))
	if far.Count != 0 || far.LastEvaluatedKey != nil || string(far.ConsumedCapacity) != `{"TableName":"music","CapacityUnits":0.5}` {
		r.Errorf("%s: the millionth segment is %+v", request, far)
	}
}

func TestSegmentOf(t *testing.T) {
	t.Parallel()
	at := func(i int) storage.Position { return storage.Position{PK: []byte{byte(i)}, SK: []byte{}} }
	for m := range 12 {
		var sample []storage.Position
		for i := range m {
			sample = append(sample, at(2*i+1))
		}
		for _, total := range []int{1, 2, 3, 5, 7, 11, 12, 13, 40, maxSegments} {
			held := make([]int, 2*m+2)
			most, filled := 0, 0
			for k := range min(total, 50) {
				s := segmentOf(sample, k, total)
				n := 0
				for i := range held {
					if s.holds(at(i)) {
						held[i]++
						n++
					}
				}
				most = max(most, n)
				if n > 0 {
					filled++
				}
			}
			if slices.ContainsFunc(held, func(n int) bool { return n != 1 }) {
				t.Errorf("sample of %d, %d segments: positions are held %v times", m, total, held)
			}
			if want := min(total, m+1); filled != want || most > 2*((m+want)/want)+1 {
				t.Errorf("sample of %d, %d segments: %d of them filled, at most with %d of %d", m, total, filled, most, len(held))
			}
		}
	}
}

func TestScanOfDroppedTable(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		if _, err := r.store.DropTable(r.Context(), auth.DefaultAccount, "music", func(*storage.Table) error { return nil }); err != nil {
			r.Fatal(err)
		}
		for _, members := range []string{`"Segment":1,"TotalSegments":2`, `"Limit":1`} {
			if got := r.refused("Scan", with(`{"TableName":"music"}`, members)); got != "ResourceNotFoundException: Requested resource not found" {
				r.Errorf("%s of a table that is being deleted: %s", members, got)
			}
		}
	})
}
