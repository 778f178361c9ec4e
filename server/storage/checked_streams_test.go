// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// TestCheckedRecords: what is no answer to the question is told of.
func TestCheckedRecords(t *testing.T) {
	t.Parallel()
	good := storage.Record{
		Seq: 5, Table: 1, Kind: storage.RecordModify, Key: storage.Key{PK: []byte("p\x00")}, Keys: []byte("{}"),
		Old: []byte("{}"), New: []byte("{}"), Size: 3, At: now,
	}
	with := func(change func(r *storage.Record)) []storage.Record {
		r := good
		change(&r)
		return []storage.Record{r}
	}
	for name, c := range map[string]struct {
		records []storage.Record
		told    string // "": nothing
	}{
		"sound":          {[]storage.Record{good}, ""},
		"none":           {nil, ""},
		"too many":       {[]storage.Record{good, {}, {}}, "3 records for limit 2"},
		"twice":          {[]storage.Record{good, good}, "number 5 after 5"},
		"before":         {with(func(r *storage.Record) { r.Seq = 2 }), "number 2 after 2"},
		"beyond":         {with(func(r *storage.Record) { r.Seq = 10 }), "number 10 after 2, up to 9"},
		"other table":    {with(func(r *storage.Record) { r.Table = 2 }), "of another table"},
		"no key":         {with(func(r *storage.Record) { r.Key = storage.Key{} }), "incomplete"},
		"no keys":        {with(func(r *storage.Record) { r.Keys = nil }), "incomplete"},
		"no size":        {with(func(r *storage.Record) { r.Size = 0 }), "incomplete"},
		"empty image":    {with(func(r *storage.Record) { r.Old = []byte{} }), "incomplete"},
		"no instant":     {with(func(r *storage.Record) { r.At = time.Time{} }), "instant"},
		"micros":         {with(func(r *storage.Record) { r.At = now.Add(time.Microsecond) }), "instant"},
		"local time":     {with(func(r *storage.Record) { r.At = now.In(time.FixedZone("x", 3600)) }), "instant"},
		"no kind":        {with(func(r *storage.Record) { r.Kind = 0 }), "images"},
		"old of insert":  {with(func(r *storage.Record) { r.Kind = storage.RecordInsert }), "images"},
		"new of removed": {with(func(r *storage.Record) { r.Kind = storage.RecordRemove }), "images"},
	} {
		b := newBench(t)
		b.OnHorizon = func(context.Context) (int64, error) { return 9, nil }
		b.OnRecords = func(context.Context, storage.TableID, int64, int64, int, int) ([]storage.Record, error) {
			return c.records, nil
		}
		if _, err := b.c.Records(t.Context(), 1, 2, 9, 2, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if told := strings.Join(b.told, "; "); !strings.Contains(told, c.told) || (told == "") != (c.told == "") {
			t.Errorf("%s: told %q, want %q", name, told, c.told)
		}
	}
}

// TestCheckedStreamCalls: calls that make no sense, and what an engine may not
// do.
func TestCheckedStreamCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, q := range [][5]int{{0, 0, 0, 1, 0}, {1, -1, 0, 1, 0}, {1, 1, 0, 1, 0}, {1, 0, 0, 0, 0}, {1, 0, 0, 1, -1}, {1, 0, 1, 1, 0}} {
		if _, err := b.c.Records(t.Context(), storage.TableID(q[0]), int64(q[1]), int64(q[2]), q[3], q[4]); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v: %v", q, err)
		}
	}
	if len(b.told) != 6 {
		t.Errorf("told %q", b.told)
	}
	b = newBench(t)
	for _, h := range []int64{7, 8, 8, 3} {
		b.OnHorizon = func(context.Context) (int64, error) { return h, nil }
		if got, err := b.c.Horizon(t.Context()); got != h || err != nil {
			t.Errorf("horizon %d, %v", got, err)
		}
	}
	if len(b.told) != 1 || !strings.Contains(b.told[0], "falls from 8 to 3") {
		t.Errorf("told %q", b.told)
	}
	b = newBench(t)
	b.OnHorizon = func(context.Context) (int64, error) { return 0, errors.New("secret") }
	b.OnRecords = func(context.Context, storage.TableID, int64, int64, int, int) ([]storage.Record, error) {
		return nil, storage.ErrStale
	}
	if _, err := b.c.Horizon(t.Context()); !errors.Is(err, storage.ErrCorrupt) {
		t.Error(err)
	}
	if _, err := b.c.Records(t.Context(), 1, 0, 5, 1, 0); !errors.Is(err, storage.ErrCorrupt) {
		t.Error(err)
	}
	if _, err := b.c.Records(t.Context(), 1, 0, 0, 1, 0); !errors.Is(err, storage.ErrCorrupt) {
		t.Error(err)
	}
	if len(b.told) != 3 {
		t.Errorf("told %q", b.told)
	}
}

// heldLease cannot go on.
type heldLease struct{ err error }

func (l heldLease) Step(context.Context, time.Time) (storage.Progress, error) {
	return storage.Progress{}, l.err
}

func (heldLease) Release() error { return nil }

// TestCheckedConflicts: the errors of what changes something, and of nothing
// else.
func TestCheckedConflicts(t *testing.T) {
	t.Parallel()
	w := storage.Work{Kind: storage.RecordTrim}
	for _, want := range []error{storage.ErrConflict, storage.ErrInDoubt, &storage.Held{Holder: "a dump"}} {
		b := newBench(t)
		b.OnWrite = func(_ context.Context, w storage.Write) (storage.Result, error) {
			return storage.Result{Table: w.Table}, want
		}
		b.OnWriteAll = func(context.Context, []storage.Write, *storage.Token) ([]storage.Result, error) { return nil, want }
		b.OnDropTable = func(context.Context, string, string, func(*storage.Table) error) (*storage.Table, error) {
			return nil, want
		}
		b.OnGet = func(context.Context, *storage.Table, storage.Key) (*storage.Row, error) { return nil, want }
		b.OnPending = func(context.Context, time.Time) ([]storage.Work, error) { return []storage.Work{w}, nil }
		b.OnClaim = func(context.Context, storage.Work) (storage.Lease, error) { return heldLease{want}, nil }
		held := errors.Is(want, storage.ErrHeld)
		_, err := b.c.Write(t.Context(), b.put("1"))
		if errors.Is(err, want) == held {
			t.Errorf("%v of Write: %v", want, err)
		}
		if _, err = b.c.WriteAll(t.Context(), []storage.Write{b.put("1")}, nil); errors.Is(err, want) == held {
			t.Errorf("%v of WriteAll: %v", want, err)
		}
		if _, err = b.c.DropTable(t.Context(), "0", "t", func(*storage.Table) error { return nil }); errors.Is(err, want) == held {
			t.Errorf("%v of DropTable: %v", want, err)
		}
		if _, err = b.c.Get(t.Context(), b.t, b.key("1")); errors.Is(err, want) {
			t.Errorf("%v of Get: %v", want, err)
		}
		if ws, err := b.c.Pending(t.Context(), now); err != nil || len(ws) != 1 {
			t.Errorf("work of no table: %v, %v", ws, err)
		}
		l, err := b.c.Claim(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Step(t.Context(), now); !errors.Is(err, want) {
			t.Errorf("%v of Step: %v", want, err)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
		if n := map[bool]int{false: 1, true: 4}[held]; len(b.told) != n {
			t.Errorf("%v: told %q, want %d", want, b.told, n)
		}
	}
	b := newBench(t)
	for _, w := range []storage.Work{{Kind: storage.RecordTrim, Name: "t"}, {Kind: storage.TableDrop}, {Kind: 99}} {
		if _, err := b.c.Claim(t.Context(), w); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("a claim of %+v: %v", w, err)
		}
	}
}
