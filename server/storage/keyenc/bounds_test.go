// SPDX-License-Identifier: Apache-2.0

package keyenc

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// satisfies is what Bounds means, said plainly.
func satisfies(key, equal []ddb.Value, op Op, operands []ddb.Value) bool {
	if compare(equal, key[:len(equal)]) != 0 {
		return false
	}
	if op == None {
		return true
	}
	v := key[len(equal)]
	c := func(i int) int { c, _ := ddb.Compare(v, operands[i]); return c }
	switch op {
	case EQ:
		return c(0) == 0
	case LT:
		return c(0) < 0
	case LE:
		return c(0) <= 0
	case GT:
		return c(0) > 0
	case GE:
		return c(0) >= 0
	case Between:
		return c(0) >= 0 && c(1) <= 0
	}
	return strings.HasPrefix(v.Str(), operands[0].Str())
}

// checkBounds compares Bounds with satisfies on all keys.
func checkBounds(t *testing.T, kinds []ddb.Kind, keys [][]ddb.Value, equal []ddb.Value, op Op, operands []ddb.Value) {
	t.Helper()
	from, to := Bounds(kinds, equal, op, operands)
	if to != nil && bytes.Compare(from, to) >= 0 && !(bytes.Equal(from, to) && len(from) > 0) {
		t.Fatalf("bounds %x, %x", from, to)
	}
	for _, k := range keys {
		s := encode(nil, k)
		got := bytes.Compare(s, from) >= 0 && (to == nil || bytes.Compare(s, to) < 0)
		if want := satisfies(k, equal, op, operands); got != want {
			t.Fatalf("%v in %v, op %d, %v: %v, want %v (%x <= %x < %x)", k, equal, op, operands, got, want, from, s, to)
		}
	}
}

func TestBoundsOfOneAttribute(t *testing.T) {
	t.Parallel()
	for _, k := range scalars {
		vals := values(t, k)
		if k == ddb.KindN {
			vals = slices.DeleteFunc(vals, func(v ddb.Value) bool { return len(v.Str()) > 44 })
		}
		var keys [][]ddb.Value
		for _, v := range vals {
			keys = append(keys, []ddb.Value{v})
		}
		checkBounds(t, []ddb.Kind{k}, keys, nil, None, nil)
		for i, v := range vals {
			for op := EQ; op <= GE; op++ {
				checkBounds(t, []ddb.Kind{k}, keys, nil, op, []ddb.Value{v})
			}
			checkBounds(t, []ddb.Kind{k}, keys, []ddb.Value{v}, None, nil)
			if k != ddb.KindN {
				checkBounds(t, []ddb.Kind{k}, keys, nil, BeginsWith, []ddb.Value{v})
			}
			for j := range vals {
				if (i+j)%3 == 0 { // also with the bounds the wrong way round
					checkBounds(t, []ddb.Kind{k}, keys, nil, Between, []ddb.Value{v, vals[j]})
				}
			}
		}
	}
}

func TestBoundsOfComposites(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	for n := 2; n <= 4; n++ {
		for range 60 {
			kinds, pools := make([]ddb.Kind, n), make([][]ddb.Value, n)
			for i := range kinds {
				kinds[i] = scalars[rnd.IntN(3)]
				pools[i] = values(t, kinds[i])
				rnd.Shuffle(len(pools[i]), func(a, b int) { pools[i][a], pools[i][b] = pools[i][b], pools[i][a] })
				pools[i] = pools[i][:5]
			}
			var keys [][]ddb.Value
			for range 60 {
				k := make([]ddb.Value, n)
				for i := range k {
					k[i] = pools[i][rnd.IntN(5)]
				}
				keys = append(keys, k)
			}
			for range 60 {
				k := keys[rnd.IntN(len(keys))]
				depth := rnd.IntN(n + 1)
				if depth == n {
					checkBounds(t, kinds, keys, k, None, nil)
					continue
				}
				operands := []ddb.Value{pools[depth][rnd.IntN(5)], pools[depth][rnd.IntN(5)]}
				op := Op(rnd.IntN(int(BeginsWith) + 1))
				if op == BeginsWith {
					if kinds[depth] == ddb.KindN {
						continue
					}
					part := operands[0].Str()
					operands[0] = ddb.Binary([]byte(part[:rnd.IntN(len(part)+1)]))
				}
				checkBounds(t, kinds, keys, k[:depth], op, operands)
			}
		}
	}
}

func TestBoundsAtTheEnds(t *testing.T) {
	t.Parallel()
	b := func(ss ...string) (vals []ddb.Value) {
		for _, s := range ss {
			vals = append(vals, ddb.Binary([]byte(s)))
		}
		return vals
	}
	one, two := []ddb.Kind{ddb.KindB}, []ddb.Kind{ddb.KindB, ddb.KindB}
	for _, c := range []struct {
		kinds    []ddb.Kind
		equal    []ddb.Value
		op       Op
		operands []ddb.Value
		from     string
		to       []byte
	}{
		{one, nil, BeginsWith, b("\xff"), "\xff", nil},
		{one, nil, BeginsWith, b("\xff\xff"), "\xff\xff", nil},
		{one, nil, BeginsWith, b("a\xff"), "a\xff", []byte("b")},
		{one, nil, BeginsWith, b(""), "", nil},
		{one, nil, LT, b(""), "\x00", []byte{0}},
		{one, nil, Between, b("b", "a"), "\x00", []byte{0}},
		{one, nil, EQ, b("\xff"), "\xff", []byte{0xFF, 0}},
		{two, b("a"), BeginsWith, b("\xff"), "a\x00\x00\xff", []byte("a\x00\x01")},
		{two, nil, BeginsWith, b("\xff"), "\xff", nil},
		{two, nil, BeginsWith, b("\x00"), "\x00\xff", []byte{1}},
		{nil, nil, None, nil, "", nil},
	} {
		from, to := Bounds(c.kinds, c.equal, c.op, c.operands)
		if string(from) != c.from || (to == nil) != (c.to == nil) || !bytes.Equal(to, c.to) {
			t.Errorf("op %d of %v: %q to %q, want %q to %q", c.op, c.operands, from, to, c.from, c.to)
		}
	}
}

// TestBoundsKeepOperands: nothing that was passed is written to.
func TestBoundsKeepOperands(t *testing.T) {
	t.Parallel()
	equal := append(make([]ddb.Value, 0, 4), ddb.String("a"))
	spare := append(equal, ddb.String("kept"))
	Bounds([]ddb.Kind{ddb.KindS, ddb.KindS}, equal, EQ, []ddb.Value{ddb.String("b")})
	if spare[1].Str() != "kept" {
		t.Error("the caller's slice is written to")
	}
}
