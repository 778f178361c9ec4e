// SPDX-License-Identifier: Apache-2.0

package keyenc

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

func num(t testing.TB, s string) ddb.Value {
	t.Helper()
	n, err := ddb.ParseNumber(s)
	if err != nil {
		t.Fatal(err)
	}
	return ddb.Num(n)
}

// values are scalars of one kind that meet each other in every way: prefixes,
// NULs, 0xFF, signs, exponents, lengths around the limits.
func values(t testing.TB, k ddb.Kind) []ddb.Value {
	t.Helper()
	var vals []ddb.Value
	switch k {
	case ddb.KindN:
		digits := []string{"1", "12", "123", "1201", "12000001", "99", "9", "1000000000000000000000000000000000001", strings.Repeat("9", 38)}
		for _, d := range digits {
			for _, exp := range []int{-130, -100, -40, -3, -1, 0, 1, 2, 50, 88} {
				for _, sign := range []string{"", "-"} {
					vals = append(vals, num(t, fmt.Sprintf("%s%sE%d", sign, d, exp)))
				}
			}
		}
		vals = append(vals, num(t, "0"), num(t, "9.9999999999999999999999999999999999999E125"), num(t, "-1E125"))
	case ddb.KindS:
		for _, s := range texts() {
			vals = append(vals, ddb.String(s))
		}
	default:
		for _, s := range append(texts(), "\xff", "\xff\xff", "\xff\x00", "\xfe", "\x00\xff", "a\xff", "\x00\xff\x00\x00") {
			vals = append(vals, ddb.Binary([]byte(s)))
		}
	}
	return vals
}

func texts() []string {
	return []string{
		"a", "b", "aa", "ab", "a\x00", "a\x00\x00", "a\x00\x01", "a\x00b", "a\x01", "a\x02", "\x00", "\x00\x00", "\x01", "\x01\x00", "\x7f",
		"é", "\U0010FFFF", "\U0010FFFF\U0010FFFF", "\uffff", strings.Repeat("a", 300), strings.Repeat("a", 1024), strings.Repeat("\x00", 18),
	}
}

var scalars = []ddb.Kind{ddb.KindS, ddb.KindN, ddb.KindB}

// compare orders keys attribute by attribute.
func compare(a, b []ddb.Value) int {
	for i := range a {
		if c, _ := ddb.Compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// inOrder checks that the bytes of all pairs compare as their values, and
// that they decode to what they were.
func inOrder(t *testing.T, kinds []ddb.Kind, keys [][]ddb.Value) {
	t.Helper()
	enc := make([][]byte, len(keys))
	for i, k := range keys {
		var err error
		if enc[i], err = Sort(k); err != nil {
			t.Fatalf("%v: %v", k, err)
		}
		back, err := DecodeSort(kinds, enc[i])
		if err != nil || !slices.EqualFunc(back, k, ddb.Value.Equal) {
			t.Fatalf("%v is decoded as %v (%v)", k, back, err)
		}
	}
	for i := range keys {
		for j := range keys {
			if got, want := bytes.Compare(enc[i], enc[j]), compare(keys[i], keys[j]); got != want {
				t.Fatalf("%.80v and %.80v compare as %d, want %d (%.80x, %.80x)", keys[i], keys[j], got, want, enc[i], enc[j])
			}
		}
	}
}

func TestOrderOfOneAttribute(t *testing.T) {
	t.Parallel()
	for _, k := range scalars {
		var keys [][]ddb.Value
		for _, v := range values(t, k) {
			keys = append(keys, []ddb.Value{v})
		}
		inOrder(t, []ddb.Kind{k}, keys)
	}
}

func TestOneAttributeIsRaw(t *testing.T) {
	t.Parallel()
	for _, s := range texts() {
		for _, v := range []ddb.Value{ddb.String(s), ddb.Binary([]byte(s))} {
			if got, err := Sort([]ddb.Value{v}); err != nil || string(got) != s {
				t.Errorf("%q is encoded as %x (%v)", s, got, err)
			}
		}
	}
}

func TestOrderOfComposites(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := 2; n <= 4; n++ {
		for range 30 {
			kinds, pools := make([]ddb.Kind, n), make([][]ddb.Value, n)
			for i := range kinds {
				kinds[i] = scalars[rnd.IntN(3)]
				pools[i] = slices.DeleteFunc(values(t, kinds[i]), func(v ddb.Value) bool { return len(v.Str()) > 200 })
				rnd.Shuffle(len(pools[i]), func(a, b int) { pools[i][a], pools[i][b] = pools[i][b], pools[i][a] })
				pools[i] = pools[i][:6] // few values, so that the first attributes tie
			}
			var keys [][]ddb.Value
			for range 80 {
				k := make([]ddb.Value, n)
				for i := range k {
					k[i] = pools[i][rnd.IntN(6)]
				}
				keys = append(keys, k)
			}
			inOrder(t, kinds, keys)
		}
	}
}

// randomNumber covers the whole range, lengths and exponents evenly.
func randomNumber(rnd *rand.Rand) ddb.Value {
	digits := []byte{byte('1' + rnd.IntN(9))}
	for range rnd.IntN(38) {
		digits = append(digits, byte('0'+rnd.IntN(10)))
	}
	sign := []string{"", "-"}[rnd.IntN(2)]
	exp := rnd.IntN(256) - 130 // of the first digit
	n, err := ddb.ParseNumber(fmt.Sprintf("%s%c.%sE%d", sign, digits[0], digits[1:], exp))
	if err != nil {
		panic(err)
	}
	return ddb.Num(n)
}

func TestOrderOfRandomNumbers(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	var keys [][]ddb.Value
	for range 600 {
		keys = append(keys, []ddb.Value{randomNumber(rnd)})
	}
	inOrder(t, []ddb.Kind{ddb.KindN}, keys)
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	zero, _ := Sort([]ddb.Value{num(t, "0")})
	for _, s := range []string{"-0", "0.000", "0E-130", "-0E125"} {
		if got, _ := Sort([]ddb.Value{num(t, s)}); !bytes.Equal(got, zero) {
			t.Errorf("%s is encoded as %x, zero as %x", s, got, zero)
		}
	}
	var enc [][]byte
	for _, v := range values(t, ddb.KindN) {
		e, _ := Sort([]ddb.Value{v})
		if len(e) > 21 {
			t.Errorf("%s takes %d bytes", v.Str(), len(e))
		}
		enc = append(enc, e)
	}
	for i, a := range enc {
		for j, b := range enc {
			if i != j && !bytes.Equal(a, b) && bytes.HasPrefix(b, a) {
				t.Fatalf("%x is a prefix of %x", a, b)
			}
		}
	}
}

func TestLengths(t *testing.T) {
	t.Parallel()
	for n := range 2049 {
		v := ddb.String(strings.Repeat("k", n))
		p := Hash([]ddb.Value{v})
		if len(p) > MaxHash || len(p) > 301 {
			t.Fatalf("a key of %d bytes takes %d", n, len(p))
		}
		if IsShortened(p) != (n > 300) {
			t.Fatalf("a key of %d bytes is shortened: %v", n, IsShortened(p))
		}
		back, err := DecodeHash([]ddb.Kind{ddb.KindS}, p)
		if n > 300 {
			if !errors.Is(err, ErrShortened) {
				t.Fatalf("decoding a shortened key: %v", err)
			}
		} else if err != nil || !back[0].Equal(v) {
			t.Fatalf("a key of %d bytes is decoded as %v (%v)", n, back, err)
		}
	}
	nuls := func(n int) []ddb.Value { // 1,024 bytes in four attributes, n of them NUL
		first := strings.Repeat("\x00", n) + strings.Repeat("x", 256-n)
		rest := ddb.String(strings.Repeat("x", 256))
		return []ddb.Value{ddb.String(first), rest, rest, rest}
	}
	if s, err := Sort(nuls(18)); err != nil || len(s) != MaxSort {
		t.Errorf("18 NULs: %d bytes, %v", len(s), err)
	}
	if s, err := Sort(nuls(19)); !errors.Is(err, ErrTooLong) || s != nil {
		t.Errorf("19 NULs: %d bytes, %v", len(s), err)
	}
	if s, err := Sort(nil); s == nil || len(s) != 0 || err != nil {
		t.Errorf("no values: %v, %v", s, err)
	}
	if IsShortened(nil) {
		t.Error("nothing is shortened")
	}
}

// TestKeysDiffer: keys made to look like others' short or escaped forms.
func TestKeysDiffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("l", 301)
	sum := sha256.Sum256([]byte(long))
	short := long[:256] + string(sum[:])
	one := []string{
		long, short, short + "\x00", short + "\x01", short + "\x00\x00", long[:256], long[:288], long[:300], long + "\x00", long + "\x01",
		"", "\x00", "\x01", "\x00\x01", "\x01\x00", "\x01\x01", strings.Repeat("l", 2048), strings.Repeat("l", 2047) + "m",
	}
	seen := map[string]string{}
	add := func(p []byte, what string) {
		if other, ok := seen[string(p)]; ok {
			t.Errorf("%.60q and %.60q are both %x", other, what, p)
		}
		seen[string(p)] = what
	}
	for _, s := range one {
		add(Hash([]ddb.Value{ddb.Binary([]byte(s))}), s)
	}
	// All pairs of short strings over the bytes that mean something.
	parts := strings3("\x00\x01\xff")
	clear(seen)
	for _, a := range parts {
		for _, b := range parts {
			add(Hash([]ddb.Value{ddb.Binary([]byte(a)), ddb.Binary([]byte(b))}), a+"|"+b)
		}
	}
}

// strings3 lists all strings of at most three bytes of an alphabet.
func strings3(alphabet string) []string {
	all, from := []string{""}, 0
	for range 3 {
		end := len(all)
		for _, s := range all[from:end] {
			for i := range len(alphabet) {
				all = append(all, s+alphabet[i:i+1])
			}
		}
		from = end
	}
	return all
}

func TestHashOrder(t *testing.T) {
	t.Parallel()
	for _, k := range scalars {
		vals := slices.DeleteFunc(values(t, k), func(v ddb.Value) bool { return len(v.Str()) > 300 })
		for _, a := range vals {
			for _, b := range vals {
				want, _ := ddb.Compare(a, b)
				if got := bytes.Compare(Hash([]ddb.Value{a}), Hash([]ddb.Value{b})); got != want {
					t.Fatalf("%q and %q compare as %d, want %d", a.Str(), b.Str(), got, want)
				}
			}
		}
	}
}

func TestDecodeMalformed(t *testing.T) {
	t.Parallel()
	s, n, b := ddb.KindS, ddb.KindN, ddb.KindB
	for _, c := range []struct {
		kinds []ddb.Kind
		s     string
	}{
		{nil, "x"},
		{[]ddb.Kind{s}, "\xff"}, {[]ddb.Kind{s, s}, "abc"}, {[]ddb.Kind{s, s}, "abc\x00"}, {[]ddb.Kind{s, s}, "abc\x00\x01x"},
		{[]ddb.Kind{s, s}, "\xff\x00\x00x"}, {[]ddb.Kind{b, n}, "a\x00\x00"}, {[]ddb.Kind{b}, strings.Repeat("x", MaxSort+1)},
		{[]ddb.Kind{n}, ""}, {[]ddb.Kind{n}, "\x80\x00"}, {[]ddb.Kind{n}, "\x82"}, {[]ddb.Kind{n}, "\x81"}, {[]ddb.Kind{n}, "\x81\x81"},
		{[]ddb.Kind{n}, "\x81\x81\x00"},                                   // no digits
		{[]ddb.Kind{n}, "\x81\x81\x12"},                                   // leading zero
		{[]ddb.Kind{n}, "\x81\x81\x15\x00"},                               // trailing zeros
		{[]ddb.Kind{n}, "\x81\x81\x15"},                                   // goes on, but ends
		{[]ddb.Kind{n}, "\x81\x81\xc8"},                                   // pair 100
		{[]ddb.Kind{n}, "\x81\x81\x14\x14"},                               // more than it says
		{[]ddb.Kind{n}, "\x7f\x81\x00"},                                   // negative
		{[]ddb.Kind{n}, "\x81\x81" + strings.Repeat("\x15", 19) + "\x14"}, // 40 digits
	} {
		if vals, err := DecodeSort(c.kinds, []byte(c.s)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v %q is decoded as %v (%v)", c.kinds, c.s, vals, err)
		}
	}
	for _, p := range []string{"", "x", "x\x02", strings.Repeat("x", 301) + "\x00"} {
		if vals, err := DecodeHash([]ddb.Kind{s}, []byte(p)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q is decoded as %v (%v)", p, vals, err)
		}
	}
}

// FuzzDecode: whatever decodes is exactly what the values encode to.
func FuzzDecode(f *testing.F) {
	for i, k := range scalars {
		for _, v := range values(f, k)[:20] {
			s, _ := Sort([]ddb.Value{v, v, v})
			f.Add(uint8(i*13), s)
		}
	}
	f.Fuzz(func(t *testing.T, shape uint8, s []byte) {
		kinds := []ddb.Kind{scalars[shape%3], scalars[shape/3%3], scalars[shape/9%3]}[:1+shape/27%3]
		vals, err := DecodeSort(kinds, s)
		if err != nil {
			return
		}
		if again, err := Sort(vals); err != nil || !bytes.Equal(again, s) {
			t.Fatalf("%x is decoded as %v, which is %x (%v)", s, vals, again, err)
		}
		p := append(slices.Clone(s), 0)
		if len(p) <= MaxHash {
			if vals, err := DecodeHash(kinds, p); err != nil || !bytes.Equal(Hash(vals), p) {
				t.Fatalf("%x is decoded as %v (%v)", p, vals, err)
			}
		}
	})
}

// FuzzOrder: two composites of strings and numbers compare as their values.
func FuzzOrder(f *testing.F) {
	f.Add("a", "b", int64(1), int64(2), "c", "d")
	f.Add("a", "a\x00", int64(-1), int64(100), "", "\xff")
	f.Add("a\x00", "a\x00\x00", int64(0), int64(0), "\x00", "")
	f.Fuzz(func(t *testing.T, a, b string, m, n int64, x, y string) {
		k := []ddb.Value{ddb.Binary([]byte(a)), ddb.Int(m), ddb.Binary([]byte(x))}
		l := []ddb.Value{ddb.Binary([]byte(b)), ddb.Int(n), ddb.Binary([]byte(y))}
		if got, want := bytes.Compare(encode(nil, k), encode(nil, l)), compare(k, l); got != want {
			t.Fatalf("%v and %v compare as %d, want %d", k, l, got, want)
		}
		if compare(k, l) != 0 && bytes.Equal(Hash(k), Hash(l)) {
			t.Fatalf("%v and %v are one key", k, l)
		}
	})
}
