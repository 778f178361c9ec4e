// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/api"
)

// TestReadsWaitForRoom: what a read has to answer whole is waited for when there
// is no room, with nothing held meanwhile; the answer is the same.
func TestReadsWaitForRoom(t *testing.T) {
	t.Parallel()
	const key, values = `"Key":{"pk":{"S":"1"}}`, `"ExpressionAttributeValues":{":p":{"S":"1"},":v":{"S":"no"}}`
	for name, c := range map[string]struct{ op, request string }{
		"get":       {"GetItem", `{"TableName":"hash",` + key + `,"ReturnConsumedCapacity":"TOTAL"}`},
		"projected": {"GetItem", `{"TableName":"hash",` + key + `,"ProjectionExpression":"v"}`},
		"batch":     {"BatchGetItem", `{"RequestItems":{"hash":{"Keys":[{"pk":{"S":"0"}},{"pk":{"S":"1"}}]}},"ReturnConsumedCapacity":"TOTAL"}`},
		"query": {"Query", `{"TableName":"hash","KeyConditionExpression":"pk = :p","FilterExpression":"v <> :v","ProjectionExpression":"v",` + values +
			`,"ReturnConsumedCapacity":"TOTAL"}`},
		"scan":        {"Scan", `{"TableName":"hash","Limit":1}`},
		"transaction": {"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"hash",` + key + `}}],"ReturnConsumedCapacity":"TOTAL"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, writeTables(), func(r *rig) {
				r.must("PutItem", `{"TableName":"hash","Item":{"pk":{"S":"1"},"v":{"S":"`+strings.Repeat("x", 390_000)+`"}}}`)
				want := r.must(c.op, c.request)
				full := func(int) bool { return false }

				w := &scarce{size: 64 << 20}
				out := &api.Body{B: []byte("before "), Grow: full, Work: w}
				if err := r.into(c.op, c.request, out); err != nil || string(out.B) != "before "+want {
					r.Errorf("%v\n got %.300s\nwant %.300s", err, out.B, want)
				}
				if w.awaited != 1 || w.taken < 780_000 {
					r.Errorf("waited %d times, for %d bytes", w.awaited, w.taken)
				}
				busy := &api.Body{Grow: full, Work: &scarce{err: api.Unavailable()}}
				if err := r.into(c.op, c.request, busy); err == nil || Fault(err).Status != 503 {
					r.Errorf("in vain: got %v", err)
				}
			})
		})
	}
}
