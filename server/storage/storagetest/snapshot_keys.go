// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// unlike are values of each key type, in order, that other orders would
// arrange differently: by locale, by text, by length, by base64.
func unlike() map[string][]any {
	digits := func(n int, last string) ddb.Value { return number(strings.Repeat("1234567890", 4)[:n-1] + last) }
	return map[string][]any{
		"S": {"\x00", "\x01\x00", " ", "B", "Ba", "Z", "a", "b", "é", "z", "zz", "\uFFFD", "😀"},
		"N": {
			number("-9.9E125"), number("-100"), number("-12.5"), number("-12.49"), number("-1E-130"), 0, number("1E-130"), number("0.05"),
			number("0.5"), 2, 10, number("10.5"), 100, digits(34, "1"), digits(34, "2"), digits(38, "1"), digits(38, "2"), number("9.9E125"),
		},
		"B": {[]byte{0}, []byte{0, 0}, []byte{0, 1}, []byte{0x3E}, []byte{0x7F}, []byte{0xFB}, []byte{0xFF}, []byte{0xFF, 0}},
	}
}

// checkSnapshotKeys: every shape of key, three rows at a time, written in no
// order.
func checkSnapshotKeys(e *env) {
	const page = 3
	e.probe(page)
	for i, key := range []string{"k:S", "k:N", "k:B", "pk:S/k:S", "pk:S/k:N", "pk:S/k:B"} {
		t := e.create(define(fmt.Sprint("t", i), key))
		values := unlike()[key[len(key)-1:]]
		var items []ddb.Item
		for j := range values {
			v := value(values[(j*5)%len(values)]) // all of them: no length is a multiple of five
			for _, pk := range []string{"q", "p"}[:1+i/3] {
				it := item("pk", pk, "k", v)
				if d := e.h.Snapshots.Digits; d > 0 && digitsOf(v) > d {
					if _, err := e.e.Write(e.ctx, putWrite(t, it)); err == nil {
						e.Fatalf("a number of %d digits is stored, not refused", digitsOf(v))
					}
					continue
				}
				e.put(t, it)
				items = append(items, it)
			}
		}
		s := e.snapshot(t.Name())
		equal(e, key+" is ordered", s.KeyOrdered(), !e.h.Snapshots.Unordered)
		e.shows(key, s, items, nil)
		for len(items) > 2*page { // last pages that are full, and ones that are not
			e.delete(t, items[0])
			items = items[1:]
			e.shows(key, e.snapshot(t.Name()), items, nil)
		}
	}
}

func digitsOf(v ddb.Value) int {
	if v.Kind() != ddb.KindN {
		return 0
	}
	digits, _ := v.Number().Digits()
	return len(digits)
}

// checkSnapshotLongKeys: a partition key that is not kept whole leaves the
// order unknown, however it was written; the snapshot says so and is complete.
func checkSnapshotLongKeys(e *env) {
	e.probe(2)
	for i, write := range []func(w storage.Write) error{
		func(w storage.Write) error { _, err := e.e.Write(e.ctx, w); return err },
		func(w storage.Write) error { w.Blind = true; _, err := e.e.Write(e.ctx, w); return err },
		func(w storage.Write) error { return e.e.WriteEach(e.ctx, []storage.Write{w})[0].Err },
		func(w storage.Write) error { _, err := e.e.WriteAll(e.ctx, []storage.Write{w}, nil); return err },
	} {
		t := e.create(define(fmt.Sprint("t", i), "pk:S/sk:N"))
		var items []ddb.Item
		for n := range 6 {
			it := item("pk", long(300, n/2), "sk", n) // the longest that is kept
			if n == 3 {
				it = item("pk", long(2000, n), "sk", n)
				s := e.snapshot(t.Name())
				equal(e, "ordered before", s.KeyOrdered(), !e.h.Snapshots.Unordered)
				e.ok(write(putWrite(t, it)))
				e.shows("before", s, items, nil)
			} else {
				e.put(t, it)
			}
			items = append(items, it)
		}
		for range 2 {
			s := e.snapshot(t.Name())
			equal(e, "ordered", s.KeyOrdered(), false)
			e.shows("long keys", s, items, nil)
			got, err := e.e.Table(e.ctx, account, t.Name())
			e.ok(err)
			same(e, got, t)
			e.ok(s.Close())
			e.reopen()
		}
		t = e.touch(t)
		s := e.snapshot(t.Name())
		equal(e, "ordered after a change of the definition", s.KeyOrdered(), false)
		e.shows("changed", s, items, nil)
	}
	e.loadedLongKeys()
}

// loadedLongKeys: the same of a table that was loaded.
func (e *env) loadedLongKeys() {
	e.Helper()
	for _, n := range []int{300, 301} {
		l, err := e.e.Load(e.ctx, account, define(fmt.Sprint("loaded", n), "pk:S/sk:N"), e.now)
		e.ok(err)
		var items []ddb.Item
		var rows []storage.LoadRow
		for i := range 6 {
			it := item("pk", long(n, i/2), "sk", i)
			next, err := storage.Derive(l.Table(), it)
			e.ok(err)
			items, rows = append(items, it), append(rows, storage.LoadRow{Key: keyOf(l.Table(), it), Next: next})
		}
		e.ok(l.Add(e.ctx, rows))
		e.ok(l.Finish(e.ctx, nil))
		s := e.snapshot(l.Table().Name())
		equal(e, "a loaded table is ordered", s.KeyOrdered(), n == 300 && !e.h.Snapshots.Unordered)
		e.shows("loaded", s, items, nil)
	}
}

// checkSnapshotLarge: items of the greatest size, some of them many times as
// large when stored, with the engine's own measure of reading ahead.
func checkSnapshotLarge(e *env) {
	e.probe(0)
	t := e.create(define("t", "pk:S/sk:N"))
	var items []ddb.Item
	const large = 8
	for n := range large {
		pad := ddb.String(strings.Repeat("\x01", 390<<10)) // six bytes each in JSON
		if n%4 > 0 {
			pad = ddb.Binary(bytes.Repeat([]byte{byte(n)}, 100<<10))
		}
		items = append(items, item("pk", "p", "sk", n, "pad", pad))
	}
	e.put(t, items...)
	for n := range manyRows {
		it := item("pk", "q", "sk", n)
		items = append(items, it)
	}
	e.put(t, items[large:]...)
	e.shows("large", e.snapshot("t"), items, nil)
}
