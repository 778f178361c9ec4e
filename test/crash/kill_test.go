// SPDX-License-Identifier: Apache-2.0

//go:build full

// Package crash ends servers the hard way and looks at what is left.
package crash

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/stored"
)

func TestMain(m *testing.M) { proc.Main(m) }

const (
	table   = "crash"
	clients = 32
	kills   = 20
)

type attributes = map[string]types.AttributeValue

func n(i int) types.AttributeValue { return &types.AttributeValueMemberN{Value: strconv.Itoa(i)} }

func s(text string) types.AttributeValue { return &types.AttributeValueMemberS{Value: text} }

func create(t *testing.T, db *dynamodb.Client) {
	t.Helper()
	el := func(name string, kt types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: aws.String(name), KeyType: kt}
	}
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(table), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("client"), AttributeType: "N"}, {AttributeName: aws.String("id"), AttributeType: "S"},
			{AttributeName: aws.String("group"), AttributeType: "S"}, {AttributeName: aws.String("n"), AttributeType: "N"},
		},
		KeySchema: []types.KeySchemaElement{el("client", "HASH"), el("id", "RANGE")},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String("by-group"),
			KeySchema: []types.KeySchemaElement{el("group", "HASH"), el("n", "RANGE")}, Projection: &types.Projection{ProjectionType: "ALL"}}},
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{{IndexName: aws.String("by-n"),
			KeySchema: []types.KeySchemaElement{el("client", "HASH"), el("n", "RANGE")}, Projection: &types.Projection{ProjectionType: "KEYS_ONLY"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// absent is the state of an item that is not there.
const absent = -1

// worker writes items of its own and remembers what was acknowledged.
type worker struct {
	id    int
	next  int
	acked map[string]int // id to n, or absent
	// pending is the write that was under way when the server ended: it may
	// have been done or not.
	pending string
	want    int
}

// counter closes reached when it gets to target.
type counter struct {
	writes  atomic.Int64
	target  int64
	reached chan struct{}
}

func (c *counter) add() {
	if c.writes.Add(1) == c.target {
		close(c.reached)
	}
}

// run writes until the server is gone.
func (w *worker) run(ctx context.Context, db *dynamodb.Client, c *counter) {
	for {
		id := strconv.Itoa(rand.IntN(20))
		w.next++
		w.pending, w.want = id, w.next
		var err error
		if rand.IntN(4) == 0 {
			w.want = absent
			_, err = db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: attributes{"client": n(w.id), "id": s(id)}})
		} else {
			_, err = db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: attributes{
				"client": n(w.id), "id": s(id), "n": n(w.next), "group": s(strconv.Itoa(w.next % 7)), "pad": s(fmt.Sprintf("%0300d", w.next)),
			}})
		}
		if err != nil {
			return
		}
		w.acked[id] = w.want
		w.pending = ""
		c.add()
	}
}

// check compares the items of the worker with what was acknowledged, and takes
// over what the interrupted write left.
func (w *worker) check(found map[string]int) error {
	for id, want := range w.acked {
		got, ok := found[id]
		if !ok {
			got = absent
		}
		switch {
		case got == want:
		case id == w.pending && got == w.want:
			w.acked[id] = got
		default:
			return fmt.Errorf("client %d, item %s: %d was acknowledged, %d is there", w.id, id, want, got)
		}
		delete(found, id)
	}
	for id, got := range found {
		if id != w.pending || got != w.want {
			return fmt.Errorf("client %d, item %s: %d is there, nothing was acknowledged", w.id, id, got)
		}
		w.acked[id] = got
	}
	return nil
}

// items reads the table or an index: client to id to n.
func items(t *testing.T, db *dynamodb.Client, index string) map[int]map[string]int {
	t.Helper()
	in := &dynamodb.ScanInput{TableName: aws.String(table)}
	if index != "" {
		in.IndexName = aws.String(index)
	}
	out := map[int]map[string]int{}
	for p := dynamodb.NewScanPaginator(db, in); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			number := func(name string) int {
				i, err := strconv.Atoi(it[name].(*types.AttributeValueMemberN).Value)
				if err != nil {
					t.Fatal(err)
				}
				return i
			}
			client := number("client")
			if out[client] == nil {
				out[client] = map[string]int{}
			}
			out[client][it["id"].(*types.AttributeValueMemberS).Value] = number("n")
		}
	}
	return out
}

func TestKill(t *testing.T) {
	bin := proc.Binary(t, t.TempDir())
	eachEngine(t, func(t *testing.T, e proc.Engine) { testKill(t, bin, e.Database(t)) })
}

// eachEngine runs a test on one engine after the other: they take the machine
// for themselves.
func eachEngine(t *testing.T, f func(t *testing.T, e proc.Engine)) {
	t.Helper()
	for _, e := range []proc.Engine{proc.SQLite(), proc.Postgres()} {
		t.Run(e.Name, func(t *testing.T) { f(t, e) })
	}
}

func testKill(t *testing.T, bin, database string) {
	workers := make([]*worker, clients)
	for i := range workers {
		workers[i] = &worker{id: i, acked: map[string]int{}}
	}
	var writes int64
	srv := proc.Start(t, bin, database)
	create(t, srv.Client())
	for round := range kills {
		c := &counter{target: int64(500 + rand.IntN(1500)), reached: make(chan struct{})}
		var running sync.WaitGroup
		db := srv.Client()
		for _, w := range workers {
			running.Go(func() { w.run(t.Context(), db, c) })
		}
		<-c.reached
		srv.Kill()
		running.Wait()
		writes += c.writes.Load()

		check(t, database)
		srv = proc.Start(t, bin, database)
		db = srv.Client()
		base := items(t, db, "")
		for _, index := range []string{"by-group", "by-n"} {
			if !maps.EqualFunc(base, items(t, db, index), maps.Equal[map[string]int, map[string]int]) {
				t.Errorf("round %d: index %s differs from the table", round, index)
			}
		}
		for _, w := range workers {
			if err := w.check(base[w.id]); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			w.pending = ""
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d kills, %d acknowledged writes, none missing", kills, writes)
}

// check opens a database after a crash and compares entries with rows, and a
// file with itself.
func check(t *testing.T, database string) {
	t.Helper()
	stored.With(t, database, func(db storage.Engine) { stored.Check(t, db) })
}

func checkFile(t *testing.T, file string) { t.Helper(); check(t, "sqlite:"+file) }
