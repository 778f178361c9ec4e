// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// cached is an engine whose Table answers what another server has made untrue:
// each table has the id of one that is gone, or a status of the past.
type cached struct {
	storagetest.Stub
	status storage.Status // 0: another table is meant
}

func newCached(e storage.Engine, status storage.Status) *cached {
	c := &cached{Stub: storagetest.Stub{Engine: e}, status: status}
	c.OnTable = func(ctx context.Context, account, name string) (*storage.Table, error) {
		t, err := e.Table(ctx, account, name)
		if err != nil {
			return nil, err
		}
		old := *t
		if status == 0 {
			old.ID += 1000
		} else {
			old.Status = status
		}
		return &old, nil
	}
	return c
}

// dataCalls are data operations of each kind that succeed on two tables "hash"
// and "comp", in this order.
func dataCalls() []call {
	const a, c = `{"pk":{"S":"a"}}`, `{"pk":{"S":"c"},"sk":{"N":"1"}}`
	return []call{
		{"PutItem", `{"TableName":"hash","Item":` + a + `}`, `{}`},
		{"UpdateItem", `{"TableName":"hash","Key":` + a + `,"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"N":"1"}}}`, `{}`},
		{"GetItem", `{"TableName":"hash","Key":` + a + `}`, `{"Item":{"pk":{"S":"a"},"v":{"N":"1"}}}`},
		{"BatchWriteItem", `{"RequestItems":{"comp":[` + putReq(c) + `],"hash":[` + putReq(`{"pk":{"S":"b"}}`) + `]}}`, `{"UnprocessedItems":{}}`},
		{"BatchGetItem", `{"RequestItems":{"comp":{"Keys":[` + c + `]},"hash":{"Keys":[{"pk":{"S":"b"}}]}}}`,
			`{"Responses":{"comp":[{"pk":{"S":"c"},"sk":{"N":"1"}}],"hash":[{"pk":{"S":"b"}}]},"UnprocessedKeys":{}}`},
		{"Query", `{"TableName":"comp","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"c"}}}`, `{"Items":[` + c + `],"Count":1,"ScannedCount":1}`},
		{"Scan", `{"TableName":"comp"}`, `{"Items":[` + c + `],"Count":1,"ScannedCount":1}`},
		{"TransactWriteItems", `{"TransactItems":[{"Delete":{"TableName":"hash","Key":` + a + `}},{"Put":{"TableName":"comp","Item":{"pk":{"S":"d"},"sk":{"N":"1"}}}}]}`, `{}`},
		{"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"hash","Key":` + a + `}},{"Get":{"TableName":"comp","Key":{"pk":{"S":"d"},"sk":{"N":"1"}}}}]}`,
			`{"Responses":[{},{"Item":{"pk":{"S":"d"},"sk":{"N":"1"}}}]}`},
		{"DeleteItem", `{"TableName":"hash","Key":{"pk":{"S":"b"}},"ReturnValues":"ALL_OLD"}`, `{"Attributes":{"pk":{"S":"b"}}}`},
	}
}

// TestStaleNames runs data operations while the names of tables are cached as
// those of tables that are gone, or as they were at some other time.
func TestStaleNames(t *testing.T) {
	t.Parallel()
	for _, status := range []storage.Status{0, storage.Creating, storage.Deleting} {
		r := newRig(t, newCached(testStores()["memory"](t), status), writeTables()...)
		for _, c := range dataCalls() {
			r.want(c.op, c.request, c.want)
		}
	}
}

// TestStaleDefinitions: what does not fit a definition that was cached is not
// refused when it fits the one that there is, and is not found when there is none.
func TestStaleDefinitions(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		for _, c := range dataCalls() {
			stub := newCached(testStores()["memory"](t), 0)
			table, looked := stub.OnTable, 0
			stub.OnTable = func(ctx context.Context, account, name string) (*storage.Table, error) {
				old, err := table(ctx, account, name)
				if err == nil {
					old.Hash.Name, old.Range = "former", nil
				}
				return old, err
			}
			describe := stub.Engine.Describe
			stub.OnDescribe = func(ctx context.Context, account, name string) (*storage.Table, storage.Stats, error) {
				if looked++; gone {
					return nil, storage.Stats{}, storage.ErrTableNotFound
				}
				return describe(ctx, account, name)
			}
			r := newRig(t, stub, writeTables()...)
			switch got := r.do(c.op, c.request); {
			case gone && got != notFound, !gone && strings.Contains(got, "Exception"):
				t.Errorf("gone %v: %s %s\n got %s", gone, c.op, c.request, got)
			}
			if c.op == "Scan" && !gone {
				continue // which asks of a definition nothing but the table
			}
			if looked == 0 || looked > 4 {
				t.Errorf("gone %v: %s: looked %d times", gone, c.op, looked)
			}
		}
	}
}

// TestRefusalsNobodyCanProve: a request is not refused by a definition of which
// nobody can tell whether it holds.
func TestRefusalsNobodyCanProve(t *testing.T) {
	t.Parallel()
	stub := &storagetest.Stub{Engine: testStores()["memory"](t)}
	r := newRig(t, stub, writeTables()...)
	const wrong = `{"TableName":"hash","Key":{"pk":{"N":"1"}}}`
	r.want("GetItem", wrong, ve+"The provided key element does not match the schema")
	stub.OnDescribe = func(context.Context, string, string) (*storage.Table, storage.Stats, error) {
		return nil, storage.Stats{}, storage.ErrUnavailable
	}
	r.want("GetItem", wrong, unavailable)
}

// TestStaleNamesOfNothing: a table that is gone is looked for once, and what
// keeps that from being done is not taken for its being gone.
func TestStaleNamesOfNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error // of Describe
		want string
	}{
		{storage.ErrTableNotFound, notFound},
		{storage.ErrUnavailable, unavailable},
	} {
		for _, c := range dataCalls() {
			stub := newCached(testStores()["memory"](t), 0)
			looked := map[string]int{}
			stub.OnDescribe = func(_ context.Context, _, name string) (*storage.Table, storage.Stats, error) {
				looked[name]++
				return nil, storage.Stats{}, test.err
			}
			r := newRig(t, stub, writeTables()...)
			r.want(c.op, c.request, test.want)
			for name, n := range looked {
				if n != 1 {
					t.Errorf("%s: %s was looked for %d times", c.op, name, n)
				}
			}
			if len(looked) == 0 {
				t.Errorf("%s: no table was looked for", c.op)
			}
		}
	}
}

// TestTableThatStaysGone: what is found without the cache may be gone again.
func TestTableThatStaysGone(t *testing.T) {
	t.Parallel()
	stub := newCached(testStores()["memory"](t), 0)
	r := newRig(t, stub, writeTables()...)
	id := r.table("hash").ID
	calls := 0
	stub.OnGet = func(context.Context, *storage.Table, storage.Key) (*storage.Row, error) {
		calls++
		return nil, storage.ErrTableNotFound
	}
	r.want("GetItem", `{"TableName":"hash","Key":{"pk":{"S":"a"}}}`, notFound)
	if calls != 2 {
		t.Errorf("read %d times, want with the cached table %d and once with the other", calls, id+1000)
	}
}

// TestBatchOfOneStaleName: what a batch has done before one of its tables
// proves to be another one is not done again.
func TestBatchOfOneStaleName(t *testing.T) {
	t.Parallel()
	var writes []int
	inner := testStores()["memory"](t)
	stub := &storagetest.Stub{Engine: inner}
	stub.OnTable = func(ctx context.Context, account, name string) (*storage.Table, error) {
		now, err := inner.Table(ctx, account, name)
		if err != nil || name != "hash" {
			return now, err
		}
		old := *now
		old.ID += 1000
		return &old, nil
	}
	stub.OnWriteEach = func(ctx context.Context, ws []storage.Write) []storage.Result {
		writes = append(writes, len(ws))
		return inner.WriteEach(ctx, ws)
	}
	r := newRig(t, stub, writeTables()...)
	r.want("BatchWriteItem", `{"ReturnConsumedCapacity":"TOTAL","RequestItems":{"comp":[`+putReq(`{"pk":{"S":"c"},"sk":{"N":"1"}}`)+`],"hash":[`+
		putReq(`{"pk":{"S":"a"}}`)+`,`+delReq(`{"pk":{"S":"b"}}`)+`]}}`,
		`{"UnprocessedItems":{},"ConsumedCapacity":[{"TableName":"comp","CapacityUnits":1.0},{"TableName":"hash","CapacityUnits":2.0}]}`)
	if len(writes) != 2 || writes[0] != 3 || writes[1] != 2 {
		t.Errorf("wrote %v, want 3 and the 2 that were refused", writes)
	}
}

// TestControlNeedsNoCache: operations on tables are answered from the catalog.
func TestControlNeedsNoCache(t *testing.T) {
	t.Parallel()
	f := storagetest.NewFaulty(testStores()["memory"](t))
	r := newRig(t, f, testTable("hash", "pk:S"))
	const arn = `"ResourceArn":"arn:aws:dynamodb:us-east-1:000000000000:table/hash"`
	for _, c := range [][2]string{
		{"CreateTable", `{"TableName":"new","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}]}`},
		{"DescribeTable", `{"TableName":"hash"}`},
		{"ListTables", `{}`},
		{"UpdateTable", `{"TableName":"hash","DeletionProtectionEnabled":false}`},
		{"TagResource", `{` + arn + `,"Tags":[{"Key":"a","Value":"b"}]}`},
		{"ListTagsOfResource", `{` + arn + `}`},
		{"UntagResource", `{` + arn + `,"TagKeys":["a"]}`},
		{"DeleteTable", `{"TableName":"hash"}`},
	} {
		r.must(c[0], c[1])
		if n := f.Calls("Table"); n != 0 {
			t.Errorf("%s asked the cache %d times", c[0], n)
		}
	}
}

// stamped is an engine that notes when and by whom rows are written.
type stamped struct {
	storage.Engine
	changes []storage.Change
}

func (s *stamped) note(ws []storage.Write) {
	for _, w := range ws {
		s.changes = append(s.changes, w.Change)
	}
}

func (s *stamped) Write(ctx context.Context, w storage.Write) (storage.Result, error) {
	s.note([]storage.Write{w})
	return s.Engine.Write(ctx, w)
}

func (s *stamped) WriteEach(ctx context.Context, ws []storage.Write) []storage.Result {
	s.note(ws)
	return s.Engine.WriteEach(ctx, ws)
}

func (s *stamped) WriteAll(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
	s.note(ws)
	return s.Engine.WriteAll(ctx, ws, token)
}

// TestWritesTellWhen: change records need the instant of every write.
func TestWritesTellWhen(t *testing.T) {
	t.Parallel()
	s := &stamped{Engine: testStores()["memory"](t)}
	r := newRig(t, s, writeTables()...)
	for _, c := range dataCalls() {
		r.must(c.op, c.request)
	}
	if len(s.changes) != 7 {
		t.Fatalf("%d writes", len(s.changes))
	}
	for i, c := range s.changes {
		if !c.At.Equal(r.clock.Now()) || c.Service {
			t.Errorf("write %d: %+v", i, c)
		}
	}
}

// TestConflicts: what is in the way of a single write has an exception of its
// own; what nobody can tell is a server error.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		storage.ErrConflict:    "TransactionConflictException: Transaction is ongoing for the item",
		storage.ErrUnavailable: unavailable,
		storage.ErrInDoubt:     "InternalServerError: Internal server error",
	} {
		f := storagetest.NewFaulty(testStores()["memory"](t))
		r := newRig(t, f, writeTables()...)
		for _, op := range []string{"PutItem", "UpdateItem", "DeleteItem"} {
			f.Inject(storagetest.Fault{Method: "Write", Err: err})
			r.want(op, members(op, ""), want)
		}
		if left := f.Unused(); len(left) > 0 {
			t.Errorf("faults not met: %s", strings.Join(left, " "))
		}
	}
}
