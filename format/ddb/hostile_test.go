// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// maxGrowth bounds what reading may allocate, as a multiple of the input: the
// worst legal input is many maps of one attribute, 20 bytes of JSON each.
const maxGrowth = 64

// TestHostileInputs is not parallel: it measures the process's allocations. Were
// reading quadratic in any of them, it would not end.
func TestHostileInputs(t *testing.T) {
	const size = 1 << 18
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, in := range map[string]string{
		"open brackets":       fill(`[`),
		"open braces":         fill(`{"a":`),
		"open lists":          `{"a":` + fill(`{"L":[`),
		"open maps":           `{"a":` + fill(`{"M":{"a":`),
		"deep lists":          `{"a":` + fill(`{"L":[`) + `{"S":""}` + fill(`]}`) + `}`,
		"deep unknown":        `{"a":{"X":` + fill(`[`) + fill(`]`) + `}}`,
		"digits":              `{"a":{"N":"` + strings.Repeat("9", 1<<20) + `"}}`,
		"zeros":               `{"a":{"N":"` + fill("0") + `"}}`,
		"fraction":            `{"a":{"N":"0.` + fill("0") + `1e262145"}}`,
		"exponent":            `{"a":{"N":"1e` + fill("9") + `"}}`,
		"raw digits":          `{"a":{"S":` + fill("9") + `}}`,
		"raw skipped digits":  `{"a":{"X":` + fill("9") + `}}`,
		"long numbers":        `{"a":{"L":[` + fill(`{"N":"1e125"},`) + `{"N":"1"}]}}`,
		"long numbers in set": `{"a":{"NS":[` + fill(`"1e-130",`) + `"1"]}}`,
		"empty lists":         `{"a":{"L":[` + fill(`{"L":[]},`) + `{"L":[]}]}}`,
		"empty maps":          `{"a":{"L":[` + fill(`{"M":{}},`) + `{"M":{}}]}}`,
		"small maps":          `{"a":{"L":[` + fill(`{"M":{"a":{"M":{}}}},`) + `{"M":{}}]}}`,
		"empty values":        `{"a":{"L":[` + fill(`{},`) + `{}]}}`,
		"nulls":               `{"a":{"L":[` + fill(`null,`) + `null]}}`,
		"members given twice": `{` + fill(`"a":{"S":""},`) + `"a":{"S":""}}`,
		"types given twice":   `{"a":{` + fill(`"SS":["a"],`) + `"S":""}}`,
		"equal members":       `{"a":{"SS":[` + fill(`"",`) + `""]}}`,
		"equal binaries":      `{"a":{"BS":[` + fill(`"AA==",`) + `"AA=="]}}`,
		"empty names":         `{` + fill(`"":{"S":""},`) + `"":{"S":""}}`,
		"escapes":             `{"a":{"S":"` + fill(`\u00e9`) + `"}}`,
		"late escape":         `{"a":{"S":"` + fill(`a`) + `\n"}}`,
		"bad escape":          `{"a":{"S":"` + fill(`\n`) + `\x"}}`,
		"base64":              `{"a":{"B":"` + fill(`AAAA`) + `"}}`,
		"base64 line ends":    `{"a":{"B":"` + fill(`\r\n`) + `"}}`,
		"commas":              `{"a":{"L":[` + fill(`,`),
		"spaces":              fill(" "),
		"quotes":              fill(`"`),
		"backslashes":         `{"a":{"S":"` + fill(`\`),
	} {
		body := []byte(in)
		grown := allocated(func() { it, _ := ParseItem(body); runtime.KeepAlive(it) })
		if limit := uint64(maxGrowth * len(in)); grown > limit {
			t.Errorf("%s: %d bytes of input allocate %d, %d times as much", name, len(in), grown, grown/uint64(len(in)))
		}
		held, taken := kept(body)
		if held > taken+1<<16 {
			t.Errorf("%s: %d bytes are kept, %d were counted", name, held, taken)
		}
		t.Logf("%-20s %4.1f bytes a byte, %4.1f of them kept, %4.1f counted", name,
			float64(grown)/float64(len(in)), float64(held)/float64(len(in)), float64(taken)/float64(len(in)))
	}
}

// kept returns how much memory what is read of body keeps, and how much was
// counted for it.
func kept(body []byte) (held, taken int) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := NewScanner(body)
	it, _, _ := ScanItem(s)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(it)
	return int(after.HeapAlloc) - int(before.HeapAlloc), s.taken
}

func TestScannerBound(t *testing.T) {
	t.Parallel()
	in := []byte(`{"a":{"L":[{"S":"x"},{"N":"1e9"},{"B":"AAAA"},{"SS":["s"]},{"M":{"a":{"M":{"b":{"NULL":true}}}}}]}}`)
	full := NewScanner(in)
	if _, bad, err := ScanItem(full); bad != nil || err != nil {
		t.Fatal(bad, err)
	}
	for room := range full.taken {
		s, asked := NewScanner(in), 0
		s.Bound(room, func(n int) (int, error) {
			asked += n
			return n, nil
		})
		if it, bad, err := ScanItem(s); len(it) != 1 || bad != nil || err != nil || room+asked != full.taken {
			t.Fatalf("with room for %d: %v, %v, %v, asked for %d", room, it, bad, err, asked)
		}
		none := errors.New("none")
		s = NewScanner(in)
		s.Bound(room, func(int) (int, error) { return 0, none })
		if _, _, err := ScanItem(s); !errors.Is(err, none) {
			t.Fatalf("with room for %d and no more: %v", room, err)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestSkipDoesNotAllocateForPlainInput(t *testing.T) {
	in := []byte(strings.Repeat(`[{"a":"b","c":[1,2.5,true,null]},`, 8) + "0" + strings.Repeat("]", 8))
	if n := testing.AllocsPerRun(100, func() {
		if err := NewScanner(in).Skip(); err != nil {
			t.Fatal(err)
		}
	}); n > 3 { // the stack of brackets, as it grows
		t.Errorf("%v allocations", n)
	}
}
