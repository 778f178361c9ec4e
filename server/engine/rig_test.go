// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/postgres"
	"github.com/extenddb/extenddb/server/storage/sqlite"
	"github.com/extenddb/extenddb/server/storage/storagetest"
	"github.com/extenddb/extenddb/test/servers"
)

// rig is an Engine on a database of its own.
type rig struct {
	*testing.T
	e     *Engine
	store storage.Engine
	clock *clock.Fake
	woken chan struct{} // gets a value with each Wake
	room  api.Work      // of all requests
}

// newRig returns a rig on a storage engine, with the tables of definitions.
// Breaches of the storage contract fail the test.
func newRig(t *testing.T, store storage.Engine, defs ...ddb.TableDefinition) *rig {
	t.Helper()
	checked := storage.Checked(store, storage.CheckOptions{Report: func(breach error) { t.Error(breach) }, Poison: true})
	r := &rig{
		T: t, store: checked, clock: clock.NewFake(time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)),
		woken: make(chan struct{}, 100),
	}
	r.e = New(Options{
		Storage: checked, Clock: r.clock, Log: slog.New(slog.DiscardHandler), Region: "us-east-1",
		Wake: func() { r.woken <- struct{}{} },
	})
	t.Cleanup(func() {
		if err := checked.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	for _, def := range defs {
		if _, err := checked.CreateTable(context.Background(), auth.DefaultAccount, def, r.clock.Now()); err != nil {
			t.Fatalf("create %s: %v", def.TableName, err)
		}
	}
	return r
}

// onEachStore runs a test on each storage engine, in parallel.
func onEachStore(t *testing.T, defs []ddb.TableDefinition, test func(r *rig)) {
	t.Helper()
	for name, open := range testStores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newRig(t, open(t), defs...))
		})
	}
}

// testStores are the storage engines to test on.
func testStores() map[string]func(t *testing.T) storage.Engine {
	return map[string]func(t *testing.T) storage.Engine{
		"memory": func(*testing.T) storage.Engine { return storagetest.NewMemory(100) },
		"sqlite": func(t *testing.T) storage.Engine {
			t.Helper()
			db, err := sqlite.Open(t.Context(), sqlite.Options{Path: sqlite.Memory, Readers: 4, MaxTables: 100})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return db
		},
		"postgres": func(t *testing.T) storage.Engine {
			t.Helper()
			db, err := postgres.Open(t.Context(), postgres.Options{URL: servers.Database(t), MaxConns: 6, MaxTables: 100})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return db
		},
	}
}

func TestMain(m *testing.M) { servers.Main(m) }

// table returns a table's current definition.
func (r *rig) table(name string) *storage.Table {
	r.Helper()
	t, _, err := r.store.Describe(r.Context(), auth.DefaultAccount, name)
	if err != nil {
		r.Fatalf("describe %s: %v", name, err)
	}
	return t
}

// do carries out an operation given as JSON and returns the response's JSON, or
// "Code: message" of the error.
func (r *rig) do(op, request string) string {
	r.Helper()
	body, err := r.try(op, request)
	if err != nil {
		return err.Error()
	}
	return body
}

// try is do with the error apart.
func (r *rig) try(op, request string) (string, *api.Error) {
	r.Helper()
	out := api.Body{Work: r.room}
	if err := r.into(op, request, &out); err != nil {
		return "", Fault(err)
	}
	return string(out.B), nil
}

// into is try with a body of the caller's.
func (r *rig) into(op, request string, out *api.Body) error {
	r.Helper()
	run, ok := map[string]func(request string, out *api.Body) error{
		"PutItem":        run(r, r.e.PutItem),
		"GetItem":        run(r, r.e.GetItem),
		"UpdateItem":     run(r, r.e.UpdateItem),
		"DeleteItem":     run(r, r.e.DeleteItem),
		"BatchWriteItem": run(r, r.e.BatchWriteItem),
		"BatchGetItem":   run(r, r.e.BatchGetItem),
		"Query":          run(r, r.e.Query),
		"Scan":           run(r, r.e.Scan),

		"TransactWriteItems": run(r, r.e.TransactWriteItems),
		"TransactGetItems":   run(r, r.e.TransactGetItems),

		"TagResource":        run(r, r.e.TagResource),
		"UntagResource":      run(r, r.e.UntagResource),
		"ListTagsOfResource": run(r, r.e.ListTagsOfResource),

		"CreateTable":       run(r, r.e.CreateTable),
		"DescribeTable":     run(r, r.e.DescribeTable),
		"ListTables":        run(r, r.e.ListTables),
		"UpdateTable":       run(r, r.e.UpdateTable),
		"DeleteTable":       run(r, r.e.DeleteTable),
		"DescribeLimits":    run(r, r.e.DescribeLimits),
		"DescribeEndpoints": run(r, r.e.DescribeEndpoints),
	}[op]
	if !ok {
		r.Fatalf("no operation %s", op)
	}
	return run(request, out)
}

func run[T any](r *rig, op func(context.Context, auth.Identity, *T, *api.Body) error) func(string, *api.Body) error {
	return func(request string, out *api.Body) error {
		r.Helper()
		var in T
		if err := api.Decode([]byte(request), &in); err != nil {
			r.Fatalf("decode %s: %v", request, err)
		}
		return op(r.Context(), auth.Anonymous(), &in, out)
	}
}

// must is do for requests that succeed.
func (r *rig) must(op, request string) string {
	r.Helper()
	body, err := r.try(op, request)
	if err != nil {
		r.Fatalf("%s %s: %v", op, request, err)
	}
	return body
}

// want checks what an operation answers.
func (r *rig) want(op, request, want string) {
	r.Helper()
	if got := r.do(op, request); got != want {
		r.Errorf("%s %.2000s\n got %.2000s\nwant %.2000s", op, request, got, want)
	}
}

// testIndex describes an index for testTable.
type testIndex struct {
	name, key string // key as testTable's; of a local index the range part only: "/l:N"
	project   string // ALL, KEYS_ONLY, or the attributes included: "x,y"
}

// testTable writes an on-demand table shortly: the key "a:S,b:N/c:B,d:S" has the
// hash attributes a and b and the range attributes c and d.
func testTable(name, key string, indexes ...testIndex) ddb.TableDefinition {
	def := ddb.TableDefinition{TableName: name, BillingMode: ddb.PayPerRequest, BillingModeReported: true}
	def.KeySchema = testKey(&def, key)
	for _, ix := range indexes {
		d := ddb.IndexDefinition{IndexName: ix.name, Projection: ddb.Projection{ProjectionType: ix.project}}
		if ix.project != ddb.ProjectAll && ix.project != ddb.ProjectKeysOnly {
			d.Projection = ddb.Projection{ProjectionType: ddb.ProjectInclude, NonKeyAttributes: strings.Split(ix.project, ",")}
		}
		d.KeySchema = testKey(&def, ix.key)
		if strings.HasPrefix(ix.key, "/") {
			d.KeySchema = append(slices.Clone(def.KeySchema[:1]), d.KeySchema...)
			def.LocalSecondaryIndexes = append(def.LocalSecondaryIndexes, d)
		} else {
			d.Throughput = &ddb.Throughput{}
			def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, d)
		}
	}
	return def
}

func testKey(def *ddb.TableDefinition, key string) []ddb.KeySchemaElement {
	var elems []ddb.KeySchemaElement
	hash, rng, _ := strings.Cut(key, "/")
	for i, part := range []string{hash, rng} {
		for attr := range strings.SplitSeq(part, ",") {
			name, kind, ok := strings.Cut(attr, ":")
			if !ok {
				continue
			}
			elems = append(elems, ddb.KeySchemaElement{AttributeName: name, KeyType: []string{ddb.Hash, ddb.Range}[i]})
			if def.AttributeKind(name) == 0 {
				def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: name, AttributeType: kind})
			}
		}
	}
	slices.SortFunc(def.AttributeDefinitions, func(a, b ddb.AttributeDefinition) int {
		return cmp.Compare(a.AttributeName, b.AttributeName)
	})
	return elems
}
