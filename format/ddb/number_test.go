// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
)

var (
	nines38 = strings.Repeat("9", 38)
	ones38  = strings.Repeat("1", 38)
	largest = "9." + strings.Repeat("9", 37) + "E125"
)

func number(t *testing.T, s string) Number {
	t.Helper()
	n, err := ParseNumber(s)
	if err != nil {
		t.Fatalf("ParseNumber(%q): %v", s, err)
	}
	return n
}

func TestParseNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, plain, scientific string }{
		{"0", "0", "0"},
		{"-0", "0", "0"},
		{"+0", "0", "0"},
		{"00.000", "0", "0"},
		{"0e125", "0", "0"},
		{"0E-130", "0", "0"},
		{"-0.00e-130", "0", "0"},
		{"1", "1", "1E0"},
		{"-1", "-1", "-1E0"},
		{"+5", "5", "5E0"},
		{"+.5", "0.5", "5E-1"},
		{".5", "0.5", "5E-1"},
		{"5.", "5", "5E0"},
		{"1.", "1", "1E0"},
		{"1.e5", "100000", "1E5"},
		{"+1e-2", "0.01", "1E-2"},
		{"00042", "42", "4.2E1"},
		{"1.5E+3", "1500", "1.5E3"},
		{"10", "10", "1E1"},
		{"100.5", "100.5", "1.005E2"},
		{"0.0500", "0.05", "5E-2"},
		{"-2.5e-2", "-0.025", "-2.5E-2"},
		{"123456789012345678", "123456789012345678", "1.23456789012345678E17"},
		{"1234567890123456789", "1234567890123456789", "1.234567890123456789E18"},
		{"1E125", "1" + strings.Repeat("0", 125), "1E125"},
		{"0.00001e130", "1" + strings.Repeat("0", 125), "1E125"},
		{largest, nines38 + strings.Repeat("0", 88), largest},
		{"-" + largest, "-" + nines38 + strings.Repeat("0", 88), "-" + largest},
		{"1E-130", "0." + strings.Repeat("0", 129) + "1", "1E-130"},
		{"10e-131", "0." + strings.Repeat("0", 129) + "1", "1E-130"},
		{"-1." + ones38[1:] + "e-130", "-0." + strings.Repeat("0", 129) + ones38, "-1." + ones38[1:] + "E-130"},
		{nines38, nines38, "9." + nines38[1:] + "E37"},
		{"0" + nines38 + "000", nines38 + "000", "9." + nines38[1:] + "E40"},
		{"0.00" + nines38 + "0", "0.00" + nines38, "9." + nines38[1:] + "E-3"},
		{"1" + strings.Repeat("0", 200) + "e-200", "1", "1E0"},
		{"0." + strings.Repeat("0", 200) + "1e201", "1", "1E0"},
	} {
		n, err := ParseNumber(c.in)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if got := n.String(); got != c.plain {
			t.Errorf("%q: plain %s, want %s", c.in, got, c.plain)
		}
		if got := n.Scientific(); got != c.scientific {
			t.Errorf("%q: scientific %s, want %s", c.in, got, c.scientific)
		}
		for _, form := range []string{c.plain, c.scientific} {
			if back := number(t, form); back.Cmp(n) != 0 || back != n {
				t.Errorf("%q: %s reads back as %v", c.in, form, back)
			}
		}
		if len(c.plain) > maxPlain {
			t.Errorf("%q: %d bytes exceed maxPlain", c.in, len(c.plain))
		}
	}
}

func TestParseNumberRefuses(t *testing.T) {
	t.Parallel()
	texts := map[NumberProblem]string{
		NotNumber:       "is not a number",
		TooManyDigits:   "number has more than 38 significant digits",
		NumberOverflow:  "number is larger than 9.99..E+125",
		NumberUnderflow: "number is smaller than 1E-130",
	}
	for problem, inputs := range map[NumberProblem][]string{
		NotNumber: {
			"", " ", " 5", "5 ", "5\n", "\x005", "+", "-", ".", "+.", "-.e1", "++5", "+-5", "-+5", "--5", "1+2", "1-", "1.2.3",
			"1..2", "1.2e3.4", "1e", "1E", "1e+", "1e-", "1e+-1", "1ee1", "1e1e1", "1e 1", "1e1 ", "e2", "+e2", ".e2", "0x5", "0b1",
			"1 5", "1_000", "1e1_0", "1,5", "NaN", "nan", "Infinity", "-Infinity", "inf", "abc", "１", "५",
			"1e9223372036854775808", "1e-9223372036854775809", "0e9223372036854775808", "1e99999999999999999999",
		},
		TooManyDigits: {
			nines38 + "9", "-" + nines38 + "9", "1" + strings.Repeat("0", 37) + "1", "0.1" + strings.Repeat("0", 37) + "1",
			nines38 + ".9", nines38 + "9e-200", strings.Repeat("1", 100000),
		},
		NumberOverflow: {
			"1e126", "-1e126", "10e125", "0.1e127", "1e2147483647", "1e2147483648", "1e9223372036854775807", "99e9223372036854775807",
			"0e126", "-0e126", "0.0e9223372036854775807", "1" + strings.Repeat("0", 126), nines38 + "e89",
		},
		NumberUnderflow: {
			"1e-131", "-1e-131", "0.1e-130", "9.9e-131", "1e-2147483649", "1e-9223372036854775807", "1e-9223372036854775808",
			"0.001e-9223372036854775808", "0e-131", "0e-9223372036854775808", "0." + strings.Repeat("0", 130) + "1",
		},
	} {
		for _, in := range inputs {
			n, err := ParseNumber(in)
			var e *NumberError
			if !errors.As(err, &e) {
				t.Errorf("%.60q: %v, %v", in, n, err)
				continue
			}
			if e.Problem != problem || e.Input != in || n != (Number{}) {
				t.Errorf("%.60q: %v, problem %d, want %d", in, n, e.Problem, problem)
			}
			if msg := e.Error(); !strings.Contains(msg, texts[problem]) || len(msg) > 200 {
				t.Errorf("%.60q: message %q", in, msg)
			}
		}
	}
}

// ordered are distinct numbers in ascending order.
var ordered = []string{
	"-" + largest, "-1e125", "-1e38", "-" + nines38, "-43", "-42", "-41.9", "-1.1", "-1", "-0.5", "-0.05", "-1.1e-130", "-1e-130",
	"0", "1e-130", "1.1e-130", "0.05", "0.5", "0.50000000000000000000000000000000000001", "1", "1.1", "9", "10", "41.9", "42", "43",
	"9007199254740992", "9007199254740993", nines38, "1e38", "1e125", largest,
}

func TestNumberCmp(t *testing.T) {
	t.Parallel()
	for i, a := range ordered {
		for j, b := range ordered {
			want := min(max(i-j, -1), 1)
			if got := number(t, a).Cmp(number(t, b)); got != want {
				t.Errorf("Cmp(%s, %s) = %d, want %d", a, b, got, want)
			}
		}
	}
	for _, equal := range [][2]string{{"0", "-0"}, {"1", "1.0"}, {"100", "1e2"}, {"0.5", "+.50"}} {
		if number(t, equal[0]).Cmp(number(t, equal[1])) != 0 {
			t.Errorf("%s differs from %s", equal[0], equal[1])
		}
	}
}

func TestNumberArithmetic(t *testing.T) {
	t.Parallel()
	const fails = "!"
	for _, c := range []struct{ a, b, sum, difference string }{
		{"0", "0", "0", "0"},
		{"0", "5", "5", "-5"},
		{"5", "0", "5", "5"},
		{"1", "2", "3", "-1"},
		{"0.1", "0.2", "0.3", "-0.1"},
		{"-1", "1", "0", "-2"},
		{"5", "5", "10", "0"},
		{"99", "1", "100", "98"},
		{"1e20", "1e-17", "100000000000000000000.00000000000000001", "99999999999999999999.99999999999999999"},
		{"1e20", "1e-18", fails, "99999999999999999999.999999999999999999"},
		{"1e37", "1", "10000000000000000000000000000000000001", nines38[1:]},
		{"1e38", "1", fails, nines38},
		{"1e39", "1", fails, fails},
		{"1e125", "1e-130", fails, fails},
		{"9e125", "9e125", fails, "0"},
		{"-9e125", "9e125", "0", fails},
		{largest, "1e88", fails, "9." + strings.Repeat("9", 36) + "8E125"},
		{"1e-130", "1e-130", "2E-130", "0"},
		{"1.1e-130", "1e-130", "2.1E-130", fails},
		{"1." + ones38[1:] + "e-130", "1." + ones38[1:] + "e-130", "2." + strings.Repeat("2", 37) + "E-130", "0"},
		{nines38, "1", "1E38", nines38[1:] + "8"},
	} {
		a, b := number(t, c.a), number(t, c.b)
		for op, call := range map[string]func() (Number, error){
			c.a + " + " + c.b: func() (Number, error) { return a.Add(b) },
			c.b + " + " + c.a: func() (Number, error) { return b.Add(a) },
			c.a + " - " + c.b: func() (Number, error) { return a.Sub(b) },
		} {
			want := c.sum
			if strings.Contains(op, " - ") {
				want = c.difference
			}
			got, err := call()
			var e *NumberError
			switch {
			case want == fails:
				if !errors.As(err, &e) || e.Problem == NotNumber {
					t.Errorf("%s = %v, %v", op, got, err)
				}
			case err != nil || got != number(t, want):
				t.Errorf("%s = %v, %v, want %s", op, got, err, want)
			}
		}
	}
}

func TestNumberArithmeticProblems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want NumberProblem
	}{
		{"9e125", "9e125", NumberOverflow},
		{"-9e125", "-9e125", NumberOverflow},
		{"1.1e-130", "-1e-130", NumberUnderflow},
		{"1e125", "1", TooManyDigits},
	} {
		_, err := number(t, c.a).Add(number(t, c.b))
		var e *NumberError
		if !errors.As(err, &e) || e.Problem != c.want {
			t.Errorf("%s + %s: %v, want problem %d", c.a, c.b, err, c.want)
		}
	}
}

func TestNumberSize(t *testing.T) {
	t.Parallel()
	for size, inputs := range map[int][]string{
		1:  {"0", "-0", "0e100", "0.000"},
		2:  {"1", "12", "15", "100", "0042", "0.15", "1E125", "1E-100", "0.0000001", "9", "99", "9900"},
		3:  {"1.2", "1.5", "1.200", "123", "1234", "1010", "-42", "-1", "-0.5", "10.01", "0.123", "0.00123"},
		4:  {"1.234", "123456", "100.5", "-1.5", "-123"},
		5:  {"3.14159", "-123456"},
		20: {nines38, "0." + nines38, nines38 + "0000", "12345678901234567890.123456789012345678"},
		21: {"-" + nines38, "1." + nines38[1:], "-0." + nines38},
		22: {"-1." + nines38[1:]},
	} {
		for _, in := range inputs {
			if got := number(t, in).Size(); got != size {
				t.Errorf("size of %s is %d, want %d", in, got, size)
			}
			if got := Num(number(t, in)).Size(); got != size {
				t.Errorf("size of the value %s is %d, want %d", in, got, size)
			}
		}
	}
}

func TestNumberParts(t *testing.T) {
	t.Parallel()
	var zero Number
	if !zero.IsZero() || zero.Negative() || zero.String() != "0" || number(t, "-0") != zero {
		t.Errorf("the zero value is %v", zero)
	}
	if n := number(t, "-0.0420"); n.IsZero() || !n.Negative() {
		t.Errorf("%v: IsZero %t, Negative %t", n, n.IsZero(), n.Negative())
	}
	for in, want := range map[string]struct {
		digits string
		exp    int
	}{"0": {"", 0}, "-0.0420": {"42", -1}, "1500": {"15", 4}, "1E-130": {"1", -129}, "9e125": {"9", 126}} {
		if digits, exp := number(t, in).Digits(); digits != want.digits || exp != want.exp {
			t.Errorf("%s is 0.%s x 10^%d", in, digits, exp)
		}
	}
	for _, i := range []int64{0, 1, -1, 10, math.MaxInt64, math.MinInt64} {
		if got := NumberFromInt(i).String(); got != big.NewInt(i).String() {
			t.Errorf("NumberFromInt(%d) = %s", i, got)
		}
	}
	if got := number(t, "1.5").AppendPlain([]byte("x=")); string(got) != "x=1.5" {
		t.Errorf("AppendPlain: %s", got)
	}
}

func TestNumbersSort(t *testing.T) {
	t.Parallel()
	var ns []Number
	for _, s := range ordered {
		ns = append(ns, number(t, s))
	}
	slices.Reverse(ns)
	slices.SortFunc(ns, Number.Cmp)
	for i, n := range ns {
		if n != number(t, ordered[i]) {
			t.Errorf("place %d: %v, want %s", i, n, ordered[i])
		}
	}
}
