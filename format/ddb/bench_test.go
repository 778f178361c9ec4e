// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"fmt"
	"strings"
	"testing"
)

// benchItems are items as applications keep them, about 400 bytes and 4 KB of
// canonical JSON.
func benchItems(b *testing.B) map[string][]byte {
	b.Helper()
	order := func(lines int) string {
		var l strings.Builder
		for i := range lines {
			fmt.Fprintf(&l, `,{"M":{"sku":{"S":"AB-%05d"},"count":{"N":"%d"},"price":{"N":"%d.95"},"gift":{"BOOL":false}}}`, i, i+1, 3*i)
		}
		return `{"pk":{"S":"CUSTOMER#8f14e45f-ceea-467f-a0e6-bd2c1f1f6d3a"},"sk":{"S":"ORDER#2026-01-31T12:34:56.789Z"},` +
			`"total":{"N":"1234.56"},"created":{"N":"1769862896789"},"note":{"S":"Bitte beim Nachbarn abgeben – \"Klingel\" defekt"},` +
			`"tags":{"SS":["express","gift","new"]},"hash":{"B":"3q2+796tvu/erb7v"},"lines":{"L":[` + strings.TrimPrefix(l.String(), ",") + `]}}`
	}
	return map[string][]byte{"400B": []byte(order(1)), "4KB": []byte(order(38))}
}

func BenchmarkParseItem(b *testing.B) {
	for name, in := range benchItems(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseItem(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendItem(b *testing.B) {
	for name, in := range benchItems(b) {
		it, err := ParseItem(in)
		if err != nil {
			b.Fatal(err)
		}
		buf := AppendItem(nil, it)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendItem(buf[:0], it)
			}
		})
	}
}

func BenchmarkItemSize(b *testing.B) {
	for name, in := range benchItems(b) {
		it, err := ParseItem(in)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				it.Size()
			}
		})
	}
}

func BenchmarkSkip(b *testing.B) {
	for name, in := range benchItems(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if err := NewScanner(in).Skip(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNumber(b *testing.B) {
	small, large := Int(41), Value{kind: KindN, s: "1234567890123456789.0123456789"}
	b.Run("Compare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Compare(small, large)
		}
	})
	b.Run("Add", func(b *testing.B) {
		one := NumberFromInt(1)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := small.Number().Add(one); err != nil {
				b.Fatal(err)
			}
		}
	})
}
