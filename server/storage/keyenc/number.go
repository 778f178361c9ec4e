// SPDX-License-Identifier: Apache-2.0

package keyenc

import (
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
)

// A number is a sign byte, an exponent byte and a byte per pair of digits; all
// but the sign byte are complemented when the number is negative. Zero is the
// sign byte alone. A pair's byte is twice the pair, plus one when another
// follows: the end of the digits is marked in the last of them, which makes the
// encoding prefix-free and lets 0.12 sort before 0.1201.
const (
	signNegative = 0x7F
	signZero     = 0x80
	signPositive = 0x81

	minExp    = -129 // of 1E-130 = 0.1 x 10^-129; the largest, 126, is 255 above
	maxNumber = 2 + ddb.MaxDigits/2
)

var errNumber = fmt.Errorf("%w: number", ErrMalformed)

// appendNumber appends n in at most maxNumber bytes.
func appendNumber(dst []byte, n ddb.Number) []byte {
	digits, exp := n.Digits()
	sign, flip := byte(signPositive), byte(0)
	switch {
	case n.IsZero():
		return append(dst, signZero)
	case n.Negative():
		sign, flip = signNegative, 0xFF
	}
	dst = append(dst, sign, byte(exp-minExp)^flip)
	for i := 0; i < len(digits); i += 2 {
		pair := 10 * (digits[i] - '0')
		if i+1 < len(digits) {
			pair += digits[i+1] - '0'
		}
		b := 2 * pair
		if i+2 < len(digits) {
			b++
		}
		dst = append(dst, b^flip)
	}
	return dst
}

// cutNumber takes a number off the front of b and appends its plain form to
// dst. It accepts only what appendNumber writes.
func cutNumber(dst, b []byte) (text, rest []byte, err error) {
	if len(b) == 0 {
		return dst, nil, errNumber
	}
	flip := byte(0)
	switch b[0] {
	case signZero:
		return append(dst, '0'), b[1:], nil
	case signPositive:
	case signNegative:
		flip = 0xFF
	default:
		return dst, nil, errNumber
	}
	if len(b) < 3 {
		return dst, nil, errNumber
	}
	exp, b := int(b[1]^flip)+minExp, b[2:]
	var buf [ddb.MaxDigits]byte
	digits := buf[:0]
	for more := true; more; b = b[1:] {
		if len(b) == 0 || len(digits) == ddb.MaxDigits {
			return dst, nil, errNumber
		}
		c := b[0] ^ flip
		more = c&1 == 1
		if c >= 200 || (!more && c == 0) {
			return dst, nil, errNumber
		}
		digits = append(digits, '0'+c/20, '0'+c/2%10)
	}
	if digits[0] == '0' {
		return dst, nil, errNumber
	}
	if last := len(digits) - 1; digits[last] == '0' {
		digits = digits[:last]
	}
	return ddb.AppendPlain(dst, flip != 0, digits, exp), b, nil
}
