// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// TestWritesAgainstModel: whatever is written, rows, entries and records are
// those of a model.
func TestWritesAgainstModel(t *testing.T) {
	t.Parallel()
	local := indexed("local", "a")
	local.KeySchema = append(local.KeySchema, ddb.KeySchemaElement{AttributeName: "r", KeyType: ddb.Range})
	local.AttributeDefinitions = append(local.AttributeDefinitions,
		ddb.AttributeDefinition{AttributeName: "r", AttributeType: "S"}, ddb.AttributeDefinition{AttributeName: "l", AttributeType: "S"})
	local.LocalSecondaryIndexes = []ddb.IndexDefinition{{
		IndexName: "by-l", Projection: ddb.Projection{ProjectionType: ddb.ProjectAll},
		KeySchema: []ddb.KeySchemaElement{{AttributeName: "k", KeyType: ddb.Hash}, {AttributeName: "l", KeyType: ddb.Range}},
	}}
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	for _, def := range []ddb.TableDefinition{
		hashTable("plain"), indexed("two", "a", "b"), local, streaming(indexed("stream", "a"), ddb.ViewBoth),
	} {
		tab := create(t, db, def)
		rnd := rand.New(rand.NewPCG(1, 2))
		model := map[string]ddb.Item{}
		attr := func() string { return strings.Repeat(string(rune('x'+rnd.IntN(2))), 1+rnd.IntN(2)) }
		for range 300 {
			it := item(fmt.Sprint("k", rnd.IntN(8)), "r", attr(), "pad", strings.Repeat("p", rnd.IntN(3)))
			for _, a := range []string{"a", "b", "l"} {
				if rnd.IntN(3) > 0 {
					it[a] = ddb.String(attr())
				}
			}
			k, err := tab.KeyOf(it)
			if err != nil {
				t.Fatal(err)
			}
			w := storage.Write{Table: tab, Key: k, Blind: rnd.IntN(2) == 0}
			switch rnd.IntN(4) {
			case 0:
				w.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, nil }
				delete(model, string(k.PK)+string(k.SK))
			default:
				w.Decide = func(t *storage.Table, _ *storage.Row) (*storage.Next, error) { return storage.Derive(t, it) }
				model[string(k.PK)+string(k.SK)] = it
			}
			if rnd.IntN(3) > 0 {
				mustWrite(t, db, w)
			} else if _, err := db.WriteAll(t.Context(), []storage.Write{w}, nil); err != nil {
				t.Fatal(err)
			}
		}
		checkTable(t, c, tab)
		rows, err := storedRows(t.Context(), c, tab.ID)
		if err != nil || len(rows) != len(model) {
			t.Fatalf("table %s has %d rows, want %d: %v", tab.Name(), len(rows), len(model), err)
		}
		for _, r := range rows {
			if want := model[string(r.Key.PK)+string(r.Key.SK)]; string(r.Item) != string(ddb.AppendItem(nil, want)) {
				t.Errorf("row %x is %s, want %v", r.Key, r.Item, want)
			}
		}
	}
}

// together runs f n times at once and returns what failed.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// TestServersCount: several servers count in the same rows, in every way.
func TestServersCount(t *testing.T) {
	t.Parallel()
	one := mustOpen(t, Options{})
	two := mustOpen(t, Options{URL: one.o.URL})
	tab := create(t, one, streaming(indexed("t", "n"), ddb.ViewKeysOnly))
	const each = 25
	err := together(8, func(i int) error {
		db := []*DB{one, two}[i%2]
		for n := range each {
			ws := []storage.Write{add(tab, "x", 1), add(tab, "y", 1)}
			switch n % 3 {
			case 0:
				for _, r := range db.WriteEach(t.Context(), ws) {
					if r.Err != nil {
						return r.Err
					}
				}
			case 1:
				if _, err := db.WriteAll(t.Context(), []storage.Write{ws[n%2], ws[1-n%2]}, nil); err != nil {
					return err
				}
			default:
				for _, w := range ws {
					if _, err := db.Write(t.Context(), w); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := mustConnect(t, one.o.URL)
	for _, k := range []string{"x", "y"} {
		if got := value(t, c, tab, k, "n"); got != fmt.Sprint(8*each) {
			t.Errorf("%s is %s, want %d", k, got, 8*each)
		}
	}
	checkTable(t, c, tab)
}

// TestLostRaces: who loses again and again gets the row under a lock.
func TestLostRaces(t *testing.T) {
	t.Parallel()
	one := mustOpen(t, Options{})
	tab := create(t, one, indexed("t", "n"))
	races := 0
	o := Options{URL: one.o.URL}
	o.hooks.write.before = func(ctx context.Context, cs ...*change) error {
		if races++; races > maxLost {
			return nil
		}
		_, err := one.Write(ctx, add(tab, "x", 1))
		return err
	}
	two := mustOpen(t, o)
	mustWrite(t, two, add(tab, "x", 100))
	c := mustConnect(t, one.o.URL)
	if got, want := value(t, c, tab, "x", "n"), fmt.Sprint(100+maxLost); got != want {
		t.Errorf("x is %s, want %s", got, want)
	}
	if races != maxLost+1 {
		t.Errorf("%d attempts, want %d", races, maxLost+1)
	}
	checkTable(t, c, tab)
}

// TestStaleServer: a server that heard nothing of a change writes by it all the
// same.
func TestStaleServer(t *testing.T) {
	t.Parallel()
	one := mustOpen(t, Options{})
	o := Options{URL: one.o.URL}
	o.hooks.heard = func(string) bool { return false }
	two := mustOpen(t, o)
	old := create(t, one, hashTable("t"))
	for name, write := range map[string]func(w storage.Write) error{
		"Write":       func(w storage.Write) error { _, err := two.Write(t.Context(), w); return err },
		"blind Write": func(w storage.Write) error { _, err := two.Write(t.Context(), blind(w)); return err },
		"WriteEach":   func(w storage.Write) error { return two.WriteEach(t.Context(), []storage.Write{w})[0].Err },
		"WriteAll": func(w storage.Write) error {
			_, err := two.WriteAll(t.Context(), []storage.Write{w, remove(old, "other")}, nil)
			return err
		},
	} {
		if err := write(put(old, item("x"))); err != nil { // two knows the table now
			t.Fatal(name, err)
		}
		now, err := one.UpdateTable(t.Context(), acct, "t", func(t *storage.Table) (ddb.TableDefinition, error) {
			def := t.Def
			def.DeletionProtection = !def.DeletionProtection
			return def, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var last *storage.Table
		w := put(old, item("x", "by", name))
		derive := w.Decide
		w.Decide = func(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
			last = t
			return derive(t, cur)
		}
		if err := write(w); err != nil {
			t.Error(name, err)
		}
		if last.Version != now.Version {
			t.Errorf("%s: decided by version %d, want %d", name, last.Version, now.Version)
		}
	}
	if _, err := one.DropTable(t.Context(), acct, "t", agree); err != nil {
		t.Fatal(err)
	}
	for _, w := range []storage.Write{put(old, item("x")), blind(put(old, item("x"))), remove(old, "x"), remove(old, "none")} {
		if _, err := two.Write(t.Context(), w); !errors.Is(err, storage.ErrTableNotFound) {
			t.Errorf("write of a table that is being deleted: %v", err)
		}
	}
}

// TestDefinitionNeverHolds: where each attempt meets another definition, the
// call ends with a conflict.
func TestDefinitionNeverHolds(t *testing.T) {
	t.Parallel()
	o := Options{}
	o.hooks.write.text = func(sql string) string { return strings.Replace(sql, "version = $1", "version = -$1", 1) }
	db := mustOpen(t, o)
	tab := create(t, db, hashTable("t"))
	for name, w := range map[string]storage.Write{"put": put(tab, item("x")), "blind put": blind(put(tab, item("x")))} {
		if r, err := db.Write(t.Context(), w); !errors.Is(err, storage.ErrConflict) || r.Table == nil {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
	checkTable(t, mustConnect(t, db.o.URL), tab)
}

// TestFaultyDecide: what a Decide must not do harms its own write only.
func TestFaultyDecide(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	tab := create(t, db, indexed("t", "a"))
	boom := put(tab, item("x"))
	boom.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { panic("boom") }
	empty := put(tab, item("y"))
	empty.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return &storage.Next{}, nil }
	for _, w := range []storage.Write{boom, empty, blind(boom), blind(empty)} {
		rs := db.WriteEach(t.Context(), []storage.Write{w, put(tab, item("z"))})
		if !errors.Is(rs[0].Err, storage.ErrInvalid) || rs[1].Err != nil {
			t.Errorf("results %v and %v", rs[0].Err, rs[1].Err)
		}
		_, err := db.WriteAll(t.Context(), []storage.Write{put(tab, item("q")), w}, nil)
		var cancelled *storage.Cancelled
		if !errors.As(err, &cancelled) || !errors.Is(cancelled.Reasons[1], storage.ErrInvalid) || cancelled.Reasons[0] != nil {
			t.Errorf("transaction: %v", err)
		}
	}
	c := mustConnect(t, db.o.URL)
	checkTable(t, c, tab)
	if rows, err := storedRows(t.Context(), c, tab.ID); err != nil || len(rows) != 1 {
		t.Errorf("%d rows, want one: %v", len(rows), err)
	}
}

// TestCancelledWrite: a write that is given up while it waits is undone, and
// its connection goes on.
func TestCancelledWrite(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 2})
	tab := create(t, db, hashTable("t"))
	mustWrite(t, db, put(tab, item("x", "by", "first")))
	c := mustConnect(t, db.o.URL)
	for name, write := range map[string]func(ctx context.Context, w storage.Write) error{
		"Write": func(ctx context.Context, w storage.Write) error { _, err := db.Write(ctx, w); return err },
		"blind": func(ctx context.Context, w storage.Write) error { _, err := db.Write(ctx, blind(w)); return err },
		"WriteAll": func(ctx context.Context, w storage.Write) error {
			_, err := db.WriteAll(ctx, []storage.Write{w}, nil)
			return err
		},
	} {
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "SELECT 1 FROM "+rowsOf(tab.ID)+" FOR UPDATE")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- write(ctx, put(tab, item("x", "by", name))) }()
		blocked(t, c, 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
		mustExec(t, c, "COMMIT")
		if got := value(t, c, tab, "x", "by"); got != "first" {
			t.Errorf("%s was carried out: %s", name, got)
		}
		mustWrite(t, db, put(tab, item("y")), blind(put(tab, item("y"))))
	}
	if n := db.pool.Stat().NewConnsCount(); n > 2 {
		t.Errorf("%d connections were made: some were dropped", n)
	}
}

// TestLongKeys: the first row with a shortened key is noted, whoever writes it.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	c := mustConnect(t, db.o.URL)
	long := strings.Repeat("x", 400)
	for i, write := range []func(w storage.Write) error{
		func(w storage.Write) error { _, err := db.Write(t.Context(), w); return err },
		func(w storage.Write) error { _, err := db.Write(t.Context(), blind(w)); return err },
		func(w storage.Write) error { _, err := db.WriteAll(t.Context(), []storage.Write{w}, nil); return err },
	} {
		tab := create(t, db, hashTable(fmt.Sprint("table", i)))
		for _, step := range []struct {
			k    string
			want bool
		}{{"short", false}, {long, true}, {"short", true}} {
			if err := write(put(tab, item(step.k))); err != nil {
				t.Fatal(err)
			}
			var noted bool
			if err := c.QueryRow(t.Context(), "SELECT long_keys FROM extenddb.tables WHERE id = $1", int64(tab.ID)).Scan(&noted); err != nil {
				t.Fatal(err)
			}
			if noted != step.want {
				t.Errorf("way %d, key of %d bytes: noted %v", i, len(step.k), noted)
			}
		}
	}
}
