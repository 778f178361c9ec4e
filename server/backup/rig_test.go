// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/fs"
	"github.com/extenddb/extenddb/backupstore/storetest"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/sqlite"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

const account = "123456789012"

// rig is a database and a store, both with faults.
type rig struct {
	*testing.T
	engine *storagetest.Faulty // checked
	store  *storetest.Faulty
	memory *storetest.Memory // below store; nil with another one
	clock  *clock.Fake
	env    Env
	log    *bytes.Buffer

	mu     sync.Mutex
	events []progress.Event
}

// newRig returns a rig in memory.
func newRig(t *testing.T) *rig {
	t.Helper()
	memory := storetest.NewMemory()
	r := rigOn(t, storagetest.NewMemory(10), memory)
	r.memory = memory
	return r
}

func rigOn(t *testing.T, engine storage.Engine, store backupstore.Store) *rig {
	t.Helper()
	checked := storage.Checked(engine, storage.CheckOptions{Report: func(breach error) { t.Error(breach) }, Poison: true})
	t.Cleanup(func() {
		if err := checked.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r := &rig{
		T: t, engine: storagetest.NewFaulty(checked), store: storetest.NewFaulty(store),
		clock: clock.NewFake(time.Date(2026, 3, 14, 15, 9, 26, 535_897_932, time.UTC)), log: &bytes.Buffer{},
	}
	r.env = Env{
		Store: r.store, Clock: r.clock, Log: slog.New(slog.NewTextHandler(r.log, nil)), Job: "job",
		Report: func(e progress.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
		Limits: Limits{Workers: 2, TargetBytes: 2000},
	}
	return r
}

// onEach runs a test on each engine with a store, in parallel.
func onEach(t *testing.T, test func(r *rig)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(newRig(t))
	})
	t.Run("sqlite and fs", func(t *testing.T) {
		t.Parallel()
		db, err := sqlite.Open(t.Context(), sqlite.Options{Path: sqlite.Memory, Readers: 4})
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir() + "/store"
		if err := fs.Init(root); err != nil {
			t.Fatal(err)
		}
		store, err := fs.Open(fs.Options{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Errorf("close store: %v", err)
			}
		})
		test(rigOn(t, db, store))
	})
}

// attrs writes attribute definitions: "pk:S sk:N", sorted by name.
func attrs(text string) []ddb.AttributeDefinition {
	var defs []ddb.AttributeDefinition
	for f := range strings.FieldsSeq(text) {
		name, kind, _ := strings.Cut(f, ":")
		defs = append(defs, ddb.AttributeDefinition{AttributeName: name, AttributeType: kind})
	}
	return defs
}

// schema writes a key: hash attributes, then range attributes behind "/".
func schema(text string) []ddb.KeySchemaElement {
	hash, rng, _ := strings.Cut(text, "/")
	var ks []ddb.KeySchemaElement
	for name := range strings.FieldsSeq(hash) {
		ks = append(ks, ddb.KeySchemaElement{AttributeName: name, KeyType: ddb.Hash})
	}
	for name := range strings.FieldsSeq(rng) {
		ks = append(ks, ddb.KeySchemaElement{AttributeName: name, KeyType: ddb.Range})
	}
	return ks
}

// onDemand is what CreateTable makes of a request with these keys.
func onDemand(name, key, attributes string) ddb.TableDefinition {
	return ddb.TableDefinition{
		TableName: name, KeySchema: schema(key), AttributeDefinitions: attrs(attributes),
		BillingMode: ddb.PayPerRequest, BillingModeReported: true, PayPerRequestSince: 1_700_000_000.5,
	}
}

func index(name, key string, p ddb.Projection, t *ddb.Throughput) ddb.IndexDefinition {
	return ddb.IndexDefinition{IndexName: name, KeySchema: schema(key), Projection: p, Throughput: t}
}

// richTable has an index of every kind.
func richTable(name string) ddb.TableDefinition {
	def := onDemand(name, "pk / sk", "a:S b:N c:B l:N pk:S sk:N")
	none := &ddb.Throughput{}
	def.GlobalSecondaryIndexes = []ddb.IndexDefinition{
		index("all", "a", ddb.Projection{ProjectionType: ddb.ProjectAll}, none),
		index("keys", "a b / c sk", ddb.Projection{ProjectionType: ddb.ProjectKeysOnly}, none),
		index("include", "b / pk", ddb.Projection{ProjectionType: ddb.ProjectInclude, NonKeyAttributes: []string{"m", "x"}}, none),
	}
	def.LocalSecondaryIndexes = []ddb.IndexDefinition{
		index("local", "pk / l", ddb.Projection{ProjectionType: ddb.ProjectAll}, nil),
	}
	return def
}

// richItem is the ith item of richTable: every type, index keys of which some
// are missing and some of the wrong type, long numbers.
func richItem(i int) ddb.Item {
	it := ddb.Item{"pk": ddb.String(fmt.Sprintf("p%d", i%7)), "sk": ddb.Int(int64(i - 20)), "x": ddb.String(strings.Repeat("é\n\"", i%40))}
	if i%2 == 0 {
		it["a"] = ddb.String(fmt.Sprint("a", i%3))
	}
	if i%3 != 0 {
		it["b"] = ddb.Int(int64(i % 5))
	} else {
		it["b"] = ddb.String("no number")
	}
	if i%4 == 0 {
		it["c"] = ddb.Binary([]byte{0, byte(i), 255})
	}
	if i%5 == 0 {
		it["l"] = number("1E-130")
		it["n"] = ddb.List(number("9.9E125"), number("-0.5"), ddb.Null(), ddb.Bool(true))
	}
	it["m"] = ddb.Map(ddb.Item{"ss": ddb.StringSet("b", "a"), "ns": ddb.NewSet(ddb.KindNS, []string{"1", "-2.5"}), "<&>\u2028": ddb.Bool(false)})
	return it
}

func number(s string) ddb.Value {
	n, err := ddb.ParseNumber(s)
	if err != nil {
		panic(err)
	}
	return ddb.Num(n)
}

// table creates a table with the first n of the items.
func (r *rig) table(def ddb.TableDefinition, n int, item func(i int) ddb.Item) *storage.Table {
	r.Helper()
	t, err := r.engine.CreateTable(r.Context(), account, def, time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC))
	if err != nil {
		r.Fatal(err)
	}
	var ws []storage.Write
	for i := range n {
		ws = append(ws, r.write(t, item(i)))
	}
	for _, res := range r.engine.WriteEach(r.Context(), ws) {
		if res.Err != nil {
			r.Fatal(res.Err)
		}
	}
	return t
}

func (r *rig) write(t *storage.Table, it ddb.Item) storage.Write {
	r.Helper()
	key, err := t.KeyOf(it)
	if err != nil {
		r.Fatal(err)
	}
	return storage.Write{Table: t, Key: key, Blind: true, Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		return storage.Derive(t, it)
	}}
}

// rich is a rich table of n items.
func (r *rig) rich(n int) *storage.Table {
	r.Helper()
	return r.table(richTable("source"), n, richItem)
}

// options say to back up a table.
func (r *rig) options(table string) CreateOptions {
	return CreateOptions{
		Source: r.engine, Backend: "sqlite", Version: "1.2.3", Region: "eu-west-1", Account: account, Table: table,
	}
}

// create backs a table up.
func (r *rig) create(table string) *Summary {
	r.Helper()
	s, err := Create(r.Context(), r.env, r.options(table))
	if err != nil {
		r.Fatalf("create: %v", err)
	}
	return s
}

// target says to restore as a table.
func (r *rig) target(as string) RestoreOptions {
	return RestoreOptions{Target: r.engine, Account: account, As: as}
}

// exists reports whether there is a table that is not on its way out.
func (r *rig) exists(name string) bool {
	r.Helper()
	t, _, err := r.engine.Describe(context.WithoutCancel(r.Context()), account, name)
	switch {
	case errors.Is(err, storage.ErrTableNotFound):
		return false
	case err != nil:
		r.Fatal(err)
	}
	return t.Status != storage.Deleting
}

// keys lists the store.
func (r *rig) keys() []string {
	r.Helper()
	var keys []string
	for o, err := range r.store.List(context.WithoutCancel(r.Context()), "") {
		if err != nil {
			r.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// listed lists the backups.
func (r *rig) listed() []Summary {
	r.Helper()
	list, problems, err := List(context.WithoutCancel(r.Context()), r.env, Filter{})
	if err != nil || len(problems) > 0 {
		r.Fatalf("list: %v %v", problems, err)
	}
	return list
}

// verifies fails the test unless the backup is whole.
func (r *rig) verifies(ref format.Ref) *Report {
	r.Helper()
	report, err := Verify(context.WithoutCancel(r.Context()), r.env, ref)
	if err != nil {
		r.Fatalf("verify: %v", err)
	}
	if len(report.Findings) > 0 {
		r.Fatalf("verify: %+v", report.Findings)
	}
	return report
}

// rows reads a table: stored items by encoded key.
func (r *rig) rows(t *storage.Table) map[string]string {
	r.Helper()
	rows := map[string]string{}
	for row, err := range r.engine.Range(r.Context(), t, storage.Range{Want: storage.Items}) {
		if err != nil {
			r.Fatal(err)
		}
		rows[fmt.Sprintf("%x", row.Key)] = string(row.Item)
	}
	return rows
}

// same fails the test unless both tables have the same definition, but for
// names and instants, the same rows, and indexes that agree with them.
func (r *rig) same(a, b string) {
	r.Helper()
	describe := func(name string) *storage.Table {
		t, _, err := r.engine.Describe(r.Context(), account, name)
		if err != nil {
			r.Fatal(err)
		}
		return t
	}
	ta, tb := describe(a), describe(b)
	da, db := ta.Def, tb.Def
	da.TableName, db.TableName = "", ""
	da.PayPerRequestSince, db.PayPerRequestSince = 0, 0
	if !reflect.DeepEqual(da, db) {
		r.Errorf("definitions differ:\n%+v\n%+v", da, db)
	}
	if tb.Status != storage.Active {
		r.Errorf("table %s is %s", b, tb.Status)
	}
	ra, rb := r.rows(ta), r.rows(tb)
	if !reflect.DeepEqual(ra, rb) {
		r.Errorf("rows differ: %d and %d", len(ra), len(rb))
	}
	if err := storagetest.CheckEntries(r.Context(), r.engine, tb); err != nil {
		r.Errorf("entries of %s: %v", b, err)
	}
}

// wantError fails the test unless err is an *Error of the class with the texts
// in its message.
func wantError(t *testing.T, err error, code Code, texts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v is not %s", err, code)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}

// checkEvents fails the test unless the events are those of one job that went
// through the phases: work never shrinks, the end is final.
func (r *rig) checkEvents(state progress.State, phases ...string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var seen []string
	last := int64(0)
	for i, e := range r.events {
		if e.Phase != "" && !slices.Contains(seen, e.Phase) {
			seen = append(seen, e.Phase)
		}
		if e.Done < last || e.Total != nil && e.Done > *e.Total {
			r.Errorf("event %d: done %d of %v after %d", i, e.Done, e.Total, last)
		}
		last = e.Done
		if final := i == len(r.events)-1; e.State.Final() != final || final && e.State != state {
			r.Errorf("event %d of %d is %s, want %s at the end", i, len(r.events), e.State, state)
		}
	}
	if !slices.Equal(seen, phases) {
		r.Errorf("phases %q, want %q", seen, phases)
	}
	r.events = nil
}

// faultBefore is a store fault that only runs f, when an object is put.
func faultBefore(key string, f func()) storetest.Fault {
	return storetest.Fault{Method: "Put", Key: key, Before: f}
}

// cancelAt is a source that cancels when a snapshot has yielded so many rows.
type cancelAt struct {
	storage.Snapshotter
	rows   int
	cancel func()
}

type cancelRows struct {
	storage.Snapshot
	c cancelAt
}

func (c cancelAt) Snapshot(ctx context.Context, account, table string) (storage.Snapshot, error) {
	s, err := c.Snapshotter.Snapshot(ctx, account, table)
	if err != nil {
		return nil, err
	}
	return cancelRows{s, c}, nil
}

func (s cancelRows) Rows(ctx context.Context) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		n := 0
		for row, err := range s.Snapshot.Rows(ctx) {
			if n == s.c.rows {
				s.c.cancel()
			}
			n++
			if !yield(row, err) {
				return
			}
		}
	}
}
