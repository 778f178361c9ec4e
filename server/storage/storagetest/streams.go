// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func streamChecks() []check {
	return []check{
		{"streams/kinds of write", checkRecordedWrites},
		{"streams/silent", checkSilentWrites},
		{"streams/instant and service", checkRecordInstants},
		{"streams/paging", checkRecordPages},
		{"streams/apart", checkStreamsApart},
		{"streams/reopen", checkStreamsReopened},
		{"streams/dropped", checkStreamDropped},
		{"streams/loads", checkLoadsUnrecorded},
		{"streams/at once", checkStreamsAtOnce},
		{"streams/view switched", checkViewSwitched},
	}
}

// views are the kinds of stream.
func views() []string { return []string{ddb.ViewKeysOnly, ddb.ViewNew, ddb.ViewOld, ddb.ViewBoth} }

// streaming gives a definition a stream.
func streaming(def ddb.TableDefinition, view string) ddb.TableDefinition {
	def.StreamViewType = view
	return def
}

// expected is a record that a check wants to see.
type expected struct {
	kind     storage.RecordKind
	old, new ddb.Item // nil: there was none
	at       time.Time
	service  bool
}

// record is what it must be, without its number.
func (x expected) record(t *storage.Table) storage.Record {
	it := x.new
	if it == nil {
		it = x.old
	}
	keys := ddb.Item{}
	for _, a := range t.KeyAttrs() {
		keys[a.Name] = it[a.Name]
	}
	r := storage.Record{
		Table: t.ID, Kind: x.kind, Key: keyOf(t, it), Keys: ddb.AppendItem(nil, keys), Size: keys.Size(), At: x.at, Service: x.service,
	}
	view := t.Def.StreamViewType
	if x.old != nil && (view == ddb.ViewOld || view == ddb.ViewBoth) {
		r.Old = ddb.AppendItem(nil, x.old)
		r.Size += x.old.Size()
	}
	if x.new != nil && (view == ddb.ViewNew || view == ddb.ViewBoth) {
		r.New = ddb.AppendItem(nil, x.new)
		r.Size += x.new.Size()
	}
	return r
}

// told writes a record so that it can be compared, without its number.
func told(r storage.Record) string {
	return fmt.Sprintf("kind %d of table %d, key %x %x %s: old %s, new %s, %d bytes, at %s, service %v",
		r.Kind, r.Table, r.Key.PK, r.Key.SK, r.Keys, r.Old, r.New, r.Size, r.At, r.Service)
}

// horizon waits until it reaches all that was acknowledged: a change that is
// made now comes behind all that.
func (e *env) horizon() int64 {
	e.Helper()
	return e.horizonAt(time.Time{})
}

// horizonAt is horizon with a change of that instant.
func (e *env) horizonAt(instant time.Time) int64 {
	e.Helper()
	const name = "horizon"
	t, err := e.e.Table(e.ctx, account, name)
	if errors.Is(err, storage.ErrTableNotFound) {
		t = e.create(streaming(define(name, "id:N"), ddb.ViewKeysOnly))
	} else {
		e.ok(err)
	}
	before, err := e.e.Horizon(e.ctx)
	e.ok(err)
	_, err = e.e.Write(e.ctx, dated(add(t, item("id", 1), 1), instant))
	e.ok(err)
	h := before
	reached := e.soon(func() bool {
		h, err = e.e.Horizon(e.ctx)
		e.ok(err)
		rs, err := e.e.Records(e.ctx, t.ID, before, h, 1, 0)
		e.ok(err)
		return len(rs) > 0
	})
	if !reached {
		e.Fatalf("the horizon stays at %d", h)
	}
	return h
}

// records reads those of a table up to the horizon.
func (e *env) records(id storage.TableID, upTo int64) []storage.Record {
	e.Helper()
	rs, err := e.e.Records(e.ctx, id, 0, upTo, 100_000, 0)
	e.ok(err)
	return rs
}

// recorded checks all records of a table.
func (e *env) recorded(t *storage.Table, want ...expected) {
	e.Helper()
	got := e.records(t.ID, e.horizon())
	for i := range min(len(got), len(want)) {
		equal(e, fmt.Sprint("record ", i), told(got[i]), told(want[i].record(t)))
	}
	equal(e, "records", len(got), len(want))
}

// dated gives a write an instant.
func dated(w storage.Write, instant time.Time) storage.Write {
	w.Change.At = instant
	return w
}

// blind says of a write that it ignores what is there.
func blind(w storage.Write) storage.Write {
	w.Blind = true
	return w
}

// checkRecordedWrites: each way of writing makes the records that the view
// type asks for.
func checkRecordedWrites(e *env) {
	a, b := item("pk", "a", "sk", "1", "g", "G"), item("pk", long(500, 1), "sk", "2", "n", number("1.50"))
	for i, view := range views() {
		for j, def := range []ddb.TableDefinition{rich("rich"), define("plain", "pk:S/sk:S")} {
			def.TableName += fmt.Sprint(i)
			t := e.create(streaming(def, view))
			do := func(_ storage.Result, err error) { e.Helper(); e.ok(err) }
			each := func(ws ...storage.Write) {
				e.Helper()
				for _, r := range e.e.WriteEach(e.ctx, ws) {
					e.ok(r.Err)
				}
			}
			all := func(ws ...storage.Write) {
				e.Helper()
				_, err := e.e.WriteAll(e.ctx, ws, nil)
				e.ok(err)
			}
			now := e.now
			do(e.e.Write(e.ctx, dated(putWrite(t, a), now)))
			do(e.e.Write(e.ctx, dated(putWrite(t, with(a, "g", "H")), now)))
			do(e.e.Write(e.ctx, dated(blind(putWrite(t, a)), now)))
			do(e.e.Write(e.ctx, dated(blind(deleteWrite(t, a)), now)))
			do(e.e.Write(e.ctx, dated(blind(putWrite(t, b)), now)))
			do(e.e.Write(e.ctx, dated(deleteWrite(t, b), now)))
			each(dated(putWrite(t, a), now))
			each(dated(putWrite(t, with(a, "x", "X")), now))
			each(dated(deleteWrite(t, a), now))
			all(dated(putWrite(t, a), now))
			all(dated(deleteWrite(t, a), now))
			all(dated(blind(putWrite(t, b)), now))
			all(dated(putWrite(t, with(b, "g", "G")), now))
			e.recorded(t,
				expected{storage.RecordInsert, nil, a, now, false}, expected{storage.RecordModify, a, with(a, "g", "H"), now, false},
				expected{storage.RecordModify, with(a, "g", "H"), a, now, false}, expected{storage.RecordRemove, a, nil, now, false},
				expected{storage.RecordInsert, nil, b, now, false}, expected{storage.RecordRemove, b, nil, now, false},
				expected{storage.RecordInsert, nil, a, now, false}, expected{storage.RecordModify, a, with(a, "x", "X"), now, false},
				expected{storage.RecordRemove, with(a, "x", "X"), nil, now, false},
				expected{storage.RecordInsert, nil, a, now, false}, expected{storage.RecordRemove, a, nil, now, false},
				expected{storage.RecordInsert, nil, b, now, false}, expected{storage.RecordModify, b, with(b, "g", "G"), now, false},
			)
			equal(e, fmt.Sprint("rows of table ", j), len(e.rows(t, storage.Range{})), 1)
			e.consistent(t)
		}
	}
}

// checkSilentWrites: what leaves an item as it was makes no record, nor does
// what is refused.
func checkSilentWrites(e *env) {
	t := e.create(streaming(rich("t"), ddb.ViewBoth))
	it, none := item("pk", "p", "sk", "s", "g", "G"), item("pk", "p", "sk", "none")
	e.put(t, it)
	first := e.records(t.ID, e.horizon())
	equal(e, "records", len(first), 1)
	unchanged := putWrite(t, it)
	unchanged.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return storage.Unchanged, nil }
	refused := putWrite(t, with(it, "g", "refused"))
	refused.Decide = func(*storage.Table, *storage.Row) (*storage.Next, error) { return nil, &refusal{1} }
	for _, ws := range [][]storage.Write{
		{unchanged}, {putWrite(t, it)}, {blind(putWrite(t, it))}, {deleteWrite(t, none)}, {blind(deleteWrite(t, none))}, {refused},
	} {
		r, err := e.e.Write(e.ctx, ws[0])
		if err != nil && !errors.As(err, new(*refusal)) {
			e.Fatalf("result %+v", r)
		}
		e.e.WriteEach(e.ctx, ws)
		_, err = e.e.WriteAll(e.ctx, ws, nil)
		e.ok(refusedOrDone(err))
	}
	_, err := e.e.WriteAll(e.ctx, []storage.Write{putWrite(t, with(it, "g", "H")), putWrite(t, none), {
		Table: t, Key: keyOf(t, item("pk", "x", "sk", "x")), Decide: refused.Decide,
	}}, nil)
	if c := new(storage.Cancelled); !errors.As(err, &c) {
		e.Fatalf("error %v, want a cancellation", err)
	}
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err = e.e.Write(done, putWrite(t, none))
	e.fails(err, context.Canceled)
	_, err = e.e.WriteAll(done, []storage.Write{putWrite(t, none)}, nil)
	e.fails(err, context.Canceled)
	_, err = e.e.Records(done, t.ID, 0, first[0].Seq, 1, 0)
	e.fails(err, context.Canceled)
	_, err = e.e.Horizon(done)
	e.fails(err, context.Canceled)
	token := &storage.Token{Account: account, Token: "once", Now: e.now}
	_, err = e.e.WriteAll(e.ctx, []storage.Write{deleteWrite(t, it)}, token)
	e.ok(err)
	_, err = e.e.WriteAll(e.ctx, []storage.Write{deleteWrite(t, it)}, token)
	e.fails(err, storage.ErrReplayed)
	got := e.records(t.ID, e.horizon())
	if len(got) != 2 || got[1].Kind != storage.RecordRemove {
		e.Fatalf("writes that change nothing are recorded: %+v", got)
	}
}

// checkRecordInstants: a record tells who changed the row and when; the engine
// says when the writer does not.
func checkRecordInstants(e *env) {
	t := e.create(streaming(define("t", "pk:S"), ddb.ViewNew))
	it := item("pk", "p")
	when := []time.Time{start.Add(-time.Hour), start.Add(time.Hour), start}
	var want []expected
	for i, instant := range when { // of whoever writes: they need not rise
		w := dated(putWrite(t, with(it, "n", i)), instant)
		w.Change.Service = i == 1
		_, err := e.e.Write(e.ctx, w)
		e.ok(err)
		x := expected{storage.RecordModify, with(it, "n", i-1), with(it, "n", i), instant, i == 1}
		if i == 0 {
			x.kind, x.old = storage.RecordInsert, nil
		}
		want = append(want, x)
	}
	e.recorded(t, want...)
	e.put(t, with(it, "n", 99))
	rs := e.records(t.ID, e.horizon())
	equal(e, "records", len(rs), 4)
	if last := rs[3]; last.At.Before(start.AddDate(-10, 0, 0)) || last.Service {
		e.Fatalf("a record of the engine's own time: %+v", last)
	}
}

// checkRecordPages: bounds, limits and sizes cut what is read, and nothing is
// left out between two pages.
func checkRecordPages(e *env) {
	const n = 60
	t, other := e.create(streaming(define("t", "pk:S"), ddb.ViewNew)), e.create(streaming(define("other", "pk:S"), ddb.ViewNew))
	for i := range n {
		e.put(t, item("pk", fmt.Sprint(i), "x", long(100, i)))
		e.put(other, item("pk", fmt.Sprint(i)))
	}
	h := e.horizon()
	all := e.records(t.ID, h)
	equal(e, "records", len(all), n)
	page := func(after, upTo int64, limit, bytes int) []storage.Record {
		e.Helper()
		rs, err := e.e.Records(e.ctx, t.ID, after, upTo, limit, bytes)
		e.ok(err)
		return rs
	}
	for limit, bytes := range map[int]int{1: 0, 7: 0, n: 1, n + 1: 1000, 3: math.MaxInt} {
		var got []storage.Record
		for after := int64(0); len(got) <= n; after = got[len(got)-1].Seq {
			rs := page(after, h, limit, bytes)
			if len(rs) == 0 {
				break
			}
			size := 0
			for _, r := range rs[:len(rs)-1] {
				size += r.Size
			}
			if bytes > 0 && size/2 >= bytes {
				e.Fatalf("%d bytes in a page of %d", size, bytes)
			}
			got = append(got, rs...)
		}
		equal(e, fmt.Sprintf("records in pages of %d and %d bytes", limit, bytes), fmt.Sprint(got), fmt.Sprint(all))
	}
	equal(e, "the page of one byte", len(page(0, h, n, 1)), 1)
	equal(e, "records before the first", len(page(0, all[0].Seq-1, n, 0)), 0)
	equal(e, "records after the last", len(page(all[n-1].Seq, h, n, 0)), 0)
	equal(e, "records in between", fmt.Sprint(page(all[9].Seq, all[19].Seq, n, 0)), fmt.Sprint(all[10:20]))
	equal(e, "records of nothing", len(page(h, h, n, 0)), 0)
	before := fmt.Sprint(all)
	for _, r := range page(0, h, 2, 0) { // they are the caller's
		clear(r.New)
		clear(r.Keys)
		clear(r.Key.PK)
	}
	equal(e, "records read again", fmt.Sprint(page(0, h, n, 0)), before)
}

// checkStreamsApart: a table without a stream has no records, and nobody has
// another's.
func checkStreamsApart(e *env) {
	silent, a, b := e.create(rich("silent")), e.create(streaming(rich("a"), ddb.ViewBoth)), e.create(streaming(rich("b"), ddb.ViewKeysOnly))
	it := item("pk", "p", "sk", "s", "g", "G")
	_, err := e.e.WriteAll(e.ctx, []storage.Write{dated(putWrite(silent, it), e.now), dated(putWrite(a, it), e.now), dated(putWrite(b, it), e.now)}, nil)
	e.ok(err)
	e.put(silent, with(it, "g", "H"))
	e.recorded(silent)
	e.recorded(a, expected{storage.RecordInsert, nil, it, e.now, false})
	e.recorded(b, expected{storage.RecordInsert, nil, it, e.now, false})
	e.recorded(&storage.Table{ID: a.ID + b.ID + silent.ID + 1_000_000})
}

// checkStreamsReopened: records and the horizon survive, and numbers go on.
func checkStreamsReopened(e *env) {
	t := e.create(streaming(rich("t"), ddb.ViewBoth))
	it := item("pk", "p", "sk", "s", "g", "G")
	var want []expected
	last := int64(0)
	for i := range 4 {
		x := expected{storage.RecordModify, with(it, "h", i-1), with(it, "h", i), e.now, false}
		if i == 0 {
			x.kind, x.old = storage.RecordInsert, nil
		}
		want = append(want, x)
		_, err := e.e.Write(e.ctx, dated(putWrite(t, x.new), e.now))
		e.ok(err)
		e.recorded(t, want...)
		before, err := e.e.Horizon(e.ctx)
		e.ok(err)
		e.reopen()
		after, err := e.e.Horizon(e.ctx)
		e.ok(err)
		if after < before {
			e.Fatalf("the horizon falls from %d to %d", before, after)
		}
		rs := e.records(t.ID, before)
		equal(e, "records", len(rs), len(want))
		if rs[i].Seq <= last {
			e.Fatalf("number %d comes after %d", rs[i].Seq, last)
		}
		last = rs[i].Seq
	}
}

// checkStreamDropped: the removal of a table is no change of its rows, its
// records stay, and a table of the same name has its own.
func checkStreamDropped(e *env) {
	it := item("pk", "p", "sk", "s", "g", "G")
	create := func() *storage.Table {
		t := e.create(streaming(rich("t"), ddb.ViewBoth))
		_, err := e.e.Write(e.ctx, dated(putWrite(t, it), e.now))
		e.ok(err)
		return t
	}
	inserted := expected{storage.RecordInsert, nil, it, e.now, false}
	old := create()
	e.drop(old)
	_, err := e.e.Write(e.ctx, deleteWrite(old, it))
	e.fails(err, storage.ErrTableNotFound)
	e.recorded(old, inserted)
	e.finish(storage.TableDrop, "t")
	e.recorded(old, inserted)
	fresh := create()
	e.recorded(fresh, inserted)
	e.reopen()
	e.recorded(old, inserted)
	e.recorded(fresh, inserted)
}

// checkLoadsUnrecorded: a load makes no records, what comes after it does.
func checkLoadsUnrecorded(e *env) {
	l := e.load(streaming(rich("t"), ddb.ViewBoth))
	e.ok(l.Add(e.ctx, loadRows(l.Table(), rowOf(1), rowOf(2))))
	e.ok(l.Finish(e.ctx, nil))
	e.ok(l.Abort())
	t := e.current(l.Table())
	e.recorded(t)
	_, err := e.e.Write(e.ctx, dated(deleteWrite(t, rowOf(1)), e.now))
	e.ok(err)
	e.recorded(t, expected{storage.RecordRemove, rowOf(1), nil, e.now, false})
}
