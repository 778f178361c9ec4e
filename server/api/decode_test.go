// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// every is a shape with each kind of member.
type every struct {
	S     *string
	Text  string
	I     *int32
	L     *int64
	F     *float64
	B     *bool
	Blob  []byte
	Names []string
	Rows  []row
	Row   *row
	Plain row
	Maps  map[string]row
	Lists map[string][]row
	Words map[string]string
	Vals  map[string]AttributeValue
	Item  AttributeMap
	Items []AttributeMap
	Value AttributeValue
	Host  string `json:"-"`
	base
}

type base struct{ Inherited *string }

type row struct {
	Name *string
	Next *row
}

func ptr[T any](v T) *T { return &v }

func TestDecode(t *testing.T) {
	t.Parallel()
	item := AttributeMap{Item: ddb.Item{"a": ddb.String("x")}, Present: true}
	for _, c := range []struct {
		name, body string
		want       every
	}{
		{"nothing", `{}`, every{}},
		{"white space", " \n{ }\t", every{}},
		{"absent and null are the same", `{"S":null,"I":null,"Names":null,"Row":null,"Words":null,"Item":null,"Value":null}`, every{}},
		{"empty is kept apart", `{"S":"","Names":[],"Row":{},"Words":{},"Vals":{},"Blob":"","Item":{}}`, every{
			S: ptr(""), Names: []string{}, Row: &row{}, Words: map[string]string{}, Vals: map[string]AttributeValue{},
			Blob: []byte{}, Item: AttributeMap{Item: ddb.Item{}, Present: true},
		}},
		{"unknown members of any kind are skipped", `{"x":{"y":[1,{"z":null}]},"s":"lower","S":"s","q":true}`, every{S: ptr("s")}},
		{"scalars", `{"S":"é\n","Text":"t","I":7,"L":-9007199254740993,"F":1.5,"B":false,"Blob":"AQI="}`, every{
			S: ptr("é\n"), Text: "t", I: ptr[int32](7), L: ptr[int64](-9007199254740993), F: ptr(1.5), B: ptr(false), Blob: []byte{1, 2},
		}},
		{"numbers are cut and clamped", `{"I":99999999999,"L":1e99,"F":-1e999}`, every{
			I: ptr[int32](math.MaxInt32), L: ptr[int64](math.MaxInt64), F: ptr(-math.MaxFloat64),
		}},
		{"fractions are cut", `{"I":-1.9,"L":2.9}`, every{I: ptr[int32](-1), L: ptr[int64](2)}},
		{"structures nest", `{"Row":{"Name":"a","Next":{"Name":"b"}},"Plain":{"Name":"p"}}`, every{
			Row: &row{ptr("a"), &row{Name: ptr("b")}}, Plain: row{Name: ptr("p")},
		}},
		{"lists and maps", `{"Names":["a","b","c"],"Rows":[{"Name":"x"},{}],"Maps":{"m":{"Name":"y"},"":{}},"Lists":{"l":[{}],"e":[]}}`, every{
			Names: []string{"a", "b", "c"}, Rows: []row{{Name: ptr("x")}, {}}, Maps: map[string]row{"m": {Name: ptr("y")}, "": {}},
			Lists: map[string][]row{"l": {{}}, "e": {}},
		}},
		{"null elements are zero", `{"Rows":[null],"Maps":{"m":null},"Lists":{"l":null}}`, every{
			Rows: []row{{}}, Maps: map[string]row{"m": {}}, Lists: map[string][]row{"l": nil},
		}},
		{"items", `{"Item":{"a":{"S":"x"}},"Items":[{"a":{"S":"x"}}],"Value":{"N":"1.0"},"Vals":{":v":{"BOOL":true}}}`, every{
			Item: item, Items: []AttributeMap{item}, Value: AttributeValue{Value: ddb.Int(1), Present: true},
			Vals: map[string]AttributeValue{":v": {Value: ddb.Bool(true), Present: true}},
		}},
		{"bad values are left to the engine", `{"Value":{"NULL":false}}`, every{
			Value: AttributeValue{Value: ddb.Null(), Bad: &ddb.ValueError{Problem: ddb.NullIsFalse}, Present: true},
		}},
		{"fields that are no members", `{"Host":"h","host":1}`, every{}},
		{"promoted members", `{"Inherited":"i"}`, every{base: base{ptr("i")}}},
		{"the last of a repeated member counts, whole", `{"S":"a","S":"b","Names":["x","y"],"Names":["z"],"Words":{"a":"1"},"Words":{"b":"2"},
			"Plain":{"Name":"p"},"Plain":{},"I":1,"I":null,"Item":{"a":{"S":"x"}},"Item":null}`, every{
			S: ptr("b"), Names: []string{"z"}, Words: map[string]string{"b": "2"},
		}},
		{"escaped member names", `{"\u0053":"s"}`, every{S: ptr("s")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got every
			if err := Decode([]byte(c.body), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			var again every
			if err := NewDecoder[every]().Decode([]byte(c.body), &again); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("Decoder differs from Decode: %+v, %v", again, err)
			}
		})
	}
}

// TestDecodeRefusals pins the texts of SerializationException: member, what
// it is given, text.
func TestDecodeRefusals(t *testing.T) {
	t.Parallel()
	const object = "Start of structure or map found where not expected"
	const class = "Unrecognized collection type class com.amazonaws.dynamodb.v20120810."
	const mapOf = "Unrecognized collection type java.util.Map<java.lang.String, "
	const model = "com.amazonaws.dynamodb.v20120810."
	for _, c := range []struct{ path, given, want string }{
		{`{"S":?}`, `true`, "TRUE_VALUE cannot be converted to String"},
		{`{"S":?}`, `false`, "FALSE_VALUE cannot be converted to String"},
		{`{"S":?}`, `1`, "NUMBER_VALUE cannot be converted to String"},
		{`{"S":?}`, `1.5`, "DECIMAL_VALUE cannot be converted to String"},
		{`{"S":?}`, `[]`, "Unrecognized collection type class java.lang.String"},
		{`{"S":?}`, `{}`, object},
		{`{"Names":[?]}`, `null`, "NULL_VALUE cannot be converted to String"},
		{`{"Words":{"#a":?}}`, `1`, "NUMBER_VALUE cannot be converted to String"},
		{`{"B":?}`, `"true"`, "Unexpected token received from parser"},
		{`{"B":?}`, `0`, "NUMBER_VALUE cannot be converted to Boolean"},
		{`{"I":?}`, `"1"`, "STRING_VALUE cannot be converted to Integer"},
		{`{"L":?}`, `"1"`, "STRING_VALUE cannot be converted to Long"},
		{`{"L":?}`, `[]`, "Unrecognized collection type class java.lang.Long"},
		{`{"I":?}`, `{}`, object},
		{`{"F":?}`, `true`, "TRUE_VALUE cannot be converted to Double"},
		{`{"Blob":?}`, `"abcde"`, "Base64 encoded length is expected a multiple of 4 bytes but found: 5"},
		{`{"Names":?}`, `"a"`, "Unexpected field type"},
		{`{"Names":?}`, `true`, "Unexpected field type"},
		{`{"Names":?}`, `{}`, object},
		{`{"Lists":{"a":?}}`, `1`, parameterizedMismatch},
		{`{"Lists":{"a":?}}`, `{}`, object},
		{`{"Words":?}`, `"a"`, "Unexpected field type"},
		{`{"Words":?}`, `[]`, mapOf + "java.lang.String>"},
		{`{"Maps":?}`, `[]`, mapOf + model + "row>"},
		{`{"Lists":?}`, `[]`, mapOf + "java.util.List<" + model + "row>>"},
		{`{"Vals":?}`, `[]`, mapOf + model + "AttributeValue>"},
		{`{"Vals":{":v":?}}`, `"x"`, "Unexpected value type in payload"},
		{`{"Row":?}`, `"a"`, "Unexpected field type"},
		{`{"Row":?}`, `[]`, class + "row"},
		{`{"Plain":?}`, `1`, "Unexpected field type"},
		{`{"Rows":[?]}`, `1`, "Unexpected value type in payload"},
		{`{"Rows":[?]}`, `[]`, class + "row"},
		{`{"Maps":{"a":?}}`, `"x"`, "Unexpected value type in payload"},
		{`{"Item":?}`, `1`, "Unexpected field type"},
		{`{"Item":?}`, `[]`, mapOf + model + "AttributeValue>"},
		{`{"Items":[?]}`, `1`, parameterizedMismatch},
		{`{"Value":?}`, `1`, "Unexpected field type"},
		{`{"Value":?}`, `[]`, class + "AttributeValue"},
		{`{"Item":{"a":?}}`, `1`, "Unexpected value type in payload"},
		{`?`, `[]`, class + "every"},
		{`?`, `"x"`, "Unexpected value type in payload"},
		// Not JSON, or no request at all: no text.
		{`?`, ``, ""},
		{`?`, `null`, ""},
		{`?`, `hi`, ""},
		{`?`, `{} {}`, ""},
		{`?`, `{"S":"a",}`, ""},
		{`?`, `{"S":"a"`, ""},
		{`?`, `{"S"`, ""},
		{`?`, `{"x":[}`, ""},
		{`?`, `{"Names":["a"`, ""},
		{`?`, `{"Words":{"a":"b"`, ""},
		{`?`, `{"Row":`, ""},
		{`?`, `{"Names":[,]}`, ""},
	} {
		body := ""
		for _, r := range c.path {
			if r == '?' {
				body += c.given
				continue
			}
			body += string(r)
		}
		var got every
		err := Decode([]byte(body), &got)
		var syntax *ddb.SyntaxError
		if !errors.As(err, &syntax) || syntax.Message != c.want {
			t.Errorf("%s: got %v, want %q", body, err, c.want)
		}
	}
}

// TestDecodeKeepsMemoryBounded sends more elements than any request may have.
func TestDecodeKeepsMemoryBounded(t *testing.T) {
	t.Parallel()
	var members strings.Builder
	for i := range maxKept + 5 {
		members.WriteString(`"` + strconv.Itoa(i) + `":{},`)
	}
	list := strings.Repeat(`{},`, maxKept+5)
	object := members.String()
	body := `{"Rows":[` + list + `{}],"Maps":{` + object + `"last":{}},"Words":{` + strings.ReplaceAll(object, "{}", `""`) + `"last":""}}`
	var got every
	if err := Decode([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{"Rows": len(got.Rows), "Maps": len(got.Maps), "Words": len(got.Words)} {
		if n != maxKept {
			t.Errorf("%s has %d elements", name, n)
		}
	}
	late := strings.Replace(body, `{}],"Maps"`, `1],"Maps"`, 1)
	var syntax *ddb.SyntaxError
	if err := Decode([]byte(late), &every{}); !errors.As(err, &syntax) || syntax.Message != structureMismatch {
		t.Errorf("elements that are not kept are not read: %v", err)
	}
}

func TestDecoderRefusesStrangeTypes(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a channel was accepted")
		}
	}()
	NewDecoder[struct{ C chan int }]()
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"S":"a","Names":["x"],"Rows":[{"Name":"n","Next":{}}],"Maps":{"m":{}},"Lists":{"l":[{}]},"Words":{"a":"b"}}`))
	f.Add([]byte(`{"Item":{"a":{"M":{"b":{"L":[{"N":"1"},{"SS":["x","y"]}]}}}},"Value":{"B":"AQ=="},"Vals":{":v":{"NULL":true}}}`))
	f.Add([]byte(`{"I":1.5,"L":-1e400,"F":1e-400,"B":true,"Blob":"====","x":[[[{}]]],"Items":[{},null]}`))
	d := NewDecoder[every]()
	f.Fuzz(func(t *testing.T, body []byte) {
		var got every
		err := d.Decode(body, &got)
		var syntax *ddb.SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Fatalf("%q: %T %v", body, err, err)
		}
		valid := ddb.NewScanner(body)
		wellFormed := valid.Skip() == nil && valid.End() == nil
		if err == nil && !wellFormed {
			t.Fatalf("%q is not JSON but was accepted", body)
		}
		if wellFormed && err != nil && syntax.Message == "" && string(bytes.TrimSpace(body)) != "null" {
			t.Fatalf("%q is JSON but was refused as none: %v", body, err)
		}
	})
}

func BenchmarkDecodeGetItem(b *testing.B) {
	d := NewDecoder[GetItemInput]()
	body := []byte(`{"TableName":"orders","Key":{"pk":{"S":"customer#12345"},"sk":{"S":"order#2024-01-01"}},"ConsistentRead":true}`)
	b.ReportAllocs()
	for b.Loop() {
		var in GetItemInput
		if err := d.Decode(body, &in); err != nil {
			b.Fatal(err)
		}
	}
}
