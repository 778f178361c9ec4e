// SPDX-License-Identifier: Apache-2.0

// Package keyenc turns key values into bytes that sort as DynamoDB sorts the
// values, with bounded length.
//
// The values of a key are encoded one after another. A number is
// self-delimiting; a string or binary is raw when it comes last, and escaped
// and terminated before another value: 0x00 becomes 0x00 0xFF, the end is 0x00
// 0x00. So the key of a single attribute is the attribute's own bytes, and the
// byte order of composites is that of their attributes, one after another.
package keyenc

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
)

const (
	// MaxHash is the longest answer of Hash, in bytes.
	MaxHash = maxWhole + 1
	// MaxSort is the longest answer of Sort, in bytes: the 1,024 a service key
	// may have, three terminators and 18 escaped NULs. It lets the four keys of
	// an index entry fit a PostgreSQL btree tuple.
	MaxSort = 1048

	maxWhole    = 300 // longest partition key kept whole
	keptPrefix  = 256 // bytes of a longer one that are kept
	wholeMark   = 0x00
	shortMark   = 0x01
	escaped     = 0xFF // after 0x00: a 0x00 of the value
	terminator  = 0x00 // after 0x00: the value ends
	shortLength = keptPrefix + sha256.Size + 1
)

// The errors of this package.
var (
	ErrTooLong   = errors.New("encoded sort key is longer than 1048 bytes")
	ErrShortened = errors.New("partition key is shortened")
	ErrMalformed = errors.New("malformed key bytes")
)

// Hash encodes a partition key in at most MaxHash bytes: its bytes and 0x00
// when they are at most 300, else the first 256, the SHA-256 of all and 0x01.
// The last byte keeps a short key from being crafted to equal a long one. Byte
// order is that of the keys as long as neither is shortened; beyond, only
// equality means something.
func Hash(vals []ddb.Value) []byte {
	p := encode(make([]byte, 0, encodedLen(vals)+1), vals)
	if len(p) <= maxWhole {
		return append(p, wholeMark)
	}
	sum := sha256.Sum256(p)
	short := make([]byte, 0, shortLength)
	short = append(short, p[:keptPrefix]...)
	return append(append(short, sum[:]...), shortMark)
}

// IsShortened reports whether p, an answer of Hash, does not hold the whole
// key: the item does.
func IsShortened(p []byte) bool { return len(p) > 0 && p[len(p)-1] == shortMark }

// Sort encodes a sort key so that byte order is the order of the keys. No
// values give an empty slice, never nil. ErrTooLong beyond MaxSort bytes.
func Sort(vals []ddb.Value) ([]byte, error) {
	s := encode(make([]byte, 0, encodedLen(vals)), vals)
	if len(s) > MaxSort {
		return nil, ErrTooLong
	}
	return s, nil
}

// DecodeHash is the inverse of Hash for values of these kinds. ErrShortened
// when p does not hold them, ErrMalformed when Hash cannot have returned p.
func DecodeHash(kinds []ddb.Kind, p []byte) ([]ddb.Value, error) {
	b, err := whole(p)
	if err != nil {
		return nil, err
	}
	return decode(kinds, b)
}

// whole returns the encoded values of p, an answer of Hash.
func whole(p []byte) ([]byte, error) {
	switch {
	case IsShortened(p):
		return nil, ErrShortened
	case len(p) == 0 || len(p) > MaxHash || p[len(p)-1] != wholeMark:
		return nil, fmt.Errorf("%w: no end mark", ErrMalformed)
	}
	return p[:len(p)-1], nil
}

// DecodeSort is the inverse of Sort for values of these kinds. ErrMalformed
// when Sort cannot have returned s.
func DecodeSort(kinds []ddb.Kind, s []byte) ([]ddb.Value, error) {
	if err := fits(s); err != nil {
		return nil, err
	}
	return decode(kinds, s)
}

func fits(s []byte) error {
	if len(s) > MaxSort {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, len(s))
	}
	return nil
}

// encodedLen is an upper bound of the encoded length, but for NULs.
func encodedLen(vals []ddb.Value) int {
	n := 0
	for _, v := range vals {
		if v.Kind() == ddb.KindN {
			n += maxNumber
		} else {
			n += len(v.Str()) + 2
		}
	}
	return n
}

func encode(dst []byte, vals []ddb.Value) []byte {
	for i, v := range vals {
		dst = appendPart(dst, v, i == len(vals)-1)
	}
	return dst
}

// appendPart appends one value of a key; last says that no other follows.
func appendPart(dst []byte, v ddb.Value, last bool) []byte {
	switch {
	case v.Kind() == ddb.KindN:
		return appendNumber(dst, v.Number())
	case last:
		return append(dst, v.Str()...)
	}
	return append(appendEscaped(dst, v.Str()), 0, terminator)
}

func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, s[i])
		if s[i] == 0 {
			dst = append(dst, escaped)
		}
	}
	return dst
}

func decode(kinds []ddb.Kind, b []byte) ([]ddb.Value, error) {
	var t Texts
	if err := t.add(kinds, b); err != nil {
		return nil, err
	}
	vals := make([]ddb.Value, 0, len(kinds))
	for i, text := range t.list {
		switch kinds[i] {
		case ddb.KindN:
			n, err := ddb.ParseNumber(string(text))
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
			}
			vals = append(vals, ddb.Num(n))
		case ddb.KindB:
			vals = append(vals, ddb.Binary(text))
		default:
			vals = append(vals, ddb.String(string(text)))
		}
	}
	return vals, nil
}
