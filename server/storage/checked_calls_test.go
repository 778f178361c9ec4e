// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// mistake is an invalid call.
type mistake func(ctx context.Context, b *bench) error

// TestCheckedRefusesCallers: an invalid call does not reach the engine.
func TestCheckedRefusesCallers(t *testing.T) {
	t.Parallel()
	all := catalogMistakes()
	maps.Copy(all, writeMistakes())
	maps.Copy(all, readMistakes())
	for name, do := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if err := do(t.Context(), b); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("error %v", err)
			}
			if len(b.told) != 1 || !strings.Contains(b.told[0], "invalid call") {
				t.Errorf("reported %q", b.told)
			}
		})
	}
}

func catalogMistakes() map[string]mistake {
	return map[string]mistake{
		"create without account": func(ctx context.Context, b *bench) error {
			_, err := b.c.CreateTable(ctx, "", definition(), now)
			return err
		},
		"create without instant": func(ctx context.Context, b *bench) error {
			_, err := b.c.CreateTable(ctx, "0", definition(), time.Time{})
			return err
		},
		"create without keys": func(ctx context.Context, b *bench) error {
			_, err := b.c.CreateTable(ctx, "0", ddb.TableDefinition{TableName: "x"}, now)
			return err
		},
		"update without change": func(ctx context.Context, b *bench) error {
			_, err := b.c.UpdateTable(ctx, "0", "t", nil)
			return err
		},
		"update of the name": func(ctx context.Context, b *bench) error {
			_, err := b.c.UpdateTable(ctx, "0", "t", func(t *storage.Table) (ddb.TableDefinition, error) {
				def := t.Def
				def.TableName = "u"
				return def, nil
			})
			return err
		},
		"update of the indexes": func(ctx context.Context, b *bench) error {
			_, err := b.c.UpdateTable(ctx, "0", "t", func(t *storage.Table) (ddb.TableDefinition, error) {
				def := t.Def
				def.GlobalSecondaryIndexes = nil
				return def, nil
			})
			return err
		},
		"list nothing": func(ctx context.Context, b *bench) error {
			_, _, err := b.c.Tables(ctx, "0", "", 0)
			return err
		},
		"drop without check": func(ctx context.Context, b *bench) error {
			_, err := b.c.DropTable(ctx, "0", "t", nil)
			return err
		},
	}
}

func writeMistakes() map[string]mistake {
	token := func(b *bench, token storage.Token) error {
		_, err := b.c.WriteAll(context.Background(), []storage.Write{b.put("1")}, &token)
		return err
	}
	return map[string]mistake{
		"write without table": func(ctx context.Context, b *bench) error {
			_, err := b.c.Write(ctx, storage.Write{Key: b.key("1"), Decide: b.put("1").Decide})
			return err
		},
		"write without decide": func(ctx context.Context, b *bench) error {
			_, err := b.c.Write(ctx, storage.Write{Table: b.t, Key: b.key("1")})
			return err
		},
		"write without key": func(ctx context.Context, b *bench) error {
			w := b.put("1")
			w.Key = storage.Key{}
			return b.c.WriteEach(ctx, []storage.Write{w})[0].Err
		},
		"write without sort key": func(ctx context.Context, b *bench) error {
			w := b.put("1")
			w.Key.SK = nil
			_, err := b.c.Write(ctx, w)
			return err
		},
		"write of an empty row": func(ctx context.Context, b *bench) error {
			w := b.put("1")
			w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return &storage.Next{}, nil }
			_, err := b.c.Write(ctx, w)
			return err
		},
		"write all of one row": func(ctx context.Context, b *bench) error {
			_, err := b.c.WriteAll(ctx, []storage.Write{b.put("1"), b.put("2"), b.put("1")}, nil)
			return err
		},
		"write all without table": func(ctx context.Context, b *bench) error {
			_, err := b.c.WriteAll(ctx, []storage.Write{{}}, nil)
			return err
		},
		"token without account": func(_ context.Context, b *bench) error { return token(b, storage.Token{Token: "x", Now: now}) },
		"token without name":    func(_ context.Context, b *bench) error { return token(b, storage.Token{Account: "0", Now: now}) },
		"token without instant": func(_ context.Context, b *bench) error { return token(b, storage.Token{Account: "0", Token: "x"}) },
	}
}

func readMistakes() map[string]mistake {
	return map[string]mistake{
		"get without table": func(ctx context.Context, b *bench) error {
			_, err := b.c.Get(ctx, nil, b.key("1"))
			return err
		},
		"get with a raw key": func(ctx context.Context, b *bench) error {
			_, err := b.c.Get(ctx, b.t, storage.Key{PK: []byte("p"), SK: []byte("1")})
			return err
		},
		"get all without table": func(ctx context.Context, b *bench) error {
			_, err := b.c.GetAll(ctx, []storage.TableKey{{Key: b.key("1")}}, 0)
			return err
		},
		"get all without key": func(ctx context.Context, b *bench) error {
			_, err := b.c.GetAll(ctx, []storage.TableKey{{Table: b.t}}, 0)
			return err
		},
		"sample of an unknown index": func(ctx context.Context, b *bench) error {
			_, err := b.c.Sample(ctx, b.t, 99, now)
			return err
		},
		"sample without instant": func(ctx context.Context, b *bench) error {
			_, err := b.c.Sample(ctx, b.t, 0, time.Time{})
			return err
		},
		"range of an unknown index": func(_ context.Context, b *bench) error { return b.all(storage.Range{Index: 99, Want: storage.Items}) },
		"range without want":        func(_ context.Context, b *bench) error { return b.all(storage.Range{}) },
		"range with unbounded To": func(_ context.Context, b *bench) error {
			return b.all(storage.Range{To: []byte{1}, Want: storage.Items})
		},
		"range with both bounds": func(_ context.Context, b *bench) error {
			return b.all(storage.Range{P: b.key("1").PK, Start: &storage.Position{}, Want: storage.Items})
		},
		"range with an empty partition": func(_ context.Context, b *bench) error { return b.all(storage.Range{P: []byte{}, Want: storage.Items}) },
		"step of a released lease": func(ctx context.Context, b *bench) error {
			l, err := b.c.Claim(ctx, storage.Work{Kind: storage.Statistics, Table: b.t.ID, Account: "0", Name: "t"})
			if err != nil {
				return err
			}
			if err := l.Release(); err != nil {
				return err
			}
			_, err = l.Step(ctx, now)
			return err
		},
	}
}

// TestCheckedLeaks: what is still open at Close is told of.
func TestCheckedLeaks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.OnClose = func() error { return nil } // waits for nobody
	if _, err := b.c.Claim(t.Context(), storage.Work{Kind: storage.Statistics, Table: b.t.ID, Account: "0", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(b.c.Range(t.Context(), b.t, storage.Range{Want: storage.Items}))
	defer stop()
	if _, err, ok := next(); err != nil || !ok {
		t.Fatal(err, ok)
	}
	if err := b.c.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(b.told)
	if len(b.told) != 2 || !strings.Contains(b.told[0], "iterator over table t") || !strings.Contains(b.told[1], `lease of statistics on "t"`) {
		t.Errorf("reported %q", b.told)
	}
}

// TestCheckedPoisons: rows are useless as soon as they are no longer valid,
// and the engine's own bytes are untouched.
func TestCheckedPoisons(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var kept []*storage.Row
	for r, err := range b.c.Range(t.Context(), b.t, storage.Range{Index: b.t.Indexes[0].ID, Want: storage.Items}) {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, r)
	}
	w := b.put("1")
	w.Decide = func(_ *storage.Table, cur *storage.Row) (*storage.Next, error) {
		kept = append(kept, cur)
		return storage.Unchanged, nil
	}
	if _, err := b.c.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if len(kept) != 4 {
		t.Fatalf("%d rows", len(kept))
	}
	for _, r := range kept {
		if strings.Trim(string(r.Item)+string(r.Key.PK)+string(r.Key.SK)+string(r.P), "\xDB") != "" {
			t.Errorf("row is still there: %+v", r)
		}
	}
	if r, err := b.c.Get(t.Context(), b.t, b.key("1")); err != nil || string(r.Item) != string(ddb.AppendItem(nil, row("1"))) {
		t.Errorf("row is %v, %v", r, err)
	}
}

// TestCheckedPasses: listed errors, refusals and those of the context go
// through as they are, without a report.
func TestCheckedPasses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	cause := errors.New("cause")
	ended, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	var errs [6]error
	_, errs[0] = b.c.UpdateTable(ctx, "0", "t", func(*storage.Table) (ddb.TableDefinition, error) { return ddb.TableDefinition{}, errStrange })
	_, errs[1] = b.c.DropTable(ctx, "0", "t", func(*storage.Table) error { return errStrange })
	w := b.put("1")
	w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, errStrange }
	_, errs[2] = b.c.Write(ctx, w)
	errs[3] = b.c.WriteEach(ctx, []storage.Write{w})[0].Err
	_, err := b.c.WriteAll(ctx, []storage.Write{b.put("2"), w}, nil)
	var c *storage.Cancelled
	if errors.As(err, &c) {
		errs[4] = c.Reasons[1]
	}
	b.OnGet = func(context.Context, *storage.Table, storage.Key) (*storage.Row, error) {
		return nil, errors.Join(storage.ErrUnavailable, errStrange)
	}
	_, errs[5] = b.c.Get(ctx, b.t, b.key("1"))
	for i, err := range errs {
		if !errors.Is(err, errStrange) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	b.OnGet = func(context.Context, *storage.Table, storage.Key) (*storage.Row, error) { return nil, cause }
	if _, err := b.c.Get(ended, b.t, b.key("1")); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if _, err := b.c.CreateTable(ctx, "0", definition(), now); !errors.Is(err, storage.ErrTableExists) {
		t.Errorf("error %v", err)
	}
	if len(b.told) != 0 {
		t.Errorf("reported %q", b.told)
	}
	if err := storage.Checked(b.Stub, storage.CheckOptions{}).Ping(ctx); err != nil {
		t.Errorf("without Report: %v", err)
	}
}
