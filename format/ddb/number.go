// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Limits of a DynamoDB number (Amazon DynamoDB Developer Guide, "Supported
// data types").
const (
	MaxDigits = 38  // significant decimal digits
	maxExp    = 126 // 9.99..E+125 is 0.999..E+126
	minExp    = -129
	maxPlain  = 170 // bytes of the plain form: -0. and 129 zeros before 38 digits

	maxNumberText = 400 // bytes of a number read strictly: any spelling a program would choose
)

// Number is an exact decimal of at most 38 significant digits and a magnitude
// of 0 or 1E-130 to 9.99..E+125. The zero value is 0.
//
// The value is 0.d1d2d3.. x 10^exp with d1 and the last digit not zero.
type Number struct {
	digits string
	exp    int
	neg    bool
}

// NumberProblem says why a text is not a DynamoDB number.
type NumberProblem uint8

// What can be wrong with a number.
const (
	NotNumber NumberProblem = iota + 1 // not a decimal literal, or an exponent beyond 64 bits
	TooManyDigits
	NumberOverflow
	NumberUnderflow
	NumberTooLong // of strict reading only; Input is empty
)

// NumberError reports a text that is not a DynamoDB number.
type NumberError struct {
	Problem NumberProblem
	Input   string // as sent
}

func (e *NumberError) Error() string {
	switch e.Problem {
	case TooManyDigits:
		return "number has more than 38 significant digits"
	case NumberOverflow:
		return "number is larger than 9.99..E+125"
	case NumberUnderflow:
		return "number is smaller than 1E-130"
	case NumberTooLong:
		return "number is written in more than 400 characters"
	}
	return fmt.Sprintf("%.80q is not a number", e.Input)
}

// ParseNumber reads a decimal literal: an optional sign, digits with an
// optional point (at least one digit), an optional exponent. No blanks, no
// hexadecimal, no NaN. The error is a *NumberError.
func ParseNumber(s string) (Number, error) {
	if n, ok := parsePlainInt(s); ok {
		return n, nil
	}
	m, problem := scanMantissa(s)
	if problem != 0 {
		return Number{}, &NumberError{problem, s}
	}
	e, ok := parseExponent(s[m.end:])
	if !ok {
		return Number{}, &NumberError{NotNumber, s}
	}
	if m.significant == 0 {
		// Zero is range-checked by its written exponent, as measured on the service.
		switch {
		case e > maxExp-1:
			return Number{}, &NumberError{NumberOverflow, s}
		case e < minExp-1:
			return Number{}, &NumberError{NumberUnderflow, s}
		}
		return Number{}, nil
	}
	if m.significant > MaxDigits {
		return Number{}, &NumberError{TooManyDigits, s}
	}
	exp := satAdd(int64(m.exp), e)
	switch {
	case exp > maxExp:
		return Number{}, &NumberError{NumberOverflow, s}
	case exp < minExp:
		return Number{}, &NumberError{NumberUnderflow, s}
	}
	digits := s[m.start : m.start+m.significant]
	if strings.IndexByte(digits, '.') >= 0 {
		digits = string(m.buf[:m.significant])
	}
	return Number{digits: digits, exp: int(exp), neg: m.neg}, nil
}

// parsePlainInt is the fast path for what clients send most: an integer of at
// most 18 digits without sign, leading or trailing zeros or point.
func parsePlainInt(s string) (Number, bool) {
	if len(s) == 0 || len(s) > 18 || s[0] == '0' || s[len(s)-1] == '0' {
		return Number{}, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return Number{}, false
		}
	}
	return Number{digits: s, exp: len(s)}, true
}

type mantissa struct {
	buf         [MaxDigits]byte
	start       int // where the first significant digit stands
	significant int // digits from the first to the last that is not zero
	exp         int // position of the point relative to the first significant digit
	end         int // bytes read
	neg         bool
}

func scanMantissa(s string) (m mantissa, problem NumberProblem) {
	i := 0
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		m.neg = s[i] == '-'
		i++
	}
	var digits, seen, intDigits int // all digits; digits from the first significant one; those before the point
	point := false
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		digits++
		switch {
		case seen == 0 && c == '0':
			if point {
				m.exp--
			}
			continue
		case seen == 0:
			m.start = i
		}
		if seen < MaxDigits {
			m.buf[seen] = c
		}
		seen++
		if c != '0' {
			m.significant = seen
		}
		if !point {
			intDigits++
		}
	}
	if digits == 0 || (i < len(s) && s[i] != 'e' && s[i] != 'E') {
		return m, NotNumber
	}
	if intDigits > 0 {
		m.exp = intDigits
	}
	m.end = i
	return m, 0
}

// parseExponent reads "", "e5", "E-7"; false when it is no exponent or beyond
// 64 bits.
func parseExponent(s string) (int64, bool) {
	if s == "" {
		return 0, true
	}
	e, err := strconv.ParseInt(s[1:], 10, 64)
	return e, err == nil
}

func satAdd(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	if b < 0 && a < math.MinInt64-b {
		return math.MinInt64
	}
	return a + b
}

// NumberFromInt returns i as a Number.
func NumberFromInt(i int64) Number { return mustNumber(strconv.FormatInt(i, 10)) }

// IsZero reports whether n is 0.
func (n Number) IsZero() bool { return n.digits == "" }

// Negative reports whether n < 0.
func (n Number) Negative() bool { return n.neg && n.digits != "" }

// Digits returns the significant digits d1..dn and the exponent e of
// 0.d1..dn x 10^e. Zero has no digits.
func (n Number) Digits() (digits string, exp int) { return n.digits, n.exp }

// Cmp compares exactly: -1, 0 or 1 for n < o, n == o, n > o.
func (n Number) Cmp(o Number) int {
	a, b := n.sign(), o.sign()
	switch {
	case a != b:
		if a < b {
			return -1
		}
		return 1
	case a == 0:
		return 0
	}
	if n.exp != o.exp {
		if n.exp < o.exp {
			return -a
		}
		return a
	}
	return a * strings.Compare(n.digits, o.digits)
}

func (n Number) sign() int {
	switch {
	case n.digits == "":
		return 0
	case n.neg:
		return -1
	}
	return 1
}

// Add returns n + o, exactly; the error is a *NumberError when the sum needs
// more than 38 digits or leaves the range.
func (n Number) Add(o Number) (Number, error) {
	a, b := n.decimal(), o.decimal()
	var sum apd.Decimal
	// The base context does not round; two numbers in range cannot make it fail.
	if _, err := apd.BaseContext.Add(&sum, &a, &b); err != nil {
		return Number{}, fmt.Errorf("add %s and %s: %w", n, o, err)
	}
	if sum.IsZero() { // a written zero is range-checked by its exponent, this one is not
		return Number{}, nil
	}
	return ParseNumber(sum.Text('E'))
}

// Sub returns n - o, exactly; errors as Add.
func (n Number) Sub(o Number) (Number, error) {
	o.neg = !o.neg && !o.IsZero()
	return n.Add(o)
}

func (n Number) decimal() (d apd.Decimal) {
	if n.IsZero() {
		return d
	}
	d.Coeff.SetString(n.digits, 10)
	d.Exponent = int32(n.exp - len(n.digits))
	d.Negative = n.neg
	return d
}

// String returns the plain form, the canonical one: no exponent, no leading
// or trailing zeros, up to 170 characters.
func (n Number) String() string { return string(n.AppendPlain(nil)) }

// AppendPlain appends String to dst.
func (n Number) AppendPlain(dst []byte) []byte { return AppendPlain(dst, n.neg, n.digits, n.exp) }

// AppendPlain appends the plain form of 0.digits x 10^exp, or of the negative
// number: what Number.String tells of one with these Digits.
func AppendPlain[T string | []byte](dst []byte, negative bool, digits T, exp int) []byte {
	if len(digits) == 0 {
		return append(dst, '0')
	}
	if negative {
		dst = append(dst, '-')
	}
	switch k := len(digits); {
	case exp <= 0:
		dst = append(dst, '0', '.')
		dst = appendZeros(dst, -exp)
		dst = append(dst, digits...)
	case exp >= k:
		dst = append(dst, digits...)
		dst = appendZeros(dst, exp-k)
	default:
		dst = append(dst, digits[:exp]...)
		dst = append(dst, '.')
		dst = append(dst, digits[exp:]...)
	}
	return dst
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}

// Scientific returns d.dddE±x, the form backup lines use for numbers whose
// plain form exceeds 40 characters: 1E-130, 9.9E125.
func (n Number) Scientific() string {
	if n.digits == "" {
		return "0"
	}
	var b strings.Builder
	if n.neg {
		b.WriteByte('-')
	}
	b.WriteByte(n.digits[0])
	if len(n.digits) > 1 {
		b.WriteByte('.')
		b.WriteString(n.digits[1:])
	}
	fmt.Fprintf(&b, "E%d", n.exp-1)
	return b.String()
}

// Size is the number of bytes the service counts for n, as measured on it:
// 1 + half the significant integer digits + half the significant fraction
// digits, each rounded up, + 1 when negative.
func (n Number) Size() int {
	k := len(n.digits)
	whole := min(max(n.exp, 0), k)
	size := 1 + (whole+1)/2 + (k-whole+1)/2
	if n.Negative() {
		size++
	}
	return size
}

// plainSize is the Size of the number whose plain form is s. Every write asks
// for it, so it does not parse.
func plainSize(s string) int {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	switch {
	case fraction == "":
		whole = strings.TrimRight(whole, "0")
	case whole == "0":
		whole, fraction = "", strings.TrimLeft(fraction, "0")
	}
	size := 1 + (len(whole)+1)/2 + (len(fraction)+1)/2
	if negative {
		size++
	}
	return size
}
