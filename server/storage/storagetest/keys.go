// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

func keyChecks() []check {
	return []check{
		{"keys/longest", checkLongest},
		{"keys/crafted", checkCrafted},
		{"keys/every byte", checkEveryByte},
		{"keys/numbers", checkNumbers},
		{"keys/KEYS_ONLY with long keys", checkLongKeysOnly},
	}
}

// long is a text of n bytes that ends in i.
func long(n, i int) string { return fmt.Sprintf("%0*d", n, i) }

// checkLongest: 2,048-byte hash and 1,024-byte sort keys in the table, a
// global and a local index at once.
func checkLongest(e *env) {
	t := e.create(define("t", "pk:S/sk:S",
		index{"g", "g:S/h:S", ddb.ProjectAll}, index{"l", "/h:S", ddb.ProjectAll},
		index{"g4", "g:S,k:S/h4:S,i4:S,j4:S,l4:S", ddb.ProjectKeysOnly}))
	var items []ddb.Item
	for i := range 20 {
		nuls := strings.Repeat("\x00", 18)
		items = append(items, item("pk", long(2048, i/10), "sk", long(1024, i), "g", long(2000, i/5), "k", long(48, 0), "h", long(1024, 20-i),
			"h4", nuls+long(256-18, i), "i4", long(256, 1), "j4", long(256, 2), "l4", long(256, 3)))
	}
	for range 2 {
		e.put(t, items...)
		for _, it := range items {
			e.holds(t, it)
		}
		e.consistent(t)
		for _, rd := range readings(t, items) {
			for _, reverse := range []bool{false, true} {
				r := rd.rng()
				r.Reverse = reverse
				want := rd.expect(t, items, r)
				if len(want) == 0 {
					e.Fatalf("%s is empty", rd.name())
				}
				if got := e.pages(t, r, 3); !samePositions(got, want) {
					e.Fatalf("%s: %d rows, want %d", rd.name(), len(got), len(want))
				}
			}
		}
		e.reopen()
	}
	for _, it := range items {
		e.delete(t, it)
	}
	e.consistent(t)
}

// checkCrafted: keys made to look like the short form of others.
func checkCrafted(e *env) {
	t := e.create(define("t", "pk:B", index{"g", "g:B", ddb.ProjectKeysOnly}))
	whole := []byte(long(301, 7))
	sum := sha256.Sum256(whole)
	short := append(slices.Clone(whole[:256]), sum[:]...)
	keys := [][]byte{
		whole, short, append(slices.Clone(short), 0), keyenc.Hash([]ddb.Value{ddb.Binary(whole)}),
		whole[:300], append(slices.Clone(whole[:300]), 0), append(slices.Clone(whole), 0), append(slices.Clone(whole[:300]), 1),
		append(slices.Clone(whole[:256]), make([]byte, 1792)...), []byte(long(2048, 7)), []byte(long(2048, 8)), []byte(long(300, 7)),
		{0}, {1}, {0, 0}, {0, 1}, {1, 0},
	}
	for i, k := range keys {
		e.put(t, item("pk", k, "g", k, "n", i))
	}
	equal(e, "rows", len(e.rows(t, storage.Range{})), len(keys))
	for i, k := range keys {
		it := item("pk", k, "g", k, "n", i)
		e.holds(t, it)
		equal(e, "rows of the index partition", len(e.rows(t, storage.Range{Index: t.Index("g").ID, P: keyenc.Hash([]ddb.Value{it["g"]})})), 1)
	}
	e.consistent(t)
}

// checkEveryByte: each byte, at the beginning, in the middle and at the end,
// alone and beside U+0000 and 0xFF.
func checkEveryByte(e *env) {
	t := e.create(define("t", "pk:B/sk:B", index{"g", "g:B/h:B", ddb.ProjectAll}, index{"l", "/h:B", ddb.ProjectAll}))
	var items []ddb.Item
	for b := range 256 {
		for i, k := range [][]byte{{byte(b)}, {0, byte(b)}, {0xFF, byte(b)}, {byte(b), 0}, {byte(b), 0xFF}} {
			if b%16 > 1 && b%16 < 14 && i > 0 {
				continue
			}
			items = append(items, item("pk", []byte{byte(b % 2)}, "sk", k, "g", []byte{0xFF}, "h", slices.Concat(k, k)))
		}
	}
	// Some keys occur twice: 00 00 as {0, b} and {b, 0}. The last one counts.
	seen := map[string]ddb.Item{}
	for _, it := range items {
		seen[it["pk"].Str()+"/"+it["sk"].Str()] = it
	}
	e.put(t, items...)
	items = items[:0]
	for _, it := range seen {
		items = append(items, it)
	}
	for _, rd := range readings(t, items) {
		r := rd.rng()
		if got, want := e.pages(t, r, 50), rd.expect(t, items, r); !samePositions(got, want) {
			e.Fatalf("%s: %d rows, want %d", rd.name(), len(got), len(want))
		}
	}
	p := keyenc.Hash([]ddb.Value{ddb.Binary([]byte{1})})
	for _, begin := range [][]byte{{0}, {0xFF}, {0xFF, 0xFF}, {0x7F}} {
		want := 0
		for _, it := range items {
			if it["pk"].Str() == "\x01" && strings.HasPrefix(it["sk"].Str(), string(begin)) {
				want++
			}
		}
		r := storage.Range{P: p}
		r.From, r.To = keyenc.Bounds(t.RangeKinds(), nil, keyenc.BeginsWith, []ddb.Value{ddb.Binary(begin)})
		equal(e, fmt.Sprintf("rows that begin with %x", begin), len(e.rows(t, r)), want)
	}
	e.consistent(t)
}

func checkNumbers(e *env) {
	t := e.create(define("t", "pk:N/sk:N", index{"g", "n:N/sk:N", ddb.ProjectAll}))
	order := []string{
		"-9.9999999999999999999999999999999999999E+125", "-1E125", "-123", "-100", "-12.5", "-12.49", "-1", "-0.1", "-1E-130",
		"0", "1E-130", "0.09", "0.1", "0.11", "1", "9", "10", "12.49", "12.5", "99", "100", "1E125", "9.9999999999999999999999999999999999999E+125",
	}
	for i := range order {
		j := (i*7 + 3) % len(order)
		e.put(t, item("pk", 1, "sk", number(order[j]), "n", number(order[j])))
	}
	e.put(t, item("pk", 1, "sk", number("-0.000"), "n", number("0E-5"))) // zero again
	var got []string
	for _, row := range e.rows(t, storage.Range{P: keyenc.Hash([]ddb.Value{ddb.Int(1)})}) {
		keys, err := t.KeysOf(nil, row)
		e.ok(err)
		got = append(got, keys["sk"].Str())
	}
	for i, s := range order {
		order[i] = number(s).Str()
	}
	if !slices.Equal(got, order) {
		e.Fatalf("order is\n%q, want\n%q", got, order)
	}
	got = nil
	for _, row := range e.rows(t, storage.Range{Index: t.Index("g").ID, Reverse: true}) {
		keys, err := t.KeysOf(t.Index("g"), row)
		e.ok(err)
		got = append(got, keys["n"].Str())
	}
	slices.Reverse(got)
	if !slices.Equal(got, order) {
		e.Fatalf("order in the index is\n%q, want\n%q", got, order)
	}
	e.consistent(t)
}

// checkLongKeysOnly: a KEYS_ONLY index of a table with keys of 2,048 bytes,
// indexed by keys of 2,048 bytes, tells both.
func checkLongKeysOnly(e *env) {
	t := e.create(define("t", "pk:S/sk:S", index{"g", "g:S/h:S", ddb.ProjectKeysOnly}, index{"l", "/h:S", ddb.ProjectKeysOnly}))
	var items []ddb.Item
	for i, n := range []int{1, 299, 300, 301, 2048} {
		for j, m := range []int{1, 300, 301, 2048} {
			items = append(items, item("pk", long(n, i), "sk", long(1024, j), "g", long(m, 1), "h", "h", "not", "projected"))
		}
	}
	e.put(t, items...)
	byKey := map[string]ddb.Item{}
	for _, it := range items {
		k := keyOf(t, it)
		byKey[place(tablePosition(k))] = it
	}
	for _, ix := range t.Indexes {
		rows := e.rows(t, storage.Range{Index: ix.ID, Want: storage.Keys})
		equal(e, "entries of "+ix.Name, len(rows), len(items))
		for _, row := range rows {
			keys, err := t.KeysOf(ix, row)
			e.ok(err)
			want := maps.Clone(byKey[place(tablePosition(row.Key))])
			if names := ix.Projected(); names != nil {
				maps.DeleteFunc(want, func(name string, _ ddb.Value) bool { return !slices.Contains(names, name) })
			}
			if !keys.Equal(want) {
				e.Fatalf("index %s: keys are %.100v, want %.100v", ix.Name, keys, want)
			}
		}
	}
}
