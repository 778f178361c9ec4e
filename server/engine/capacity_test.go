// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

func TestUnits(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int]float64{0: 1, 1: 1, 1024: 1, 1025: 2, 409600: 400} {
		if got := writeUnits(bytes); got != want {
			t.Errorf("writing %d bytes costs %v, want %v", bytes, got, want)
		}
	}
	for bytes, want := range map[int]float64{0: 1, 1: 1, 4096: 1, 4097: 2, 409600: 100} {
		if got := readUnits(bytes, true); got != want {
			t.Errorf("reading %d bytes costs %v, want %v", bytes, got, want)
		}
		if got := readUnits(bytes, false); got != want/2 {
			t.Errorf("reading %d bytes eventually costs %v, want %v", bytes, got, want/2)
		}
	}
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", 0.5: "0.5", 40000: "40000.0", 1e21: "1000000000000000000000.0"} {
		if got := string(appendDouble(nil, f)); got != want {
			t.Errorf("%v is written %s", f, got)
		}
	}
}

// capacity is a write of the item "a" "b" of table "idx" that reports INDEXES.
func capacity(op, rest, want string) call {
	object := "Key"
	if op == "PutItem" {
		object = "Item"
	}
	return call{
		op, `{"TableName":"idx","ReturnConsumedCapacity":"INDEXES","` + object + `":{"pk":{"S":"a"},"sk":{"S":"b"}` + rest + `}`,
		`{"ConsumedCapacity":{"TableName":"idx",` + want + `}}`,
	}
}

func units(total, table string, arms ...string) string {
	s := `"CapacityUnits":` + total + `,"Table":{"CapacityUnits":` + table + `}`
	for i := 0; i+1 < len(arms); i += 2 {
		s += `,"` + arms[i] + `SecondaryIndexes":{`
		for j, a := range strings.Split(arms[i+1], ",") {
			if j > 0 {
				s += ","
			}
			name, n, _ := strings.Cut(a, "=")
			s += `"` + name + `":{"CapacityUnits":` + n + `}`
		}
		s += "}"
	}
	return s
}

func TestWriteCapacity(t *testing.T) {
	t.Parallel()
	kib := `{"S":"` + strings.Repeat("x", 1024) + `"}`
	play(t, map[string][]call{
		"indexes": {
			capacity("PutItem", `}`, units("1.0", "1.0")),
			// enters two global and one local index
			capacity("PutItem", `,"g":{"S":"1"},"l":{"S":"1"}}`, units("3.0", "1.0", "Global", "some=1.0", "Local", "local=1.0")),
			capacity("PutItem", `,"g":{"S":"1"},"l":{"S":"1"}}`, units("1.0", "1.0")), // identical
			// what "some" does not project, "local" does
			capacity("PutItem", `,"g":{"S":"1"},"l":{"S":"1"},"z":{"S":"1"}}`, units("2.0", "1.0", "Local", "local=1.0")),
			capacity("UpdateItem", `},"UpdateExpression":"SET x = :v","ExpressionAttributeValues":{":v":{"S":"1"}}`, units("3.0", "1.0", "Global", "some=1.0", "Local", "local=1.0")),
			// another key: delete and insert
			capacity("UpdateItem", `},"UpdateExpression":"SET g = :v","ExpressionAttributeValues":{":v":{"S":"2"}}`, units("4.0", "1.0", "Global", "some=2.0", "Local", "local=1.0")),
			// enters "all" with the second key attribute
			capacity("UpdateItem", `},"UpdateExpression":"SET h = :v","ExpressionAttributeValues":{":v":{"N":"2"}}`, units("3.0", "1.0", "Global", "all=1.0", "Local", "local=1.0")),
			capacity("UpdateItem", `},"UpdateExpression":"REMOVE g"`, units("4.0", "1.0", "Global", "all=1.0,some=1.0", "Local", "local=1.0")),
			capacity("UpdateItem", `},"UpdateExpression":"REMOVE nope"`, units("1.0", "1.0")),
			capacity("DeleteItem", `}`, units("2.0", "1.0", "Local", "local=1.0")),
			capacity("DeleteItem", `}`, units("1.0", "1.0")),
		},
		"sizes": {
			{"PutItem", `{"TableName":"hash","ReturnConsumedCapacity":"TOTAL","Item":{"pk":{"S":"a"},"v":` + kib + `}}`, `{"ConsumedCapacity":{"TableName":"hash","CapacityUnits":2.0}}`},
			{"PutItem", `{"TableName":"hash","ReturnConsumedCapacity":"TOTAL","Item":{"pk":{"S":"a"}}}`, `{"ConsumedCapacity":{"TableName":"hash","CapacityUnits":2.0}}`},
			{"PutItem", `{"TableName":"hash","ReturnConsumedCapacity":"INDEXES","ReturnValues":"ALL_OLD","Item":{"pk":{"S":"a"}}}`,
				`{"Attributes":{"pk":{"S":"a"}},"ConsumedCapacity":{"TableName":"hash","CapacityUnits":1.0,"Table":{"CapacityUnits":1.0}}}`},
			{"PutItem", `{"TableName":"hash","ReturnConsumedCapacity":"NONE","Item":{"pk":{"S":"a"}}}`, `{}`},
			capacity("PutItem", `,"l":{"S":"1"},"b":{"B":"AA=="},"v":`+kib+`}`, units("5.0", "2.0", "Global", "keys=1.0", "Local", "local=2.0")),
			capacity("UpdateItem", `},"UpdateExpression":"SET l = :v REMOVE v","ExpressionAttributeValues":{":v":{"S":"2"}}`, units("5.0", "2.0", "Local", "local=3.0")),
			capacity("PutItem", `,"b":{"B":"AA=="},"z":{"S":"1"}}`, units("2.0", "1.0", "Local", "local=1.0")),
			capacity("PutItem", `,"b":{"B":"AQ=="},"m1":{"S":"1"},"m2":{"N":"1"},"m3":{"S":"1"},"m4":{"S":"1"}}`, units("4.0", "1.0", "Global", "keys=2.0,multi=1.0")),
		},
		"total": {
			{"PutItem", `{"TableName":"idx","ReturnConsumedCapacity":"TOTAL","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":"1"}}}`, `{"ConsumedCapacity":{"TableName":"idx","CapacityUnits":2.0}}`},
		},
		"batch": {
			{"BatchWriteItem", `{"ReturnConsumedCapacity":"INDEXES","RequestItems":{"hash":[` + putReq(`{"pk":{"S":"a"}}`) + `,` + delReq(`{"pk":{"S":"b"}}`) + `],"idx":[` +
				putReq(`{"pk":{"S":"a"},"sk":{"S":"1"},"g":{"S":"1"}}`) + `,` + putReq(`{"pk":{"S":"a"},"sk":{"S":"2"},"g":{"S":"1"},"l":{"S":"1"}}`) + `]}}`,
				`{"UnprocessedItems":{},"ConsumedCapacity":[{"TableName":"hash",` + units("2.0", "2.0") + `},{"TableName":"idx",` +
					units("5.0", "2.0", "Global", "some=2.0", "Local", "local=1.0") + `}]}`},
			{"BatchWriteItem", `{"ReturnConsumedCapacity":"TOTAL","RequestItems":{"idx":[` + delReq(`{"pk":{"S":"a"},"sk":{"S":"1"}}`) + `,` + delReq(`{"pk":{"S":"a"},"sk":{"S":"2"}}`) + `]}}`,
				`{"UnprocessedItems":{},"ConsumedCapacity":[{"TableName":"idx","CapacityUnits":5.0}]}`},
		},
	})
}

func TestItemCollectionMetrics(t *testing.T) {
	t.Parallel()
	const size = `,"ReturnItemCollectionMetrics":"SIZE"`
	const key = `"Key":{"pk":{"S":"a"},"sk":{"S":"b"}}`
	const metrics = `{"ItemCollectionKey":{"pk":{"S":"a"}},"SizeEstimateRangeGB":[0.0,1.0]}`
	play(t, map[string][]call{
		"all": {
			{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"l":{"S":"1"}}` + size + `}`, `{"ItemCollectionMetrics":` + metrics + `}`},
			{"UpdateItem", `{"TableName":"idx",` + key + size + `,"ReturnConsumedCapacity":"TOTAL","ReturnValues":"ALL_NEW"}`,
				`{"Attributes":{"l":{"S":"1"},"pk":{"S":"a"},"sk":{"S":"b"}},"ConsumedCapacity":{"TableName":"idx","CapacityUnits":1.0},"ItemCollectionMetrics":` + metrics + `}`},
			{"DeleteItem", `{"TableName":"idx",` + key + size + `}`, `{"ItemCollectionMetrics":` + metrics + `}`},
			{"PutItem", `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"}},"ReturnItemCollectionMetrics":"NONE"}`, `{}`},
			{"PutItem", `{"TableName":"comp","Item":{"pk":{"S":"a"},"sk":{"N":"1"}}` + size + `}`, `{}`}, // no local index
			{"BatchWriteItem", `{"RequestItems":{"hash":[` + putReq(`{"pk":{"S":"a"}}`) + `],"idx":[` + putReq(`{"pk":{"S":"a"},"sk":{"S":"1"}}`) + `,` +
				delReq(`{"pk":{"S":"a"},"sk":{"S":"2"}}`) + `,` + putReq(`{"pk":{"S":"b"},"sk":{"S":"1"}}`) + `]}` + size + `}`,
				`{"UnprocessedItems":{},"ItemCollectionMetrics":{"idx":[` + metrics + `,` + strings.Replace(metrics, `"a"`, `"b"`, 1) + `]}}`},
			{"BatchWriteItem", `{"RequestItems":{"hash":[` + putReq(`{"pk":{"S":"a"}}`) + `]}` + size + `}`, `{"UnprocessedItems":{},"ItemCollectionMetrics":{}}`},
		},
	})
}

// sized is an engine whose rows all have a size of their own, or that cannot
// be read at all.
type sized struct {
	storage.Engine
	size int
	err  error
}

func (s *sized) Range(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		if s.err != nil {
			yield(nil, s.err)
			return
		}
		for row, err := range s.Engine.Range(ctx, t, r) {
			if err == nil {
				row = row.Clone()
				row.Size = s.size
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func TestItemCollectionSize(t *testing.T) {
	t.Parallel()
	const put = `{"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"l":{"S":"1"}},"ReturnItemCollectionMetrics":"SIZE"}`
	const collection = `{"ItemCollectionKey":{"pk":{"S":"a"}},"SizeEstimateRangeGB":[%s]}`
	request := `{"ReturnItemCollectionMetrics":"SIZE","RequestItems":{"idx":[` + putReq(`{"pk":{"S":"a"},"sk":{"S":"b"}}`) + `]}}`
	for _, c := range []struct {
		size              int
		err               error
		single, forABatch string // "" for none
	}{
		{size: 1<<30 - 1, single: "1.0,2.0", forABatch: "0.0,1.0"}, // the row, and its entry in the local index
		{size: 1 << 30, single: "2.0,3.0", forABatch: "1.0,2.0"},
		{size: 1 << 31, single: "4.0,5.0", forABatch: "2.0,3.0"},
		{err: storage.ErrTableNotFound}, // dropped since: the write was done all the same
		{err: storage.ErrUnavailable, single: unavailable, forABatch: unavailable},
	} {
		single, forABatch := c.single, c.forABatch
		switch {
		case c.err == nil:
			single = `{"ItemCollectionMetrics":` + fmt.Sprintf(collection, single) + `}`
			forABatch = `{"UnprocessedItems":{},"ItemCollectionMetrics":{"idx":[` + fmt.Sprintf(collection, forABatch) + `]}}`
		case single == "":
			single, forABatch = `{}`, `{"UnprocessedItems":{},"ItemCollectionMetrics":{}}`
		}
		r := newRig(t, &sized{testStores()["memory"](t), c.size, c.err}, writeTables()...)
		r.want("PutItem", put, single)
		r.want("BatchWriteItem", request, forABatch)
	}
}
