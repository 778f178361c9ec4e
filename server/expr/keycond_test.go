// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

func TestKeyConditionTerms(t *testing.T) {
	t.Parallel()
	const (
		operator = "Invalid operator used in KeyConditionExpression: "
		first    = " operator must have the key attribute as its first operand"
		invalid  = "Invalid condition in KeyConditionExpression: "
		ops      = "KeyConditionExpressions cannot contain nested operations"
		nested   = "KeyConditionExpressions cannot have conditions on nested attributes"
		once     = "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key"
	)
	cases := []struct{ text, want, err string }{
		{text: "a = :n", want: "a EQ 1"},
		{text: "#b = :s AND c > :n", want: "b EQ a; c GT 1"},
		{text: "(a = :s) AND (b = :s)", want: "a EQ a; b EQ a"},
		{text: "(a = :s AND (b < :s))", want: "a EQ a; b LT a"},
		{text: ":s >= c and :s <= a and :s < b and :s > d and :n = e", want: "c LE a; a GE a; b GT a; d LT a; e EQ 1"},
		{text: "a between :n and :n2", want: "a BETWEEN 1 2"},
		{text: "begins_with(a, :s)", want: "a BEGINS_WITH a"},
		{text: "a <= :n AND b >= :n", want: "a LE 1; b GE 1"},
		{text: "a = :bool", want: "a EQ "},

		{text: "attribute_type(a, :typeS)", err: operator + "attribute_type"},
		{text: "a > b and size(b) > c or a > c", err: operator + "OR"},
		{text: "a in (b, size(c), d)", err: operator + "IN"},
		{text: "attribute_exists(a)", err: operator + "attribute_exists"},
		{text: "attribute_not_exists(a)", err: operator + "attribute_not_exists"},
		{text: "contains(a.d, b)", err: operator + "contains"},
		{text: "not a > b", err: operator + "NOT"},
		{text: "a <> b", err: operator + "<>"},
		{text: ":s between size(b) and size(a) and b > :s", err: invalid + "BETWEEN" + first},
		{text: "begins_with(:s, b) and a > :s", err: invalid + "begins_with" + first},
		{text: "size(b) > a AND a.b > b AND b > c", err: ops},
		{text: "a > size(b.d)", err: ops},
		{text: "a between size(b) and size(a)", err: ops},
		{text: "b > a.b", err: invalid + "Multiple attribute names used in one condition"},
		{text: "b between c[1] and d", err: invalid + "Multiple attribute names used in one condition"},
		{text: "a between b and size(a)", err: invalid + "Multiple attribute names used in one condition"},
		{text: "begins_with(a, b)", err: invalid + "Multiple attribute names used in one condition"},
		{text: "b.d > a AND c.d > e.f", err: nested},
		{text: "b[0] > a", err: nested},
		{text: ":n2 > :n AND a < :n2", err: invalid + "No key attribute specified"},
		{text: ":n > b AND :n < :n2", err: invalid + "No key attribute specified"},
		{text: "b > :n AND b < :n and c = :n and d = :n", err: once},
		{text: "(a > :n and b > :n) and (b > :n and c > :n)", err: once},
		{text: "a = :n AND (a = :n OR b = :n)", err: operator + "OR"},
	}
	for _, tc := range cases {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			k, err := NewCache(1).KeyCondition(placeholders(t), tc.text)
			wantError(t, err, Invalid, "")
			terms, err := k.Terms()
			wantError(t, err, Invalid, tc.err)
			if got := showTerms(terms); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func showTerms(terms []Term) string {
	parts := make([]string, 0, len(terms))
	for _, t := range terms {
		s := t.Attr + " " + t.Op.String()
		for _, v := range t.Values {
			s += " " + v.Str()
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

func TestMatchKey(t *testing.T) {
	t.Parallel()
	const (
		missed = "Query condition missed key schema element: "
		gap    = "RANGE key attributes %s must have equality conditions specified in the query because a condition is present on key attribute %s"
		kind   = "One or more parameter values were invalid: Condition parameter type does not match schema type"
	)
	s, n := ddb.KindS, ddb.KindN
	pk, sk := []KeyAttr{{"pk", s}}, []KeyAttr{{"sk", n}}
	hash2 := []KeyAttr{{"h1", s}, {"h2", n}}
	range4 := []KeyAttr{{"r1", s}, {"r2", n}, {"r3", n}, {"r4", s}}
	eq := func(attr string, v ddb.Value) Term { return Term{attr, EQ, []ddb.Value{v}} }
	op := func(attr string, o Op, vs ...ddb.Value) Term { return Term{attr, o, vs} }
	a, one, two := ddb.String("a"), ddb.Int(1), ddb.Int(2)
	cases := []struct {
		name         string
		terms        []Term
		hash, ranges []KeyAttr
		want         string // hash | range | last
		err          string
	}{
		{name: "hash", terms: []Term{eq("pk", a)}, hash: pk, ranges: sk, want: "a||"},
		{name: "hash and sort", terms: []Term{eq("sk", one), eq("pk", a)}, hash: pk, ranges: sk, want: "a|1|"},
		{name: "range", terms: []Term{eq("pk", a), op("sk", GT, one)}, hash: pk, ranges: sk, want: "a||sk GT 1"},
		{name: "between", terms: []Term{op("sk", Between, one, two), eq("pk", a)}, hash: pk, ranges: sk, want: "a||sk BETWEEN 1 2"},
		{name: "hash only table", terms: []Term{eq("pk", a)}, hash: pk, want: "a||"},

		{name: "no terms", hash: pk, ranges: sk, err: missed + "pk"},
		{name: "no hash", terms: []Term{eq("sk", one)}, hash: pk, ranges: sk, err: missed + "pk"},
		{name: "stranger", terms: []Term{eq("x", a)}, hash: pk, ranges: sk, err: missed + "pk"},
		{name: "stranger beside hash", terms: []Term{eq("pk", a), eq("x", a)}, hash: pk, ranges: sk, err: missed + "sk"},
		{name: "too many", terms: []Term{eq("pk", a), eq("sk", one), eq("x", a)}, hash: pk, ranges: sk,
			err: "The number of query conditions (3) exceeds the number of key attributes defined in the schema (2)"},
		{name: "too many for a hash key", terms: []Term{eq("pk", a), eq("x", a)}, hash: pk,
			err: "The number of query conditions (2) exceeds the number of key attributes defined in the schema (1)"},
		{name: "hash not by equality", terms: []Term{op("pk", GT, a)}, hash: pk, ranges: sk, err: "Query key condition not supported"},
		{name: "hash of another type", terms: []Term{eq("pk", one)}, hash: pk, ranges: sk, err: kind},
		{name: "sort of another type", terms: []Term{eq("pk", a), op("sk", LT, a)}, hash: pk, ranges: sk, err: kind},
		{name: "hash of a type no key has", terms: []Term{eq("pk", ddb.Bool(true))}, hash: pk, ranges: sk, err: kind},
		{name: "legacy NE", terms: []Term{eq("pk", a), op("sk", NE, one)}, hash: pk, ranges: sk, err: "Attempted conditional constraint is not an indexable operation"},
		{name: "legacy NULL", terms: []Term{op("pk", Null)}, hash: pk, ranges: sk, err: "Attempted conditional constraint is not an indexable operation"},

		{name: "several hash", terms: []Term{eq("h2", one), eq("h1", a)}, hash: hash2, ranges: range4, want: "a,1||"},
		{name: "one hash of several", terms: []Term{eq("h1", a)}, hash: hash2, ranges: range4, err: missed + "h2"},
		{name: "second hash not by equality", terms: []Term{eq("h1", a), op("h2", LT, one)}, hash: hash2, ranges: range4, err: "Query key condition not supported"},
		{name: "prefix and range", terms: []Term{op("r3", LE, two), eq("h2", one), eq("r1", a), eq("h1", a), eq("r2", one)}, hash: hash2, ranges: range4, want: "a,1|a,1|r3 LE 2"},
		{name: "all", terms: []Term{eq("h1", a), eq("h2", one), eq("r1", a), eq("r2", one), eq("r3", two), op("r4", BeginsWith, a)}, hash: hash2, ranges: range4, want: "a,1|a,1,2|r4 BEGINS_WITH a"},
		{name: "gap", terms: []Term{eq("h1", a), eq("h2", one), eq("r1", a), eq("r3", one)}, hash: hash2, ranges: range4, err: fmt.Sprintf(gap, "r2", "r3")},
		{name: "skipped first", terms: []Term{eq("h1", a), eq("h2", one), eq("r2", one)}, hash: hash2, ranges: range4, err: fmt.Sprintf(gap, "r1", "r2")},
		{name: "wide gap", terms: []Term{eq("h1", a), eq("h2", one), eq("r4", a)}, hash: hash2, ranges: range4, err: fmt.Sprintf(gap, "r1, r2, r3", "r4")},
		{name: "early range", terms: []Term{eq("h1", a), eq("h2", one), op("r1", GT, a), eq("r2", one)}, hash: hash2, ranges: range4, err: fmt.Sprintf(gap, "r1", "r2")},
		{name: "stranger among several", terms: []Term{eq("h1", a), eq("h2", one), eq("r1", a), eq("x", a)}, hash: hash2, ranges: range4, err: missed + "r2"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m, err := MatchKey(tc.terms, tc.hash, tc.ranges)
			wantError(t, err, Schema, tc.err)
			if err != nil {
				return
			}
			last := ""
			if m.Last.Op != 0 {
				last = showTerms([]Term{m.Last})
			}
			if got := showValues(m.Hash) + "|" + showValues(m.Range) + "|" + last; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func showValues(vs []ddb.Value) string {
	parts := make([]string, 0, len(vs))
	for _, v := range vs {
		parts = append(parts, v.Str())
	}
	return strings.Join(parts, ",")
}
