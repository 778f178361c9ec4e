// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func catalogChecks() []check {
	return []check{
		{"catalog/create", checkCreate},
		{"catalog/create twice", checkCreateTwice},
		{"catalog/create by many", checkCreateByMany},
		{"catalog/too many tables", checkTooManyTables},
		{"catalog/list", checkList},
		{"catalog/update", checkUpdate},
		{"catalog/update by many", checkUpdateByMany},
		{"catalog/drop", checkDrop},
	}
}

// rich is a table with every kind of index.
func rich(name string) ddb.TableDefinition {
	return define(name, "pk:S/sk:S",
		index{"g-all", "g:S/h:N", ddb.ProjectAll},
		index{"g-hash", "g:S", ddb.ProjectKeysOnly},
		index{"g-multi", "a:S,b:N/c:B,d:S,e:N", "x,y"},
		index{"g-table-key", "sk:S/pk:S", ddb.ProjectKeysOnly},
		index{"l-number", "/l:N", ddb.ProjectKeysOnly},
		index{"l-all", "/m:S", ddb.ProjectAll},
	)
}

// same checks that two definitions are one, the work of NewTable included.
func same(e *env, got, want *storage.Table) {
	e.Helper()
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("table\n%+v\nwant\n%+v", got, want)
	}
}

func checkCreate(e *env) {
	at := e.now.Add(123_456 * time.Nanosecond).In(time.FixedZone("elsewhere", 3600))
	def := rich("Rich.table-1_x")
	def.Throughput = ddb.Throughput{ReadCapacityUnits: 7, LastIncreaseDateTime: 1.25e9}
	def.SSE = &ddb.SSEDescription{Status: "ENABLED", SSEType: "KMS"}
	t, err := e.e.CreateTable(e.ctx, account, def, at)
	e.ok(err)
	equal(e, "status", t.Status, storage.Active)
	equal(e, "created", t.Created, e.now)
	if !reflect.DeepEqual(t.Def, def) {
		e.Fatalf("definition %+v, want %+v", t.Def, def)
	}
	equal(e, "indexes", len(t.Indexes), 6)
	other := e.create(rich("other"))
	ids := map[storage.IndexID]bool{0: true}
	for _, ix := range slices.Concat(t.Indexes, other.Indexes) {
		if ids[ix.ID] {
			e.Fatalf("index id %d is used twice", ix.ID)
		}
		ids[ix.ID] = true
	}
	if t.ID == other.ID || t.UUID == other.UUID {
		e.Fatalf("two tables have id %d %s", t.ID, t.UUID)
	}
	for range 2 { // the second time from disk
		got, err := e.e.Table(e.ctx, account, t.Name())
		e.ok(err)
		same(e, got, t)
		got, stats, err := e.e.Describe(e.ctx, account, t.Name())
		e.ok(err)
		same(e, got, t)
		equal(e, "items", stats.Items, 0)
		e.reopen()
	}
	for _, name := range []string{"rich.table-1_x", "Rich.table-1_", "nothing"} {
		_, err := e.e.Table(e.ctx, account, name)
		e.fails(err, storage.ErrTableNotFound)
		_, _, err = e.e.Describe(e.ctx, account, name)
		e.fails(err, storage.ErrTableNotFound)
	}
	_, err = e.e.Table(e.ctx, "111111111111", t.Name())
	e.fails(err, storage.ErrTableNotFound)
}

func checkCreateTwice(e *env) {
	t := e.create(define("t", "id:S"))
	exists := func(want *storage.Table) {
		e.Helper()
		_, err := e.e.CreateTable(e.ctx, account, define("t", "id:N"), e.now)
		e.fails(err, storage.ErrTableExists)
		var x *storage.TableExists
		if !errors.As(err, &x) {
			e.Fatalf("error %T is no *TableExists", err)
		}
		same(e, x.Table, want)
	}
	exists(t)
	exists(e.drop(t))
	e.create(define("T", "id:S"))
	_, err := e.e.CreateTable(e.ctx, "111111111111", define("t", "id:S"), e.now)
	e.ok(err)
}

func checkCreateByMany(e *env) {
	made := make([]*storage.Table, workers)
	e.together(workers, func(i int) error {
		t, err := e.e.CreateTable(e.ctx, account, define("t", "id:S", index{"g", "g:S", ddb.ProjectAll}), e.now)
		made[i] = t
		if errors.Is(err, storage.ErrTableExists) {
			made[i] = nil
			return nil
		}
		return err
	})
	winners := slices.DeleteFunc(made, func(t *storage.Table) bool { return t == nil })
	equal(e, "winners", len(winners), 1)
	got, err := e.e.Table(e.ctx, account, "t")
	e.ok(err)
	same(e, got, winners[0])
}

func checkTooManyTables(e *env) {
	if e.h.MaxTables == 0 {
		e.Skip("this engine was not opened with a small limit of tables")
	}
	for i := range e.h.MaxTables {
		e.create(define(fmt.Sprint("t", i), "id:S"))
	}
	_, err := e.e.CreateTable(e.ctx, account, define("one-more", "id:S"), e.now)
	e.fails(err, storage.ErrTooManyTables)
	_, err = e.e.CreateTable(e.ctx, account, define("t0", "id:S"), e.now)
	e.fails(err, storage.ErrTableExists)
	_, err = e.e.CreateTable(e.ctx, "111111111111", define("one-more", "id:S"), e.now)
	e.ok(err)
	t := &storage.Table{Account: account, Def: ddb.TableDefinition{TableName: "t0"}}
	e.drop(t)
	e.finish(storage.TableDrop, "t0")
	e.create(define("one-more", "id:S"))
}

func checkList(e *env) {
	names := []string{"B", "a", "a-", "a.", "aB", "aa", "b_", "z9"}
	for _, i := range []int{3, 0, 7, 1, 6, 2, 5, 4} {
		e.create(define(names[i], "id:S"))
	}
	_, err := e.e.CreateTable(e.ctx, "111111111111", define("other", "id:S"), e.now)
	e.ok(err)
	slices.Sort(names)
	e.drop(&storage.Table{Account: account, Def: ddb.TableDefinition{TableName: "aB"}}) // DELETING ones are listed
	for limit := 1; limit <= len(names)+1; limit++ {
		var got []string
		after := ""
		for more := true; more; {
			var page []string
			page, more, err = e.e.Tables(e.ctx, account, after, limit)
			e.ok(err)
			got = append(got, page...)
			if len(got) > endless {
				e.Fatalf("listing in pages of %d does not end", limit)
			}
			if more {
				after = page[len(page)-1]
			}
		}
		if !slices.Equal(got, names) {
			e.Fatalf("limit %d: %q, want %q", limit, got, names)
		}
	}
	got, more, err := e.e.Tables(e.ctx, account, "aAAA", 2) // after a name that is none
	e.ok(err)
	if !slices.Equal(got, []string{"aB", "aa"}) || !more {
		e.Fatalf("after aAAA: %q, more %v", got, more)
	}
	got, more, err = e.e.Tables(e.ctx, "222222222222", "", 10)
	e.ok(err)
	if len(got) > 0 || more {
		e.Fatalf("an account without tables lists %q", got)
	}
}

func checkUpdate(e *env) {
	t := e.create(rich("t"))
	e.put(t, item("pk", "a", "sk", "b", "g", "c", "h", 1))
	var seen *storage.Table
	change := func(t *storage.Table) (ddb.TableDefinition, error) {
		seen = t
		def := t.Def
		def.BillingMode = ddb.Provisioned
		def.Throughput.ReadCapacityUnits = 5
		def.DeletionProtection = true
		return def, nil
	}
	next, err := e.e.UpdateTable(e.ctx, account, "t", change)
	e.ok(err)
	same(e, seen, t)
	if next.Version <= t.Version {
		e.Fatalf("version %d after %d", next.Version, t.Version)
	}
	want := *t
	want.Version = next.Version
	want.Def, _ = change(t)
	same(e, next, &want)
	for range 2 {
		got, _, err := e.e.Describe(e.ctx, account, "t")
		e.ok(err)
		same(e, got, next)
		e.reopen()
	}
	refusal := fmt.Errorf("refused: %w", context.DeadlineExceeded) // looks like another error
	_, err = e.e.UpdateTable(e.ctx, account, "t", func(*storage.Table) (ddb.TableDefinition, error) {
		return ddb.TableDefinition{}, refusal
	})
	e.fails(err, refusal)
	got, err := e.e.Table(e.ctx, account, "t")
	e.ok(err)
	same(e, got, next)
	_, err = e.e.UpdateTable(e.ctx, account, "none", change)
	e.fails(err, storage.ErrTableNotFound)
	e.consistent(next)
	e.drop(next)
	_, err = e.e.UpdateTable(e.ctx, account, "t", func(t *storage.Table) (ddb.TableDefinition, error) {
		seen = t
		return ddb.TableDefinition{}, refusal
	})
	e.fails(err, refusal)
	equal(e, "status", seen.Status, storage.Deleting)
}

func checkUpdateByMany(e *env) {
	t := e.create(define("t", "id:S"))
	versions := map[int64]bool{t.Version: true}
	var mu sync.Mutex
	e.together(workers, func(int) error {
		for range 5 {
			t, err := e.e.UpdateTable(e.ctx, account, "t", func(t *storage.Table) (ddb.TableDefinition, error) {
				def := t.Def
				def.Throughput.ReadCapacityUnits++
				return def, nil
			})
			if err != nil {
				return err
			}
			mu.Lock()
			if versions[t.Version] {
				err = fmt.Errorf("version %d is used twice", t.Version)
			}
			versions[t.Version] = true
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	})
	got, _, err := e.e.Describe(e.ctx, account, "t")
	e.ok(err)
	equal(e, "read units", got.Def.Throughput.ReadCapacityUnits, int64(workers*5))
}

func checkDrop(e *env) {
	t := e.create(rich("t"))
	refusal := errors.New("no")
	var seen *storage.Table
	_, err := e.e.DropTable(e.ctx, account, "t", func(t *storage.Table) error {
		seen = t
		return refusal
	})
	e.fails(err, refusal)
	same(e, seen, t)
	got, err := e.e.Table(e.ctx, account, "t")
	e.ok(err)
	same(e, got, t)
	gone := e.drop(t)
	if gone.Version <= t.Version || gone.ID != t.ID {
		e.Fatalf("dropped table is %+v", gone)
	}
	for range 2 {
		got, err := e.e.Table(e.ctx, account, "t")
		e.ok(err)
		same(e, got, gone)
		e.reopen()
	}
	again := e.drop(t)
	equal(e, "status", again.Status, storage.Deleting)
	_, err = e.e.DropTable(e.ctx, account, "none", agree)
	e.fails(err, storage.ErrTableNotFound)
}
