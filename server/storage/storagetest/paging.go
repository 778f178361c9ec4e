// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"fmt"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

func pagingChecks() []check {
	return []check{
		{"paging/ties", checkTies},
		{"paging/sort key bounds", checkSortBounds},
		{"paging/after a row that is gone", checkAfterGone},
		{"paging/segments", checkSegments},
		{"paging/want", checkWant},
		{"paging/large", checkLarge},
	}
}

// tied is a table with many equal positions in its indexes, and its items.
func (e *env) tied() (*storage.Table, []ddb.Item) {
	e.Helper()
	t := e.create(define("tied", "pk:S/sk:N",
		index{"g-both", "g:S/h:N", ddb.ProjectAll},
		index{"g-hash", "g:S", ddb.ProjectKeysOnly},
		index{"g-multi", "g:S,w:N/h:N,c:S", "x"},
		index{"l", "/h:N", ddb.ProjectAll},
	))
	var items []ddb.Item
	for i := range 36 {
		items = append(items, item("pk", fmt.Sprint("p", i%3), "sk", i/3-5, "g", []string{"one", "two"}[i/18],
			"h", i%2, "w", 1, "c", []string{"", "a", "a\x00", "b"}[i%3+1], "x", i))
	}
	e.put(t, items...)
	return t, items
}

// reading names what a Range reads: index nil is the table; partition nil is all.
type reading struct {
	ix   *storage.Index
	part []byte
}

// readings lists the table and every index of t, whole and by partition.
func readings(t *storage.Table, items []ddb.Item) []reading {
	var rs []reading
	for _, ix := range append([]*storage.Index{nil}, t.Indexes...) {
		rs = append(rs, reading{ix, nil})
		var parts []string
		for _, it := range items {
			pos, err := t.PositionOf(ix, it)
			if err != nil {
				continue // not in the index
			}
			if ix == nil {
				pos.P = pos.PK
			}
			parts = append(parts, string(pos.P))
		}
		slices.Sort(parts)
		for _, p := range slices.Compact(parts) {
			rs = append(rs, reading{ix, []byte(p)})
		}
	}
	return rs
}

func (rd reading) name() string {
	name := "table"
	if rd.ix != nil {
		name = "index " + rd.ix.Name
	}
	if rd.part != nil {
		name += fmt.Sprintf(" partition %x", rd.part)
	}
	return name
}

func (rd reading) rng() storage.Range {
	r := storage.Range{P: rd.part, Want: storage.Items}
	if rd.ix != nil {
		r.Index = rd.ix.ID
	}
	return r
}

// expect computes the positions a range of rd finds among items, in order.
func (rd reading) expect(t *storage.Table, items []ddb.Item, r storage.Range) []storage.Position {
	var all []storage.Position
	for _, it := range items {
		pos, err := t.PositionOf(rd.ix, it)
		if err != nil {
			continue
		}
		part, sort := pos.PK, pos.SK
		if rd.ix != nil {
			part, sort = pos.P, pos.S
		}
		switch {
		case r.P != nil && string(part) != string(r.P),
			r.From != nil && string(sort) < string(r.From),
			r.To != nil && string(sort) >= string(r.To),
			r.Start != nil && pos.Compare(*r.Start) < 0,
			r.End != nil && pos.Compare(*r.End) >= 0,
			r.After != nil && !r.Reverse && pos.Compare(*r.After) <= 0,
			r.After != nil && r.Reverse && pos.Compare(*r.After) >= 0:
			continue
		}
		all = append(all, pos)
	}
	slices.SortFunc(all, storage.Position.Compare)
	if r.Reverse {
		slices.Reverse(all)
	}
	return all
}

func samePositions(a, b []storage.Position) bool {
	return slices.EqualFunc(a, b, func(a, b storage.Position) bool { return a.Compare(b) == 0 })
}

// endless is more rows than any check writes.
const endless = 10_000

// pages reads r in pages of n rows.
func (e *env) pages(t *storage.Table, r storage.Range, n int) []storage.Position {
	e.Helper()
	var all []storage.Position
	if r.Rows = n; n%2 == 0 {
		r.AtMost = n
	}
	for {
		rows, err := e.collect(t, r, n)
		e.ok(err)
		for _, row := range rows {
			all = append(all, row.Position())
		}
		if len(rows) < n {
			return all
		}
		if len(all) > endless {
			e.Fatalf("reading in pages of %d does not end", n)
		}
		last := rows[n-1].Position()
		r.After = &last
	}
}

func checkTies(e *env) {
	t, items := e.tied()
	for _, rd := range readings(t, items) {
		for _, reverse := range []bool{false, true} {
			r := rd.rng()
			r.Reverse = reverse
			want := rd.expect(t, items, r)
			for n := 1; n <= len(want)+1; n++ {
				if got := e.pages(t, r, n); !samePositions(got, want) {
					e.Fatalf("%s, reverse %v, pages of %d: %d rows, want %d:\n%x\n%x", rd.name(), reverse, n, len(got), len(want), got, want)
				}
			}
		}
	}
}

// checkSortBounds: every pair of bounds, in both directions, from every
// position.
func checkSortBounds(e *env) {
	t, items := e.tied()
	for _, rd := range readings(t, items) {
		if rd.part == nil {
			continue
		}
		bounds := [][]byte{nil, {0}}
		var starts []*storage.Position
		for _, pos := range rd.expect(t, items, rd.rng()) {
			starts = append(starts, &pos)
			sort := pos.SK
			if rd.ix != nil {
				sort = pos.S
			}
			bounds = append(bounds, sort, append(slices.Clone(sort), 0))
		}
		slices.SortFunc(bounds, slices.Compare)
		bounds = slices.CompactFunc(bounds, slices.Equal)
		for i, from := range bounds {
			for j, to := range bounds {
				r := rd.rng()
				r.From, r.To, r.Reverse = from, to, (i+j)%2 == 1
				if len(to) == 0 {
					r.To = nil
				}
				if k := (3*i + j) % (len(starts) + 1); k < len(starts) && i > 0 {
					r.After = starts[k]
				}
				if got, want := e.pages(t, r, 3), rd.expect(t, items, r); !samePositions(got, want) {
					e.Fatalf("%s, range %+v:\n%x, want\n%x", rd.name(), r, got, want)
				}
			}
		}
	}
}

// checkAfterGone: a reader goes on where it was when that row is gone.
func checkAfterGone(e *env) {
	t, items := e.tied()
	for n, rd := range readings(t, items) {
		r := rd.rng()
		r.Reverse = n%2 == 1
		all := rd.expect(t, items, r)
		i := len(all) / 2
		victim := slices.IndexFunc(items, func(it ddb.Item) bool {
			return keyOf(t, it).Equal(storage.Key{PK: all[i].PK, SK: all[i].SK})
		})
		e.delete(t, items[victim])
		r.After = &all[i]
		if got, want := e.pages(t, r, 2), all[i+1:]; !samePositions(got, want) {
			e.Fatalf("%s, reverse %v:\n%x, want\n%x", rd.name(), r.Reverse, got, want)
		}
		e.put(t, items[victim])
	}
}

// checkSegments: whatever the bounds, segments read each row once.
func checkSegments(e *env) {
	t, items := e.tied()
	for _, rd := range readings(t, items) {
		if rd.part != nil {
			continue
		}
		all := rd.expect(t, items, rd.rng())
		bounds := [][]storage.Position{{all[0]}, {all[3], all[4], all[20]}, {all[len(all)-1]}, {
			{P: all[9].P, S: all[9].S, PK: append(slices.Clone(all[9].PK), 0), SK: all[9].SK}, // between two rows
		}}
		for _, cuts := range bounds {
			var got []storage.Position
			for i := range len(cuts) + 1 {
				r := rd.rng()
				if i > 0 {
					r.Start = &cuts[i-1]
				}
				if i < len(cuts) {
					r.End = &cuts[i]
				}
				part := e.pages(t, r, 4)
				if !samePositions(part, rd.expect(t, items, r)) {
					e.Fatalf("%s: segment %d of %x is\n%x", rd.name(), i, cuts, part)
				}
				got = append(got, part...)
				r.Reverse = true
				if back := e.pages(t, r, 4); !samePositions(back, rd.expect(t, items, r)) {
					e.Fatalf("%s: segment %d of %x in reverse is\n%x", rd.name(), i, cuts, back)
				}
			}
			if !samePositions(got, all) {
				e.Fatalf("%s: segments hold %d rows, want %d", rd.name(), len(got), len(all))
			}
		}
	}
}

// checkWant: every amount of reading finds the same rows; KEYS_ONLY answers
// come from what Keys fills in.
func checkWant(e *env) {
	t, items := e.tied()
	long := item("pk", fmt.Sprintf("%0301d", 1), "sk", 1, "g", fmt.Sprintf("%0400d", 2), "h", 1, "w", 1, "c", "c", "x", "long")
	e.put(t, long)
	items = append(items, long)
	for _, rd := range readings(t, items) {
		full := rd.rng()
		whole := e.rows(t, full)
		for _, want := range []storage.Want{storage.Sizes, storage.Keys} {
			r := full
			r.Want = want
			rows := e.rows(t, r)
			equal(e, rd.name()+" rows", len(rows), len(whole))
			for i, row := range rows {
				if row.Position().Compare(whole[i].Position()) != 0 {
					e.Fatalf("%s: row %d is at %x, want %x", rd.name(), i, row.Position(), whole[i].Position())
				}
				it, err := ddb.ParseItem(whole[i].Item)
				e.ok(err)
				if want == storage.Sizes || rd.ix == nil {
					equal(e, rd.name()+" size", row.Size, whole[i].Size)
				}
				if want == storage.Sizes && (keyenc.IsShortened(row.P) || keyenc.IsShortened(row.Key.PK)) {
					continue
				}
				keys, err := t.KeysOf(rd.ix, row)
				e.ok(err)
				attrs := t.KeyAttrs()
				if rd.ix != nil {
					attrs = rd.ix.KeyAttrs(t)
				}
				equal(e, "key attributes", len(keys), len(attrs))
				for name, v := range keys {
					if !v.Equal(it[name]) {
						e.Fatalf("%s: key attribute %s is %v, want %v", rd.name(), name, v, it[name])
					}
				}
			}
		}
	}
}

// checkLarge reads more rows than any engine fetches at once.
func checkLarge(e *env) {
	t := e.create(define("t", "pk:S/sk:N", index{"g", "g:S", ddb.ProjectAll}))
	var items []ddb.Item
	for i := range manyRows {
		items = append(items, item("pk", fmt.Sprint(i%2), "sk", i, "g", "all", "x", fmt.Sprintf("%0*d", i%700, i)))
	}
	e.put(t, items...)
	for _, rd := range readings(t, items) {
		for i, hint := range []storage.Range{{}, {Rows: 1}, {Rows: 100_000}, {Bytes: 1}, {Rows: 7, Bytes: 100}, {Bytes: 1 << 40}} {
			r := rd.rng()
			r.Rows, r.Bytes, r.Reverse = hint.Rows, hint.Bytes, i%2 == 0
			want := rd.expect(t, items, r)
			var got []storage.Position
			for _, row := range e.rows(t, r) {
				got = append(got, row.Position())
			}
			if !samePositions(got, want) {
				e.Fatalf("%s, hints %+v: %d rows, want %d", rd.name(), hint, len(got), len(want))
			}
		}
	}
}
