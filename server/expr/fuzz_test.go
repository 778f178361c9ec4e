// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// fuzzCorpus holds a text for every rule of the grammars and for every way to
// break one.
func fuzzCorpus() []string {
	return []string{
		"", " ", "a = :n", "#a <> :s AND NOT (b < c OR d >= :n2)", "a BETWEEN :n AND :n2", "a IN (:n, :s, b)",
		"attribute_exists(a.b[0].#c)", "attribute_not_exists(a) or attribute_type(b, :typeS)", "begins_with(a, :s) and contains(b, :n)",
		"size(a) > :n", "((size(b)) = :n)", "(a).b[1] = :n", "((a = b))", "(a = b) = c", "a = (b = c)", "NOT a", "a AND b", "a = b AND", "a = b OR",
		"a =", "a BETWEEN b", "a BETWEEN b OR c", "a IN b", "a IN (b", "a IN (attribute_exists(b))", "a IN (" + strings.Repeat("b,", 100) + "b)", "size(a)", "size(a) AND a = b",
		"attribute_exists(a) = b", "size(contains(a, b)) = c", "whatever(a)", "whatever(a) = b", "if_not_exists(a, b) = c", "list_append(a, b)",
		"attribute_exists(a", "attribute_exists(", "attribute_exists()", "attribute_exists(a, b)", "attribute_type(a, b)", "attribute_type(a, :type1)", "a = a",
		"a BETWEEN :s2 AND :s", "a BETWEEN :n AND :s", ":n < :l", "status = :s", "abort", "a[99999999999]", "a[b]", "a[1", "a[1]", "a.", "a..b", ".a", "[0]", "a.1",
		"#", ":", "#zz = :zz", "#a.#b", ":zz = a", "a = :zz", "ü", "\xff", "!!!", "a - b", "a < = b", "a <= b", "a >= b AND c > d", "a = between",
		"a" + strings.Repeat(".b", 32), strings.Repeat("NOT ", 301) + "a = b", strings.Repeat("(", 100), strings.Repeat("x", maxText+1),
		"SET a = b", "SET a = :s, #b = c + :n", "SET a = b - (c + d)", "SET a = ((b))", "SET a = if_not_exists(a, list_append(b, :l))", "SET a = size(b)", "SET a = nothing(b)",
		"SET a", "SET a =", "SET a = b +", "SET a = (b", "SET a = b c", "SET = b", "SET a = set", "SET a = b SET c = d", "SET a = b, a.c = d", "SET a.b = c, a[0] = d",
		"REMOVE a, b[0], c.d", "REMOVE a b", "REMOVE", "ADD a :n, b :ss", "ADD a b", "ADD a :s", "DELETE a :ss", "DELETE a :n", "DELETE a", "REMOVE a ADD b :n DELETE c :ns SET d = e",
		"SET " + strings.Repeat("x", maxText), "a, b.c, d[0], d[1].x", "a, a", "a.b, a[0]", "a,", "a b",
	}
}

func FuzzExpressions(f *testing.F) {
	for _, text := range fuzzCorpus() {
		f.Add(text)
	}
	it := item(f, evalItem)
	vals := item(f, someValues)
	key := item(f, updateKey)
	f.Fuzz(func(t *testing.T, text string) {
		c := NewCache(0)
		p := NewPlaceholders(someNames(), vals)
		before := clone(it)
		if cond, err := c.Condition(p, RoleFilter, text); err == nil {
			// A condition and its negation never agree.
			if neg, err := c.Condition(p, RoleFilter, "NOT ("+text+")"); err == nil && neg.Eval(it) == cond.Eval(it) {
				t.Errorf("%q and its negation agree", text)
			}
			for r := range cond.Refs() {
				if r.Name == "" {
					t.Errorf("%q has a nameless path", text)
				}
			}
		}
		if k, err := c.KeyCondition(p, text); err == nil {
			if terms, err := k.Terms(); err == nil {
				_, _ = MatchKey(terms, []KeyAttr{{"a", ddb.KindS}}, []KeyAttr{{"b", ddb.KindN}})
			}
		}
		if proj, err := c.Projection(p, text); err == nil {
			got, err := proj.Append(nil, ddb.AppendItem(nil, it))
			if want := ddb.AppendItem(nil, proj.apply(it)); err != nil || string(got) != string(want) {
				t.Errorf("%q appends %s, applied it is %s (%v)", text, got, want, err)
			}
			for name := range proj.apply(it) {
				if !slices.ContainsFunc(slices.Collect(proj.Refs()), func(r Ref) bool { return r.Name == name }) {
					t.Errorf("%q yields %q, which it does not name", text, name)
				}
			}
		}
		if u, err := c.Update(p, text); err == nil {
			for _, old := range []ddb.Item{it, nil} {
				if got, err := u.Apply(old, key); err == nil && got != nil {
					u.UpdatedOld(old)
					u.UpdatedNew(got)
				}
			}
		}
		if !it.Equal(before) {
			t.Fatalf("%q modified its input", text)
		}
		if len(p.usedNames)+len(p.usedValues) > 8*maxText {
			t.Fatalf("%q notes %d placeholders", text, len(p.usedNames)+len(p.usedValues))
		}
	})
}

// clone copies an item down to its leaves.
func clone(it ddb.Item) ddb.Item {
	out := maps.Clone(it)
	for name, v := range out {
		out[name] = cloneValue(v)
	}
	return out
}

func cloneValue(v ddb.Value) ddb.Value {
	switch k := v.Kind(); {
	case k == ddb.KindM:
		return ddb.Map(clone(v.Map()))
	case k == ddb.KindL:
		l := make([]ddb.Value, len(v.List()))
		for i, e := range v.List() {
			l[i] = cloneValue(e)
		}
		return ddb.List(l...)
	case k.IsSet():
		return ddb.NewSet(k, append([]string(nil), v.Set()...))
	}
	return v
}

// Random updates, of every section and function, leave the old item and the
// placeholders as they were, whether they succeed or not.
func TestUpdatesNeverModifyTheirInput(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	paths := []string{"n", "l", "m", "ss", "ns", "s", "gone", "m.x", "m.y", "m.y.l", "m.y.l[0]", "m.fresh", "l[0]", "l[1]", "l[2]", "l[2].k", "l[3]", "l[9]", "el[0]", "s2", "e"}
	operand := func() string { return pick(append(paths, ":n", ":s", ":l", ":ss", ":m")...) }
	c, old, vals := NewCache(100), item(t, evalItem), item(t, someValues)
	before, valuesBefore := clone(old), clone(vals)
	succeeded := map[string]int{}
	for range 20000 {
		section := pick("SET", "REMOVE", "ADD", "DELETE")
		var text string
		switch target := pick(paths...); section {
		case "SET":
			text = "SET " + target + " = " + pick(operand(), operand()+" + :n", "n - (:n + :n2)", "if_not_exists("+pick(paths...)+", "+operand()+")", "list_append("+pick("l", "el", ":l")+", "+pick("l", "m.y.l", ":l")+")") +
				pick("", ", "+pick(paths...)+" = :s") + pick("", " REMOVE "+pick(paths...))
		case "REMOVE":
			text = "REMOVE " + target + pick("", ", "+pick(paths...))
		default:
			text = section + " " + target + " " + pick(":ss", ":ns", ":n")
		}
		u, err := c.Update(NewPlaceholders(nil, vals), text)
		if err != nil {
			continue
		}
		got, err := u.Apply(old, nil)
		if err == nil {
			succeeded[section]++
			u.UpdatedOld(old)
			u.UpdatedNew(got)
		}
		if !old.Equal(before) || !vals.Equal(valuesBefore) {
			t.Fatalf("%s modified its input", text)
		}
	}
	for _, s := range sectionNames {
		if succeeded[s] < 100 {
			t.Errorf("only %d updates with %s succeeded", succeeded[s], s)
		}
	}
}
