// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{}`:                                   `{}`,
		" {\n\t} \r\n":                         `{}`,
		`{"b":{"S":"x"},"a":{"N":"+01.50e1"}}`: `{"a":{"N":"15"},"b":{"S":"x"}}`,
		`{"a" : { "BOOL" : false } , "A":{"NULL":true},"é":{"BOOL":true},"aa":{"S":""}}`: `{"A":{"NULL":true},"a":{"BOOL":false},"aa":{"S":""},"é":{"BOOL":true}}`,
		"{\"😀\":{\"S\":\"1\"},\"\uffff\":{\"S\":\"2\"}}":                                 "{\"\uffff\":{\"S\":\"2\"},\"😀\":{\"S\":\"1\"}}", // UTF-8, not UTF-16 order
		`{"a":{"B":"AA=="},"b":{"B":""}}`:                                                `{"a":{"B":"AA=="},"b":{"B":""}}`,
		`{"a":{"SS":["b","a","é","","B"]}}`:                                              `{"a":{"SS":["","B","a","b","é"]}}`,
		`{"a":{"NS":["42","-1",".50","9","1e1"]}}`:                                       `{"a":{"NS":["-1","0.5","10","42","9"]}}`,
		`{"a":{"BS":["/w==","AA==",""]}}`:                                                `{"a":{"BS":["","AA==","/w=="]}}`,
		`{"a":{"L":[{"M":{"z":{"L":[]},"y":{"M":{}}}},{"S":"b"},{"S":"a"}]}}`:            `{"a":{"L":[{"M":{"y":{"M":{}},"z":{"L":[]}}},{"S":"b"},{"S":"a"}]}}`,
		`{"a":{"N":"1"},"a":{"N":"2"}}`:                                                  `{"a":{"N":"2"}}`,
		`{"a":{"S":"x","S":"y"}}`:                                                        `{"a":{"S":"y"}}`,
		`{"a":{"S":"x","N":null,"B":null,"L":null,"M":null,"SS":null,"BOOL":null}}`:      `{"a":{"S":"x"}}`,
		`{"a":{"X":{"deep":[1,{"":null}]},"S":"x","s":1}}`:                               `{"a":{"S":"x"}}`,
		`{"\u0061\/":{"\u0053":"\u00e9\ud83d\ude00\/"}}`:                                 `{"a/":{"S":"é😀/"}}`,
	} {
		it, err := ParseItem([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got := string(AppendItem([]byte("x"), it))
		if got != "x"+want {
			t.Errorf("%s:\n got %s\nwant x%s", in, got, want)
		}
		if !json.Valid([]byte(want)) {
			t.Errorf("%s is no JSON", want)
		}
		if again, err := ParseItem([]byte(want)); err != nil || !again.Equal(it) {
			t.Errorf("%s: reads back as %v, %v", want, again, err)
		}
	}
}

func TestManyAttributesAreSorted(t *testing.T) {
	t.Parallel()
	it := Item{}
	var names []string
	for c := byte('a'); c <= 'z'; c++ {
		names = append(names, string(c))
		it[string(c)] = Null()
	}
	want := `{"` + strings.Join(names, `":{"NULL":true},"`) + `":{"NULL":true}}`
	if got := string(AppendItem(nil, it)); got != want {
		t.Errorf("got %s", got)
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                         `""`,
		"a/<>&'":                   `"a/<>&'"`,
		`"\`:                       `"\"\\"`,
		"\b\t\n\f\r":               `"\b\t\n\f\r"`,
		"\x00\x01\x0b\x0e\x1a\x1f": `"\u0000\u0001\u000b\u000e\u001a\u001f"`,
		"\x7f\u0080\u2028\u2029é键😀\ufffd\uffff": "\"\x7f\u0080\u2028\u2029é键😀\ufffd\uffff\"",
		"a\xffb\xed\xa0\x80\xc3":                "\"a\ufffdb\ufffd\ufffd\ufffd\ufffd\"",
		"\xff\x00":                              "\"\ufffd\\u0000\"",
		"x\ny":                                  `"x\ny"`,
	} {
		got := string(AppendString(nil, in))
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		back, err := NewScanner([]byte(got)).Text()
		if err != nil || back != strings.ToValidUTF8(in, "\ufffd") && !strings.Contains(in, "\xed") {
			t.Errorf("%q: reads back as %q, %v", in, back, err)
		}
	}
	for r := rune(0); r < 0x3000; r++ {
		var want string
		quoted := AppendString(nil, string(r))
		if err := json.Unmarshal(quoted, &want); err != nil || want != string(r) {
			t.Errorf("%U: %s reads as %q, %v", r, quoted, want, err)
		}
	}
}

// TestGoldenLines is the data file other programs of the format write.
func TestGoldenLines(t *testing.T) {
	t.Parallel()
	lines := `{"Item":{"a":{"N":"1"},"pk":{"S":"x"}}}` + "\n" +
		`{"Item":{"a":{"N":"2"},"b":{"B":"3q2+7w=="},"bool":{"BOOL":false},"l":{"L":[{"N":"-0.025"},{"NULL":true}]},` +
		`"m":{"M":{"k<&>":{"S":"\"\\\n\u0001/é键😀` + "\u2028" + `"}}},"ns":{"NS":["-1","0.5","42"]},"pk":{"S":"y"},"ss":{"SS":["A","a","é"]}}}` + "\n"
	sum := sha256.Sum256([]byte(lines))
	if got := hex.EncodeToString(sum[:]); got != "dc2656074c29b14af5aef33db2327a98add9171186004a442a6ab79a83d79716" {
		t.Fatalf("the test's lines are not the golden ones: %s", got)
	}
	size := 0
	for line := range strings.Lines(lines) {
		in := strings.TrimSuffix(strings.TrimPrefix(line, `{"Item":`), "}\n")
		it, err := ParseItem([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range [][]byte{AppendItem(nil, it), AppendBackupItem(nil, it)} {
			if string(got) != in {
				t.Errorf("got %s\nwant %s", got, in)
			}
		}
		size += it.Size()
	}
	if size != 73 {
		t.Errorf("the items have %d bytes, want 73", size)
	}
}

func TestAppendBackupItem(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":{"N":"1E39"}}`:  `{"a":{"N":"1` + strings.Repeat("0", 39) + `"}}`,
		`{"a":{"N":"-1E39"}}`: `{"a":{"N":"-1E39"}}`,
		`{"a":{"L":[{"N":"1E-130"},{"M":{"x":{"N":"9.9E125"}}}]},"b":{"NS":["1E-100","2"]},"c":{"S":"1` + strings.Repeat("0", 50) + `"}}`://
		`{"a":{"L":[{"N":"1E-130"},{"M":{"x":{"N":"9.9E125"}}}]},"b":{"NS":["1E-100","2"]},"c":{"S":"1` + strings.Repeat("0", 50) + `"}}`,
	} {
		it, err := ParseItem([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		got := AppendBackupItem(nil, it)
		if string(got) != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if back, err := ParseItem(got); err != nil || !back.Equal(it) {
			t.Errorf("%s reads back as %v, %v", got, back, err)
		}
		if differs := string(got) != string(AppendItem(nil, it)); differs != it.HasLongNumber() {
			t.Errorf("%s: differs from the plain form: %t, HasLongNumber %t", got, differs, it.HasLongNumber())
		}
	}
}

func TestSerializationTexts(t *testing.T) {
	t.Parallel()
	const (
		cast = "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class java.lang.Class " +
			"(sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are in module java.base of loader 'bootstrap')"
		aMap   = "Unrecognized collection type java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>"
		list   = "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.AttributeValue"
		value  = "Unexpected value type in payload"
		field  = "Unexpected field type"
		object = "Start of structure or map found where not expected"
		blob   = "only base-64-encoded strings are convertible to bytes"
	)
	for in, want := range map[string]string{
		`true`: cast, `5`: cast, `"x"`: cast, `null`: cast, `[]`: aMap,
		`{"a":true}`: value, `{"a":5}`: value, `{"a":"x"}`: value, `{"a":[]}`: list,
		`{"a":{"S":true}}`:             "TRUE_VALUE cannot be converted to String",
		`{"a":{"S":false}}`:            "FALSE_VALUE cannot be converted to String",
		`{"a":{"S":12}}`:               "NUMBER_VALUE cannot be converted to String",
		`{"a":{"S":1.5}}`:              "DECIMAL_VALUE cannot be converted to String",
		`{"a":{"S":[]}}`:               "Unrecognized collection type class java.lang.String",
		`{"a":{"S":{}}}`:               object,
		`{"a":{"N":12}}`:               "NUMBER_VALUE cannot be converted to String",
		`{"a":{"N":[]}}`:               "Unrecognized collection type class java.lang.String",
		`{"a":{"B":12}}`:               blob,
		`{"a":{"B":"AAAAA"}}`:          "Base64 encoded length is expected a multiple of 4 bytes but found: 5",
		`{"a":{"B":"AAB="}}`:           "Invalid last non-pad Base64 character dectected",
		`{"a":{"BOOL":"true"}}`:        "Unexpected token received from parser",
		`{"a":{"BOOL":1}}`:             "NUMBER_VALUE cannot be converted to Boolean",
		`{"a":{"BOOL":[]}}`:            "Unrecognized collection type class java.lang.Boolean",
		`{"a":{"NULL":"no"}}`:          "Unexpected token received from parser",
		`{"a":{"NULL":{}}}`:            object,
		`{"a":{"M":5}}`:                field,
		`{"a":{"M":"x"}}`:              field,
		`{"a":{"M":[]}}`:               aMap,
		`{"a":{"M":{"b":5}}}`:          value,
		`{"a":{"M":{"b":{"M":true}}}}`: field,
		`{"a":{"L":5}}`:                field,
		`{"a":{"L":"x"}}`:              field,
		`{"a":{"L":{}}}`:               object,
		`{"a":{"L":[5]}}`:              value,
		`{"a":{"L":[[]]}}`:             list,
		`{"a":{"SS":"x"}}`:             field,
		`{"a":{"SS":false}}`:           field,
		`{"a":{"SS":{}}}`:              object,
		`{"a":{"SS":[5]}}`:             "NUMBER_VALUE cannot be converted to String",
		`{"a":{"SS":["x",null]}}`:      "NULL_VALUE cannot be converted to String",
		`{"a":{"NS":[5.5]}}`:           "DECIMAL_VALUE cannot be converted to String",
		`{"a":{"NS":[{}]}}`:            object,
		`{"a":{"BS":[5]}}`:             blob,
		`{"a":{"BS":["AAA"]}}`:         "Base64 encoded length is expected a multiple of 4 bytes but found: 3",
		`{"a":{"N":"x"},"b":{"S":5}}`:  "NUMBER_VALUE cannot be converted to String", // types come before values
		`{"":{"NULL":false},"b":true}`: value,
		`{"a":{"S":"x","N":5}}`:        "NUMBER_VALUE cannot be converted to String",
	} {
		it, err := ParseItem([]byte(in))
		if msg := syntaxMessage(t, in, err); msg != want || it != nil {
			t.Errorf("%s: %v, %q, want %q", in, it, msg, want)
		}
	}
}

func TestItemsThatAreNoJSON(t *testing.T) {
	t.Parallel()
	whole := `{"a":{"S":"x"},"b":{"L":[{"N":"1"},{"B":"AA=="},{"BOOL":true}]},"c":{"SS":["x","y"]},"d":{"M":{"e":{"NULL":true}}},"f":{"NS":["1"]},"g":{"BS":["AA=="]},"h":{"X":[null],"S":"h"}}`
	if _, err := ParseItem([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for i := range len(whole) {
		cut := whole[:i]
		_, err := ParseItem([]byte(cut))
		syntaxMessage(t, cut, err)
		cut = `{"M":` + cut
		_, err = ParseValue([]byte(cut))
		syntaxMessage(t, cut, err)
		broken := whole[:i] + "\x01" + whole[i+1:]
		_, err = ParseItem([]byte(broken))
		syntaxMessage(t, broken, err)
	}
	deep := strings.Repeat(`{"L":[`, MaxNesting+1) // the rest of a value too deep is still JSON
	for _, in := range append(slices.Clone(malformed), `{}}`, `{} {}`, `{"a":{"S":"x"}},`, `{"a":{"S":"x"},}`, `{"a":{"S":"x",}}`, `{"a":{"L":[{"S":"x"},]}}`,
		`{"a":{"SS":["x",]}}`, `{"a":{"X":tru}}`, `{"a":{"X":`, `{"a":{"S":x}}`, `{"a":{"L":x}}`, `{"a":{"L":`, `{"a":{"SS":`, `{"a":{"L":]}}`, `{"a":{"SS":[x]}}`, `{"a":{"N":x}}`, `{"a":`+deep) {
		_, err := ParseItem([]byte(in))
		if msg := syntaxMessage(t, in, err); msg != "" && !strings.HasPrefix(msg, "class sun") && !strings.HasPrefix(msg, "Un") {
			t.Errorf("%.80s: message %q", in, msg)
		}
	}
	for _, in := range []string{``, `{"S":"x"} x`, `{"S":"x"},`, `x`, `{"N":"x"} x`} {
		v, err := ParseValue([]byte(in))
		if syntaxMessage(t, in, err); v.Kind() != 0 {
			t.Errorf("%s: a value beside the error: %v", in, v)
		}
	}
}

// nested wraps json in levels documents, maps and lists by turns.
func nested(levels int, json string) string {
	for i := range levels {
		if i%2 == 0 {
			json = `{"M":{"k":` + json + `}}`
		} else {
			json = `{"L":[` + json + `]}`
		}
	}
	return json
}

func TestValueErrors(t *testing.T) {
	t.Parallel()
	leaf := `{"S":"x"}`
	tooDeep := nested(32, leaf)
	for _, c := range []struct {
		in   string // an attribute map
		want ValueError
	}{
		{`{"a":{}}`, ValueError{Problem: EmptyValue}},
		{`{"a":null}`, ValueError{Problem: EmptyValue}},
		{`{"a":{"X":1}}`, ValueError{Problem: EmptyValue}},
		{`{"a":{"S":null}}`, ValueError{Problem: EmptyValue}},
		{`{"a":{"L":[null]}}`, ValueError{Problem: EmptyValue}},
		{`{"a":{"S":"x","N":"1"}}`, ValueError{Problem: SeveralTypes}},
		{`{"a":{"L":[],"SS":["x"]}}`, ValueError{Problem: SeveralTypes}},
		{`{"a":{"N":"abc"}}`, ValueError{Problem: BadNumber, Number: &NumberError{NotNumber, "abc"}}},
		{`{"a":{"N":""}}`, ValueError{Problem: BadNumber, Number: &NumberError{NotNumber, ""}}},
		{`{"a":{"N":"1e126"}}`, ValueError{Problem: BadNumber, Number: &NumberError{NumberOverflow, "1e126"}}},
		{`{"a":{"N":"1e-131"}}`, ValueError{Problem: BadNumber, Number: &NumberError{NumberUnderflow, "1e-131"}}},
		{`{"a":{"NS":["1","` + nines38 + `9","x"]}}`, ValueError{Problem: BadNumber, Number: &NumberError{TooManyDigits, nines38 + "9"}}},
		{`{"a":{"SS":[]}}`, ValueError{Problem: EmptySet, Kind: KindSS}},
		{`{"a":{"NS":[]}}`, ValueError{Problem: EmptySet, Kind: KindNS}},
		{`{"a":{"L":[{"M":{"b":{"BS":[]}}}]}}`, ValueError{Problem: EmptySet, Kind: KindBS}},
		{`{"a":{"SS":["b","a","b"]}}`, ValueError{Problem: DuplicateInSet, Kind: KindSS, Members: []string{"b", "a", "b"}}},
		{`{"a":{"NS":["1","1.0"]}}`, ValueError{Problem: DuplicateInSet, Kind: KindNS, Members: []string{"1", "1"}}},
		{`{"a":{"BS":["/w==","AA==","AA=="]}}`, ValueError{Problem: DuplicateInSet, Kind: KindBS, Members: []string{"/w==", "AA==", "AA=="}}},
		{`{"a":{"NULL":false}}`, ValueError{Problem: NullIsFalse}},
		{`{"a":` + tooDeep + `}`, ValueError{Problem: TooDeep}},
		{`{"a":` + nested(33, leaf) + `}`, ValueError{Problem: TooDeep}},
		{`{"a":` + nested(32, `null`) + `}`, ValueError{Problem: EmptyValue}},
		{`{"":{"S":"x"}}`, ValueError{Problem: EmptyName}},
		{`{"` + strings.Repeat("n", 65536) + `":{"S":"x"}}`, ValueError{Problem: NameTooLong}},
		{`{"a":{"M":{"` + strings.Repeat("é", 32768) + `":{"S":"x"}}}}`, ValueError{Problem: NameTooLong}},
		{`{"a":{"M":{"":{"S":"x"}}}}`, ValueError{Problem: EmptyName}},
		// Which comes first.
		{`{"a":{"NULL":false},"b":{"N":"x"}}`, ValueError{Problem: NullIsFalse}},
		{`{"a":{"NULL":false},"b":` + tooDeep + `,"":{}}`, ValueError{Problem: NullIsFalse}},
		{`{"a":` + tooDeep + `,"b":{"NULL":false}}`, ValueError{Problem: TooDeep}},
		{`{"a":` + tooDeep + `,"":{"S":"x"}}`, ValueError{Problem: EmptyName}},
		{`{"":{"S":"x"},"a":` + tooDeep + `}`, ValueError{Problem: EmptyName}},
		{`{"":` + tooDeep + `}`, ValueError{Problem: EmptyName}},
		{`{"a":` + tooDeep + `,"b":{"M":{"":{"S":"x"}}}}`, ValueError{Problem: TooDeep}},
		{`{"b":{"M":{"":{"S":"x"}}},"a":` + tooDeep + `}`, ValueError{Problem: TooDeep}},
		{`{"b":{"M":{"":` + nested(31, leaf) + `}}}`, ValueError{Problem: TooDeep}},
		{`{"b":{"M":{"":{"S":"x"}}},"":{"S":"x"},"a":` + tooDeep + `}`, ValueError{Problem: EmptyName}},
	} {
		it, err := ParseItem([]byte(c.in))
		var got *ValueError
		if !errors.As(err, &got) || it != nil {
			t.Errorf("%s: %v, %v", c.in, it, err)
			continue
		}
		if got.Problem != c.want.Problem || got.Kind != c.want.Kind || !slices.Equal(got.Members, c.want.Members) {
			t.Errorf("%s: %+v, want %+v", c.in, *got, c.want)
		}
		var n *NumberError
		if errors.As(err, &n) != (c.want.Number != nil) || n != nil && *n != *c.want.Number {
			t.Errorf("%s: %+v, want %+v", c.in, n, c.want.Number)
		}
	}
}

func TestNestingLimit(t *testing.T) {
	t.Parallel()
	for _, leaf := range []string{`{"S":"x"}`, `{"L":[]}`, `{"M":{}}`} {
		in := nested(MaxNesting-1, leaf)
		v, err := ParseValue([]byte(in))
		if err != nil {
			t.Errorf("%s at level 32: %v", leaf, err)
			continue
		}
		if got := string(AppendValue(nil, v)); got != in {
			t.Errorf("%s at level 32 comes back as %s", leaf, got)
		}
		var bad *ValueError
		if _, err := ParseValue([]byte(nested(MaxNesting, leaf))); !errors.As(err, &bad) || bad.Problem != TooDeep {
			t.Errorf("%s at level 33: %v", leaf, err)
		}
	}
}

func TestValueErrorTexts(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*ValueError{
		"value has no type":                          {Problem: EmptyValue},
		"value has more than one type":               {Problem: SeveralTypes},
		`"abc" is not a number`:                      {Problem: BadNumber, Number: &NumberError{NotNumber, "abc"}},
		"NS is empty":                                {Problem: EmptySet, Kind: KindNS},
		"BS holds a member twice":                    {Problem: DuplicateInSet, Kind: KindBS},
		"NULL must be true":                          {Problem: NullIsFalse},
		"value is nested more than 32 levels deep":   {Problem: TooDeep},
		"attribute name is empty":                    {Problem: EmptyName},
		"attribute name is longer than 65,535 bytes": {Problem: NameTooLong},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if (e.Unwrap() == nil) != (e.Number == nil) {
			t.Errorf("%q unwraps to %v", want, e.Unwrap())
		}
	}
}

// TestScanContinues reads a document in which a bad item is followed by more.
func TestScanContinues(t *testing.T) {
	t.Parallel()
	s := NewScanner([]byte(`{"a":` + nested(40, `{"N":"1"}`) + `} {"L":[{"N":"x"},{"S":"y"}]} {"S":"z"}`))
	if _, bad, err := ScanItem(s); err != nil || bad == nil || bad.Problem != TooDeep {
		t.Fatalf("%v, %v", bad, err)
	}
	_, bad, err := ScanValue(s)
	if err != nil || bad == nil || bad.Problem != BadNumber {
		t.Fatalf("%v, %v", bad, err)
	}
	v, bad, err := ScanValue(s)
	if err != nil || bad != nil || v.Str() != "z" || s.End() != nil {
		t.Fatalf("%v, %v, %v, %v", v, bad, err, s.End())
	}
}
