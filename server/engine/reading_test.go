// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
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
	"github.com/extenddb/extenddb/server/storage/keyenc"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// reading is an engine with the tables that the tests of reads use.
type reading struct {
	*testing.T
	e     *Engine
	store storage.Engine
	clock *clock.Fake
}

// frugal hides everything that a Range was not asked for, so that a test fails
// when a read relies on more than it wants.
type frugal struct{ storage.Engine }

func (f frugal) Range(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		for row, err := range f.Engine.Range(ctx, t, r) {
			if err == nil {
				if r.Want == storage.Sizes || r.Want == storage.Keys && !keyenc.IsShortened(row.Key.PK) && !keyenc.IsShortened(row.P) {
					row.Item = nil
				}
				if r.Want == storage.Keys && r.Index != 0 {
					row.Size = 0
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// forReading runs f over every storage engine.
func forReading(t *testing.T, f func(r *reading)) {
	t.Helper()
	for name, open := range readingEngines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := open(t)
			checked := storage.Checked(inner, storage.CheckOptions{Report: func(err error) { t.Error(err) }, Poison: true})
			t.Cleanup(func() {
				if err := checked.Close(); err != nil {
					t.Error(err)
				}
			})
			f(newReading(t, checked))
		})
	}
}

func newReading(t *testing.T, store storage.Engine) *reading {
	c := clock.NewFake(time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC))
	return &reading{T: t, e: New(Options{
		Storage: store, Clock: c, Log: slog.New(slog.DiscardHandler), Region: "us-east-1", Wake: func() {},
	}), store: store, clock: c}
}

// index of a table for create: key is "h:S,i:N/r:S", of a local index "/r:S";
// project is ALL, KEYS_ONLY or the attributes included.
type indexShape struct{ name, key, project string }

func (r *reading) create(name, key string, indexes ...indexShape) {
	r.Helper()
	def := ddb.TableDefinition{TableName: name, BillingMode: ddb.PayPerRequest}
	schema := func(key string) (elems []ddb.KeySchemaElement) {
		hash, rng, _ := strings.Cut(key, "/")
		for role, attrs := range map[string]string{ddb.Hash: hash, ddb.Range: rng} {
			for attr := range strings.SplitSeq(attrs, ",") {
				name, kind, ok := strings.Cut(attr, ":")
				if !ok {
					continue
				}
				elems = append(elems, ddb.KeySchemaElement{AttributeName: name, KeyType: role})
				if def.AttributeKind(name) == 0 {
					def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: name, AttributeType: kind})
				}
			}
		}
		slices.SortStableFunc(elems, func(a, b ddb.KeySchemaElement) int { return cmp.Compare(a.KeyType, b.KeyType) })
		return elems
	}
	def.KeySchema = schema(key)
	for _, ix := range indexes {
		d := ddb.IndexDefinition{IndexName: ix.name, Projection: ddb.Projection{ProjectionType: ix.project}}
		if ix.project != ddb.ProjectAll && ix.project != ddb.ProjectKeysOnly {
			d.Projection = ddb.Projection{ProjectionType: ddb.ProjectInclude, NonKeyAttributes: strings.Split(ix.project, ",")}
		}
		d.KeySchema = schema(ix.key)
		if strings.HasPrefix(ix.key, "/") {
			d.KeySchema = append(slices.Clone(def.KeySchema[:1]), d.KeySchema...)
			def.LocalSecondaryIndexes = append(def.LocalSecondaryIndexes, d)
		} else {
			def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, d)
		}
	}
	slices.SortFunc(def.AttributeDefinitions, func(a, b ddb.AttributeDefinition) int { return cmp.Compare(a.AttributeName, b.AttributeName) })
	if _, err := r.store.CreateTable(r.Context(), auth.DefaultAccount, def, r.clock.Now()); err != nil {
		r.Fatal(err)
	}
}

// standard creates the table "music" with an index of every kind, and "plain"
// without any, "solo" without a sort key.
func (r *reading) standard() {
	r.create("music", "pk:S/sk:S",
		indexShape{"g-all", "h:S/n:N", ddb.ProjectAll},
		indexShape{"g-keys", "h:S", ddb.ProjectKeysOnly},
		indexShape{"g-inc", "h:S/r:S", "a"},
		indexShape{"g-multi", "h:S,i:N/r:S,n:N", ddb.ProjectAll},
		indexShape{"l-all", "/n:N", ddb.ProjectAll},
		indexShape{"l-keys", "/n:N", ddb.ProjectKeysOnly},
		indexShape{"l-inc", "/n:N", "a"},
	)
	r.create("plain", "pk:S/sk:N")
	r.create("solo", "pk:S")
}

// put stores items given as DynamoDB JSON.
func (r *reading) put(table string, items ...string) {
	r.Helper()
	for _, text := range items {
		it, err := ddb.ParseItem([]byte(text))
		if err != nil {
			r.Fatalf("%s: %v", text, err)
		}
		r.putItem(table, it)
	}
}

func (r *reading) putItem(table string, it ddb.Item) {
	r.Helper()
	t, err := r.store.Table(r.Context(), auth.DefaultAccount, table)
	if err != nil {
		r.Fatal(err)
	}
	key, err := t.KeyOf(it)
	if err != nil {
		r.Fatal(err)
	}
	_, err = r.store.Write(r.Context(), storage.Write{Table: t, Key: key, Blind: true, Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		return storage.Derive(t, it)
	}})
	if err != nil {
		r.Fatal(err)
	}
}

// call runs an operation on a request in JSON and returns the response.
func (r *reading) call(op, request string) (string, error) {
	out := &api.Body{}
	err := r.callInto(op, request, out)
	return string(out.B), err
}

func (r *reading) callInto(op, request string, out *api.Body) error {
	r.Helper()
	var in any
	run := map[string]func() error{
		"GetItem": func() error {
			in := in.(*api.GetItemInput)
			return r.e.GetItem(r.Context(), auth.Anonymous(), in, out)
		},
		"BatchGetItem": func() error {
			return r.e.BatchGetItem(r.Context(), auth.Anonymous(), in.(*api.BatchGetItemInput), out)
		},
		"Query": func() error { return r.e.Query(r.Context(), auth.Anonymous(), in.(*api.QueryInput), out) },
		"Scan":  func() error { return r.e.Scan(r.Context(), auth.Anonymous(), in.(*api.ScanInput), out) },
	}[op]
	switch op {
	case "GetItem":
		in = &api.GetItemInput{}
	case "BatchGetItem":
		in = &api.BatchGetItemInput{}
	case "Query":
		in = &api.QueryInput{}
	case "Scan":
		in = &api.ScanInput{}
	}
	if err := api.Decode([]byte(request), in); err != nil {
		r.Fatalf("%s: %v", request, err)
	}
	return run()
}

// must is call for requests that succeed.
func (r *reading) must(op, request string) string {
	r.Helper()
	got, err := r.call(op, request)
	if err != nil {
		r.Fatalf("%s %s: %v", op, request, err)
	}
	if !json.Valid([]byte(got)) {
		r.Fatalf("%s %s: response is not JSON: %s", op, request, got)
	}
	return got
}

// refused is the error of a request, as "Code: text".
func (r *reading) refused(op, request string) string {
	r.Helper()
	got, err := r.call(op, request)
	if err == nil {
		return "answered " + got
	}
	f := Fault(err)
	if f.Status == 500 {
		r.Errorf("%s %s: %v", op, request, f.Cause)
	}
	return strings.TrimPrefix(f.Error(), "ValidationException: ")
}

// listed is a response of Query or Scan.
type listed struct {
	Items               []json.RawMessage
	Count, ScannedCount int
	LastEvaluatedKey    json.RawMessage
	ConsumedCapacity    json.RawMessage
}

func (r *reading) list(op, request string) listed {
	r.Helper()
	var l listed
	if err := json.Unmarshal([]byte(r.must(op, request)), &l); err != nil {
		r.Fatal(err)
	}
	return l
}

// with adds members to a request.
func with(request string, members ...string) string {
	for _, m := range members {
		if m != "" {
			request = strings.TrimSuffix(request, "}") + "," + m + "}"
		}
	}
	return request
}

// walk reads a Query or Scan page by page to its end.
func (r *reading) walk(op, request string) (items []string, pages []listed) {
	r.Helper()
	next := request
	for {
		l := r.list(op, next)
		if l.Count != len(l.Items) {
			r.Fatalf("%s: Count %d with %d items", next, l.Count, len(l.Items))
		}
		for _, it := range l.Items {
			items = append(items, string(it))
		}
		pages = append(pages, l)
		if l.LastEvaluatedKey == nil {
			return items, pages
		}
		if len(pages) > 2000 {
			r.Fatalf("%s does not end", request)
		}
		next = with(request, fmt.Sprintf(`"ExclusiveStartKey":%s`, l.LastEvaluatedKey))
	}
}

// readingEngines are the storage engines that reads are tested on.
var readingEngines = map[string]func(t *testing.T) storage.Engine{
	"memory": func(*testing.T) storage.Engine { return frugal{storagetest.NewMemory(100)} },
}
