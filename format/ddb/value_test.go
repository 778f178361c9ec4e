// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"bytes"
	"slices"
	"testing"
)

func value(t *testing.T, json string) Value {
	t.Helper()
	v, err := ParseValue([]byte(json))
	if err != nil {
		t.Fatalf("ParseValue(%s): %v", json, err)
	}
	return v
}

func TestKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind        Kind
		name        string
		set, scalar bool
		element     Kind
	}{
		{KindS, "S", false, true, 0},
		{KindN, "N", false, true, 0},
		{KindB, "B", false, true, 0},
		{KindBOOL, "BOOL", false, false, 0},
		{KindNULL, "NULL", false, false, 0},
		{KindM, "M", false, false, 0},
		{KindL, "L", false, false, 0},
		{KindSS, "SS", true, false, KindS},
		{KindNS, "NS", true, false, KindN},
		{KindBS, "BS", true, false, KindB},
	} {
		if got, ok := ParseKind(c.name); got != c.kind || !ok || c.kind.String() != c.name {
			t.Errorf("%s: parsed %d %t, printed %s", c.name, got, ok, c.kind)
		}
		if c.kind.IsSet() != c.set || c.kind.IsScalar() != c.scalar || c.kind.Element() != c.element {
			t.Errorf("%s: IsSet %t, IsScalar %t, Element %v", c.name, c.kind.IsSet(), c.kind.IsScalar(), c.kind.Element())
		}
		if c.set && c.element.Set() != c.kind {
			t.Errorf("%s.Set() = %v", c.element, c.element.Set())
		}
	}
	for _, name := range []string{"", "s", "SN", "Null", "S "} {
		if k, ok := ParseKind(name); ok {
			t.Errorf("ParseKind(%q) = %v", name, k)
		}
	}
	if Kind(0).String() != "" || Kind(99).String() != "" {
		t.Error("a kind that is none has a name")
	}
}

func TestValueAccessors(t *testing.T) {
	t.Parallel()
	raw := []byte{0, 0xff}
	b := Binary(raw)
	raw[0] = 1
	if b.Kind() != KindB || b.Str() != "\x00\xff" {
		t.Errorf("Binary keeps its argument: %q", b.Str())
	}
	if v := String("é"); v.Kind() != KindS || v.Str() != "é" {
		t.Errorf("String: %v", v)
	}
	if v := Num(number(t, "1.50e2")); v.Kind() != KindN || v.Str() != "150" || v.Number() != number(t, "150") {
		t.Errorf("Num: %v", v)
	}
	if v := Int(-7); v.Kind() != KindN || v.Str() != "-7" {
		t.Errorf("Int: %v", v)
	}
	if v := Bool(true); v.Kind() != KindBOOL || !v.Bool() || Bool(false).Bool() {
		t.Errorf("Bool: %v", v)
	}
	if v := Null(); v.Kind() != KindNULL {
		t.Errorf("Null: %v", v)
	}
	if v := List(Int(1), Null()); v.Kind() != KindL || len(v.List()) != 2 || v.List()[0].Str() != "1" {
		t.Errorf("List: %v", v)
	}
	if v := Map(Item{"a": Int(1)}); v.Kind() != KindM || v.Map()["a"].Str() != "1" {
		t.Errorf("Map: %v", v)
	}
	var none Value
	if none.Kind() != 0 || none.List() != nil || none.Map() != nil || none.Set() != nil || !none.Number().IsZero() || !String("5").Number().IsZero() {
		t.Error("the zero value holds something")
	}
}

func TestSets(t *testing.T) {
	t.Parallel()
	sent := []string{"b", "", "a", "b", "é", "B"}
	v := StringSet(sent...)
	if want := []string{"", "B", "a", "b", "é"}; v.Kind() != KindSS || !slices.Equal(v.Set(), want) {
		t.Errorf("StringSet: %q", v.Set())
	}
	if sent[0] != "b" {
		t.Error("StringSet sorts its argument")
	}
	if v := NewSet(KindNS, []string{"42", "-1", "0.5", "9", "10"}); !slices.Equal(v.Set(), []string{"-1", "0.5", "10", "42", "9"}) {
		t.Errorf("numbers are not sorted by their text: %q", v.Set())
	}
	if v := NewSet(KindBS, []string{"\xff", "\x00", ""}); v.Kind() != KindBS || !slices.Equal(v.Set(), []string{"", "\x00", "\xff"}) {
		t.Errorf("NewSet(BS): %q", v.Set())
	}
}

// distinct are values no two of which are equal; those in one list are equal.
var distinct = [][]string{
	{`{"S":""}`},
	{`{"S":"1"}`, `{"S":"\u0031"}`},
	{`{"N":"1"}`, `{"N":"1.0"}`, `{"N":"+01e0"}`},
	{`{"N":"0"}`, `{"N":"-0"}`, `{"N":"0e9"}`},
	{`{"N":"9007199254740993"}`},
	{`{"N":"9007199254740992"}`},
	{`{"B":"MQ=="}`},
	{`{"B":""}`},
	{`{"BOOL":true}`},
	{`{"BOOL":false}`},
	{`{"NULL":true}`},
	{`{"L":[]}`},
	{`{"L":[{"N":"1"},{"N":"2"}]}`, `{"L":[{"N":"1.0"},{"N":"2e0"}]}`},
	{`{"L":[{"N":"2"},{"N":"1"}]}`},
	{`{"L":[{"N":"1"}]}`},
	{`{"M":{}}`},
	{`{"M":{"a":{"N":"1"},"b":{"S":""}}}`, `{"M":{"b":{"S":""},"a":{"N":"1.0"}}}`},
	{`{"M":{"a":{"N":"1"}}}`},
	{`{"M":{"a":{"N":"2"}}}`},
	{`{"M":{"b":{"N":"1"}}}`},
	{`{"SS":["1","2"]}`, `{"SS":["2","1"]}`},
	{`{"SS":["1"]}`},
	{`{"SS":[""]}`},
	{`{"NS":["1","2"]}`, `{"NS":["2.0","1e0"]}`},
	{`{"NS":["1","2","9007199254740993"]}`},
	{`{"NS":["1","2","9007199254740992"]}`},
	{`{"BS":["MQ==","Mg=="]}`, `{"BS":["Mg==","MQ=="]}`},
	{`{"BS":[""]}`},
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for i, as := range distinct {
		for j, bs := range distinct {
			for _, a := range as {
				for _, b := range bs {
					v, w := value(t, a), value(t, b)
					if got := v.Equal(w); got != (i == j) {
						t.Errorf("%s equal to %s: %t", a, b, got)
					}
					if same := bytes.Equal(AppendValue(nil, v), AppendValue(nil, w)); same != (i == j) {
						t.Errorf("%s encodes like %s: %t", a, b, same)
					}
				}
			}
		}
	}
	if (Value{}).Equal(String("")) || !(Value{}).Equal(Value{}) {
		t.Error("the zero value equals what it is not")
	}
	if (Item{"a": Int(1)}).Equal(Item{"a": Int(1), "b": Int(1)}) || !(Item{}).Equal(nil) {
		t.Error("items of different length are equal")
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for kind, ascending := range map[Kind][]string{
		KindS: {"", "\x00", "A", "Z", "a", "aa", "b", "é", "\uffff", "😀"},
		KindN: {"-100", "-9", "-0.5", "0", "0.05", "0.5", "9", "10", "100", "1234567890123456789012345678901234567.8"},
		KindB: {"", "\x00", "\x00\x00", "\x7f", "\x80", "\xff", "\xff\x00"},
	} {
		for i, a := range ascending {
			for j, b := range ascending {
				got, ok := Compare(Value{kind: kind, s: a}, Value{kind: kind, s: b})
				if want := min(max(i-j, -1), 1); !ok || got != want {
					t.Errorf("%s: Compare(%q, %q) = %d, %t, want %d", kind, a, b, got, ok, want)
				}
			}
		}
	}
	for _, pair := range [][2]Value{
		{String("1"), Int(1)}, {String("1"), Binary([]byte("1"))}, {Bool(true), Bool(true)}, {Null(), Null()}, {Value{}, Value{}},
		{List(), List()}, {Map(nil), Map(nil)}, {StringSet("a"), StringSet("a")},
	} {
		if got, ok := Compare(pair[0], pair[1]); ok || got != 0 {
			t.Errorf("Compare(%v, %v) = %d, %t", pair[0], pair[1], got, ok)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for json, want := range map[string]int{
		`{"S":""}`:                             0,
		`{"S":"é😀"}`:                           6,
		`{"N":"0"}`:                            1,
		`{"N":"-42"}`:                          3,
		`{"N":"1E125"}`:                        2,
		`{"B":""}`:                             0,
		`{"B":"3q2+7w=="}`:                     4,
		`{"BOOL":false}`:                       1,
		`{"NULL":true}`:                        1,
		`{"L":[]}`:                             3,
		`{"L":[{"S":""},{"S":"abc"}]}`:         8,
		`{"L":[{"L":[{"L":[]}]}]}`:             11,
		`{"M":{}}`:                             3,
		`{"M":{"ab":{"S":"c"},"d":{"N":"1"}}}`: 3 + 1 + 3 + 1 + 3,
		`{"M":{"é":{"M":{}}}}`:                 3 + 1 + 2 + 3,
		`{"SS":["a","bc",""]}`:                 3,
		`{"NS":["-1","0.5","42"]}`:             7,
		`{"BS":["AA==","AAE="]}`:               3,
	} {
		if got := value(t, json).Size(); got != want {
			t.Errorf("size of %s is %d, want %d", json, got, want)
		}
		if got := (Item{"é": value(t, json)}).Size(); got != want+2 {
			t.Errorf("size of an item of %s is %d, want %d", json, got, want+2)
		}
	}
	if got := (Item{}).Size(); got != 0 {
		t.Errorf("size of an empty item is %d", got)
	}
}

func TestHasLongNumber(t *testing.T) {
	t.Parallel()
	for json, want := range map[string]bool{
		`{"N":"1E39"}`:                                 false, // 40 characters
		`{"N":"-1E38"}`:                                false,
		`{"N":"1E40"}`:                                 true,
		`{"N":"-1E39"}`:                                true,
		`{"N":"1E-38"}`:                                false,
		`{"N":"1E-39"}`:                                true,
		`{"S":"` + nines38 + nines38 + `"}`:            false,
		`{"SS":["` + nines38 + nines38 + `"]}`:         false,
		`{"NS":["1","2"]}`:                             false,
		`{"NS":["1","1E50"]}`:                          true,
		`{"L":[{"N":"1"}]}`:                            false,
		`{"L":[{"N":"1"},{"N":"1E-130"}]}`:             true,
		`{"M":{"a":{"M":{"b":{"N":"1"}}}}}`:            false,
		`{"M":{"a":{"M":{"b":{"N":"1E-130"}}}}}`:       true,
		`{"NULL":true}`:                                false,
		`{"M":{"` + nines38 + nines38 + `":{"L":[]}}}`: false,
	} {
		if got := value(t, json).HasLongNumber(); got != want {
			t.Errorf("%s: %t", json, got)
		}
		if got := (Item{"a": Null(), "b": value(t, json)}).HasLongNumber(); got != want {
			t.Errorf("item of %s: %t", json, got)
		}
	}
}

func TestInvalidDigitsPanic(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a value of invalid digits has a number")
		}
	}()
	Value{kind: KindN, s: "x"}.Number()
}

func TestAttributeKind(t *testing.T) {
	t.Parallel()
	d := TableDefinition{AttributeDefinitions: []AttributeDefinition{{"a", "B"}, {"b", "N"}, {"c", "S"}}}
	for name, want := range map[string]Kind{"a": KindB, "b": KindN, "c": KindS, "d": 0, "": 0} {
		if got := d.AttributeKind(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
