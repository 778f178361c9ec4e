// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzItem holds reading and writing against each other: what is read is
// written in one form, which reads as the same item, of the same size.
func FuzzItem(f *testing.F) {
	for _, in := range malformed {
		f.Add([]byte(in))
		f.Add([]byte(`{"a":` + in + `}`))
	}
	for _, values := range distinct {
		for _, v := range values {
			f.Add([]byte(`{"a":` + v + `}`))
			f.Add([]byte(`{"b":{"L":[` + v + `]},"a":{"M":{"é":` + v + `,"😀":` + v + `}}}`))
		}
	}
	for _, in := range []string{
		`{"a":{"N":"1e125"},"a":{"NS":["-1e-130","1e40"]}}`, `{"":{"S":"x"}}`, `{"a":{"NULL":false}}`, `{"a":{"SS":["b","a","b"]}}`,
		`{"a":{"BS":["AA==","AA=="]}}`, `{"a":{"B":"AAB="}}`, `{"a":{"X":[{}],"S":null}}`, `{"a":{"S":"","N":"1"}}`, `{"a":{"SS":[]}}`,
		`{"a":{"S":"\u0000\u2028\ud83d\ude00\"\\\/\b\f\n\r\t` + "\u2028\x7f" + `"}}`, `{"a":{"N":"` + nines38 + `9"}}`,
		`{"a":` + nested(31, `{"S":"x"}`) + `}`, `{"a":` + nested(32, `{"S":"x"}`) + `}`, `{"a":{"BOOL":1}}`, `{"a":{"L":{}}}`, `{"a":{"M":[]}}`,
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		sent := bytes.Clone(in)
		it, err := ParseItem(in)
		if !bytes.Equal(in, sent) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			checkRefusal(t, in, err)
			return
		}
		if !json.Valid(in) || !utf8.Valid(in) {
			t.Fatal("accepts what is no JSON")
		}
		for i := range in { // nothing aliases the input
			in[i] = 'x'
		}
		canonical := AppendItem(nil, it)
		again, err := ParseItem(canonical)
		if err != nil || !again.Equal(it) || again.Size() != it.Size() {
			t.Fatalf("%s reads back as %v, %v", canonical, again, err)
		}
		for _, v := range it {
			if !v.Kind().IsScalar() {
				continue
			}
			text := []byte(v.Str())
			if got, want := AppendScalar(nil, v.Kind(), text), AppendValue(nil, v); !bytes.Equal(got, want) || ScalarSize(v.Kind(), text) != v.Size() {
				t.Fatalf("as text %s of %d bytes, as a value %s of %d", got, ScalarSize(v.Kind(), text), want, v.Size())
			}
		}
		if twice := AppendItem(nil, again); !bytes.Equal(twice, canonical) {
			t.Fatalf("not a fixed point:\n%s\n%s", canonical, twice)
		}
		if !json.Valid(canonical) || !utf8.Valid(canonical) {
			t.Fatalf("writes what is no JSON: %s", canonical)
		}
		line := AppendBackupItem(nil, it)
		if back, err := ParseItem(line); err != nil || !back.Equal(it) {
			t.Fatalf("backup line %s reads back as %v, %v", line, back, err)
		}
		if bytes.Equal(line, canonical) == it.HasLongNumber() {
			t.Fatalf("HasLongNumber %t of %s", it.HasLongNumber(), line)
		}
	})
}

// checkRefusal holds a refusal against the standard library: only a body that
// is not JSON may be refused without a text.
func checkRefusal(t *testing.T, in []byte, err error) {
	t.Helper()
	var syntax *SyntaxError
	var bad *ValueError
	switch {
	case errors.As(err, &bad):
		if !json.Valid(in) {
			t.Fatalf("%v hides that this is no JSON", err)
		}
	case !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(in):
		t.Fatalf("unexpected error %v", err)
	case syntax.Message == "" && json.Valid(in) && !refusedText(in):
		t.Fatalf("refuses JSON: %v", err)
	}
	if err.Error() == "" || len(err.Error()) > 1000 {
		t.Fatalf("error of %d bytes", len(err.Error()))
	}
}

// refusedText reports whether in may hold text that has no UTF-8 form, which
// the standard library replaces instead.
func refusedText(in []byte) bool {
	return !utf8.Valid(in) || bytes.Contains(bytes.ToLower(in), []byte(`\ud`))
}

// FuzzSkip holds Skip against the standard library's idea of JSON.
func FuzzSkip(f *testing.F) {
	for _, in := range append(append([]string{}, documents...), malformed...) {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := NewScanner(in)
		err := s.Skip()
		if err == nil {
			err = s.End()
		}
		switch {
		case err == nil && (!json.Valid(in) || !utf8.Valid(in)):
			t.Fatal("accepts what is no JSON")
		case err != nil:
			checkRefusal(t, in, err)
		}
		walked := NewScanner(in)
		werr := walk(walked, &strings.Builder{})
		if werr == nil {
			werr = walked.End()
		}
		if (werr == nil) != (err == nil) {
			t.Fatalf("Skip says %v, step by step %v", err, werr)
		}
	})
}

// FuzzNumber holds numbers against exact fractions.
func FuzzNumber(f *testing.F) {
	for i, a := range ordered {
		f.Add(a, ordered[len(ordered)-1-i])
		f.Add(a, ordered[(i+1)%len(ordered)])
		f.Add(a, a)
	}
	for _, a := range []string{"+.5", "5.", "1.e5", "00042", "-0", "0e125", "0e126", "0e-131", "1e126", "1e-131", "", "+", ".", "1.2.3", "1e+", "0x5", "1_0", nines38 + "9"} {
		f.Add(a, "1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		n, nerr := ParseNumber(a)
		m, merr := ParseNumber(b)
		if nerr != nil || merr != nil {
			return
		}
		x, y := exact(t, a, n), exact(t, b, m)
		if got, want := n.Cmp(m), x.Cmp(y); got != want || m.Cmp(n) != -want {
			t.Fatalf("Cmp(%s, %s) = %d, want %d", a, b, got, want)
		}
		if (n == m) != (x.Cmp(y) == 0) {
			t.Fatalf("%s and %s: equal as structs %t", a, b, n == m)
		}
		sum, err := n.Add(m)
		checkResult(t, a+" + "+b, sum, err, new(big.Rat).Add(x, y))
		difference, err := n.Sub(m)
		checkResult(t, a+" - "+b, difference, err, new(big.Rat).Sub(x, y))
		if got, ok := Compare(Num(n), Num(m)); !ok || got != n.Cmp(m) {
			t.Fatalf("Compare(%s, %s) = %d, %t", a, b, got, ok)
		}
	})
}

// exact checks the forms of n, read from text, and returns it as a fraction.
func exact(t *testing.T, text string, n Number) *big.Rat {
	t.Helper()
	var plain *big.Rat
	for _, form := range []string{n.String(), n.Scientific()} {
		back, err := ParseNumber(form)
		if err != nil || back != n {
			t.Fatalf("%s: %s reads back as %v, %v", text, form, back, err)
		}
		r, ok := new(big.Rat).SetString(form)
		if !ok || plain != nil && plain.Cmp(r) != 0 {
			t.Fatalf("%s: %s is another number", text, form)
		}
		plain = r
	}
	if len(text) < 300 && !strings.ContainsAny(text, "eE") {
		if r, ok := new(big.Rat).SetString(text); !ok || r.Cmp(plain) != 0 {
			t.Fatalf("%s reads as %s", text, n)
		}
	}
	if size := n.Size(); size < 1 || size > 22 || (size == 1) != n.IsZero() || size != Num(n).Size() {
		t.Fatalf("%s has %d bytes", text, size)
	}
	return plain
}

// checkResult holds the result of an operation against the exact one.
func checkResult(t *testing.T, op string, got Number, err error, want *big.Rat) {
	t.Helper()
	if err == nil {
		if r, ok := new(big.Rat).SetString(got.String()); !ok || r.Cmp(want) != 0 {
			t.Fatalf("%s = %s, want %s", op, got, want.FloatString(170))
		}
		return
	}
	var e *NumberError
	if !errors.As(err, &e) || e.Problem == NotNumber {
		t.Fatalf("%s: unexpected error %v", op, err)
	}
	// Sums of two numbers end at the 167th decimal at the latest.
	decimal := strings.Trim(strings.Replace(want.FloatString(170), ".", "", 1), "-0")
	fits := len(decimal) <= MaxDigits
	size := new(big.Rat).Abs(want)
	if limit, _ := new(big.Rat).SetString("1e126"); size.Cmp(limit) >= 0 {
		fits = false
	}
	if limit, _ := new(big.Rat).SetString("1e-130"); size.Cmp(limit) < 0 {
		fits = false
	}
	if fits {
		t.Fatalf("%s: refused with %v, but is %s", op, err, want.FloatString(170))
	}
}
