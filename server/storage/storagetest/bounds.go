// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

func boundsChecks() []check {
	return []check{
		{"bounds/incompressible", checkIncompressible},
		{"bounds/zeros and ones", checkZerosAndOnes},
		{"bounds/odd texts", checkOddTexts},
	}
}

// noise makes bytes that nothing can compress, the same in each run. Engines
// that compress what they index take longer keys of zeros than of these.
type noise struct{ *rand.ChaCha8 }

func newNoise() noise {
	return noise{rand.NewChaCha8([32]byte([]byte("keys that nothing can make short")))}
}

func (n noise) bytes(size int) []byte {
	b := make([]byte, size)
	_, _ = n.Read(b) // never fails
	return b
}

// bounded is a table whose keys, and those of each kind of index, are binary.
func bounded() ddb.TableDefinition {
	return define("t", "pk:B/sk:B",
		index{"g", "g:B/h:B", ddb.ProjectAll}, index{"g-keys", "g:B/i:B", ddb.ProjectKeysOnly},
		index{"g-multi", "a:B,b:B,c:B,d:B/e:B,f:B,m:B,n:B", "x"},
		index{"l", "/h:B", ddb.ProjectAll}, index{"l-keys", "/i:B", ddb.ProjectKeysOnly})
}

// everywhere checks that items can be stored, found, read by every index in
// both directions and from every row on, replaced, kept and deleted.
func (e *env) everywhere(t *storage.Table, items []ddb.Item) {
	e.Helper()
	for range 2 {
		e.put(t, items...)
		for _, it := range items {
			e.holds(t, it)
		}
		e.consistent(t)
		for _, rd := range readings(t, items) {
			for _, want := range []storage.Want{storage.Sizes, storage.Keys, storage.Items} {
				r := rd.rng()
				r.Want, r.Reverse = want, want == storage.Keys
				expected := rd.expect(t, items, r)
				if got := e.pages(t, r, 2); len(got) == 0 || !samePositions(got, expected) {
					e.Fatalf("%s, want %d: %d rows, want %d", rd.name(), want, len(got), len(expected))
				}
				e.tellsKeys(t, rd, r, items)
			}
		}
		e.reopen()
	}
	for _, it := range items {
		e.delete(t, it)
		e.absent(t, it)
	}
	e.consistent(t)
}

// tellsKeys: the keys of every row can be told, unless only sizes were wanted.
func (e *env) tellsKeys(t *storage.Table, rd reading, r storage.Range, items []ddb.Item) {
	e.Helper()
	if r.Want == storage.Sizes {
		return
	}
	known := map[string]ddb.Item{}
	for _, it := range items {
		known[place(tablePosition(keyOf(t, it)))] = it
	}
	attrs := t.KeyAttrs()
	if rd.ix != nil {
		attrs = rd.ix.KeyAttrs(t)
	}
	for _, row := range e.rows(t, r) {
		keys, err := t.KeysOf(rd.ix, row)
		e.ok(err)
		it := known[place(tablePosition(row.Key))]
		for _, a := range attrs {
			if !keys[a.Name].Equal(it[a.Name]) {
				e.Fatalf("%s: %s is %.60v, want %.60v", rd.name(), a.Name, keys[a.Name], it[a.Name])
			}
		}
	}
}

// checkIncompressible: hash keys of 2,048 and sort keys of 1,024 bytes, of one
// attribute and of four, in the table and all its indexes at once, that nothing
// makes shorter.
func checkIncompressible(e *env) {
	t, n := e.create(bounded()), newNoise()
	var items []ddb.Item
	pk, g := n.bytes(2048), n.bytes(2048)
	for i := range 8 {
		if i%4 == 0 {
			pk, g = n.bytes(2048), n.bytes(2048)
		}
		items = append(items, item("pk", pk, "sk", n.bytes(1024), "g", g, "h", n.bytes(1024), "i", n.bytes(1024),
			"a", g[:512], "b", n.bytes(512), "c", n.bytes(512), "d", n.bytes(512),
			"e", n.bytes(256), "f", n.bytes(256), "m", n.bytes(256), "n", n.bytes(256), "x", i, "y", n.bytes(5000)))
	}
	e.everywhere(t, items)
}

// checkZerosAndOnes: keys of 0x00 and 0xFF of every length at which their
// encoding changes, in all places.
func checkZerosAndOnes(e *env) {
	t := e.create(bounded())
	var items []ddb.Item
	for i, size := range []int{1, 2, 255, 256, 257, 299, 300, 301, 302, 1024} {
		for _, b := range []string{"\x00", "\xFF", "\x00\xFF", "\xFF\x00"} {
			k := []byte(strings.Repeat(b, size)[:size])
			s := k[:min(size, 18)] // more zeros are too many for a key of four attributes
			items = append(items, item("pk", append(k, byte(i)), "sk", k, "g", k, "h", k, "i", append(k, 0)[:min(size+1, 1024)],
				"a", k[:min(size, 512)], "b", []byte{0}, "c", []byte{0xFF}, "d", k[:min(size, 512)],
				"e", s[:min(size, 5)], "f", []byte{0xFF}, "m", []byte{0}, "n", s[:min(size, 5)]))
		}
	}
	seen := map[string]bool{}
	kept := items[:0]
	for _, it := range items { // at size 1 some are the same
		if k := place(tablePosition(keyOf(t, it))); !seen[k] {
			seen[k] = true
			kept = append(kept, it)
		}
	}
	e.everywhere(t, kept)
}

// checkOddTexts: U+0000, the last characters of each length in UTF-8, quotes
// and backslashes, in keys, names and values.
func checkOddTexts(e *env) {
	t := e.create(define("t", "pk:S/sk:S", index{"g", "g:S/h:S", ddb.ProjectAll}, index{"l", "/h:S", ddb.ProjectKeysOnly}))
	odd := []string{
		"\x00", "\x00\x00", "a\x00", "\x00a", "a\x00b", "\x01", "\x7f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufffd", "\uffff",
		"\U00010000", "\U0010FFFF", "'", `"`, `\`, `\x00`, `\000`, "''; --", "$1", "%s", "\n", "\r\n", "\u2028", " ", "é", "e\u0301",
	}
	var items []ddb.Item
	for i, s := range odd {
		o := odd[(i*7+3)%len(odd)]
		items = append(items, item("pk", s, "sk", o, "g", o, "h", s, "name "+s, ddb.Map(ddb.Item{s: ddb.String(o)}), "text", fmt.Sprint(i, s, o)))
	}
	e.everywhere(t, items)
}
