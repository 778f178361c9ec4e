// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// deepValue is a value of so many levels.
func deepValue(levels int) string {
	return strings.Repeat(`{"L":[`, levels-1) + `{"S":""}` + strings.Repeat(`]}`, levels-1)
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"Item":{}}`: `{}`,
		`{"Item":{"e_neg":{"N":"-2.5e-2"},"e_pos":{"N":"1.5E3"},"pk":{"S":"exp"}}}`:                                                         `{"e_neg":{"N":"-0.025"},"e_pos":{"N":"1500"},"pk":{"S":"exp"}}`,
		`{"Item":{"n":{"N":"+1"},"z":{"N":"007"},"m":{"N":"-0"},"d":{"N":"1.500"}}}`:                                                        `{"d":{"N":"1.5"},"m":{"N":"0"},"n":{"N":"1"},"z":{"N":"7"}}`,
		`{"Item":{"n":{"N":"` + strings.Repeat("0", 399) + `1"}}}`:                                                                          `{"n":{"N":"1"}}`,
		`{"Item":{"z":{"S":"1"},"a":{"S":"2"}}}`:                                                                                            `{"a":{"S":"2"},"z":{"S":"1"}}`,
		`{"Metadata":{"x":[1,{"y":null}]},"Item":{"a":{"BOOL":true}},"Later":1e5}`:                                                          `{"a":{"BOOL":true}}`,
		` { "Item" : { "a" : { "NULL" : true } } } ` + "\r":                                                                                 `{"a":{"NULL":true}}`,
		`{"It\u0065m":{"a":{"SS":["b","a"]},"b":{"BS":["/w==","AA=="]},"c":{"NS":["10","9"]}}}`:                                             `{"a":{"SS":["a","b"]},"b":{"BS":["AA==","/w=="]},"c":{"NS":["10","9"]}}`,
		`{"Item":{"a":` + deepValue(32) + `}}`:                                                                                              `{"a":` + deepValue(32) + `}`,
		`{"Item":{"n":{"N":"12345678901234567890123456789012345678"},"t":{"N":"1E-130"}}}`:                                                  `{"n":{"N":"12345678901234567890123456789012345678"},"t":{"N":"0.` + strings.Repeat("0", 129) + `1"}}`,
		`{"Item":{"S":{"S":""},"B":{"B":""},"M":{"M":{}},"L":{"L":[]},"k<&>":{"S":"\"\\\n\u0001/é键😀` + "\u2028" + `"},"f":{"BOOL":false}}}`: `{"B":{"B":""},"L":{"L":[]},"M":{"M":{}},"S":{"S":""},"f":{"BOOL":false},"k<&>":{"S":"\"\\\n\u0001/é键😀` + "\u2028" + `"}}`,
	} {
		item, err := ParseLine([]byte(line))
		if got := string(ddb.AppendItem(nil, item)); err != nil || got != want {
			t.Errorf("%.200s:\n got %s, %v\nwant %s", line, got, err, want)
		}
	}
}

func TestRefusedLines(t *testing.T) {
	t.Parallel()
	value := func(v string) string { return `{"Item":{"a":` + v + `}}` }
	for line, want := range map[string]string{
		``:                                         "blank line",
		" \t\r":                                    "blank line",
		`{}`:                                       "the line has no member Item",
		`{"NotItem":{}}`:                           "the line has no member Item",
		`{"item":{}}`:                              "the line has no member Item",
		`{"Item":{},"Item":{}}`:                    "the line has more than one member Item",
		`{"Item":{}} x`:                            "read line: invalid JSON at byte 12",
		`{"Item":{}}{"Item":{}}`:                   "read line: invalid JSON at byte 11",
		`{"Item":{}`:                               "read line: invalid JSON at byte 10",
		`{"Item":{},}`:                             "read line: invalid JSON at byte 11",
		`{"Item"}`:                                 "read line: invalid JSON at byte 7",
		`{"Item":{},"x":}`:                         "read line: invalid JSON at byte 15",
		`[{"Item":{}}]`:                            "read line: invalid JSON at byte 0",
		`"Item"`:                                   "read line: invalid JSON at byte 0",
		"\ufeff{\"Item\":{}}":                      "read line: invalid JSON at byte 0",
		`$ion_1_0 {Item:{}}`:                       "read line: invalid JSON at byte 0",
		`{"Item":null}`:                            "",
		`{"Item":[]}`:                              "",
		`{"Item":"x"}`:                             "",
		value(`{"S":"x","N":"1"}`):                 "read line: value has more than one type",
		value(`{"S":"x","S":"x"}`):                 "read line: value has more than one type",
		value(`{"S":"x","N":null}`):                "read line: value has more than one type",
		value(`{"S":"x","X":1}`):                   "read line: value has more than one type",
		value(`{}`):                                "read line: value has no type",
		value(`{"S":null}`):                        "read line: value has no type",
		value(`{"X":"x"}`):                         "read line: value has no type",
		value(`null`):                              "read line: value has no type",
		value(`"x"`):                               "",
		value(`{"s":"x"}`):                         "read line: value has no type",
		value(`{"S":1}`):                           "",
		value(`{"N":1}`):                           "",
		value(`{"N":"x"}`):                         `read line: "x" is not a number`,
		value(`{"N":""}`):                          `read line: "" is not a number`,
		value(`{"N":" 1"}`):                        `read line: " 1" is not a number`,
		value(`{"N":"NaN"}`):                       `read line: "NaN" is not a number`,
		value(`{"N":"1E126"}`):                     "read line: number is larger than 9.99..E+125",
		value(`{"N":"1E-131"}`):                    "read line: number is smaller than 1E-130",
		value(`{"NULL":false}`):                    "read line: NULL must be true",
		value(`{"NULL":"true"}`):                   "",
		value(`{"BOOL":"true"}`):                   "",
		value(`{"SS":[]}`):                         "read line: SS is empty",
		value(`{"NS":[]}`):                         "read line: NS is empty",
		value(`{"BS":[]}`):                         "read line: BS is empty",
		value(`{"SS":["a","b","a"]}`):              "read line: SS holds a member twice",
		value(`{"NS":["1","1.0"]}`):                "read line: NS holds a member twice",
		value(`{"NS":["10","1e1"]}`):               "read line: NS holds a member twice",
		value(`{"BS":["AA==","AA=="]}`):            "read line: BS holds a member twice",
		value(`{"B":"AA"}`):                        "",
		value(`{"B":"AB=="}`):                      "", // bits that mean nothing
		value(`{"B":"A-=="}`):                      "",
		value(`{"B":"AA==\n"}`):                    "",
		value(`{"BS":["!"]}`):                      "",
		value("{\"S\":\"\xff\"}"):                  "read line: invalid JSON at byte 21",
		value("{\"S\":\"\xed\xa0\x80\"}"):          "read line: invalid JSON at byte 23", // a surrogate
		value(`{"S":"\ud800"}`):                    "",
		value("{\"S\":\"\x01\"}"):                  "",
		"{\"Item\":{\"\xc0\":{\"S\":\"\"}}}":       "",
		`{"Item":{},"` + "\xff" + `":1}`:           "",
		value(deepValue(33)):                       "read line: value is nested more than 32 levels deep",
		value(strings.Repeat(`{"L":[`, 1_000_000)): "",
		`{"Item":{},"x":` + strings.Repeat(`[`, 1_000_000):                          "",
		`{"Item":{"":{"S":""}}}`:                                                    "read line: attribute name is empty",
		value(`{"M":{"":{"S":""}}}`):                                                "read line: attribute name is empty",
		`{"Item":{"` + strings.Repeat("n", 65536) + `":{"S":""}}}`:                  "read line: attribute name is longer than 65,535 bytes",
		`{"Item":{"a":{"S":""},"b":{"S":""},"a":{"S":""}}}`:                         "read line: attribute is given twice",
		`{"Item":{"a":{"S":""},"\u0061":{"N":"1"}}}`:                                "read line: attribute is given twice",
		value(`{"L":[{"M":{"a":{"S":""},"a":{"S":""}}}]}`):                          "read line: attribute is given twice",
		value(`{"N":"12345678901234567890123456789012345678.1"}`):                   "read line: number has more than 38 significant digits",
		value(`{"N":"` + strings.Repeat("0", 400) + `1"}`):                          "read line: number is written in more than 400 characters",
		value(`{"NS":["` + strings.Repeat("0", 400) + `1"]}`):                       "read line: number is written in more than 400 characters",
		`{"Keys":{"pk":{"S":"a"}},"NewImage":{}}`:                                   ErrIncremental.Error(),
		`{"Metadata":{"WriteTimestampMicros":{"N":"1"}},"Keys":{"pk":{"S":"a"}}}`:   ErrIncremental.Error(),
		`{"Item":{},"OldImage":{}}`:                                                 ErrIncremental.Error(),
		`{"NewImage":{},"Item":{}}`:                                                 ErrIncremental.Error(),
		value(`{"S":"` + strings.Repeat("x", MaxItemSize) + `"}`):                   "Item size has exceeded the maximum allowed size",
		value(`{"L":[` + strings.Repeat(`{"S":""},`, 1_000_000) + `{"S":""}]}`):     "Item size has exceeded the maximum allowed size",
		value(`{"L":[` + strings.Repeat(`{"M":{"a":{"S":""}}},`, 500_000) + `{}]}`): "Item size has exceeded the maximum allowed size",
	} {
		item, err := ParseLine([]byte(line))
		if err == nil || item != nil || (want != "" && err.Error() != want) {
			t.Errorf("%.200q:\n got %v\nwant %s", line, err, want)
		}
	}
	for line, want := range map[string]any{
		value(`{"S":1}`):   new(*ddb.SyntaxError),
		value(`{"SS":[]}`): new(*ddb.ValueError),
		value(`{"N":"x"}`): new(*ddb.NumberError),
	} {
		if _, err := ParseLine([]byte(line)); !errors.As(err, want) {
			t.Errorf("%s: %T", line, err)
		}
	}
	if _, err := ParseLine([]byte(value(`{"S":"` + strings.Repeat("x", MaxItemSize-1) + `"}`))); err != nil {
		t.Errorf("the largest item: %v", err)
	}
}

// fill returns a list value of as many copies of elem, which has the size, as an
// item may hold beside it.
func fill(elem ddb.Value) ddb.Value {
	const name = 1 // of the attribute
	return ddb.List(repeat(elem, (MaxItemSize-name-3)/(1+elem.Size()))...)
}

func repeat(v ddb.Value, n int) []ddb.Value {
	l := make([]ddb.Value, n)
	for i := range l {
		l[i] = v
	}
	return l
}

// longSet is the set of numbers with the longest plain forms an item may hold.
func longSet(t *testing.T) ddb.Value {
	var members []string
	room := MaxItemSize - 1
	for _, digits := range []int{2, 4} { // as many as a byte has room for
		first := 1
		for range digits - 1 {
			first *= 10
		}
		for exp := 125; exp >= 40; exp-- {
			for n := first + 1; n < 10*first; n++ {
				if n%10 == 0 {
					continue
				}
				for _, e := range []int{exp, -exp - 5} {
					num := mustNum(t, fmt.Sprintf("%dE%d", n, e-digits+1))
					if room -= num.Size(); room < 0 {
						return ddb.NewSet(ddb.KindNS, members)
					}
					members = append(members, num.String())
				}
			}
		}
	}
	t.Fatal("too few numbers")
	return ddb.Value{}
}

// TestLargestItems writes the items whose lines are the longest for their size
// and reads them back.
func TestLargestItems(t *testing.T) {
	t.Parallel()
	tiny := ddb.Num(mustNum(t, "1E-130"))
	for name, c := range map[string]struct {
		value ddb.Value
		line  int // at least so long
		plain int // and so long in plain digits
	}{
		"empty strings":     {fill(ddb.String("")), 3_680_000, 3_680_000},
		"false":             {fill(ddb.Bool(false)), 3_060_000, 3_060_000},
		"control character": {fill(ddb.String("\x01")), 3_060_000, 3_060_000},
		"null":              {fill(ddb.Null()), 2_860_000, 2_860_000},
		"1E-130":            {fill(tiny), 2_040_000, 19_200_000},
		"numbers":           {longSet(t), 1_000_000, 14_000_000},
		"maps":              {fill(ddb.Map(ddb.Item{})), 819_000, 819_000},
		"one string":        {ddb.String(strings.Repeat("\x01", MaxItemSize-1)), 2_450_000, 2_450_000},
	} {
		item := ddb.Item{"a": c.value}
		if n := item.Size(); n > MaxItemSize || n < MaxItemSize-4 {
			t.Fatalf("%s: an item of %d bytes", name, n)
		}
		stored := ddb.AppendItem(nil, item)
		items := [][]byte{stored}
		if item.HasLongNumber() {
			line, err := BackupItem(nil, stored)
			if err != nil {
				t.Fatal(err)
			}
			items = [][]byte{line, stored} // the reader takes both
		}
		data, sums := writeFile(t, WriterOptions{Workers: 2}, items...)
		if line := lineBytes(len(items[0])); line > MaxPortableLine || line < int64(c.line) {
			t.Errorf("%s: a line of %d bytes", name, line)
		}
		if long := int64(len(items) - 1); len(stored) < c.plain || sums.Long != long {
			t.Errorf("%s: %d bytes in plain digits, %d long lines, want %d", name, len(stored), sums.Long, long)
		}
		n := 0
		for text, err := range NewFileReader(bytes.NewReader(data), expect(data, int64(len(items))), ReadLimits{}).Lines() {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			n++
			if got, err := ParseLine(text); err != nil || !got.Equal(item) {
				t.Errorf("%s: line %d reads back as another item, %v", name, n, err)
			}
		}
		if n != len(items) {
			t.Errorf("%s: %d lines", name, n)
		}
	}
}

// TestLinesStayBounded reads lines that would be far larger in memory.
//
//nolint:paralleltest // counts the memory of the process
func TestLinesStayBounded(t *testing.T) {
	for _, elem := range []string{`{"S":""}`, `{"L":[]}`, `{"M":{}}`, `{"NULL":true}`, `{"M":{"a":{"S":""}}}`, `{"N":"1E-130"}`} {
		line := []byte(`{"Item":{"a":{"L":[` + strings.Repeat(elem+",", DefaultMaxLine/len(elem)) + elem + `]}}}`)
		var err error
		grown := allocated(func() { _, err = ParseLine(line) })
		if !errors.Is(err, ErrItemTooLarge) || grown > 4*maxItemMemory {
			t.Errorf("32 MiB of %s: %v, took %d MiB", elem, err, grown>>20)
		}
	}
}
