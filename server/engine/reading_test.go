// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// reading is a rig with the tables that the tests of reads use.
type reading struct{ *rig }

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
	for name, open := range testStores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(&reading{newRig(t, frugal{open(t)})})
		})
	}
}

// over returns a reading of the same tables through another engine.
func (r *reading) over(store storage.Engine) *reading {
	e := New(Options{Storage: store, Clock: r.clock, Log: slog.New(slog.DiscardHandler), Region: "us-east-1", Wake: func() {}})
	return &reading{&rig{T: r.T, e: e, store: store, clock: r.clock}}
}

func (r *reading) create(def ddb.TableDefinition) {
	r.Helper()
	if _, err := r.store.CreateTable(r.Context(), auth.DefaultAccount, def, r.clock.Now()); err != nil {
		r.Fatal(err)
	}
}

// standard creates the table "music" with an index of every kind, and "plain"
// without any, "solo" without a sort key.
func (r *reading) standard() {
	r.create(testTable("music", "pk:S/sk:S",
		testIndex{"g-all", "h:S/n:N", ddb.ProjectAll},
		testIndex{"g-keys", "h:S", ddb.ProjectKeysOnly},
		testIndex{"g-inc", "h:S/r:S", "a"},
		testIndex{"g-multi", "h:S,i:N/r:S,n:N", ddb.ProjectAll},
		testIndex{"l-all", "/n:N", ddb.ProjectAll},
		testIndex{"l-keys", "/n:N", ddb.ProjectKeysOnly},
		testIndex{"l-inc", "/n:N", "a"},
	))
	r.create(testTable("plain", "pk:S/sk:N"))
	r.create(testTable("solo", "pk:S"))
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
	t := r.table(table)
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

// callInto runs a read on a request in JSON.
func (r *reading) callInto(op, request string, out *api.Body) error {
	r.Helper()
	return map[string]func(request string, out *api.Body) error{
		"GetItem": run(r.rig, r.e.GetItem), "BatchGetItem": run(r.rig, r.e.BatchGetItem),
		"Query": run(r.rig, r.e.Query), "Scan": run(r.rig, r.e.Scan),
	}[op](request, out)
}

// must is callInto for requests that succeed.
func (r *reading) must(op, request string) string {
	r.Helper()
	got := r.rig.must(op, request)
	if !json.Valid([]byte(got)) {
		r.Fatalf("%s %s: response is not JSON: %s", op, request, got)
	}
	return got
}

// refused is the error of a request, as "Code: text".
func (r *reading) refused(op, request string) string {
	r.Helper()
	got, err := r.try(op, request)
	if err == nil {
		return "answered " + got
	}
	if err.Status == 500 {
		r.Errorf("%s %s: %v", op, request, err.Cause)
	}
	return strings.TrimPrefix(err.Error(), "ValidationException: ")
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
