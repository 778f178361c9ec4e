// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// maxSample is the number of positions a sample may have.
const maxSample = 4096

// watch is a Decide under observation during one call.
type watch struct {
	c       *checked
	call    string
	w       Write
	running atomic.Bool
	done    atomic.Bool // the call returned
	errs    []error     // what Decide returned, run by run
}

// run stands in for the caller's Decide.
func (o *watch) run(t *Table, cur *Row) (*Next, error) {
	if !o.running.CompareAndSwap(false, true) {
		o.c.breach(o.call, "Decide runs twice at the same time")
	}
	defer o.running.Store(false)
	if o.done.Load() {
		o.c.breach(o.call, "Decide runs after the call")
	}
	switch {
	case t == nil || t.ID != o.w.Table.ID || t.Version < o.w.Table.Version:
		o.c.breach(o.call, "Decide runs with another or older table: %+v", t)
		t = o.w.Table
	case t.Status != Active:
		o.c.breach(o.call, "Decide runs with a table that is %s", t.Status)
	}
	if cur != nil {
		if !cur.Key.Equal(o.w.Key) || len(cur.Item) == 0 {
			o.c.breach(o.call, "Decide is given another row: %x", cur.Key)
		}
		if o.c.o.Poison {
			cur = cur.Clone()
			defer poison(cur)
		}
	}
	next, err := o.w.Decide(t, cur)
	if err == nil && next != nil && next != Unchanged && (len(next.Item) == 0 || next.Size <= 0) {
		err = o.c.invalid(o.call, "Decide returned an empty row")
	}
	if err != nil {
		o.errs = append(o.errs, err)
	}
	return next, err
}

// poison makes the bytes of a row useless.
func poison(r *Row) {
	for _, b := range [][]byte{r.Key.PK, r.Key.SK, r.P, r.S, r.Item} {
		for i := range b {
			b[i] = 0xDB
		}
	}
}

// observe checks the writes of a call and puts a watch on each.
func (c *checked) observe(call string, ws []Write) ([]Write, []*watch, error) {
	watched, watches := make([]Write, len(ws)), make([]*watch, len(ws))
	for i, w := range ws {
		if w.Table == nil || w.Decide == nil {
			return nil, nil, c.invalid(call, "write %d has no table or no Decide", i)
		}
		if err := c.checkKey(call, w.Table, w.Key); err != nil {
			return nil, nil, err
		}
		o := &watch{c: c, call: call, w: w}
		w.Decide = o.run
		watched[i], watches[i] = w, o
	}
	return watched, watches, nil
}

func (c *checked) checkKey(call string, t *Table, k Key) error {
	n := len(k.PK)
	if n < 2 || n > keyenc.MaxHash || k.PK[n-1] > 1 || len(k.SK) > MaxRangeKey || (len(k.SK) > 0) != (t.Range != nil) {
		return c.invalid(call, "key %x of table %q", k, t.Name())
	}
	return nil
}

// result checks what became of one write.
func (o *watch) result(ctx context.Context, r *Result, err error) error {
	if err == nil && (r.Table == nil || r.Table.ID != o.w.Table.ID) {
		o.c.breach(o.call, "result without its table")
	}
	return o.refusal(ctx, err, changing()...)
}

// refusal lets out why a write was not done.
func (o *watch) refusal(ctx context.Context, err error, listed ...error) error {
	if len(o.errs) > 0 && errors.Is(err, o.errs[len(o.errs)-1]) {
		return err
	}
	return o.c.filter(ctx, o.call, err, append(listed, ErrTableNotFound)...)
}

func end(watches []*watch) {
	for _, o := range watches {
		o.done.Store(true)
	}
}

// Write implements Writer.
func (c *checked) Write(ctx context.Context, w Write) (Result, error) {
	ws, watches, err := c.observe("Write", []Write{w})
	if err != nil {
		return Result{Table: w.Table, Err: err}, err
	}
	r, err := c.next.Write(ctx, ws[0])
	end(watches)
	r.Err = watches[0].result(ctx, &r, err)
	return r, r.Err
}

// WriteEach implements Writer.
func (c *checked) WriteEach(ctx context.Context, ws []Write) []Result {
	watched, watches, err := c.observe("WriteEach", ws)
	if err != nil {
		results := make([]Result, len(ws))
		for i := range results {
			results[i] = Result{Table: ws[i].Table, Err: err}
		}
		return results
	}
	results := c.next.WriteEach(ctx, watched)
	end(watches)
	if len(results) != len(ws) {
		c.breach("WriteEach", "%d results of %d writes", len(results), len(ws))
		return results
	}
	for i := range results {
		results[i].Err = watches[i].result(ctx, &results[i], results[i].Err)
	}
	return results
}

// WriteAll implements Writer.
func (c *checked) WriteAll(ctx context.Context, ws []Write, token *Token) ([]Result, error) {
	const call = "WriteAll"
	watched, watches, err := c.observe(call, ws)
	if err != nil {
		return nil, err
	}
	for i, a := range ws {
		for _, b := range ws[:i] {
			if a.Table.ID == b.Table.ID && a.Key.Equal(b.Key) {
				return nil, c.invalid(call, "two writes name one row")
			}
		}
	}
	if token != nil && (token.Account == "" || token.Token == "" || token.Now.IsZero()) {
		return nil, c.invalid(call, "incomplete token %+v", token)
	}
	results, err := c.next.WriteAll(ctx, watched, token)
	end(watches)
	var cancelled *Cancelled
	if errors.As(err, &cancelled) {
		c.checkReasons(ctx, cancelled, watches)
		return results, err
	}
	if err == nil {
		if len(results) != len(ws) {
			c.breach(call, "%d results of %d writes", len(results), len(ws))
			return results, nil
		}
		for i := range results {
			if results[i].Err != nil {
				c.breach(call, "result %d has an error: %v", i, results[i].Err)
			}
			_ = watches[i].result(ctx, &results[i], nil)
		}
	}
	return results, c.filter(ctx, call, err, changing(ErrTableNotFound, ErrReplayed, ErrTokenMismatch)...)
}

// checkReasons: one reason per write, each what its Decide returned last.
func (c *checked) checkReasons(ctx context.Context, e *Cancelled, watches []*watch) {
	if len(e.Reasons) != len(watches) {
		c.breach("WriteAll", "%d reasons for %d writes", len(e.Reasons), len(watches))
		return
	}
	refused := false
	for i, reason := range e.Reasons {
		if reason != nil {
			refused = true
			e.Reasons[i] = watches[i].refusal(ctx, reason)
		}
	}
	if !refused {
		c.breach("WriteAll", "cancelled without a reason")
	}
}

// readErrors may be returned by readers.
func (c *checked) readError(ctx context.Context, call string, err error) error {
	return c.filter(ctx, call, err, ErrTableNotFound, ErrStale)
}

// Get implements Reader.
func (c *checked) Get(ctx context.Context, t *Table, k Key) (*Row, error) {
	if t == nil {
		return nil, c.invalid("Get", "no table")
	}
	if err := c.checkKey("Get", t, k); err != nil {
		return nil, err
	}
	row, err := c.next.Get(ctx, t, k)
	c.checkOwn("Get", row, k, err)
	return row, c.readError(ctx, "Get", err)
}

// checkOwn checks a row that was asked for by its key.
func (c *checked) checkOwn(call string, row *Row, k Key, err error) {
	if row != nil && (err != nil || !row.Key.Equal(k) || len(row.Item) == 0 || row.P != nil || row.S != nil) {
		c.breach(call, "wrong or incomplete row %x (error %v)", row.Key, err)
	}
}

// GetAll implements Reader.
func (c *checked) GetAll(ctx context.Context, ks []TableKey, budget int) ([]*Row, error) {
	const call = "GetAll"
	for _, k := range ks {
		if k.Table == nil {
			return nil, c.invalid(call, "no table")
		}
		if err := c.checkKey(call, k.Table, k.Key); err != nil {
			return nil, err
		}
	}
	rows, err := c.next.GetAll(ctx, ks, budget)
	if err != nil {
		return nil, c.readError(ctx, call, err)
	}
	size := 0
	for i, row := range rows {
		if i >= len(ks) || budget > 0 && size >= budget {
			c.breach(call, "%d rows of %d keys, %d bytes of %d", len(rows), len(ks), size, budget)
			break
		}
		c.checkOwn(call, row, ks[i].Key, nil)
		if row != nil {
			size += len(row.Item)
		}
	}
	if len(rows) < len(ks) && (budget <= 0 || size < budget) {
		c.breach(call, "stopped at %d of %d keys, %d bytes of %d", len(rows), len(ks), size, budget)
	}
	return rows, nil
}

// Sample implements Reader.
func (c *checked) Sample(ctx context.Context, t *Table, ix IndexID, now time.Time) ([]Position, error) {
	const call = "Sample"
	if t == nil || now.IsZero() || !t.hasIndex(ix) {
		return nil, c.invalid(call, "index %d, now %v", ix, now)
	}
	sample, err := c.next.Sample(ctx, t, ix, now)
	if len(sample) > maxSample {
		c.breach(call, "%d positions", len(sample))
	}
	for i := 1; i < len(sample); i++ {
		if sample[i-1].Compare(sample[i]) >= 0 {
			c.breach(call, "positions %d and %d are not in order", i-1, i)
		}
	}
	return sample, c.readError(ctx, call, err)
}

func (t *Table) hasIndex(id IndexID) bool {
	for _, ix := range t.Indexes {
		if ix.ID == id {
			return true
		}
	}
	return id == 0
}

// Range implements Reader.
func (c *checked) Range(ctx context.Context, t *Table, r Range) iter.Seq2[*Row, error] {
	const call = "Range"
	fail := func(err error) iter.Seq2[*Row, error] {
		return func(yield func(*Row, error) bool) { yield(nil, err) }
	}
	switch {
	case t == nil || !t.hasIndex(r.Index):
		return fail(c.invalid(call, "index %d", r.Index))
	case r.Want < Sizes || r.Want > Items:
		return fail(c.invalid(call, "Want %d", r.Want))
	case r.P != nil && (r.Start != nil || r.End != nil), r.P == nil && (r.From != nil || r.To != nil):
		return fail(c.invalid(call, "bounds of a partition and of a segment"))
	case r.P != nil && (len(r.P) == 0 || len(r.P) > keyenc.MaxHash):
		return fail(c.invalid(call, "partition key %x", r.P))
	}
	return func(yield func(*Row, error) bool) {
		h := c.hold(iterator + "table " + t.Name())
		defer c.free(h)
		c.iterate(ctx, t, r, yield)
	}
}

func (c *checked) iterate(ctx context.Context, t *Table, r Range, yield func(*Row, error) bool) {
	const call = "Range"
	var last *Position // of the row before, in buffers of its own
	failed, n := false, 0
	for row, err := range c.next.Range(ctx, t, r) {
		if n++; r.AtMost > 0 && n > r.AtMost && !failed && err == nil {
			_ = c.invalid(call, "more rows are read than the %d promised", r.AtMost)
		}
		if failed {
			c.breach(call, "goes on after an error")
			return
		}
		if err != nil {
			failed = true
			if row != nil {
				c.breach(call, "a row and an error: %v", err)
			}
			if !yield(nil, c.readError(ctx, call, err)) {
				return
			}
			continue
		}
		if problem := r.problem(t, row, last); problem != "" {
			c.breach(call, "row %x: %s", row.Key, problem)
		}
		if last == nil {
			last = new(Position)
		}
		last.P, last.S = append(last.P[:0], row.P...), append(last.S[:0], row.S...)
		last.PK, last.SK = append(last.PK[:0], row.Key.PK...), append(last.SK[:0], row.Key.SK...)
		if c.o.Poison {
			row = row.Clone() // the engine's own bytes stay what they are
		}
		more := yield(row, nil)
		if c.o.Poison {
			poison(row)
		}
		if !more {
			return
		}
	}
}

// problem says in which way a yielded row is not what was asked for.
func (r *Range) problem(t *Table, row *Row, last *Position) string {
	pos := row.Position()
	part, sort := pos.PK, pos.SK
	if r.Index != 0 {
		part, sort = pos.P, pos.S
	}
	behind := func(p *Position) bool {
		if r.Reverse {
			return pos.Compare(*p) < 0
		}
		return pos.Compare(*p) > 0
	}
	switch {
	case len(row.Key.PK) == 0 || (len(row.Key.SK) > 0) != (t.Range != nil) || row.Ver == 0 && r.Want == Items:
		return "incomplete"
	case (r.Index != 0) != (row.P != nil && row.S != nil), r.Index == 0 && row.S != nil:
		return "index position missing or unasked for"
	case last != nil && !behind(last), r.After != nil && !behind(r.After):
		return "out of order"
	case r.P != nil && (!bytes.Equal(part, r.P) || bytes.Compare(sort, r.From) < 0 || r.To != nil && bytes.Compare(sort, r.To) >= 0),
		r.Start != nil && pos.Compare(*r.Start) < 0, r.End != nil && pos.Compare(*r.End) >= 0:
		return "out of bounds"
	case row.Size <= 0 && (r.Want != Keys || r.Index == 0):
		return "no size"
	case len(row.Item) == 0 && (r.Want == Items || r.Want == Keys && (keyenc.IsShortened(row.Key.PK) || keyenc.IsShortened(row.P))):
		return "no item"
	}
	return ""
}
