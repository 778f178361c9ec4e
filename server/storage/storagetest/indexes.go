// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

func indexChecks() []check {
	return []check{
		{"indexes/sparse", checkSparse},
		{"indexes/key change", checkKeyChange},
		{"indexes/bad keys", checkBadKeys},
		{"indexes/multi-attribute", checkMultiAttribute},
		{"indexes/conditions", checkConditions},
		{"indexes/apart", checkIndexesApart},
		{"indexes/most of them", checkMostIndexes},
	}
}

// members lists the sk of the rows in an index, in order.
func (e *env) members(t *storage.Table, name string) string {
	e.Helper()
	var sks []string
	for _, row := range e.rows(t, storage.Range{Index: t.Index(name).ID}) {
		it, err := ddb.ParseItem(row.Item)
		e.ok(err)
		sks = append(sks, it["sk"].Str())
	}
	return strings.Join(sks, " ")
}

func checkSparse(e *env) {
	t := e.create(rich("t"))
	base := item("pk", "p", "sk", "1")
	steps := []struct {
		item                                    ddb.Item
		all, hash, multi, tableKey, local, lAll string
	}{
		{base, "", "", "", "1", "", ""},
		{with(base, "g", "G"), "", "1", "", "1", "", ""},
		{with(base, "g", "G", "h", 1), "1", "1", "", "1", "", ""},
		{with(base, "h", 1, "l", 2), "", "", "", "1", "1", ""},
		{with(base, "a", "A", "b", 1, "c", []byte{1}, "d", "D"), "", "", "", "1", "", ""},
		{with(base, "a", "A", "b", 1, "c", []byte{1}, "d", "D", "e", 0), "", "", "1", "1", "", ""},
		{with(base, "m", "M", "g", "G"), "", "1", "", "1", "", "1"},
		{base, "", "", "", "1", "", ""},
	}
	e.put(t, item("pk", "other", "sk", "0")) // never in one of them
	for i, s := range steps {
		e.put(t, s.item)
		for name, want := range map[string]string{"g-all": s.all, "g-hash": s.hash, "g-multi": s.multi, "l-number": s.local, "l-all": s.lAll} {
			equal(e, fmt.Sprintf("step %d, index %s", i, name), e.members(t, name), want)
		}
		equal(e, fmt.Sprintf("step %d, index g-table-key", i), e.members(t, "g-table-key"), "0 "+s.tableKey)
		e.consistent(t)
	}
	e.delete(t, base)
	equal(e, "index g-table-key", e.members(t, "g-table-key"), "0")
	e.consistent(t)
}

func checkKeyChange(e *env) {
	t := e.create(rich("t"))
	row := func(sk, g string, h int) ddb.Item {
		return item("pk", "p", "sk", sk, "g", g, "h", h, "l", -h, "x", "x")
	}
	e.put(t, row("1", "G", 1), row("2", "G", 2), row("3", "G", 3))
	equal(e, "before", e.members(t, "g-all")+"|"+e.members(t, "l-number"), "1 2 3|3 2 1")
	e.put(t, row("1", "G", 9))
	equal(e, "moved within", e.members(t, "g-all")+"|"+e.members(t, "l-number"), "2 3 1|1 3 2")
	e.put(t, row("2", "A", 5), row("3", "Z", 0))
	equal(e, "moved out", e.members(t, "g-all")+"|"+e.members(t, "g-hash"), "2 1 3|2 1 3")
	e.put(t, with(row("3", "Z", 0), "x", strings.Repeat("x", 500))) // the entry's size changes, its place does not
	equal(e, "not moved", e.members(t, "g-all"), "2 1 3")
	e.consistent(t)
	e.reopen()
	equal(e, "after reopening", e.members(t, "g-all"), "2 1 3")
	e.consistent(t)
}

// checkBadKeys: what cannot be a key of an index stays out of it, and the row
// is written all the same (whether to refuse is the caller's business).
func checkBadKeys(e *env) {
	t := e.create(rich("t"))
	for i, it := range []ddb.Item{
		item("g", 1), item("g", ""), item("g", strings.Repeat("g", 2049)), item("g", "ok", "h", "not a number"),
		item("l", "wrong"), item("m", ""), item("m", strings.Repeat("m", 1025)),
		item("a", "A", "b", 1, "c", []byte{}, "d", "D", "e", 0),
		item("a", "A", "b", 1, "c", make([]byte, 512), "d", strings.Repeat("d", 512), "e", 0),
		item("a", "A", "b", 1, "c", make([]byte, 500), "d", strings.Repeat("d", 400), "e", 0), // within, but not encoded
	} {
		it = with(it, "pk", "p", "sk", fmt.Sprint(i))
		e.put(t, it)
		e.holds(t, it)
	}
	for name, want := range map[string]string{"g-all": "", "g-hash": "3", "g-multi": "", "l-number": "", "l-all": ""} {
		equal(e, "index "+name, e.members(t, name), want)
	}
	e.consistent(t)
}

// multiItems are items whose composite keys differ in every attribute, with
// the bytes that escaping must get right.
func multiItems() []ddb.Item {
	var items []ddb.Item
	texts := []string{"a", "a\x00", "a\x00\x00", "a\x00\x01", "a\x01", "aa", "\x00", "\U0010FFFF"}
	bins := [][]byte{{0}, {0, 0}, {0, 0xFF}, {1}, {0xFF}, {0xFF, 0xFF}}
	nums := []ddb.Value{number("-1E100"), number("-1"), number("-0.5"), number("0"), number("1E-130"), number("12"), number("12.01")}
	for i := range 60 {
		items = append(items, item("pk", "p", "sk", fmt.Sprintf("%02d", i), "a", []string{"A", "A\x00"}[i/48], "b", i/48,
			"c", bins[i%len(bins)], "d", texts[i/2%len(texts)], "e", nums[i/3%len(nums)]))
	}
	return items
}

func checkMultiAttribute(e *env) {
	t, items := e.create(rich("t")), multiItems()
	e.put(t, items...)
	ix := t.Index("g-multi")
	slices.SortFunc(items, func(x, y ddb.Item) int {
		for _, name := range []string{"c", "d", "e", "sk"} {
			if c, _ := ddb.Compare(x[name], y[name]); c != 0 {
				return c
			}
		}
		return 0
	})
	for _, part := range []ddb.Item{items[0], item("a", "A\x00", "b", 1)} {
		var want, got []string
		for _, it := range items {
			if it["a"].Equal(part["a"]) && it["b"].Equal(part["b"]) {
				want = append(want, it["sk"].Str())
			}
		}
		p := keyenc.Hash([]ddb.Value{part["a"], part["b"]})
		for _, row := range e.rows(t, storage.Range{Index: ix.ID, P: p}) {
			keys, err := t.KeysOf(ix, row)
			e.ok(err)
			got = append(got, keys["sk"].Str())
		}
		if !slices.Equal(got, want) {
			e.Fatalf("order is\n%q, want\n%q", got, want)
		}
	}
	e.consistent(t)
}

// checkConditions: the bounds of keyenc find exactly the rows that satisfy
// the condition, in the engine's byte order.
func checkConditions(e *env) {
	t, items := e.create(rich("t")), multiItems()
	e.put(t, items...)
	ix := t.Index("g-multi")
	hash := []ddb.Value{ddb.String("A"), ddb.Int(0)}
	names := []string{"c", "d", "e"}
	for i, it := range items[:48] {
		depth := i % 3
		var eq []ddb.Value
		for _, name := range names[:depth] {
			eq = append(eq, it[name])
		}
		v := it[names[depth]]
		for op, holds := range map[keyenc.Op]func(c int) bool{
			keyenc.EQ: func(c int) bool { return c == 0 }, keyenc.LT: func(c int) bool { return c < 0 },
			keyenc.LE: func(c int) bool { return c <= 0 }, keyenc.GT: func(c int) bool { return c > 0 },
			keyenc.GE: func(c int) bool { return c >= 0 },
		} {
			want := 0
			for _, o := range items[:48] {
				c, _ := ddb.Compare(o[names[depth]], v)
				match := holds(c)
				for j, name := range names[:depth] {
					match = match && o[name].Equal(eq[j])
				}
				if match {
					want++
				}
			}
			r := storage.Range{Index: ix.ID, P: keyenc.Hash(hash)}
			r.From, r.To = keyenc.Bounds(ix.RangeKinds(), eq, op, []ddb.Value{v})
			equal(e, fmt.Sprintf("rows of item %d, depth %d, op %d", i, depth, op), len(e.rows(t, r)), want)
		}
	}
}

// checkIndexesApart: equal keys in different indexes and tables do not meet.
func checkIndexesApart(e *env) {
	def := func(name string) ddb.TableDefinition {
		return define(name, "pk:S/sk:S", index{"one", "g:S", ddb.ProjectAll}, index{"two", "h:S", ddb.ProjectAll}, index{"l", "/g:S", ddb.ProjectAll})
	}
	a, b := e.create(def("a")), e.create(def("b"))
	e.put(a, item("pk", "p", "sk", "a", "g", "x", "h", "x"))
	e.put(b, item("pk", "p", "sk", "b", "g", "x"))
	for _, t := range []*storage.Table{a, b} {
		for _, name := range []string{"one", "l"} {
			equal(e, t.Name()+" "+name, e.members(t, name), t.Name())
		}
		e.consistent(t)
	}
	equal(e, "a two", e.members(a, "two"), "a")
	equal(e, "b two", e.members(b, "two"), "")
	e.delete(a, item("pk", "p", "sk", "a"))
	equal(e, "b one", e.members(b, "one"), "b")
}

// checkMostIndexes: 20 global and 5 local ones, as a table may have.
func checkMostIndexes(e *env) {
	var ixs []index
	for i := range 20 {
		ixs = append(ixs, index{fmt.Sprint("g", i), fmt.Sprintf("a%d:S,b%d:S/c%d:S,d%d:S", i%3, i%4, i%5, i), ddb.ProjectAll})
	}
	for i := range 5 {
		ixs = append(ixs, index{fmt.Sprint("l", i), fmt.Sprintf("/d%d:S", i), ddb.ProjectKeysOnly})
	}
	t := e.create(define("t", "pk:S/sk:S", ixs...))
	for n := range 30 {
		it := item("pk", fmt.Sprint(n%2), "sk", fmt.Sprint(n))
		for i := range 20 {
			for _, letter := range []string{"a", "b", "c", "d"} {
				if (n+i)%7 != 0 {
					it[letter+fmt.Sprint(i)] = ddb.String(fmt.Sprint(n % (i + 1)))
				}
			}
		}
		e.put(t, it, with(it, "d7", "changed"))
	}
	e.consistent(t)
	e.reopen()
	e.consistent(t)
}
