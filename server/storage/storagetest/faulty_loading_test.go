// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// TestFaultyLoads: every call of a load fails as told, once, and is counted.
func TestFaultyLoads(t *testing.T) {
	t.Parallel()
	f := NewFaulty(&Stub{Engine: NewMemory(5)})
	e := &env{TB: t, ctx: t.Context(), e: f, now: start}
	f.Inject(
		Fault{Method: "Load", Err: storage.ErrUnavailable}, Fault{Method: "Add", Err: storage.ErrUnavailable},
		Fault{Method: "Finish", Err: storage.ErrCorrupt}, Fault{Method: "Abort", Err: storage.ErrClosed},
	)
	_, err := f.Load(e.ctx, account, rich("t"), e.now)
	e.fails(err, storage.ErrUnavailable)
	_, err = f.Table(e.ctx, account, "t")
	e.fails(err, storage.ErrTableNotFound)
	l := e.load(rich("t"))
	equal(e, "status", l.Table().Status, storage.Creating)
	e.fails(l.Add(e.ctx, loadRows(l.Table(), rowOf(1))), storage.ErrUnavailable)
	e.ok(l.Add(e.ctx, loadRows(l.Table(), rowOf(1))))
	e.fails(l.Finish(e.ctx, nil), storage.ErrCorrupt)
	e.ok(l.Finish(e.ctx, nil))
	e.fails(l.Abort(), storage.ErrClosed)
	e.ok(l.Abort())
	for _, method := range []string{"Load", "Add", "Finish", "Abort"} {
		equal(e, "calls of "+method, f.Calls(method), 2)
	}
	equal(e, "unused faults", len(f.Unused()), 0)

	f.Inject(Fault{Method: "Finish", Err: storage.ErrUnavailable, After: 1}) // the answer is lost
	l = e.load(rich("u"))
	e.fails(l.Finish(e.ctx, nil), storage.ErrUnavailable)
	e.ok(l.Abort())
	equal(e, "status", e.current(l.Table()).Status, storage.Active)
}

// TestStubLoading: what is not replaced goes to the load.
func TestStubLoading(t *testing.T) {
	t.Parallel()
	m := NewMemory(5)
	e := &env{TB: t, ctx: t.Context(), e: m, now: start}
	s := &StubLoading{Loading: e.load(rich("t"))}
	e.ok(s.Add(e.ctx, loadRows(s.Table(), rowOf(1))))
	e.ok(s.Finish(e.ctx, nil))
	e.ok(s.Abort())
	equal(e, "rows", len(e.rows(e.current(s.Table()), storage.Range{})), 1)
	table := e.create(rich("u"))
	s.OnTable = func() *storage.Table { return table }
	s.OnAbort = func() error { return storage.ErrUnavailable }
	if s.Table() != table || !errors.Is(s.Abort(), storage.ErrUnavailable) {
		t.Error("replaced methods are not called")
	}
}
