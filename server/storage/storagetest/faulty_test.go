// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// TestFaultyPasses: without faults it is the engine it wraps.
func TestFaultyPasses(t *testing.T) {
	t.Parallel()
	Run(t, func(*testing.T) Harness {
		m := NewMemory(20)
		return Harness{Engine: NewFaulty(&Stub{Engine: m}), Reopen: func() storage.Engine {
			m = m.Reopen()
			return NewFaulty(&Stub{Engine: m})
		}}
	})
}

// faultyEnv is a table with five rows on a faulty engine.
func faultyEnv(t *testing.T) (*env, *Faulty, *storage.Table, []ddb.Item) {
	t.Helper()
	f := NewFaulty(NewMemory(5))
	e := &env{TB: t, ctx: t.Context(), e: f, now: start}
	table, items := e.filled(5)
	return e, f, table, items
}

// TestFaultyMethods: every method fails as told, once.
func TestFaultyMethods(t *testing.T) {
	t.Parallel()
	e, f, table, items := faultyEnv(t)
	w := e.pending(storage.Statistics, table.Name())
	lease, err := e.e.Claim(e.ctx, w)
	e.ok(err)
	calls := map[string]func() error{
		"Ping":        func() error { return f.Ping(e.ctx) },
		"CreateTable": func() error { _, err := f.CreateTable(e.ctx, account, define("new", "id:S"), e.now); return err },
		"UpdateTable": func() error { _, err := f.UpdateTable(e.ctx, account, "new", toggle); return err },
		"Table":       func() error { _, err := f.Table(e.ctx, account, table.Name()); return err },
		"Describe":    func() error { _, _, err := f.Describe(e.ctx, account, table.Name()); return err },
		"Tables":      func() error { _, _, err := f.Tables(e.ctx, account, "", 1); return err },
		"DropTable":   func() error { _, err := f.DropTable(e.ctx, account, "new", agree); return err },
		"Write":       func() error { _, err := f.Write(e.ctx, putWrite(table, items[0])); return err },
		"WriteEach":   func() error { return f.WriteEach(e.ctx, []storage.Write{putWrite(table, items[0])})[0].Err },
		"WriteAll":    func() error { _, err := f.WriteAll(e.ctx, []storage.Write{putWrite(table, items[0])}, nil); return err },
		"Get":         func() error { _, err := f.Get(e.ctx, table, keyOf(table, items[0])); return err },
		"GetAll":      func() error { _, err := f.GetAll(e.ctx, nil, 0); return err },
		"Range":       func() error { _, err := e.collect(table, storage.Range{}, 0); return err },
		"Sample":      func() error { _, err := f.Sample(e.ctx, table, 0, e.now); return err },
		"Pending":     func() error { _, err := f.Pending(e.ctx, e.now); return err },
		"Claim":       func() error { _, err := f.Claim(e.ctx, storage.Work{Kind: storage.TableDrop}); return err },
		"Step":        func() error { _, err := lease.Step(e.ctx, e.now); return err },
		"Release":     func() error { return lease.Release() },
		"Close":       func() error { return f.Close() },
	}
	order := []string{"CreateTable", "UpdateTable", "DropTable", "Step", "Release", "Close"} // these change what the others meet
	for name := range calls {
		if !slices.Contains(order, name) {
			order = append([]string{name}, order...)
		}
	}
	for _, name := range order {
		before := f.Calls(name)
		f.Inject(Fault{Method: name, Err: storage.ErrUnavailable})
		e.fails(calls[name](), storage.ErrUnavailable)
		if err := calls[name](); errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s fails twice", name)
		}
		equal(e, "calls of "+name, f.Calls(name)-before, 2)
	}
	equal(e, "unused faults", len(f.Unused()), 0)
}

func TestFaultyTimes(t *testing.T) {
	t.Parallel()
	e, f, table, items := faultyEnv(t)
	ping := func() error { return f.Ping(e.ctx) }
	f.Inject(Fault{Method: "Ping", Err: storage.ErrUnavailable, Skip: 2, Times: 2})
	for i, want := range []error{nil, nil, storage.ErrUnavailable, storage.ErrUnavailable, nil} {
		if err := ping(); !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
	f.Inject(Fault{Method: "Ping", Err: storage.ErrUnavailable, Times: -1}, Fault{Method: "Get", Err: storage.ErrCorrupt})
	for range 5 {
		e.fails(ping(), storage.ErrUnavailable)
	}
	equal(e, "unused", strings.Join(f.Unused(), " "), "Get")
	// The answer is lost, what was asked for is done.
	changed := with(items[0], "x", "changed")
	f.Inject(Fault{Method: "Write", Err: context.DeadlineExceeded, After: 1})
	_, err := f.Write(e.ctx, putWrite(table, changed))
	e.fails(err, context.DeadlineExceeded)
	_, err = f.Get(e.ctx, table, keyOf(table, changed))
	e.fails(err, storage.ErrCorrupt)
	e.holds(table, changed)
	// A range fails after some rows.
	f.Inject(Fault{Method: "Range", Err: storage.ErrUnavailable, After: 3})
	rows, err := e.collect(table, storage.Range{}, 0)
	e.fails(err, storage.ErrUnavailable)
	equal(e, "rows before the fault", len(rows), 3)
	// Something happens right before a call.
	f.Inject(Fault{Method: "Get", Before: func() { e.touch(table) }})
	_, err = f.Get(e.ctx, table, keyOf(table, changed))
	e.fails(err, storage.ErrStale)
}

// TestCheckEntries: each way in which entries and rows can disagree is found.
func TestCheckEntries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(mt *memTable)
		want   string
	}{
		"missing":    {func(mt *memTable) { ix := mt.def.Indexes[0].ID; mt.entries[ix] = mt.entries[ix][1:] }, "is missing"},
		"left over":  {func(mt *memTable) { mt.rows = mt.rows[1:] }, "belongs to no row"},
		"wrong size": {func(mt *memTable) { mt.entries[mt.def.Indexes[1].ID][2].size++ }, "has size"},
		"wrong place": {func(mt *memTable) {
			mt.entries[mt.def.Indexes[1].ID][4].pos.S = []byte{0xFF}
		}, "belongs to no row"},
		"row size":      {func(mt *memTable) { mt.rows[0].row.Size++ }, "size 2"},
		"row flags":     {func(mt *memTable) { mt.rows[0].row.Flags = 4 }, "flags 4"},
		"row key":       {func(mt *memTable) { mt.rows[4].row.Key.SK = []byte{0xFF} }, "item has key"},
		"no item":       {func(mt *memTable) { mt.rows[0].row.Item = []byte("{") }, "parse item"},
		"no key":        {func(mt *memTable) { mt.rows[0].row.Item = []byte(`{"a":{"S":"b"}}`) }, "key attribute"},
		"not canonical": {func(mt *memTable) { mt.rows[0].row.Item = append(mt.rows[0].row.Item, ' ') }, "not canonical"},
	} {
		m := NewMemory(5)
		e := &env{TB: t, ctx: t.Context(), e: m, now: start}
		table, _ := e.filled(5)
		e.ok(CheckEntries(e.ctx, m, table))
		c.damage(m.disk.tables[account][table.Name()])
		if err := CheckEntries(e.ctx, m, table); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	e, f, table, _ := faultyEnv(t)
	for skip := range 1 + len(table.Indexes) {
		f.Inject(Fault{Method: "Range", Err: storage.ErrUnavailable, Skip: skip})
		e.fails(CheckEntries(e.ctx, f, table), storage.ErrUnavailable)
	}
}
