// SPDX-License-Identifier: Apache-2.0

package ddb

import (
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
		t.Logf("%-20s %4.1f bytes a byte", name, float64(grown)/float64(len(in)))
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
