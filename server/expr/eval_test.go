// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

const evalItem = `{"s":{"S":"hello"},"e":{"S":""},"n":{"N":"5"},"big":{"N":"12345678901234567890123456789012345678"},
"b":{"B":"aGVsbG8="},"t":{"BOOL":true},"f":{"BOOL":false},"z":{"NULL":true},
"m":{"M":{"x":{"N":"1"},"y":{"M":{"l":{"L":[{"S":"deep"}]}}},"3":{"S":"three"}}},
"l":{"L":[{"N":"1"},{"S":"two"},{"M":{"k":{"S":"v"}}},{"SS":["p"]}]},
"ss":{"SS":["a","b","c"]},"es":{"SS":["","x"]},"ns":{"NS":["1","2","10"]},"bs":{"BS":["YQ=="]},
"emoji":{"S":"a😀é"},"s2":{"S":"hello"},"status":{"S":"on"},"el":{"L":[]}}`

const evalValues = `{":hello":{"S":"hello"},":he":{"S":"he"},":empty":{"S":""},":z":{"S":"zzz"},":a":{"S":"a"},
":n5":{"N":"5.0"},":n4":{"N":"4"},":n9":{"N":"9"},":n10":{"N":"10"},":n0":{"N":"0"},":n1":{"N":"1"},":n3":{"N":"3"},
":big":{"N":"12345678901234567890123456789012345679"},":bin":{"B":"aGU="},":t":{"BOOL":true},":null":{"NULL":true},
":ss":{"SS":["c","a","b"]},":ss2":{"SS":["a"]},":l":{"L":[{"N":"1"}]},":lr":{"L":[{"S":"two"},{"N":"1"}]},":p":{"SS":["p"]},
":map":{"M":{"k":{"S":"v"}}},":S":{"S":"S"},":N":{"S":"N"},":BOOL":{"S":"BOOL"},":L":{"S":"L"},":M":{"S":"M"},":NULL":{"S":"NULL"},":SS":{"S":"SS"}}`

func TestEval(t *testing.T) {
	t.Parallel()
	it, values := item(t, evalItem), item(t, evalValues)
	cases := map[string]bool{
		// Equality is by type and value; a missing attribute equals nothing.
		"s = :hello": true, "s = :he": false, "s <> :he": true, "s = :n5": false, "s <> :n5": true,
		"n = :n5": true, "big = :big": false, "big < :big": true, "t = :t": true, "f = :t": false, "z = :null": true,
		"ss = :ss": true, "ss = :ss2": false, "l[0] = :n1": true, "l = :l": false, "l[2] = :map": true,
		"gone = :n5": false, "gone <> :n5": true, "gone = gone2": false, "gone <> gone2": true, "s = s2": true,
		":n1 = :n1": true, ":n1 = :n5": false,
		// Order: numbers by value, others by bytes, never across types.
		"n > :n4": true, "n < :n10": true, "n >= :n5": true, "n <= :n5": true, "n > :n5": false, "n < :n5": false, "s < :z": true,
		"s > :n4": false, "s <= :n4": false, "gone < :n4": false, "NOT gone < :n4": true, "b > :bin": true,
		"t > s": false, ":n9 > n": true,
		// BETWEEN takes both bounds in.
		"n BETWEEN :n4 AND :n5": true, "n BETWEEN :n5 AND :n9": true, "n BETWEEN :n9 AND :n10": false,
		"s BETWEEN :n4 AND :n9": false, "gone BETWEEN :n4 AND :n9": false, "n BETWEEN gone AND :n9": false, ":n5 BETWEEN n AND n": true,
		// IN.
		"n IN (:n4, :n5)": true, "n IN (:n4)": false, "gone IN (:n4)": false, "n IN (gone, size(s))": true, "n IN (size(n), size(s))": true,
		"gone IN (gone2)": false, "l[2] IN (:map)": true,
		// Logic and its precedence.
		"n = :n5 OR n = :n4 AND n = :n9": true, "(n = :n5 OR n = :n4) AND n = :n9": false,
		"NOT n = :n5 OR n = :n5": true, "NOT (n = :n5 OR n = :n5)": false, "NOT NOT n = :n5": true,
		"n = :n5 and not n = :n4": true, "n = :n4 oR n = :n5": true,
		// Existence and paths.
		"attribute_exists(s)": true, "attribute_exists(gone)": false, "attribute_not_exists(gone)": true,
		"attribute_not_exists(s)": false, "attribute_exists(m.y.l[0])": true, "attribute_exists(m.y.l[1])": false,
		"attribute_exists(m.gone.x)": false, "attribute_exists(s.x)": false, "attribute_exists(s[0])": false,
		"attribute_exists(m[0])": false, "attribute_exists(l.x)": false, "m.y.l[0] = :he": false, "m.#3 = :z": false,
		"attribute_exists(m.#3)": true, "l[2].k <> :z": true, "#status <> :z": true, "attribute_exists(z)": true,
		// Types.
		"attribute_type(s, :S)": true, "attribute_type(n, :S)": false, "attribute_type(n, :N)": true, "attribute_type(t, :BOOL)": true,
		"attribute_type(l, :L)": true, "attribute_type(m, :M)": true, "attribute_type(z, :NULL)": true, "attribute_type(ss, :SS)": true,
		"attribute_type(gone, :S)": false, "attribute_type(:a, :S)": true,
		// begins_with and contains.
		"begins_with(s, :he)": true, "begins_with(s, :empty)": true, "begins_with(s, :z)": false, "begins_with(b, :bin)": true,
		"begins_with(b, :he)": false, "begins_with(n, :he)": false, "begins_with(gone, :he)": false, "begins_with(:hello, e)": true,
		"begins_with(n, big)": false,
		"contains(s, :he)":    true, "contains(s, :z)": false, "contains(s, :n5)": false, "contains(ss, :a)": true, "contains(ss, :z)": false,
		"contains(ss, :n1)": false, "contains(ss, :ss2)": false, "contains(ns, :n10)": true, "contains(ns, :n3)": false,
		"contains(es, :empty)": true, "contains(ss, :empty)": false, "contains(l, :n1)": true, "contains(l, :map)": true,
		"contains(l, :p)": true, "contains(l, :n9)": false, "contains(b, :bin)": true, "contains(b, :he)": false,
		"contains(n, :n5)": false, "contains(gone, :a)": false, "contains(s, gone)": false, "contains(l, gone)": false,
		"contains(bs, :bin)": false, "contains(m, :a)": false, "contains(:hello, e)": true,
		// size: UTF-16 units, bytes, members.
		"size(s) = :n5": true, "size(emoji) = :n4": true, "size(b) = :n5": true, "size(m) = :n3": true, "size(l) = :n4": true,
		"size(ss) = :n3": true, "size(ns) = :n3": true, "size(el) = :n0": true, "size(e) = :n0": true, "size(s) > size(ss)": true,
		"size(s) BETWEEN :n4 AND :n9": true, "size(:hello) = n": true,
		// What has no size never matches, not even <>.
		"size(n) = :n5": false, "size(n) <> :n5": false, "size(gone) <> :n5": false, "size(gone) < :n5": false,
		"size(t) >= :n0": false, "NOT size(gone) <> :n5": true, ":n5 <> size(z)": false, "size(gone) IN (:n5)": false,
		"size(gone) BETWEEN :n0 AND :n9": false, "n BETWEEN size(gone) AND :n9": false, "n BETWEEN :n0 AND size(gone)": false,
	}
	c := NewCache(1000)
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			p := NewPlaceholders(map[string]string{"#3": "3", "#status": "status"}, values)
			cond, err := c.Condition(p, RoleFilter, text)
			wantError(t, err, Invalid, "")
			if got := cond.Eval(it); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

func TestEvalMissingItem(t *testing.T) {
	t.Parallel()
	c, p := NewCache(10), placeholders(t)
	for text, want := range map[string]bool{
		"attribute_not_exists(a)": true, "attribute_exists(a)": false, "a = :n": false, "a <> :n": true, "NOT a.b[0] = :n": true,
	} {
		cond, err := c.Condition(p, RoleCondition, text)
		wantError(t, err, Invalid, "")
		if got := cond.Eval(nil); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if !(*Condition)(nil).Eval(nil) {
		t.Error("the nil condition does not hold")
	}
}

func TestProjection(t *testing.T) {
	t.Parallel()
	const it = `{"pk":{"S":"1"},"m":{"M":{"x":{"N":"1"},"y":{"M":{"a":{"S":"A"},"b":{"S":"B"}}}}},
"l":{"L":[{"S":"0"},{"M":{"p":{"S":"P"},"q":{"S":"Q"}}},{"L":[{"N":"20"},{"N":"21"}]},{"S":"3"}]},"name":{"S":"n"}}`
	cases := []struct{ text, want string }{
		{"pk", `{"pk":{"S":"1"}}`},
		{"gone", `{}`},
		{"gone, pk.x, m.gone, m.x.y, l[9], l[0].x", `{}`},
		{"m[0], l.x", `{}`},
		{"m.x", `{"m":{"M":{"x":{"N":"1"}}}}`},
		{"m.x, m.y.b", `{"m":{"M":{"x":{"N":"1"},"y":{"M":{"b":{"S":"B"}}}}}}`},
		{"m", `{"m":{"M":{"x":{"N":"1"},"y":{"M":{"a":{"S":"A"},"b":{"S":"B"}}}}}}`},
		{"l[3], l[0]", `{"l":{"L":[{"S":"0"},{"S":"3"}]}}`},
		{"l[1].q, l[0], l[1].p", `{"l":{"L":[{"S":"0"},{"M":{"p":{"S":"P"},"q":{"S":"Q"}}}]}}`},
		{"l[2][1], l[1].q", `{"l":{"L":[{"M":{"q":{"S":"Q"}}},{"L":[{"N":"21"}]}]}}`},
		{"l[1].gone, l[3]", `{"l":{"L":[{"S":"3"}]}}`},
		{"#n, pk", `{"name":{"S":"n"},"pk":{"S":"1"}}`},
	}
	c := NewCache(100)
	for _, tc := range cases {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			p := NewPlaceholders(map[string]string{"#n": "name"}, nil)
			proj, err := c.Projection(p, tc.text)
			wantError(t, err, Invalid, "")
			if got := proj.apply(item(t, it)); !got.Equal(item(t, tc.want)) {
				t.Errorf("got %s, want %s", ddb.AppendItem(nil, got), tc.want)
			}
			got, err := proj.Append([]byte("["), ddb.AppendItem(nil, item(t, it)))
			if want := "[" + string(ddb.AppendItem(nil, item(t, tc.want))); err != nil || string(got) != want {
				t.Errorf("appended %s, want %s (%v)", got, want, err)
			}
		})
	}
}

// TestProjectionOfDamage: what is not JSON of an item is told, as far as it is
// looked at.
func TestProjectionOfDamage(t *testing.T) {
	t.Parallel()
	p, err := NewCache(1).Projection(NewPlaceholders(nil, nil), "b.x, d")
	wantError(t, err, Invalid, "")
	for _, text := range []string{
		"", "[", "{", `{"a"`, `{"a":`, `{"a":{"S":"x"}`, `{"a":x}`, `{"b":{"S":"x"`, `{"b":{"M":{"x":{"N":"none"}}}}`, `{"d":{"S"`, `{"d":{"S":"x"},`,
	} {
		if got, err := p.Append(nil, []byte(text)); err == nil {
			t.Errorf("%s: gives %s", text, got)
		}
	}
}

func TestAttributesToGet(t *testing.T) {
	t.Parallel()
	p, err := NewProjection([]string{"a", "name.x", "gone"})
	wantError(t, err, Invalid, "")
	got := p.apply(item(t, `{"a":{"M":{"x":{"N":"1"}}},"name.x":{"S":"dotted"},"b":{"S":"no"}}`))
	if !got.Equal(item(t, `{"a":{"M":{"x":{"N":"1"}}},"name.x":{"S":"dotted"}}`)) {
		t.Errorf("got %s", ddb.AppendItem(nil, got))
	}
	_, err = NewProjection([]string{"a", "b", "a"})
	wantError(t, err, Invalid, "One or more parameter values were invalid: Duplicate value in attribute name: a")
}

// apply is Append for an item that is not encoded: what tests compare with.
func (p *Projection) apply(item ddb.Item) ddb.Item { return p.tree.projectMap(item, nil) }
