// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// edges are key values around which encodings go wrong.
var edges = map[ddb.Kind][]string{
	ddb.KindN: {"-1E125", "-100", "-12.5", "-12", "-1", "-0.1", "-1E-130", "0", "1E-130", "0.1", "0.11", "1", "1.5", "9", "10", "12", "100", "9.9E125"},
	ddb.KindB: {"AA==", "AAA=", "AP8=", "AQ==", "/w==", "//8=", "//8A", "YQ==", "YWE=", "YWH/"},
	ddb.KindS: {"a", "a\\u0000", "a\\u0000b", "aa", "ab", "b", "\\u0000", "é", "\\uffff", "😀"},
}

func edge(k ddb.Kind, i int) ddb.Value {
	v, err := ddb.ParseValue([]byte(`{"` + k.String() + `":"` + edges[k][i] + `"}`))
	if err != nil {
		panic(err)
	}
	return v
}

// TestQueryAgainstBruteForce compares every comparison of every kind of sort
// key, alone and behind another attribute, with the values themselves.
func TestQueryAgainstBruteForce(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		rnd := rand.New(rand.NewPCG(1, 2))
		for _, k := range []ddb.Kind{ddb.KindS, ddb.KindN, ddb.KindB} {
			table := "sorted-by-" + k.String()
			r.create(testTable(table, "pk:S/sk:"+k.String(),
				testIndex{"behind", "pk:S/g:" + k.String() + ",sk:" + k.String(), ddb.ProjectAll},
				testIndex{"local", "/g:" + k.String(), ddb.ProjectKeysOnly}))
			var items []ddb.Item
			for i := range edges[k] {
				it := ddb.Item{"pk": ddb.String("p"), "sk": edge(k, i), "g": edge(k, rnd.IntN(3)+2)}
				items = append(items, it)
				r.putItem(table, it)
			}
			for i := range edges[k] {
				lo, hi := edge(k, i), edge(k, rnd.IntN(len(edges[k])))
				r.compareQueries(table, k, items, lo, hi)
			}
		}
	})
}

// compareQueries runs all comparisons with lo and hi.
func (r *reading) compareQueries(table string, k ddb.Kind, items []ddb.Item, lo, hi ddb.Value) {
	r.Helper()
	if c, _ := ddb.Compare(lo, hi); c > 0 {
		lo, hi = hi, lo
	}
	type test func(v ddb.Value) bool
	to := func(o ddb.Value, is func(c int) bool) test {
		return func(v ddb.Value) bool { c, _ := ddb.Compare(v, o); return is(c) }
	}
	eq, lt, le := func(c int) bool { return c == 0 }, func(c int) bool { return c < 0 }, func(c int) bool { return c <= 0 }
	gt, ge := func(c int) bool { return c > 0 }, func(c int) bool { return c >= 0 }
	between := func(v ddb.Value) bool { return to(lo, ge)(v) && to(hi, le)(v) }
	begins := func(v ddb.Value) bool { return strings.HasPrefix(v.Str(), lo.Str()) }
	for _, c := range []struct {
		condition, index string
		g, sk            test
	}{
		{"sk = :a", "", nil, to(lo, eq)},
		{"sk < :a", "", nil, to(lo, lt)},
		{"sk <= :a", "", nil, to(lo, le)},
		{"sk > :a", "", nil, to(lo, gt)},
		{"sk >= :a", "", nil, to(lo, ge)},
		{"sk between :a and :b", "", nil, between},
		{"begins_with(sk, :a)", "", nil, begins},
		{"g = :b and sk = :a", "behind", to(hi, eq), to(lo, eq)},
		{"g = :b and sk < :a", "behind", to(hi, eq), to(lo, lt)},
		{"g = :b and sk >= :a", "behind", to(hi, eq), to(lo, ge)},
		{"g = :b and begins_with(sk, :a)", "behind", to(hi, eq), begins},
		{"g < :a", "behind", to(lo, lt), nil},
		{"g <= :a", "behind", to(lo, le), nil},
		{"g > :a", "behind", to(lo, gt), nil},
		{"g >= :a", "behind", to(lo, ge), nil},
		{"g between :a and :b", "behind", between, nil},
		{"begins_with(g, :a)", "behind", begins, nil},
		{"g between :a and :b", "local", between, nil},
		{"g <= :b", "local", to(hi, le), nil},
	} {
		if k == ddb.KindN && strings.Contains(c.condition, "begins") {
			continue
		}
		request := fmt.Sprintf(`{"TableName":%q,"KeyConditionExpression":"pk = :p and %s","ExpressionAttributeValues":{":p":{"S":"p"}`, table, c.condition)
		for name, v := range map[string]ddb.Value{":a": lo, ":b": hi} {
			if strings.Contains(c.condition, name) {
				request += fmt.Sprintf(`,%q:%s`, name, ddb.AppendValue(nil, v))
			}
		}
		request, order := request+"}}", []string{"sk"}
		if c.index != "" {
			request, order = with(request, fmt.Sprintf(`"IndexName":%q`, c.index)), []string{"g", "sk"}
		}
		var match []ddb.Item
		for _, it := range items {
			if (c.g == nil || c.g(it["g"])) && (c.sk == nil || c.sk(it["sk"])) {
				match = append(match, it)
			}
		}
		for _, reverse := range []bool{false, true} {
			want := expected(match, nil, order, nil, nil, reverse)
			for _, limit := range []string{"", `"Limit":2`} {
				paged := with(request, fmt.Sprintf(`"ScanIndexForward":%t`, !reverse), limit)
				if got, _ := r.walk("Query", paged); !slices.Equal(got, want) {
					r.Errorf("%s gives\n%s\nwant\n%s", paged, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
	}
}

// opaque is an engine whose items are bytes that nobody can decode.
type opaque struct {
	storage.Engine
	item string
}

func (o opaque) Get(ctx context.Context, t *storage.Table, k storage.Key) (*storage.Row, error) {
	row, err := o.Engine.Get(ctx, t, k)
	if row != nil {
		row.Item = []byte(o.item)
	}
	return row, err
}

func (o opaque) GetAll(ctx context.Context, ks []storage.TableKey, budget int) ([]*storage.Row, error) {
	rows, err := o.Engine.GetAll(ctx, ks, budget)
	for _, row := range rows {
		row.Item = []byte(o.item)
	}
	return rows, err
}

func (o opaque) Range(ctx context.Context, t *storage.Table, rng storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		for row, err := range o.Engine.Range(ctx, t, rng) {
			if row != nil {
				row.Item = []byte(o.item)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// TestStoredBytesAreServed checks that whole items are copied without being
// decoded, and that one that has to be and cannot is no panic.
func TestStoredBytesAreServed(t *testing.T) {
	t.Parallel()
	forReading(t, func(r *reading) {
		r.songs()
		o := r.over(opaque{r.store, `{"a":0}`})
		const keys = `{"pk":{"S":"q"},"sk":{"S":"a"}}`
		const query = `{"TableName":"music","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}},"Limit":2}`
		for _, c := range []struct{ op, request, want string }{
			{"GetItem", `{"TableName":"music","Key":` + keys + `}`, `{"Item":{"a":0}}`},
			{"BatchGetItem", `{"RequestItems":{"music":{"Keys":[` + keys + `]}}}`, `{"Responses":{"music":[{"a":0}]},"UnprocessedKeys":{}}`},
			{"Query", query, `{"Items":[{"a":0},{"a":0}],"Count":2,"ScannedCount":2,"LastEvaluatedKey":{"pk":{"S":"p"},"sk":{"S":"ab"}}}`},
			{"Query", with(query, `"Select":"COUNT"`), `{"Count":2,"ScannedCount":2,"LastEvaluatedKey":{"pk":{"S":"p"},"sk":{"S":"ab"}}}`},
			{"Query", with(query, `"IndexName":"l-all"`), `{"Items":[{"a":0},{"a":0}],"Count":2,"ScannedCount":2,"LastEvaluatedKey":{"n":{"N":"6"},"pk":{"S":"p"},"sk":{"S":"c\u0000"}}}`},
			{"Query", with(query, `"IndexName":"l-keys"`), `{"Items":[{"n":{"N":"5"},"pk":{"S":"p"},"sk":{"S":"cé"}},{"n":{"N":"6"},"pk":{"S":"p"},"sk":{"S":"c\u0000"}}],"Count":2,"ScannedCount":2,"LastEvaluatedKey":{"n":{"N":"6"},"pk":{"S":"p"},"sk":{"S":"c\u0000"}}}`},
			{"Scan", `{"TableName":"music","IndexName":"g-all","Limit":1}`, `{"Items":[{"a":0}],"Count":1,"ScannedCount":1,"LastEvaluatedKey":{"h":{"S":"x"},"n":{"N":"5"},"pk":{"S":"p"},"sk":{"S":"cé"}}}`},
		} {
			if got := o.must(c.op, c.request); got != c.want {
				r.Errorf("%s %s\n got %s\nwant %s", c.op, c.request, got, c.want)
			}
		}
		o = r.over(opaque{r.store, `{?}`})
		for op, request := range map[string]string{
			"GetItem":      `{"TableName":"music","Key":` + keys + `,"ProjectionExpression":"a"}`,
			"BatchGetItem": `{"RequestItems":{"music":{"Keys":[` + keys + `],"AttributesToGet":["a"]}}}`,
			"Query":        with(query, `"FilterExpression":"attribute_exists(a)"`),
			"Scan":         `{"TableName":"music","IndexName":"g-inc"}`,
		} {
			err := o.callInto(op, request, &api.Body{})
			if !errors.Is(err, storage.ErrCorrupt) || Fault(err).Code != api.CodeInternal {
				r.Errorf("%s of an item that cannot be decoded: %v", op, err)
			}
		}
	})
}

// FuzzReads sends arbitrary requests: no answer may be an internal error.
func FuzzReads(f *testing.F) {
	ops := []string{"GetItem", "BatchGetItem", "Query", "Scan"}
	for _, seed := range []struct {
		op   int
		text string
	}{
		{0, `{"TableName":"music","Key":{"pk":{"S":"p"},"sk":{"S":"a"}},"ProjectionExpression":"a, m[1].#x","ExpressionAttributeNames":{"#x":"y"},"ReturnConsumedCapacity":"INDEXES"}`},
		{0, `{"TableName":"solo","Key":{"pk":{"S":"p"}},"AttributesToGet":["a"],"ConsistentRead":true}`},
		{1, `{"RequestItems":{"solo":{"Keys":[{"pk":{"S":"p"}}],"ProjectionExpression":"a"},"music":{"Keys":[{"pk":{"S":"p"},"sk":{"S":"a"}}]}}}`},
		{2, `{"TableName":"music","IndexName":"g-multi","KeyConditionExpression":"h = :h and i = :i and begins_with(r, :r)","FilterExpression":"size(b) > :i","ExpressionAttributeValues":{":h":{"S":"x"},":i":{"N":"1"},":r":{"S":"1"}},"Limit":1}`},
		{2, `{"TableName":"music","IndexName":"l-inc","Select":"ALL_ATTRIBUTES","KeyConditions":{"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"p"}]},"n":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"1"},{"N":"9"}]}},"ScanIndexForward":false,"ExclusiveStartKey":{"pk":{"S":"p"},"sk":{"S":"a"},"n":{"N":"8"}}}`},
		{2, `{"TableName":"plain","KeyConditionExpression":"pk = :p and sk between :a and :b","ExpressionAttributeValues":{":p":{"S":"p"},":a":{"N":"-1E125"},":b":{"N":"1E-130"}},"QueryFilter":{}}`},
		{3, `{"TableName":"music","IndexName":"g-keys","Segment":1,"TotalSegments":3,"Select":"COUNT","ExclusiveStartKey":{"pk":{"S":"p"},"sk":{"S":"a"},"h":{"S":"x"}}}`},
		{3, `{"TableName":"music","ScanFilter":{"n":{"ComparisonOperator":"IN","AttributeValueList":[{"N":"1"}]},"b":{"ComparisonOperator":"NULL"}},"ConditionalOperator":"OR"}`},
	} {
		f.Add(seed.op, []byte(seed.text))
	}
	f.Fuzz(func(t *testing.T, op int, request []byte) {
		r := &reading{newRig(t, storagetest.NewMemory(100))}
		r.songs()
		r.sample()
		ins := []any{&api.GetItemInput{}, &api.BatchGetItemInput{}, &api.QueryInput{}, &api.ScanInput{}}
		op = int(uint(op) % uint(len(ops)))
		if err := api.Decode(request, ins[op]); err != nil {
			return
		}
		out := &api.Body{}
		var err error
		switch in := ins[op].(type) {
		case *api.GetItemInput:
			err = r.e.GetItem(t.Context(), auth.Anonymous(), in, out)
		case *api.BatchGetItemInput:
			err = r.e.BatchGetItem(t.Context(), auth.Anonymous(), in, out)
		case *api.QueryInput:
			err = r.e.Query(t.Context(), auth.Anonymous(), in, out)
		case *api.ScanInput:
			err = r.e.Scan(t.Context(), auth.Anonymous(), in, out)
		}
		if err != nil {
			if fault := Fault(err); fault.Status >= 500 {
				t.Fatalf("%s %s: %v", ops[op], request, fault.Cause)
			}
			return
		}
		if !json.Valid(out.B) {
			t.Fatalf("%s %s: %s is not JSON", ops[op], request, out.B)
		}
	})
}
