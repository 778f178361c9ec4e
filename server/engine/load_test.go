// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

// scarce is an api.Work that has size bytes, of which others hold some until
// somebody waits.
type scarce struct {
	size, others int
	taken, most  int
	awaited      int
	err          error // of Await
}

func (s *scarce) Try(n int) bool {
	if s.taken+s.others+n > s.size {
		return false
	}
	s.taken += n
	s.most = max(s.most, s.taken)
	return true
}

func (s *scarce) Await(n int) (whole bool, err error) {
	s.awaited++
	if s.taken = 0; s.err != nil {
		return false, s.err
	}
	s.others = 0
	s.taken = min(n, s.size)
	s.most = max(s.most, s.taken)
	return n >= s.size, nil
}

func (s *scarce) Keep(n int) { s.taken = min(s.taken, n) }

// TestOperationsWaitForRoom: what an operation holds is counted, nothing is held
// while it waits, and it is carried out as ever afterwards.
func TestOperationsWaitForRoom(t *testing.T) {
	t.Parallel()
	const busy = "ServiceUnavailable: The server is busy, try again"
	var updates, checks, gets, keys, puts []string
	for i := range 8 {
		key := fmt.Sprintf(`"Key":{"pk":{"S":"%d"}}`, i)
		updates = append(updates, set(fmt.Sprint(i), "SET n = :v", one))
		checks = append(checks, act("ConditionCheck", key+`,`+absent+`,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`))
		gets = append(gets, `{"Get":{"TableName":"hash",`+key+`}}`)
		keys = append(keys, key[len(`"Key":`):])
		puts = append(puts, `{"DeleteRequest":{`+key+`}}`)
	}
	transaction := transact("", updates...)
	for _, c := range []struct {
		name, op, request string
		work              scarce
		err               string // that the answer begins with
		awaited           bool
	}{
		{name: "enough", op: "TransactWriteItems", request: transaction, work: scarce{size: 64 << 20}},
		{name: "others first", op: "TransactWriteItems", request: transaction, work: scarce{size: 64 << 20, others: 64 << 20}, awaited: true},
		{name: "half-way", op: "TransactWriteItems", request: transaction, work: scarce{size: 64 << 20, others: 61 << 20}, awaited: true},
		{name: "more than there ever is", op: "TransactWriteItems", request: transaction, work: scarce{size: 1 << 20}, awaited: true},
		{name: "in vain", op: "TransactWriteItems", request: transaction, work: scarce{others: 1, err: api.Unavailable()}, err: busy, awaited: true},
		{name: "shown", op: "TransactWriteItems", request: transact("", checks...), work: scarce{size: 64 << 20, others: 64 << 20}, err: canceledText, awaited: true},
		{name: "update", op: "UpdateItem", request: `{"TableName":"hash","Key":{"pk":{"S":"1"}},"UpdateExpression":"SET n = :v","ExpressionAttributeValues":{` + one + `}}`,
			work: scarce{size: 64 << 20, others: 64 << 20}, awaited: true},
		{name: "update in vain", op: "UpdateItem", request: `{"TableName":"hash","Key":{"pk":{"S":"1"}},"UpdateExpression":"SET n = :v","ExpressionAttributeValues":{` + one + `}}`,
			work: scarce{err: api.Unavailable()}, err: busy, awaited: true},
		{name: "batch", op: "BatchWriteItem", request: `{"RequestItems":{"hash":[` + strings.Join(puts, ",") + `]},"ReturnConsumedCapacity":"TOTAL"}`,
			work: scarce{size: 64 << 20, others: 64 << 20}, awaited: true},
		{name: "read", op: "TransactGetItems", request: transact("", gets...), work: scarce{size: 64 << 20, others: 64 << 20}, awaited: true},
		{name: "read in vain", op: "TransactGetItems", request: transact("", gets...), work: scarce{err: api.Unavailable()}, err: busy, awaited: true},
		{name: "page", op: "BatchGetItem", request: `{"RequestItems":{"hash":{"Keys":[` + strings.Join(keys, ",") + `]}}}`, work: scarce{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, writeTables(), func(r *rig) {
				for i := range 8 {
					r.must("PutItem", fmt.Sprintf(`{"TableName":"hash","Item":{"pk":{"S":"%d"},"v":{"S":"%s"}}}`, i, strings.Repeat("x", 390_000)))
				}
				w := c.work
				r.room = &w
				got := r.do(c.op, c.request)
				if c.err == "" && !strings.HasPrefix(got, "{") || !strings.HasPrefix(got, c.err) {
					r.Errorf("got %.300s", got)
				}
				if w.awaited > 0 != c.awaited || w.most > w.size {
					r.Errorf("waited %d times, held up to %d of %d bytes", w.awaited, w.most, w.size)
				}
			})
		})
	}
}

// TestTooLargeStopsReading: a transaction is refused once its items are too
// large together, however many follow.
func TestTooLargeStopsReading(t *testing.T) {
	t.Parallel()
	onEachStore(t, writeTables(), func(r *rig) {
		var updates []string
		for i := range 40 {
			r.must("PutItem", fmt.Sprintf(`{"TableName":"hash","Item":{"pk":{"S":"%d"},"v":{"S":"%s"}}}`, i, strings.Repeat("x", 390_000)))
			updates = append(updates, set(fmt.Sprint(i), "SET n = :v", one))
		}
		w := &scarce{size: 64 << 20}
		r.room = w
		r.want("TransactWriteItems", transact("", updates...), ve+transactionTooBig)
		if w.most > 7<<20 { // 4 MB, and one that is decoded
			r.Errorf("held %d bytes", w.most)
		}
	})
}

// TestDamagedTexts: stored bytes that are no item are not answered.
func TestDamagedTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "\xde\xad\xbe\xef", `{"pk":{"S":"a"}`, `[]`} {
		if _, err := wholeText(&storage.Row{Item: []byte(text)}); Fault(err).Status != 500 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
