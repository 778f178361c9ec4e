// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// writeBatch is a BatchWriteItem of one table.
func writeBatch(table string, requests ...string) string {
	return `{"RequestItems":{"` + table + `":[` + strings.Join(requests, ",") + `]}}`
}

func putReq(item string) string { return `{"PutRequest":{"Item":` + item + `}}` }
func delReq(key string) string  { return `{"DeleteRequest":{"Key":` + key + `}}` }

func puts(n int) []string {
	var list []string
	for i := range n {
		list = append(list, putReq(fmt.Sprintf(`{"pk":{"S":"%d"}}`, i)))
	}
	return list
}

func TestBatchWriteItem(t *testing.T) {
	t.Parallel()
	const done = `{"UnprocessedItems":{}}`
	const a, b, c = `{"pk":{"S":"a"}}`, `{"pk":{"S":"b"}}`, `{"pk":{"S":"c"},"sk":{"N":"1"}}`
	play(t, map[string][]call{
		"puts and deletes in several tables": {
			{"BatchWriteItem", writeBatch("hash", putReq(a), putReq(b)), done},
			{"BatchWriteItem", `{"RequestItems":{"hash":[` + putReq(`{"pk":{"S":"a"},"x":{"N":"1"}}`) + `,` + delReq(b) + `],"comp":[` + putReq(c) + `]}}`, done},
			get("hash", a, `{"pk":{"S":"a"},"x":{"N":"1"}}`),
			get("hash", b, `{}`),
			get("comp", c, c),
			{"BatchWriteItem", writeBatch("arn:aws:dynamodb:us-east-1:000000000000:table/hash", delReq(a)), done},
			get("hash", a, `{}`),
		},
		"one table by two names": {
			{"BatchWriteItem", `{"ReturnConsumedCapacity":"TOTAL","RequestItems":{"hash":[` + putReq(a) + `],"arn:aws:dynamodb:us-east-1:000000000000:table/hash":[` + putReq(b) + `]}}`,
				`{"UnprocessedItems":{},"ConsumedCapacity":[{"TableName":"hash","CapacityUnits":2.0}]}`},
			{"BatchWriteItem", `{"RequestItems":{"hash":[` + putReq(a) + `],"arn:aws:dynamodb:us-east-1:000000000000:table/hash":[` + delReq(a) + `]}}`,
				ve + "Provided list of item keys contains duplicates"},
			{"BatchWriteItem", writeBatch("arn:aws:dynamodb:us-east-1:111111111111:table/hash", putReq(a)), "AccessDeniedException: Access is denied"},
		},
		"25 requests": {
			{"BatchWriteItem", writeBatch("hash", puts(25)...), done},
			get("hash", `{"pk":{"S":"24"}}`, `{"pk":{"S":"24"}}`),
			{"BatchWriteItem", `{"RequestItems":{"hash":[` + strings.Join(puts(25), ",") + `],"comp":[` + putReq(c) + `]}}`,
				ve + "Too many items requested for the BatchWriteItem call"},
			get("comp", c, `{}`),
		},
		"one bad request rejects all": {
			{"BatchWriteItem", `{"RequestItems":{"hash":[` + putReq(a) + `],"none":[` + putReq(b) + `]}}`, notFound},
			{"BatchWriteItem", writeBatch("hash", putReq(a), putReq(`{"x":{"S":"a"}}`)), schemaText},
			{"BatchWriteItem", writeBatch("hash", putReq(a), putReq(`{"pk":{"N":"1"}}`)), schemaText},
			{"BatchWriteItem", writeBatch("hash", putReq(a), delReq(`{"pk":{"S":"b"},"x":{"S":"b"}}`)), schemaText},
			{"BatchWriteItem", writeBatch("hash", putReq(a), delReq(`{}`)), schemaText},
			{"BatchWriteItem", writeBatch("hash", putReq(a), putReq(`{"pk":{"S":""}}`)),
				ve + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
			{"BatchWriteItem", writeBatch("hash", putReq(a), delReq(`{"pk":{"S":"`+strings.Repeat("x", 2049)+`"}}`)), ve + hashTooLong},
			{"BatchWriteItem", writeBatch("hash", putReq(a), putReq(`{"pk":{"S":"b"},"v":{"S":"`+strings.Repeat("x", maxItemSize)+`"}}`)), ve + itemTooBig},
			{"BatchWriteItem", `{"RequestItems":{"hash":[` + putReq(a) + `],"idx":[` + putReq(`{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"N":"1"}}`) + `]}}`,
				ve + ivp + "Type mismatch for Index Key g Expected: S Actual: N IndexName: all"},
			{"BatchWriteItem", `{"RequestItems":{"hash":[` + putReq(a) + `],"idx":[` + putReq(`{"pk":{"S":"a"},"sk":{"S":"b"},"b":{"B":""}}`) + `]}}`,
				ve + "One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty binary value. IndexName: keys, IndexKey: b"},
			{"BatchWriteItem", writeBatch("hash", putReq(a), delReq(a)), ve + "Provided list of item keys contains duplicates"},
			{"BatchWriteItem", writeBatch("comp", putReq(c), putReq(`{"pk":{"S":"c"},"sk":{"N":"1.0"},"x":{"S":"y"}}`)), ve + "Provided list of item keys contains duplicates"},
			{"BatchWriteItem", writeBatch("hash", putReq(a), `{}`), ve + severalDatatypes},
			{"BatchWriteItem", writeBatch("hash", putReq(a), `{"PutRequest":{"Item":{"pk":{"S":"b"}}},"DeleteRequest":{"Key":{"pk":{"S":"c"}}}}`), ve + severalDatatypes},
			get("hash", a, `{}`),
		},
		"members": {
			{"BatchWriteItem", `{"RequestItems":{}}`, ve + "The requestItems parameter is required for BatchWriteItem"},
			{"BatchWriteItem", `{}`, ve1 + "Value null at 'requestItems' failed to satisfy constraint: Member must not be null"},
			{"BatchWriteItem", `{"ReturnConsumedCapacity":"INVALID","RequestItems":{"x!":[]}}`, ve1 + badCapacity},
			{"BatchWriteItem", `{"ReturnConsumedCapacity":"INVALID","ReturnItemCollectionMetrics":"INVALID","RequestItems":{}}`,
				ve + "2 validation errors detected: " + badCapacity + "; " + badMetrics},
			{"BatchWriteItem", `{"ReturnConsumedCapacity":"INVALID","RequestItems":{"hash":[` + putReq(a) + `,` + putReq(a) + `]}}`, ve1 + badCapacity},
			{"BatchWriteItem", `{"RequestItems":{"hash":[]}}`, ve1 + "Value '{hash=[]}' at 'requestItems' failed to satisfy constraint: " + ruleBatchWrites},
			{"BatchWriteItem", writeBatch("bad!name", putReq(`{"pk":{"S":"x"}}`)),
				ve1 + "Value '{bad!name=[WriteRequest(putRequest=PutRequest(item={pk=AttributeValue(s=x, n=null, b=null, iNT=null, dECIMAL=null, dOUBLE=null, " +
					"sS=null, nS=null, bS=null, iNTSET=null, dECIMALSET=null, dOUBLESET=null, m=null, l=null, nULL=null, bOOL=null)}, workloadProfileName=null), " +
					"deleteRequest=null)]}' at 'requestItems' failed to satisfy constraint: Map keys must satisfy constraint: [Member must have length less than or equal to 255, " +
					"Member must have length greater than or equal to 3, Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]"},
		},
	})
}

func TestBatchWriteEcho(t *testing.T) {
	t.Parallel()
	r := newRig(t, testStores()["memory"](t))
	got := r.do("BatchWriteItem", writeBatch("hash", puts(26)...))
	const head, tail = ve1 + "Value '{hash=[WriteRequest(putRequest=PutRequest(item={pk=AttributeValue(s=0, ", "]}' at 'requestItems' failed to satisfy constraint: " + ruleBatchWrites
	if !strings.HasPrefix(got, head) || !strings.HasSuffix(got, tail) {
		t.Errorf("26 requests: %s", got)
	}
	// Every kind of value, and a bound on the length.
	got = r.do("BatchWriteItem", writeBatch("x!", delReq(`{"b":{"B":"AAE="},"f":{"BOOL":false},"l":{"L":[{"N":"1"},{"NULL":true}]},"m":{"M":{"k":{"S":"v"},"o":{"S":"w"}}},"s":{"NS":["2","1"]}}`)))
	for _, want := range []string{
		"deleteRequest=DeleteRequest(key={b=AttributeValue(", "b=java.nio.HeapByteBuffer[pos=0 lim=2 cap=2]", "bOOL=false", "nULL=true", "nS=[1, 2]",
		"l=[AttributeValue(s=null, n=1,", "m={k=AttributeValue(s=v,", "), o=AttributeValue(s=w,",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("echo lacks %s: %s", want, got)
		}
	}
	got = r.do("BatchWriteItem", writeBatch("x!", putReq(`{"v":{"S":"`+strings.Repeat("x", 2*maxEcho)+`"}}`), putReq(`{"w":{"L":[{"S":"a"}]}}`)))
	if len(got) > maxEcho+1000 || !strings.Contains(got, "xxx}]}' at 'requestItems'") {
		t.Errorf("long echo has %d bytes and ends %s", len(got), got[max(0, len(got)-400):])
	}
}

// failing is an engine whose WriteEach fails for some keys.
type failing struct {
	storage.Engine
	err  error
	keys map[string]bool // by PK
}

func (f *failing) WriteEach(ctx context.Context, ws []storage.Write) []storage.Result {
	out := make([]storage.Result, len(ws))
	for i, w := range ws {
		if f.keys[strings.TrimRight(string(w.Key.PK), "\x00")] {
			out[i].Err = f.err
			continue
		}
		out[i] = f.Engine.WriteEach(ctx, []storage.Write{w})[0]
	}
	return out
}

func TestBatchWriteUnprocessed(t *testing.T) {
	t.Parallel()
	const a, b, c = `{"pk":{"S":"a"},"v":{"N":"1"}}`, `{"pk":{"S":"b"}}`, `{"pk":{"S":"c"},"sk":{"N":"1"}}`
	request := `{"ReturnConsumedCapacity":"TOTAL","RequestItems":{"hash":[` + putReq(a) + `,` + delReq(b) + `],"comp":[` + putReq(c) + `]}}`
	for _, test := range []struct {
		err  error
		keys string // that fail
		want string
	}{
		{storage.ErrUnavailable, "a", `{"UnprocessedItems":{"hash":[` + putReq(a) + `]},"ConsumedCapacity":[{"TableName":"comp","CapacityUnits":1.0},{"TableName":"hash","CapacityUnits":1.0}]}`},
		{storage.ErrUnavailable, "b,c", `{"UnprocessedItems":{"comp":[` + putReq(c) + `],"hash":[` + delReq(b) + `]},"ConsumedCapacity":[{"TableName":"hash","CapacityUnits":1.0}]}`},
		{storage.ErrUnavailable, "a,b", `{"UnprocessedItems":{"hash":[` + putReq(a) + `,` + delReq(b) + `]},"ConsumedCapacity":[{"TableName":"comp","CapacityUnits":1.0}]}`},
		{storage.ErrUnavailable, "a,b,c", unavailable},
		{storage.ErrInDoubt, "b", `{"UnprocessedItems":{"hash":[` + delReq(b) + `]},"ConsumedCapacity":[{"TableName":"comp","CapacityUnits":1.0},{"TableName":"hash","CapacityUnits":1.0}]}`},
		{storage.ErrInDoubt, "a,b,c", "InternalServerError: Internal server error"},
		{storage.ErrConflict, "c", `{"UnprocessedItems":{"comp":[` + putReq(c) + `]},"ConsumedCapacity":[{"TableName":"hash","CapacityUnits":2.0}]}`},
		{storage.ErrConflict, "a,b,c", `{"UnprocessedItems":{"comp":[` + putReq(c) + `],"hash":[` + putReq(a) + `,` + delReq(b) + `]},"ConsumedCapacity":[]}`},
		{storage.ErrTableNotFound, "a", notFound},
	} {
		f := &failing{Engine: testStores()["memory"](t), err: test.err, keys: map[string]bool{}}
		for k := range strings.SplitSeq(test.keys, ",") {
			f.keys[k] = true
		}
		r := newRig(t, f, writeTables()...)
		r.want("BatchWriteItem", request, test.want)
	}
}

func TestBatchWriteStoredBytes(t *testing.T) {
	t.Parallel()
	// Each number counts 2 bytes and is stored in 132: ten million for an item.
	numbers := strings.TrimSuffix(strings.Repeat(`{"N":"1E-130"},`, 70_000), ",")
	onEachStore(t, writeTables(), func(r *rig) {
		var requests []string
		for i := range 3 {
			requests = append(requests, putReq(fmt.Sprintf(`{"pk":{"S":"%d"},"v":{"L":[%s]}}`, i, numbers)))
		}
		left := 3
		for calls := 0; left > 0; calls++ {
			var answer struct {
				UnprocessedItems map[string][]json.RawMessage
			}
			if err := json.Unmarshal([]byte(r.must("BatchWriteItem", writeBatch("hash", requests...))), &answer); err != nil {
				r.Fatal(err)
			}
			requests = requests[:0]
			for _, u := range answer.UnprocessedItems["hash"] {
				if len(u) > len(numbers)+100 {
					r.Errorf("a request left is longer than it was sent: %d bytes", len(u))
				}
				requests = append(requests, string(u))
			}
			if len(requests) >= left || calls == 0 && len(requests) == 0 {
				r.Fatalf("call %d leaves %d of %d requests", calls, len(requests), left)
			}
			left = len(requests)
		}
		for i := range 3 {
			if got := r.must("GetItem", fmt.Sprintf(`{"TableName":"hash","Key":{"pk":{"S":"%d"}},"ProjectionExpression":"pk"}`, i)); got != fmt.Sprintf(`{"Item":{"pk":{"S":"%d"}}}`, i) {
				r.Errorf("item %d: %s", i, got)
			}
		}
	})
}
