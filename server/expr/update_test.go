// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

const (
	updateKey    = `{"a":{"S":"key"}}`
	updateValues = `{":s":{"S":"x"},":n":{"N":"2"},":neg":{"N":"-2"},":ss":{"SS":["b","c"]},":abc":{"SS":["a","b"]},":ns":{"NS":["1"]},":m":{"M":{"k":{"N":"1"}}},
":l":{"L":[{"S":"y"}]},":el":{"L":[]},":bs":{"BS":["YQ=="]},":tiny":{"N":"1E-130"},":huge":{"N":"6E+125"},":one":{"N":"1"}}`
)

func TestUpdate(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, old, text, want, oldFragments, newFragments string
	}{
		{name: "creates the item", text: "SET b = :s", want: `{"a":{"S":"key"},"b":{"S":"x"}}`, newFragments: `{"b":{"S":"x"}}`},
		{name: "reads the key of a new item", text: "SET b = a", want: `{"a":{"S":"key"},"b":{"S":"key"}}`, newFragments: `{"b":{"S":"key"}}`},
		{name: "ADD creates the item", text: "ADD b :n, c :ss REMOVE d", want: `{"a":{"S":"key"},"b":{"N":"2"},"c":{"SS":["b","c"]}}`, newFragments: `{"b":{"N":"2"},"c":{"SS":["b","c"]}}`},
		{name: "removing creates nothing", text: "REMOVE b, c DELETE d :ss", want: ``},
		{name: "replaces", old: `{"a":{"S":"key"},"b":{"N":"1"},"z":{"N":"9"}}`, text: "SET b = :s",
			want: `{"a":{"S":"key"},"b":{"S":"x"},"z":{"N":"9"}}`, oldFragments: `{"b":{"N":"1"}}`, newFragments: `{"b":{"S":"x"}}`},
		{name: "operands are read before the update", old: `{"b":{"N":"1"},"c":{"N":"5"}}`, text: "SET b = c, c = b + :n",
			want: `{"b":{"N":"5"},"c":{"N":"3"}}`, oldFragments: `{"b":{"N":"1"},"c":{"N":"5"}}`, newFragments: `{"b":{"N":"5"},"c":{"N":"3"}}`},
		{name: "arithmetic", old: `{"b":{"N":"10"},"c":{"N":"4"}}`, text: "SET d = (b - (c + :n)), e = :n - b, f = (b) + :neg",
			want:         `{"b":{"N":"10"},"c":{"N":"4"},"d":{"N":"4"},"e":{"N":"-8"},"f":{"N":"8"}}`,
			newFragments: `{"d":{"N":"4"},"e":{"N":"-8"},"f":{"N":"8"}}`},
		{name: "if_not_exists", old: `{"b":{"N":"1"}}`, text: "SET b = if_not_exists(b, :n), c = if_not_exists(c, if_not_exists(d, :n)), e = if_not_exists(e, :n) + :n, f = if_not_exists(b, g)",
			want:         `{"b":{"N":"1"},"c":{"N":"2"},"e":{"N":"4"},"f":{"N":"1"}}`,
			oldFragments: `{"b":{"N":"1"}}`, newFragments: `{"b":{"N":"1"},"c":{"N":"2"},"e":{"N":"4"},"f":{"N":"1"}}`},
		{name: "list_append", old: `{"l":{"L":[{"S":"0"}]}}`, text: "SET l = list_append(:l, l), k = list_append(if_not_exists(k, :el), list_append(l, :l))",
			want:         `{"l":{"L":[{"S":"y"},{"S":"0"}]},"k":{"L":[{"S":"0"},{"S":"y"}]}}`,
			oldFragments: `{"l":{"L":[{"S":"0"}]}}`, newFragments: `{"l":{"L":[{"S":"y"},{"S":"0"}]},"k":{"L":[{"S":"0"},{"S":"y"}]}}`},
		{name: "nested paths show only what changed", old: `{"m":{"M":{"x":{"M":{"y":{"N":"1"},"z":{"N":"2"}}},"w":{"N":"3"}}}}`, text: "SET m.x.y = :s, m.fresh = :n",
			want:         `{"m":{"M":{"x":{"M":{"y":{"S":"x"},"z":{"N":"2"}}},"w":{"N":"3"},"fresh":{"N":"2"}}}}`,
			oldFragments: `{"m":{"M":{"x":{"M":{"y":{"N":"1"}}}}}}`, newFragments: `{"m":{"M":{"x":{"M":{"y":{"S":"x"}}},"fresh":{"N":"2"}}}}`},
		{name: "SET beyond the end appends", old: `{"l":{"L":[{"N":"0"}]}}`, text: "SET l[9] = :s, l[5] = :n",
			want: `{"l":{"L":[{"N":"0"},{"N":"2"},{"S":"x"}]}}`},
		{name: "SET in an empty list", old: `{"l":{"L":[]}}`, text: "SET l[0] = :s", want: `{"l":{"L":[{"S":"x"}]}}`, newFragments: `{"l":{"L":[{"S":"x"}]}}`},
		{name: "everything in one list", old: `{"a":{"S":"key"},"b":{"M":{"a":{"N":"1"},"b":{"N":"2"},"c":{"N":"3"}}},"c":{"L":[{"N":"1"},{"N":"3"}]}}`,
			text:         "set b.c=((c[1])+(b.a)),b.a = a,c[1] = a, c[4] = b.a - b.b, c[2] = b.c add c[8] :ss, c[6] :n",
			want:         `{"a":{"S":"key"},"b":{"M":{"a":{"S":"key"},"b":{"N":"2"},"c":{"N":"4"}}},"c":{"L":[{"N":"1"},{"S":"key"},{"N":"3"},{"N":"-1"},{"N":"2"},{"SS":["b","c"]}]}}`,
			oldFragments: `{"b":{"M":{"a":{"N":"1"},"c":{"N":"3"}}},"c":{"L":[{"N":"3"}]}}`,
			newFragments: `{"b":{"M":{"a":{"S":"key"},"c":{"N":"4"}}},"c":{"L":[{"S":"key"},{"N":"3"},{"N":"2"}]}}`},
		{name: "REMOVE uses original indices", old: `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"3"}]}}`, text: "REMOVE l[0], l[2], l[7]",
			want: `{"l":{"L":[{"N":"1"},{"N":"3"}]}}`, oldFragments: `{"l":{"L":[{"N":"0"},{"N":"2"}]}}`},
		{name: "REMOVE and SET in one list", old: `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"}]}}`, text: "REMOVE l[0] SET l[2] = :s, l[3] = :n",
			want: `{"l":{"L":[{"N":"1"},{"S":"x"},{"N":"2"}]}}`, oldFragments: `{"l":{"L":[{"N":"0"},{"N":"2"}]}}`},
		{name: "REMOVE", old: `{"b":{"N":"1"},"m":{"M":{"x":{"N":"1"}}},"z":{"N":"1"}}`, text: "REMOVE b, m.x, gone, m.gone",
			want: `{"m":{"M":{}},"z":{"N":"1"}}`, oldFragments: `{"b":{"N":"1"},"m":{"M":{"x":{"N":"1"}}}}`},
		{name: "ADD numbers and sets", old: `{"b":{"N":"1"},"s":{"SS":["a","b"]},"m":{"M":{"n":{"N":"40"}}}}`, text: "ADD b :neg, s :ss, m.n :n, m.k :n",
			want:         `{"b":{"N":"-1"},"s":{"SS":["a","b","c"]},"m":{"M":{"n":{"N":"42"},"k":{"N":"2"}}}}`,
			oldFragments: `{"b":{"N":"1"},"s":{"SS":["a","b"]},"m":{"M":{"n":{"N":"40"}}}}`,
			newFragments: `{"b":{"N":"-1"},"s":{"SS":["a","b","c"]},"m":{"M":{"n":{"N":"42"},"k":{"N":"2"}}}}`},
		{name: "DELETE members", old: `{"s":{"SS":["a","b"]},"k":{"SS":["a"]}}`, text: "DELETE s :ss, gone :ss, k :ss",
			want: `{"s":{"SS":["a"]},"k":{"SS":["a"]}}`, oldFragments: `{"s":{"SS":["a","b"]},"k":{"SS":["a"]}}`, newFragments: `{"s":{"SS":["a"]},"k":{"SS":["a"]}}`},
		{name: "DELETE the last member", old: `{"s":{"SS":["a","b"]},"m":{"M":{"s":{"SS":["a"]}}},"l":{"L":[{"SS":["b"]},{"N":"1"}]}}`, text: "DELETE s :abc, m.s :abc, l[0] :abc",
			want: `{"m":{"M":{}},"l":{"L":[{"N":"1"}]}}`, oldFragments: `{"s":{"SS":["a","b"]},"m":{"M":{"s":{"SS":["a"]}}},"l":{"L":[{"SS":["b"]}]}}`,
			newFragments: `{"l":{"L":[{"N":"1"}]}}`},
		{name: "deepest value", old: `{"m":` + nested(30, `{"M":{}}`) + `}`, text: "SET m" + strings.Repeat(".x", 30) + ".y = :s",
			want: `{"m":` + nested(30, `{"M":{"y":{"S":"x"}}}`) + `}`, newFragments: `{"m":` + nested(30, `{"M":{"y":{"S":"x"}}}`) + `}`},
	}
	c := NewCache(100)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			u, err := c.Update(NewPlaceholders(nil, item(t, updateValues)), tc.text)
			wantError(t, err, Invalid, "")
			old := item(t, tc.old)
			got, err := u.Apply(old, item(t, updateKey))
			wantError(t, err, Runtime, "")
			if (got == nil) != (tc.want == "") || !got.Equal(item(t, tc.want)) {
				t.Fatalf("got  %s\nwant %s", ddb.AppendItem(nil, got), tc.want)
			}
			if tc.oldFragments != "" {
				if f := u.UpdatedOld(old); !f.Equal(item(t, tc.oldFragments)) {
					t.Errorf("UPDATED_OLD %s, want %s", ddb.AppendItem(nil, f), tc.oldFragments)
				}
			}
			if tc.newFragments != "" {
				if f := u.UpdatedNew(got); !f.Equal(item(t, tc.newFragments)) {
					t.Errorf("UPDATED_NEW %s, want %s", ddb.AppendItem(nil, f), tc.newFragments)
				}
			}
		})
	}
}

// nested is inner below n maps with the member x.
func nested(n int, inner string) string {
	return strings.Repeat(`{"M":{"x":`, n) + inner + strings.Repeat(`}}`, n)
}

// REMOVE shows nothing under UPDATED_NEW, not even the element that moved up.
func TestUpdatedNewOfRemoved(t *testing.T) {
	t.Parallel()
	u, err := NewCache(1).Update(NewPlaceholders(nil, nil), "REMOVE l[0], b")
	wantError(t, err, Invalid, "")
	got, err := u.Apply(item(t, `{"l":{"L":[{"N":"0"},{"N":"1"}]},"b":{"N":"1"}}`), nil)
	wantError(t, err, Runtime, "")
	if f := u.UpdatedNew(got); f == nil || len(f) != 0 {
		t.Errorf("UPDATED_NEW %s, want {}", ddb.AppendItem(nil, f))
	}
}

func TestUpdateRuntimeErrors(t *testing.T) {
	t.Parallel()
	const old = `{"a":{"S":"key"},"b":{"M":{"a":{"SS":["1"]}}},"c":{"N":"1"},"d":{"NS":["1"]},"l":{"L":[{"S":"a"}]},"s":{"S":"x"},
"tiny":{"N":"1E-130"},"huge":{"N":"6E+125"},"one":{"N":"1"}}`
	deep := `{"a":{"S":"key"},"m":` + nested(30, `{"M":{}}`) + `}`
	cases := []struct{ old, text, want string }{
		{old, "set c = gone", noSuchAttribute},
		{old, "set c = b.gone", noSuchAttribute},
		{old, "set c = l[1]", noSuchAttribute},
		{old, "set e = list_append(gone, l)", noSuchAttribute},
		{old, "set e = list_append(l, gone)", noSuchAttribute},
		{old, "set e = if_not_exists(gone, gone2)", noSuchAttribute},
		{old, "set e = c + gone", noSuchAttribute},
		{"", "set c = b", noSuchAttribute},

		{old, "delete b :ns", badOperand},
		{old, "delete b.a :ns", badOperand},
		{old, "delete b.a :bs", badOperand},
		{old, "delete c :ns", badOperand},
		{old, "delete d :ss", badOperand},
		{old, "add b :ns", badOperand},
		{old, "add d :n", badOperand},
		{old, "add s :n", badOperand},
		{old, "set e = a + :n", badOperand},
		{old, "set e = b - :n", badOperand},
		{old, "set e = :n - s", badOperand},
		{old, "set e = list_append(d, if_not_exists(f, :el))", badOperand},
		{old, "set e = list_append(:el, s)", badOperand},

		{"", "set b.a = a", badUpdatePath},
		{"", "set b[1] = a", badUpdatePath},
		{"", "remove b.a", badUpdatePath},
		{old, "set s.a = :s", badUpdatePath},
		{old, "set s[1] = :s", badUpdatePath},
		{old, "set y.a = :s", badUpdatePath},
		{old, "set y[1] = :s", badUpdatePath},
		{old, "set b[1] = :s", badUpdatePath},
		{old, "set l.x = :s", badUpdatePath},
		{old, "set l[3].x = :s", badUpdatePath},
		{old, "remove s.a", badUpdatePath},
		{old, "remove y[1]", badUpdatePath},
		{old, "remove b[1]", badUpdatePath},
		{old, "remove l.x", badUpdatePath},
		{old, "delete y.a :ss", badUpdatePath},
		{old, "add s.x :n", badUpdatePath},
		{old, "add l.x :n", badUpdatePath},
		{old, "set b.x.y = :s", badUpdatePath},

		{old, "set e = huge + :huge", "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{old, "add huge :huge", "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{old, "set e = tiny + :one", "Attempting to store more than 38 significant digits in a Number"},
		{old, "add one :tiny", "Attempting to store more than 38 significant digits in a Number"},

		{deep, "SET m" + strings.Repeat(".x", 30) + ".y = :m", tooDeep},
		{deep, "ADD m" + strings.Repeat(".x", 30) + ".y :n SET b = m", ""},
		{deep, "SET l = list_append(:el, :l), b = if_not_exists(b, m)", ""},
		{deep, "SET b = m, c = :m REMOVE d", ""},
	}
	c := NewCache(100)
	for _, tc := range cases {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			u, err := c.Update(NewPlaceholders(nil, item(t, updateValues)), tc.text)
			wantError(t, err, Invalid, "")
			got, err := u.Apply(item(t, tc.old), item(t, updateKey))
			wantError(t, err, Runtime, tc.want)
			if err != nil && got != nil {
				t.Error("an item comes with the error")
			}
		})
	}
}

func TestNumberText(t *testing.T) {
	t.Parallel()
	_, err := ddb.ParseNumber("1E-131")
	if got := numberText(err); got != "Number underflow. Attempting to store a number with magnitude smaller than supported range" {
		t.Error(got)
	}
}

// TestUpdateAmplification: what an expression makes of the item is bounded, not
// only what comes of it in the end.
func TestUpdateAmplification(t *testing.T) {
	t.Parallel()
	elems := make([]ddb.Value, 400_000)
	for i := range elems {
		elems[i] = ddb.String("")
	}
	old := ddb.Item{"l": ddb.List(elems...), "s": ddb.String(strings.Repeat("x", maxSet/2))}
	for text, want := range map[string]string{
		"SET b = list_append(l, l), c = list_append(l, l)": updateTooBig,
		"SET b = list_append(list_append(l, l), l)":        updateTooBig,
		"SET b = s, c = s":           "",
		"SET b = s, c = s, d = :one": updateTooBig,
	} {
		u, err := NewCache(1).Update(NewPlaceholders(nil, item(t, updateValues)), text)
		wantError(t, err, Invalid, "")
		_, err = u.Apply(old, old)
		wantError(t, err, Runtime, want)
	}
}
