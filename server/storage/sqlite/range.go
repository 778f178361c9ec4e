// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"iter"
	"strings"

	"github.com/extenddb/extenddb/server/storage"
)

// variant is a kind of Range: each has one statement. Bounds are always half
// open, lo <= key < hi, on the columns that are not fixed.
type variant struct {
	index   bool // over x, else over r
	part    bool // within one partition
	bounded bool // there is a hi
	reverse bool
	want    storage.Want
}

// sql returns the statement. It yields p, s, pk, sk, size, ver, flags, item.
func (v variant) sql() string {
	fixed, cols, from, shown := "t = ?", v.columns(), "r", "NULL, NULL, pk, sk, size, ver, flags, "
	if v.index {
		fixed, from, shown = "ix = ?", "x", "x.p, x.s, x.pk, x.sk, x.size, 0, 0, "
	}
	switch {
	case v.want == storage.Sizes:
		shown += "NULL"
	case v.want == storage.Items && v.index: // LEFT: a missing row must show
		from = "x LEFT JOIN r ON r.id = x.rid"
		shown = "x.p, x.s, x.pk, x.sk, x.size, r.ver, r.flags, r.item"
	case v.want == storage.Items:
		shown += "item"
	case v.index: // the last byte of a shortened key is 1
		shown = "x.p, x.s, x.pk, x.sk, 0, 0, 0, CASE WHEN substr(x.p, -1) = x'01' OR substr(x.pk, -1) = x'01'" +
			" THEN (SELECT item FROM r WHERE r.id = x.rid) END"
	default:
		shown += "CASE WHEN substr(pk, -1) = x'01' THEN item END"
	}
	if v.part && v.index {
		fixed += " AND x.p = ?"
	} else if v.part {
		fixed += " AND pk = ?"
	}
	key, marks, order := strings.Join(cols, ", "), "?"+strings.Repeat(", ?", len(cols)-1), strings.Join(cols, ", ")
	if v.reverse {
		order = strings.Join(cols, " DESC, ") + " DESC"
	}
	sql := "SELECT " + shown + " FROM " + from + " WHERE " + fixed + " AND (" + key + ") >= (" + marks + ")"
	if v.bounded {
		sql += " AND (" + key + ") < (" + marks + ")"
	}
	return sql + " ORDER BY " + order
}

// columns are those a bound has a value for.
func (v variant) columns() []string {
	cols := []string{"pk", "sk"}
	if v.index {
		cols = []string{"x.p", "x.s", "x.pk", "x.sk"}
	}
	if v.part {
		cols = cols[1:]
	}
	return cols
}

// Range implements storage.Reader. Rows are read ahead in chunks; between two
// chunks the iterator keeps its snapshot and connection, but no place in the
// pool, so the caller may call the engine, and should not dawdle: the log
// cannot be written back past an open snapshot.
func (db *DB) Range(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		if err := db.life.Enter(); err != nil {
			yield(nil, err)
			return
		}
		defer db.life.Leave()
		c := &cursor{db: db, want: &r, chunk: db.bufs.Get().(*storage.RowBuffer)}
		defer c.close()
		if err := c.start(ctx, t); err != nil {
			yield(nil, public(err))
			return
		}
		for {
			if err := c.fill(ctx); err != nil {
				yield(nil, public(err))
				return
			}
			if !c.chunk.Yield(ctx, yield) || c.s == nil {
				return
			}
		}
	}
}

// cursor is a Range under way.
type cursor struct {
	db     *DB
	want   *storage.Range
	s      *session // nil once all is fetched
	st     *stmt
	parked bool
	chunk  *storage.RowBuffer
}

// start takes the snapshot and steps to the first row.
func (c *cursor) start(ctx context.Context, t *storage.Table) (err error) {
	if c.s, err = c.db.pool.acquire(ctx); err != nil {
		return err
	}
	r, more := c.want, false
	v := variant{r.Index != 0, r.P != nil, false, r.Reverse, r.Want}
	lo, hi := r.Interval()
	v.bounded = hi != nil
	err = c.db.view(c.s, func() (err error) {
		more, err = c.run(v, t, lo, hi)
		return err
	}, t)
	switch {
	case err != nil:
		c.finish(err)
	case !more:
		c.finish(nil)
	}
	return err
}

func (c *cursor) run(v variant, t *storage.Table, lo, hi [][]byte) (more bool, err error) {
	if c.st == nil {
		if c.st, err = c.s.rangeStmt(v); err != nil {
			return false, err
		}
	}
	c.st.reset() // in case this is the second time
	i := 1
	blob := func(b []byte) { i++; c.st.bindBlob(i, b) }
	if c.st.bindInt(1, int64(t.ID)); v.index {
		c.st.bindInt(1, int64(c.want.Index))
	}
	if v.part {
		blob(c.want.P)
	}
	for _, b := range lo {
		blob(b)
	}
	for _, b := range hi {
		blob(b)
	}
	return c.st.step()
}

// A chunk is not larger than this but for its last row.
const (
	chunkRows  = 512
	chunkBytes = 256 << 10
)

// fill fetches the next chunk: the statement stands on its first row.
func (c *cursor) fill(ctx context.Context) error {
	c.chunk.Reset()
	if c.s == nil {
		return nil
	}
	if c.parked { // works without a slot: whoever parks has waited for one
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	rows, size := chunkRows, chunkBytes
	if c.want.Rows > 0 {
		rows = min(rows, c.want.Rows)
	}
	if c.want.Bytes > 0 {
		size = min(size, c.want.Bytes)
	}
	var row storage.Row
	for {
		if err := rowOf(c.st, c.want.Want, &row); err != nil {
			c.finish(err)
			return err
		}
		c.chunk.Add(&row)
		more, err := c.st.step()
		if err != nil || !more {
			c.finish(err)
			return err
		}
		if c.chunk.Len() >= rows || c.chunk.Bytes() >= size {
			break
		}
		if c.chunk.Len()%32 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if !c.parked {
		c.parked = true
		c.db.pool.park()
	}
	return nil
}

// finish gives the session back.
func (c *cursor) finish(err error) {
	if c.s == nil {
		return
	}
	if c.st != nil {
		c.st.reset()
	}
	if c.parked {
		c.db.pool.put(c.s, err)
	} else {
		c.db.pool.release(c.s, err)
	}
	c.s = nil
}

func (c *cursor) close() {
	c.finish(nil)
	if c.chunk.Cap() <= 2*chunkBytes {
		c.db.bufs.Put(c.chunk)
	}
}

// rowOf reads the row that a statement stands on, which is valid until its next
// step.
func rowOf(st *stmt, want storage.Want, row *storage.Row) error {
	*row = storage.Row{
		P: st.colBlob(0), S: st.colBlob(1), Key: storage.Key{PK: st.colBlob(2), SK: st.colBlob(3)}, Item: st.colBlob(7),
		Size: int(st.colInt(4)), Ver: st.colInt(5), Flags: uint8(st.colInt(6)),
	}
	if row.Item == nil && want == storage.Items {
		return &damage{"an index entry has no row"}
	}
	return nil
}
