// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"slices"
	"strconv"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// planner is set on each connection. Every statement of the engine is meant to
// find its rows through an index, in the order of that index, whatever the
// statistics say: those of a relation that was just loaded say nothing, and a
// plan made for them would be kept. One plan per statement, because planning
// costs more than most of the reads, and the plan does not depend on the
// values.
const planner = `SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;
SET enable_sort = off; SET enable_incremental_sort = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SET enable_material = off; SET enable_memoize = off; SET max_parallel_workers_per_gather = 0; `

// variant is a kind of Range: each has one text per relation. Bounds are half
// open, lower <= key < upper, on the key columns that are not fixed.
type variant struct {
	index   bool // over the entries of an index, else over the rows
	part    bool // within one partition
	lower   bool // there is a lower bound
	upper   bool
	reverse bool
	limit   bool // at most so many rows
	whole   bool // the index projects whole items: their sizes are those of the rows
	want    storage.Want
}

// variantOf returns the variant of a range, its bounds included, and the values of
// those. An upper bound that is nil is none.
func variantOf(t *storage.Table, r *storage.Range) (v variant, lower, upper [][]byte) {
	v = variant{index: r.Index != 0, part: r.P != nil, reverse: r.Reverse, want: r.Want}
	if v.want == storage.Keys && v.index && v.part && shortened(r.P) {
		v.want = storage.Items // each row is needed
	}
	v.whole = v.want == storage.Items && slices.ContainsFunc(t.Indexes, func(ix *storage.Index) bool {
		return ix.ID == r.Index && ix.Projection.ProjectionType == ddb.ProjectAll
	})
	lower, upper = r.Interval()
	v.lower = slices.ContainsFunc(lower, func(b []byte) bool { return len(b) > 0 })
	v.upper = upper != nil
	return v, lower, upper
}

// keys are the columns that the range is ordered by: those not fixed.
func (v variant) keys() []string {
	cols := []string{"pk", "sk"}
	if v.index {
		cols = []string{"p", "s", "pk", "sk"}
	}
	if v.part {
		cols = cols[1:]
	}
	return cols
}

// sql returns the text. Its parameters are the table's id, the partition, the
// bounds and the limit, as far as there are any. It yields the table's version
// and status, and the columns of keys, size, ver, flags and item as the variant
// shows them; one row with all those NULL when there is nothing in the range,
// no row when there is no table. Version and rows are of one statement, so what
// it yields is what the version says.
func (v variant) sql(t storage.TableID, ix storage.IndexID) string {
	shown := v.shown()
	inner := v.rows(t)
	if v.index {
		inner = v.entries(t, ix)
	}
	return "SELECT g.version, g.status, q." + strings.Join(shown, ", q.") +
		" FROM extenddb.tables g LEFT JOIN LATERAL (" + inner + ") q ON true WHERE g.id = $1"
}

// shown are the columns that are yielded beside the guard's.
func (v variant) shown() []string {
	cols := v.keys()
	switch {
	case v.want == storage.Items:
		return append(cols, "size", "ver", "flags", "item")
	case v.want == storage.Sizes:
		return append(cols, "size")
	case v.index:
		return append(cols, "item") // to read the size would end the scan of the index alone
	}
	return append(cols, "size", "item")
}

func (v variant) rows(t storage.TableID) string {
	shown := strings.Join(v.shown(), ", ")
	if v.want == storage.Keys {
		shown = strings.Replace(shown, "item", "CASE WHEN "+isShort("pk")+" THEN item END AS item", 1)
	}
	return "SELECT " + shown + " FROM " + rowsOf(t) + v.where("") + v.order("") + v.limited()
}

func (v variant) entries(t storage.TableID, ix storage.IndexID) string {
	x, keys := entriesOf(ix)+" x", "x."+strings.Join(v.keys(), ", x.")
	switch v.want {
	case storage.Sizes:
		return "SELECT " + keys + ", x.size FROM " + x + v.where("x.") + v.order("x.") + v.limited()
	case storage.Keys:
		short := isShort("x.pk")
		if !v.part {
			short += " OR " + isShort("x.p")
		}
		return "SELECT " + keys + ", CASE WHEN " + short + " THEN (SELECT t.item FROM " + rowsOf(t) +
			" t WHERE t.pk = x.pk AND t.sk = x.sk) END AS item FROM " + x + v.where("x.") + v.order("x.") + v.limited()
	}
	size, needed := "x.size", keys+", x.size"
	if v.whole {
		size, needed = "t.size", keys // so that the index alone is scanned
	}
	// A row that is missing must show: LEFT JOIN.
	return "SELECT " + keys + ", " + size + ", t.ver, t.flags, t.item FROM (SELECT " + needed + " FROM " + x +
		v.where("x.") + v.order("x.") + v.limited() + ") x LEFT JOIN " + rowsOf(t) + " t ON t.pk = x.pk AND t.sk = x.sk" + v.order("x.")
}

// isShort is true of a shortened key: its last byte is 1 (keyenc.IsShortened).
func isShort(col string) string { return "get_byte(" + col + ", octet_length(" + col + ") - 1) = 1" }

func shortened(key []byte) bool { return key[len(key)-1] == 1 }

// where selects; the parameters follow that of the table's id.
func (v variant) where(from string) string {
	var conds []string
	n := 1
	mark := func() string { n++; return "$" + strconv.Itoa(n) + "::bytea" }
	compare := func(op string) {
		keys := v.keys()
		marks := make([]string, len(keys))
		for i := range marks {
			keys[i], marks[i] = from+keys[i], mark()
		}
		if len(keys) == 1 {
			conds = append(conds, keys[0]+op+marks[0])
			return
		}
		conds = append(conds, "("+strings.Join(keys, ", ")+")"+op+"("+strings.Join(marks, ", ")+")")
	}
	if v.part {
		col := "pk = "
		if v.index {
			col = "p = "
		}
		conds = append(conds, from+col+mark())
	}
	if v.lower {
		compare(" >= ")
	}
	if v.upper {
		compare(" < ")
	}
	if conds == nil {
		return ""
	}
	return " WHERE " + strings.Join(conds, " AND ")
}

func (v variant) order(from string) string {
	down := ""
	if v.reverse {
		down = " DESC"
	}
	return " ORDER BY " + from + strings.Join(v.keys(), down+", "+from) + down
}

// limited ends the text: the limit is the last parameter.
func (v variant) limited() string {
	if !v.limit {
		return ""
	}
	n := 2
	if v.part {
		n++
	}
	for _, bound := range []bool{v.lower, v.upper} {
		if bound {
			n += len(v.keys())
		}
	}
	return " LIMIT $" + strconv.Itoa(n) + "::bigint"
}

// arguments returns the parameters but the limit.
func (v variant) arguments(t storage.TableID, r *storage.Range, lower, upper [][]byte) []any {
	args := make([]any, 0, 12)
	args = append(args, int64(t))
	if v.part {
		args = append(args, r.P)
	}
	if v.lower {
		args = appendKeys(args, lower)
	}
	if v.upper {
		args = appendKeys(args, upper)
	}
	return args
}

func appendKeys(args []any, keys [][]byte) []any {
	for _, k := range keys {
		args = append(args, notNil(k))
	}
	return args
}

// notNil keeps an empty key from becoming NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
