// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

func values(t testing.TB, json ...string) []ddb.Value {
	t.Helper()
	var vs []ddb.Value
	for _, j := range json {
		vs = append(vs, value(t, j))
	}
	return vs
}

// oneOfEach is a value of every type, by type.
func oneOfEach() map[string]string {
	return map[string]string{"S": `{"S":"a"}`, "N": `{"N":"1"}`, "B": `{"B":"YQ=="}`, "BOOL": `{"BOOL":true}`, "NULL": `{"NULL":true}`,
		"SS": `{"SS":["a"]}`, "NS": `{"NS":["1"]}`, "BS": `{"BS":["YQ=="]}`, "M": `{"M":{}}`, "L": `{"L":[]}`}
}

func TestOpNames(t *testing.T) {
	t.Parallel()
	for o := EQ; o <= NotNull; o++ {
		if got, ok := ParseOp(o.String()); !ok || got != o {
			t.Errorf("%s: %v %v", o, got, ok)
		}
	}
	for _, s := range []string{"", "eq", "XOR"} {
		if _, ok := ParseOp(s); ok {
			t.Errorf("%q is an operator", s)
		}
	}
	for a := Put; a <= Delete; a++ {
		if got, ok := ParseAction(a.String()); !ok || got != a {
			t.Errorf("%s: %v %v", a, got, ok)
		}
	}
	if _, ok := ParseAction("put"); ok {
		t.Error("put is an action")
	}
}

func TestTermTypes(t *testing.T) {
	t.Parallel()
	scalars := []string{"S", "N", "B"}
	allowed := map[Op][]string{
		LT: scalars, LE: scalars, GT: scalars, GE: scalars, In: scalars, Between: scalars,
		BeginsWith: {"S", "B"}, Contains: {"S", "N", "B", "BOOL", "NULL"}, NotContains: {"S", "N", "B", "BOOL", "NULL"},
		EQ: {"S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "M", "L"}, NE: {"S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "M", "L"},
	}
	for o, kinds := range allowed {
		for kind, json := range oneOfEach() {
			term := Term{"a", o, values(t, json)}
			if o == Between {
				term.Values = values(t, json, json)
			}
			want := ""
			if !slices.Contains(kinds, kind) {
				want = "One or more parameter values were invalid: ComparisonOperator " + o.String() + " is not valid for " + kind + " AttributeValue type"
			}
			wantError(t, CheckTerms([]Term{term}), Invalid, want)
		}
	}
}

func TestTermArguments(t *testing.T) {
	t.Parallel()
	a, b, one := `{"S":"a"}`, `{"S":"b"}`, `{"N":"1"}`
	const count = "One or more parameter values were invalid: Invalid number of argument(s) for the "
	cases := []struct {
		op   Op
		args []string
		want string
	}{
		{EQ, nil, count + "EQ ComparisonOperator"}, {EQ, []string{a, b}, count + "EQ ComparisonOperator"},
		{Null, nil, ""}, {Null, []string{a}, count + "NULL ComparisonOperator"},
		{NotNull, []string{a}, count + "NOT_NULL ComparisonOperator"},
		{Between, []string{a}, count + "BETWEEN ComparisonOperator"}, {Between, []string{a, b}, ""},
		{In, nil, count + "IN ComparisonOperator"}, {In, []string{a, b, a}, ""},
		{In, []string{b, one}, "One or more parameter values were invalid: AttributeValues inside AttributeValueList must be of same type"},
		{Between, []string{b, a}, "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"},
		{BeginsWith, []string{a, a}, count + "BEGINS_WITH ComparisonOperator"},
	}
	for _, tc := range cases {
		wantError(t, CheckTerms([]Term{{"ok", NotNull, nil}, {"a", tc.op, values(t, tc.args...)}}), Invalid, tc.want)
	}
}

func TestParseConditionalOperator(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sent string
		n    int
		or   bool
		want string
	}{
		{"AND", 2, false, ""}, {"OR", 3, true, ""},
		{"AND", 1, false, "ConditionalOperator can only be used when Filter or Expected has two or more elements"},
		{"XOR", 1, false, "ConditionalOperator can only be used when Filter or Expected has two or more elements"},
		{"OR", 0, false, "ConditionalOperator cannot be used without Filter or Expected"},
		{"XOR", 2, false, "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"},
	} {
		or, err := ParseConditionalOperator(tc.sent, tc.n)
		wantError(t, err, Invalid, tc.want)
		if or != tc.or {
			t.Errorf("%s: or is %v", tc.sent, or)
		}
	}
}

func TestLegacyConditions(t *testing.T) {
	t.Parallel()
	it := item(t, `{"s":{"S":"hello"},"n":{"N":"5"},"ss":{"SS":["a","b"]},"a.b":{"S":"dotted"},"status":{"S":"on"},"z":{"NULL":true}}`)
	cases := []struct {
		attr string
		op   Op
		args []string
		want bool
	}{
		{"s", EQ, []string{`{"S":"hello"}`}, true}, {"s", NE, []string{`{"S":"hello"}`}, false}, {"gone", NE, []string{`{"S":"x"}`}, true},
		{"gone", EQ, []string{`{"S":"x"}`}, false}, {"ss", EQ, []string{`{"SS":["b","a"]}`}, true},
		{"n", LT, []string{`{"N":"10"}`}, true}, {"n", LE, []string{`{"N":"5"}`}, true}, {"n", GT, []string{`{"N":"5"}`}, false}, {"n", GE, []string{`{"N":"5.0"}`}, true},
		{"n", Between, []string{`{"N":"5"}`, `{"N":"6"}`}, true}, {"n", In, []string{`{"N":"4"}`, `{"N":"5"}`}, true}, {"n", In, []string{`{"N":"4"}`}, false},
		{"s", BeginsWith, []string{`{"S":"he"}`}, true}, {"s", Contains, []string{`{"S":"ll"}`}, true}, {"s", NotContains, []string{`{"S":"ll"}`}, false},
		{"ss", Contains, []string{`{"S":"a"}`}, true}, {"ss", NotContains, []string{`{"S":"c"}`}, true},
		{"gone", Null, nil, true}, {"s", Null, nil, false}, {"s", NotNull, nil, true}, {"z", NotNull, nil, true}, {"gone", NotNull, nil, false},
		{"a.b", EQ, []string{`{"S":"dotted"}`}, true}, {"status", EQ, []string{`{"S":"on"}`}, true},
	}
	for _, tc := range cases {
		terms := []Term{{tc.attr, tc.op, values(t, tc.args...)}}
		wantError(t, CheckTerms(terms), Invalid, "")
		for _, or := range []bool{false, true} {
			if got := NewCondition(terms, or).Eval(it); got != tc.want {
				t.Errorf("%s: %v, want %v", showTerms(terms), got, tc.want)
			}
		}
	}
	yes, no := Term{"s", NotNull, nil}, Term{"s", Null, nil}
	for _, tc := range []struct {
		terms []Term
		or    bool
		want  bool
	}{
		{[]Term{yes, no}, false, false}, {[]Term{yes, no}, true, true}, {[]Term{no, no}, true, false}, {[]Term{yes, yes}, false, true}, {nil, false, true}, {nil, true, true},
	} {
		if got := NewCondition(tc.terms, tc.or).Eval(it); got != tc.want {
			t.Errorf("%s or=%v: %v", showTerms(tc.terms), tc.or, got)
		}
	}
}

func TestExpected(t *testing.T) {
	t.Parallel()
	const prefix = "One or more parameter values were invalid: "
	yes, no := true, false
	v := ddb.String("x")
	vs := []ddb.Value{v}
	cases := []struct {
		in   Expected
		want string
		err  string
	}{
		{in: Expected{Attr: "a", Value: v}, want: "a EQ x"},
		{in: Expected{Attr: "a", Exists: &yes, Value: v}, want: "a EQ x"},
		{in: Expected{Attr: "a", Exists: &no}, want: "a NULL"},
		{in: Expected{Attr: "a", Op: GT, List: vs}, want: "a GT x"},
		{in: Expected{Attr: "a", Op: LE, Value: v}, want: "a LE x"},
		{in: Expected{Attr: "a", Op: NotNull}, want: "a NOT_NULL"},
		{in: Expected{Attr: "a", Op: Null, List: []ddb.Value{}}, want: "a NULL"},
		{in: Expected{Attr: "a", Exists: &yes}, err: prefix + "Value must be provided when Exists is true for Attribute: a"},
		{in: Expected{Attr: "a"}, err: prefix + "Value must be provided when Exists is null for Attribute: a"},
		{in: Expected{Attr: "a", Exists: &no, Value: v}, err: prefix + "Value cannot be used when Exists is false for Attribute: a"},
		{in: Expected{Attr: "a", Value: v, List: vs}, err: prefix + "Value and AttributeValueList cannot be used together for Attribute: a"},
		{in: Expected{Attr: "a", Op: EQ}, err: prefix + "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a"},
		{in: Expected{Attr: "a", List: vs}, err: prefix + "AttributeValueList can only be used with a ComparisonOperator for Attribute: a"},
		{in: Expected{Attr: "a", Op: EQ, Exists: &yes, Value: v}, err: prefix + "Exists and ComparisonOperator cannot be used together for Attribute: a"},
		{in: Expected{Attr: "a", Op: EQ, List: []ddb.Value{}}, err: prefix + "Invalid number of argument(s) for the EQ ComparisonOperator"},
		{in: Expected{Attr: "a", Op: Between, Value: v}, err: prefix + "Invalid number of argument(s) for the BETWEEN ComparisonOperator"},
		{in: Expected{Attr: "a", Op: LT, Value: ddb.Bool(true)}, err: prefix + "ComparisonOperator LT is not valid for BOOL AttributeValue type"},
	}
	for _, tc := range cases {
		terms, err := ExpectedTerms([]Expected{tc.in})
		wantError(t, err, Invalid, tc.err)
		if got := showTerms(terms); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestAttributeUpdates(t *testing.T) {
	t.Parallel()
	const old = `{"a":{"S":"key"},"n":{"N":"1"},"s":{"SS":["a","b"]},"l":{"L":[{"S":"a"}]},"x":{"S":"x"}}`
	up := func(attr string, a Action, json string) AttributeUpdate {
		u := AttributeUpdate{Attr: attr, Action: a}
		if json != "" {
			u.Value = value(t, json)
		}
		return u
	}
	one := func(u AttributeUpdate) []AttributeUpdate { return []AttributeUpdate{u} }
	cases := []struct {
		name                   string
		updates                []AttributeUpdate
		old, want, shown, fail string
	}{
		{name: "put", updates: one(up("x", Put, `{"N":"1"}`)), old: old, want: `{"a":{"S":"key"},"n":{"N":"1"},"s":{"SS":["a","b"]},"l":{"L":[{"S":"a"}]},"x":{"N":"1"}}`, shown: `{"x":{"N":"1"}}`},
		{name: "delete", updates: []AttributeUpdate{up("x", Delete, ""), up("l", Delete, ""), up("gone", Delete, ""), up("s", Delete, `{"SS":["a"]}`)}, old: old,
			want: `{"a":{"S":"key"},"n":{"N":"1"},"s":{"SS":["b"]}}`, shown: `{"s":{"SS":["b"]}}`},
		{name: "add", updates: []AttributeUpdate{up("n", Add, `{"N":"2"}`), up("s", Add, `{"SS":["c"]}`), up("l", Add, `{"L":[{"N":"1"}]}`), up("new", Add, `{"N":"7"}`)}, old: old,
			want:  `{"a":{"S":"key"},"n":{"N":"3"},"s":{"SS":["a","b","c"]},"l":{"L":[{"S":"a"},{"N":"1"}]},"x":{"S":"x"},"new":{"N":"7"}}`,
			shown: `{"n":{"N":"3"},"s":{"SS":["a","b","c"]},"l":{"L":[{"S":"a"},{"N":"1"}]},"new":{"N":"7"}}`},
		{name: "create", updates: one(up("b", Add, `{"L":[]}`)), want: `{"a":{"S":"key"},"b":{"L":[]}}`, shown: `{"b":{"L":[]}}`},
		{name: "delete of nothing", updates: []AttributeUpdate{up("b", Delete, ""), up("c", Delete, `{"NS":["1"]}`)}, shown: `{}`},
		{name: "no action", want: `{"a":{"S":"key"}}`, shown: `{}`},
		{name: "no action on an item", old: old, want: old, shown: `{}`},
		{name: "add to another type", updates: one(up("s", Add, `{"NS":["1"]}`)), old: old, fail: "Type mismatch for attribute to update"},
		{name: "delete from another type", updates: one(up("n", Delete, `{"NS":["1"]}`)), old: old, fail: "Type mismatch for attribute to update"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			u, err := NewUpdate(tc.updates)
			wantError(t, err, Invalid, "")
			got, err := u.Apply(item(t, tc.old), item(t, updateKey))
			wantError(t, err, Runtime, tc.fail)
			if (got == nil) != (tc.want == "") || !got.Equal(item(t, tc.want)) {
				t.Fatalf("got  %s\nwant %s", ddb.AppendItem(nil, got), tc.want)
			}
			if f := u.UpdatedNew(got); tc.fail == "" && !f.Equal(item(t, tc.shown)) {
				t.Errorf("UPDATED_NEW %s, want %s", ddb.AppendItem(nil, f), tc.shown)
			}
		})
	}
}

func TestAttributeUpdateTypes(t *testing.T) {
	t.Parallel()
	const prefix = "One or more parameter values were invalid: "
	allowed := map[Action][]string{Add: {"N", "SS", "NS", "BS", "L"}, Delete: {"SS", "NS", "BS"}}
	texts := map[Action]string{Add: "ADD action is not supported for the type ", Delete: "DELETE action with value is not supported for the type "}
	for kind, json := range oneOfEach() {
		_, err := NewUpdate([]AttributeUpdate{{"a", Put, value(t, json)}})
		wantError(t, err, Invalid, "")
		for action, text := range texts {
			want := prefix + text + kind
			if slices.Contains(allowed[action], kind) {
				want = ""
			}
			_, err := NewUpdate([]AttributeUpdate{{"a", action, value(t, json)}})
			wantError(t, err, Invalid, want)
		}
	}
	for _, a := range []Action{Put, Add} {
		_, err := NewUpdate([]AttributeUpdate{{Attr: "a", Action: a}})
		wantError(t, err, Invalid, prefix+"Only DELETE action is allowed when no attribute value is specified")
	}
}
