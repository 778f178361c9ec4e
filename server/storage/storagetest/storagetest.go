// SPDX-License-Identifier: Apache-2.0

// Package storagetest is the conformance suite of package storage: every
// engine passes it unchanged. It also holds the reference engine Memory, the
// fault-injecting wrapper Faulty, and CheckEntries for crash tests.
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// Harness is one empty database under test. The suite closes the engine.
type Harness struct {
	Engine storage.Engine
	// Reopen closes the engine that is open and opens the same data again.
	Reopen func() storage.Engine
	// Second opens the same data once more while the engine is open, as another
	// server does, with caches of its own; nil when the engine has it to itself.
	// The suite closes what it returns.
	Second func() storage.Engine
	// MaxTables is the number of tables an account of this database may have,
	// when it was configured to be small (at most 50); 0 leaves that out.
	MaxTables int
	// Snapshots says what its snapshots are like.
	Snapshots Snapshots

	moment time.Duration // see soon; 0: long enough for a busy machine
}

// Run runs the suite: each check gets a database of its own from open, and
// the checks run in parallel.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.do(t, open(t))
		})
	}
}

// check is one check of the suite.
type check struct {
	name string
	run  func(e *env)
}

func checks() []check {
	return slices.Concat(
		catalogChecks(), rowChecks(), manyChecks(), pagingChecks(), indexChecks(), keyChecks(), boundsChecks(),
		staleChecks(), iterateChecks(), instantChecks(), workChecks(), trimChecks(), lifeChecks(),
		snapshotChecks(), loadingChecks(), streamChecks(), severalChecks(), modelChecks(),
	)
}

func (c check) do(t testing.TB, h Harness) {
	e := &env{TB: t, ctx: t.Context(), h: h, now: start, busy: new(atomic.Int32)}
	e.e = e.checked(h.Engine)
	t.Cleanup(func() {
		if err := e.e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	c.run(e)
}

// start is when the suite begins, on its own clock.
var start = time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.UTC)

// account is whose tables the suite makes unless it says otherwise.
const account = "000000000000"

// env is what a check works with. What a check hands to the engine (Decide,
// change) runs on any goroutine and must not end the test: it returns errors.
type env struct {
	testing.TB
	ctx context.Context
	e   storage.Engine // checked
	h   Harness
	now time.Time

	busy *atomic.Int32 // see patient
}

func (e *env) checked(engine storage.Engine) storage.Engine {
	return patient{storage.Checked(engine, storage.CheckOptions{Report: func(breach error) { e.Error(breach) }, Poison: true}), e.busy}
}

func (e *env) reopen() {
	e.Helper()
	e.ok(e.e.Close())
	e.e = e.checked(e.h.Reopen())
}

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error: %v", err)
	}
}

func (e *env) fails(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("error %v, want %v", err, want)
	}
}

func equal[T comparable](e *env, what string, got, want T) {
	e.Helper()
	if got != want {
		e.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (e *env) create(def ddb.TableDefinition) *storage.Table {
	e.Helper()
	t, err := e.e.CreateTable(e.ctx, account, def, e.now)
	e.ok(err)
	return t
}

// touch gives the table a new version, behind the back of whoever holds t.
func (e *env) touch(t *storage.Table) *storage.Table {
	e.Helper()
	next, err := e.e.UpdateTable(e.ctx, t.Account, t.Name(), toggle)
	e.ok(err)
	return next
}

// toggle is a change that is always one.
func toggle(t *storage.Table) (ddb.TableDefinition, error) {
	def := t.Def
	def.DeletionProtection = !def.DeletionProtection
	return def, nil
}

func agree(*storage.Table) error { return nil }

func (e *env) drop(t *storage.Table) *storage.Table {
	e.Helper()
	t, err := e.e.DropTable(e.ctx, t.Account, t.Name(), agree)
	e.ok(err)
	return t
}

// putWrite is a write that replaces a row by it.
func putWrite(t *storage.Table, it ddb.Item) storage.Write {
	return storage.Write{Table: t, Key: keyOf(t, it), Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
		return storage.Derive(t, it)
	}}
}

// deleteWrite is a write that removes the row of it.
func deleteWrite(t *storage.Table, it ddb.Item) storage.Write {
	return storage.Write{Table: t, Key: keyOf(t, it), Decide: func(*storage.Table, *storage.Row) (*storage.Next, error) {
		return nil, nil
	}}
}

func keyOf(t *storage.Table, it ddb.Item) storage.Key {
	k, err := t.KeyOf(it)
	if err != nil {
		panic(fmt.Sprintf("storagetest: item without key: %v", err)) // a mistake in the suite
	}
	return k
}

func (e *env) put(t *storage.Table, items ...ddb.Item) {
	e.Helper()
	for i, chunk := 0, 100; i < len(items); i += chunk {
		var ws []storage.Write
		for _, it := range items[i:min(i+chunk, len(items))] {
			ws = append(ws, putWrite(t, it))
		}
		for _, r := range e.e.WriteEach(e.ctx, ws) {
			e.ok(r.Err)
		}
	}
}

func (e *env) delete(t *storage.Table, it ddb.Item) {
	e.Helper()
	_, err := e.e.Write(e.ctx, deleteWrite(t, it))
	e.ok(err)
}

func (e *env) get(t *storage.Table, it ddb.Item) *storage.Row {
	e.Helper()
	row, err := e.e.Get(e.ctx, t, keyOf(t, it))
	e.ok(err)
	return row
}

// holds checks that the row of it is stored exactly as it.
func (e *env) holds(t *storage.Table, it ddb.Item) {
	e.Helper()
	row := e.get(t, it)
	if row == nil {
		e.Fatalf("no row %v", keyOf(t, it))
	}
	equal(e, "item", string(row.Item), string(ddb.AppendItem(nil, it)))
	equal(e, "size", row.Size, it.Size())
	equal(e, "long number", row.Flags&storage.FlagLongNumber != 0, it.HasLongNumber())
}

// absent checks that there is no row of it.
func (e *env) absent(t *storage.Table, it ddb.Item) {
	e.Helper()
	if row := e.get(t, it); row != nil {
		e.Fatalf("row %x is there: %s", row.Key, row.Item)
	}
}

// collect reads at most limit rows of a range; all when limit is 0.
func (e *env) collect(t *storage.Table, r storage.Range, limit int) ([]*storage.Row, error) {
	if r.Want == 0 {
		r.Want = storage.Items
	}
	var rows []*storage.Row
	for row, err := range e.e.Range(e.ctx, t, r) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row.Clone())
		if len(rows) == limit {
			break
		}
	}
	return rows, nil
}

func (e *env) rows(t *storage.Table, r storage.Range) []*storage.Row {
	e.Helper()
	rows, err := e.collect(t, r, 0)
	e.ok(err)
	return rows
}

// consistent checks that the index entries of t are those of its rows.
func (e *env) consistent(t *storage.Table) {
	e.Helper()
	e.ok(CheckEntries(e.ctx, e.e, t))
}
