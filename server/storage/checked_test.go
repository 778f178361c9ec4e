// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// farLease is further than its work.
type farLease struct{}

func (farLease) Step(context.Context, time.Time) (storage.Progress, error) {
	return storage.Progress{Done: 2, Total: 1}, nil
}

func (farLease) Release() error { return nil }

// bench is a checked engine with a table "t" (pk, sk; index g on g) and three
// rows, and what was reported.
type bench struct {
	*storagetest.Stub
	t    *storage.Table
	c    storage.Engine
	mu   sync.Mutex
	told []string
}

func definition() ddb.TableDefinition {
	return ddb.TableDefinition{
		TableName:              "t",
		KeySchema:              []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: ddb.Hash}, {AttributeName: "sk", KeyType: ddb.Range}},
		AttributeDefinitions:   []ddb.AttributeDefinition{{AttributeName: "g", AttributeType: "S"}, {AttributeName: "pk", AttributeType: "S"}, {AttributeName: "sk", AttributeType: "S"}},
		GlobalSecondaryIndexes: []ddb.IndexDefinition{{IndexName: "g", KeySchema: []ddb.KeySchemaElement{{AttributeName: "g", KeyType: ddb.Hash}}, Projection: ddb.Projection{ProjectionType: ddb.ProjectAll}}},
	}
}

func row(sk string) ddb.Item {
	return ddb.Item{"pk": ddb.String("p"), "sk": ddb.String(sk), "g": ddb.String("G")}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Stub: &storagetest.Stub{Engine: storagetest.NewMemory(5)}}
	b.c = storage.Checked(b.Stub, storage.CheckOptions{Poison: true, Report: func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, err.Error())
	}})
	var err error
	if b.t, err = b.c.CreateTable(t.Context(), "0", definition(), now); err != nil {
		t.Fatal(err)
	}
	for _, sk := range []string{"1", "2", "3"} {
		if _, err := b.c.Write(t.Context(), b.put(sk)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) key(sk string) storage.Key {
	k, err := b.t.KeyOf(row(sk))
	if err != nil {
		panic(err)
	}
	return k
}

func (b *bench) put(sk string) storage.Write {
	return storage.Write{Table: b.t, Key: b.key(sk), Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		return storage.Derive(t, row(sk))
	}}
}

func (b *bench) stored(sk string) *storage.Row {
	r, err := b.Engine.Get(context.Background(), b.t, b.key(sk))
	if err != nil || r == nil {
		panic(fmt.Sprint("no row ", sk, err))
	}
	return r
}

// all reads a range through the wrapper.
func (b *bench) all(r storage.Range) error {
	for _, err := range b.c.Range(context.Background(), b.t, r) {
		if err != nil {
			return err
		}
	}
	return nil
}

// yields makes the engine yield these rows, whatever is asked for.
func (b *bench) yields(rows ...*storage.Row) {
	b.OnRange = func(context.Context, *storage.Table, storage.Range) iter.Seq2[*storage.Row, error] {
		return func(yield func(*storage.Row, error) bool) {
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

var errStrange = errors.New("strange")

// items is a range over all of the table.
func items() storage.Range { return storage.Range{Want: storage.Items} }

// breach is something an engine does against the contract.
type breach struct {
	do   func(ctx context.Context, b *bench) error
	want string // in the report
}

// TestCheckedFindsEngines: an engine that breaks the contract is told of.
func TestCheckedFindsEngines(t *testing.T) {
	t.Parallel()
	all := map[string]breach{}
	for _, theme := range []map[string]breach{
		catalogBreaches(), decideBreaches(), resultBreaches(), getBreaches(), rangeBreaches(), workBreaches(),
	} {
		maps.Copy(all, theme)
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			err := c.do(t.Context(), b)
			if errors.Is(err, errStrange) || errors.Is(err, storage.ErrTooManyTables) || errors.Is(err, context.Canceled) {
				t.Errorf("unlisted error gets out: %v", err)
			}
			if !slices.ContainsFunc(b.told, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("reported %q, want %q", b.told, c.want)
			}
		})
	}
}

func catalogBreaches() map[string]breach {
	return map[string]breach{
		"unlisted error": {func(ctx context.Context, b *bench) error {
			b.OnPing = func(context.Context) error { return errStrange }
			return b.c.Ping(ctx)
		}, "Ping: unlisted error: strange"},
		"error of another call": {func(ctx context.Context, b *bench) error {
			b.OnGet = func(context.Context, *storage.Table, storage.Key) (*storage.Row, error) {
				return nil, storage.ErrTooManyTables
			}
			_, err := b.c.Get(ctx, b.t, b.key("1"))
			return err
		}, "Get: unlisted error: too many tables"},
		"cancelled without reason": {func(ctx context.Context, b *bench) error {
			b.OnGet = func(context.Context, *storage.Table, storage.Key) (*storage.Row, error) { return nil, context.Canceled }
			_, err := b.c.Get(ctx, b.t, b.key("1"))
			return err
		}, "Get: unlisted error: context canceled"},
		"close": {func(ctx context.Context, b *bench) error {
			b.OnClose = func() error { return errStrange }
			return b.c.Close()
		}, "Close: unlisted error: strange"},
		"create nothing": {func(ctx context.Context, b *bench) error {
			b.OnCreateTable = func(context.Context, string, ddb.TableDefinition, time.Time) (*storage.Table, error) { return nil, nil }
			_, err := b.c.CreateTable(ctx, "0", definition(), now)
			return err
		}, "CreateTable: no table and no error"},
		"exists without table": {func(ctx context.Context, b *bench) error {
			b.OnCreateTable = func(context.Context, string, ddb.TableDefinition, time.Time) (*storage.Table, error) {
				return nil, storage.ErrTableExists
			}
			_, err := b.c.CreateTable(ctx, "0", definition(), now)
			return err
		}, "CreateTable: ErrTableExists without the table"},
		"another table": {func(ctx context.Context, b *bench) error {
			b.OnTable = func(context.Context, string, string) (*storage.Table, error) { return b.t, nil }
			_, err := b.c.Table(ctx, "0", "u")
			return err
		}, `Table: table "t" of "0" instead of "u"`},
		"incomplete table": {func(ctx context.Context, b *bench) error {
			x := *b.t
			x.UUID = ""
			b.OnTable = func(context.Context, string, string) (*storage.Table, error) { return &x, nil }
			_, err := b.c.Table(ctx, "0", "t")
			return err
		}, "Table: incomplete table"},
		"refusal made up": {func(ctx context.Context, b *bench) error {
			b.OnUpdateTable = func(context.Context, string, string, func(*storage.Table) (ddb.TableDefinition, error)) (*storage.Table, error) {
				return nil, errStrange
			}
			_, err := b.c.UpdateTable(ctx, "0", "t", func(t *storage.Table) (ddb.TableDefinition, error) { return t.Def, nil })
			return err
		}, "UpdateTable: unlisted error: strange"},
		"too many names": {func(ctx context.Context, b *bench) error {
			b.OnTables = func(context.Context, string, string, int) ([]string, bool, error) {
				return []string{"a", "b"}, false, nil
			}
			_, _, err := b.c.Tables(ctx, "0", "", 1)
			return err
		}, "Tables: 2 names for limit 1"},
		"more than nothing": {func(ctx context.Context, b *bench) error {
			b.OnTables = func(context.Context, string, string, int) ([]string, bool, error) { return []string{"a"}, true, nil }
			_, _, err := b.c.Tables(ctx, "0", "", 2)
			return err
		}, "Tables: 1 names for limit 2, more true"},
		"names out of order": {func(ctx context.Context, b *bench) error {
			b.OnTables = func(context.Context, string, string, int) ([]string, bool, error) {
				return []string{"b", "a"}, false, nil
			}
			_, _, err := b.c.Tables(ctx, "0", "", 3)
			return err
		}, "not in order"},
		"names before": {func(ctx context.Context, b *bench) error {
			b.OnTables = func(context.Context, string, string, int) ([]string, bool, error) { return []string{"b"}, false, nil }
			_, _, err := b.c.Tables(ctx, "0", "b", 3)
			return err
		}, "not in order after"},
		"dropped but active": {func(ctx context.Context, b *bench) error {
			b.OnDropTable = func(context.Context, string, string, func(*storage.Table) error) (*storage.Table, error) {
				return b.t, nil
			}
			_, err := b.c.DropTable(ctx, "0", "t", func(*storage.Table) error { return nil })
			return err
		}, "DropTable: table is ACTIVE"},
	}
}

func decideBreaches() map[string]breach {
	return map[string]breach{
		"decide twice at once": {func(ctx context.Context, b *bench) error {
			inside := b.put("1")
			var again func(*storage.Table, *storage.Row) (*storage.Next, error)
			inside.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
				if again != nil {
					a := again
					again = nil
					return a(t, cur)
				}
				return storage.Unchanged, nil
			}
			b.OnWriteEach = func(_ context.Context, ws []storage.Write) []storage.Result {
				again = ws[0].Decide
				_, _ = ws[0].Decide(b.t, nil)
				return []storage.Result{{Table: b.t}}
			}
			return b.c.WriteEach(ctx, []storage.Write{inside})[0].Err
		}, "Decide runs twice at the same time"},
		"decide afterwards": {func(ctx context.Context, b *bench) error {
			var late storage.Decide
			b.OnWrite = func(_ context.Context, w storage.Write) (storage.Result, error) {
				late = w.Decide
				return storage.Result{Table: b.t}, nil
			}
			_, err := b.c.Write(ctx, b.put("1"))
			_, _ = late(b.t, nil)
			return err
		}, "Decide runs after the call"},
		"decide without table": {func(ctx context.Context, b *bench) error {
			b.OnWrite = func(_ context.Context, w storage.Write) (storage.Result, error) {
				_, err := w.Decide(nil, nil)
				return storage.Result{Table: b.t, Err: err}, err
			}
			_, err := b.c.Write(ctx, b.put("1"))
			return err
		}, "Decide runs with another or older table"},
		"decide with deleting table": {func(ctx context.Context, b *bench) error {
			b.OnWrite = func(_ context.Context, w storage.Write) (storage.Result, error) {
				x := *b.t
				x.Status = storage.Deleting
				_, err := w.Decide(&x, nil)
				return storage.Result{Table: b.t, Err: err}, err
			}
			_, err := b.c.Write(ctx, b.put("1"))
			return err
		}, "that is DELETING"},
		"decide with another row": {func(ctx context.Context, b *bench) error {
			b.OnWrite = func(_ context.Context, w storage.Write) (storage.Result, error) {
				_, err := w.Decide(b.t, b.stored("2"))
				return storage.Result{Table: b.t, Err: err}, err
			}
			_, err := b.c.Write(ctx, b.put("1"))
			return err
		}, "Decide is given another row"},
		"result without table": {func(ctx context.Context, b *bench) error {
			b.OnWrite = func(_ context.Context, w storage.Write) (storage.Result, error) { return storage.Result{}, nil }
			_, err := b.c.Write(ctx, b.put("1"))
			return err
		}, "result without its table"},
	}
}

func resultBreaches() map[string]breach {
	return map[string]breach{
		"too few results": {func(ctx context.Context, b *bench) error {
			b.OnWriteEach = func(context.Context, []storage.Write) []storage.Result { return nil }
			b.c.WriteEach(ctx, []storage.Write{b.put("1")})
			return nil
		}, "0 results of 1 writes"},
		"too few results of all": {func(ctx context.Context, b *bench) error {
			b.OnWriteAll = func(context.Context, []storage.Write, *storage.Token) ([]storage.Result, error) { return nil, nil }
			_, err := b.c.WriteAll(ctx, []storage.Write{b.put("1")}, nil)
			return err
		}, "WriteAll: 0 results of 1 writes"},
		"done with an error": {func(ctx context.Context, b *bench) error {
			b.OnWriteAll = func(context.Context, []storage.Write, *storage.Token) ([]storage.Result, error) {
				return []storage.Result{{Table: b.t, Err: errStrange}}, nil
			}
			_, err := b.c.WriteAll(ctx, []storage.Write{b.put("1")}, nil)
			return err
		}, "result 0 has an error"},
		"too few reasons": {func(ctx context.Context, b *bench) error {
			b.OnWriteAll = func(context.Context, []storage.Write, *storage.Token) ([]storage.Result, error) {
				return nil, &storage.Cancelled{}
			}
			_, err := b.c.WriteAll(ctx, []storage.Write{b.put("1")}, nil)
			return err
		}, "0 reasons for 1 writes"},
		"no reason": {func(ctx context.Context, b *bench) error {
			b.OnWriteAll = func(context.Context, []storage.Write, *storage.Token) ([]storage.Result, error) {
				return nil, &storage.Cancelled{Reasons: []error{nil}}
			}
			_, err := b.c.WriteAll(ctx, []storage.Write{b.put("1")}, nil)
			return err
		}, "cancelled without a reason"},
		"reason made up": {func(ctx context.Context, b *bench) error {
			b.OnWriteAll = func(context.Context, []storage.Write, *storage.Token) ([]storage.Result, error) {
				return nil, &storage.Cancelled{Reasons: []error{errStrange}}
			}
			_, err := b.c.WriteAll(ctx, []storage.Write{b.put("1")}, nil)
			return err
		}, "WriteAll: unlisted error: strange"},
	}
}

func getBreaches() map[string]breach {
	return map[string]breach{
		"get another row": {func(ctx context.Context, b *bench) error {
			b.OnGet = func(context.Context, *storage.Table, storage.Key) (*storage.Row, error) { return b.stored("2"), nil }
			_, err := b.c.Get(ctx, b.t, b.key("1"))
			return err
		}, "Get: wrong or incomplete row"},
		"get too many": {func(ctx context.Context, b *bench) error {
			b.OnGetAll = func(context.Context, []storage.TableKey, int) ([]*storage.Row, error) {
				return []*storage.Row{nil, nil}, nil
			}
			_, err := b.c.GetAll(ctx, []storage.TableKey{{Table: b.t, Key: b.key("1")}}, 0)
			return err
		}, "GetAll: 2 rows of 1 keys"},
		"get too few": {func(ctx context.Context, b *bench) error {
			b.OnGetAll = func(context.Context, []storage.TableKey, int) ([]*storage.Row, error) { return nil, nil }
			_, err := b.c.GetAll(ctx, []storage.TableKey{{Table: b.t, Key: b.key("1")}}, 5)
			return err
		}, "GetAll: stopped at 0 of 1 keys"},
		"budget ignored": {func(ctx context.Context, b *bench) error {
			b.OnGetAll = func(context.Context, []storage.TableKey, int) ([]*storage.Row, error) {
				return []*storage.Row{b.stored("1"), b.stored("2")}, nil
			}
			_, err := b.c.GetAll(ctx, []storage.TableKey{{Table: b.t, Key: b.key("1")}, {Table: b.t, Key: b.key("2")}}, 5)
			return err
		}, "GetAll: 2 rows of 2 keys"},
		"out of order": {func(ctx context.Context, b *bench) error {
			b.yields(b.stored("2"), b.stored("1"))
			return b.all(items())
		}, "out of order"},
		"twice": {func(ctx context.Context, b *bench) error {
			b.yields(b.stored("2"), b.stored("2"))
			return b.all(items())
		}, "out of order"},
		"reverse ignored": {func(ctx context.Context, b *bench) error {
			b.yields(b.stored("1"), b.stored("2"))
			return b.all(storage.Range{Want: storage.Items, Reverse: true})
		}, "out of order"},
		"after ignored": {func(ctx context.Context, b *bench) error {
			b.yields(b.stored("1"))
			pos := b.stored("1").Position()
			return b.all(storage.Range{Want: storage.Items, After: &pos})
		}, "out of order"},
	}
}

func rangeBreaches() map[string]breach {
	return map[string]breach{
		"out of bounds": {func(ctx context.Context, b *bench) error {
			b.yields(b.stored("1"))
			return b.all(storage.Range{Want: storage.Items, P: b.key("1").PK, From: []byte("2")})
		}, "out of bounds"},
		"out of segment": {func(ctx context.Context, b *bench) error {
			b.yields(b.stored("3"))
			pos := b.stored("3").Position()
			return b.all(storage.Range{Want: storage.Items, End: &pos})
		}, "out of bounds"},
		"no item": {func(ctx context.Context, b *bench) error {
			r := b.stored("1")
			r.Item = nil
			b.yields(r)
			return b.all(items())
		}, "no item"},
		"no size": {func(ctx context.Context, b *bench) error {
			r := b.stored("1")
			r.Size = 0
			b.yields(r)
			return b.all(storage.Range{Want: storage.Sizes})
		}, "no size"},
		"no version": {func(ctx context.Context, b *bench) error {
			r := b.stored("1")
			r.Ver = 0
			b.yields(r)
			return b.all(items())
		}, "incomplete"},
		"no index position": {func(ctx context.Context, b *bench) error {
			b.yields(b.stored("1"))
			return b.all(storage.Range{Want: storage.Items, Index: b.t.Indexes[0].ID})
		}, "index position missing"},
		"goes on after an error": {func(ctx context.Context, b *bench) error {
			b.OnRange = func(context.Context, *storage.Table, storage.Range) iter.Seq2[*storage.Row, error] {
				return func(yield func(*storage.Row, error) bool) {
					_ = yield(nil, storage.ErrStale) && yield(b.stored("1"), nil)
				}
			}
			for range b.c.Range(ctx, b.t, items()) {
			}
			return nil
		}, "goes on after an error"},
		"row and error": {func(ctx context.Context, b *bench) error {
			b.OnRange = func(context.Context, *storage.Table, storage.Range) iter.Seq2[*storage.Row, error] {
				return func(yield func(*storage.Row, error) bool) { yield(b.stored("1"), storage.ErrStale) }
			}
			return b.all(items())
		}, "a row and an error"},
	}
}

func workBreaches() map[string]breach {
	return map[string]breach{
		"sample out of order": {func(ctx context.Context, b *bench) error {
			b.OnSample = func(context.Context, *storage.Table, storage.IndexID, time.Time) ([]storage.Position, error) {
				return []storage.Position{b.stored("2").Position(), b.stored("1").Position()}, nil
			}
			_, err := b.c.Sample(ctx, b.t, 0, now)
			return err
		}, "Sample: positions 0 and 1 are not in order"},
		"sample too large": {func(ctx context.Context, b *bench) error {
			b.OnSample = func(context.Context, *storage.Table, storage.IndexID, time.Time) ([]storage.Position, error) {
				return make([]storage.Position, 4097), nil
			}
			_, err := b.c.Sample(ctx, b.t, 0, now)
			return err
		}, "Sample: 4097 positions"},
		"incomplete work": {func(ctx context.Context, b *bench) error {
			b.OnPending = func(context.Context, time.Time) ([]storage.Work, error) { return []storage.Work{{}}, nil }
			_, err := b.c.Pending(ctx, now)
			return err
		}, "Pending: incomplete work"},
		"progress beyond": {func(ctx context.Context, b *bench) error {
			b.OnClaim = func(context.Context, storage.Work) (storage.Lease, error) { return farLease{}, nil }
			l, err := b.c.Claim(ctx, storage.Work{Kind: storage.Statistics, Table: b.t.ID, Account: "0", Name: "t"})
			if err != nil {
				return err
			}
			_, err = l.Step(ctx, now)
			return errors.Join(err, l.Release())
		}, "Step: progress"},
	}
}
