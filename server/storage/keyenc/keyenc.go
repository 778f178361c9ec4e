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
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"unicode/utf8"

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
	switch {
	case IsShortened(p):
		return nil, ErrShortened
	case len(p) == 0 || len(p) > MaxHash || p[len(p)-1] != wholeMark:
		return nil, fmt.Errorf("%w: no end mark", ErrMalformed)
	}
	return decode(kinds, p[:len(p)-1])
}

// DecodeSort is the inverse of Sort for values of these kinds. ErrMalformed
// when Sort cannot have returned s.
func DecodeSort(kinds []ddb.Kind, s []byte) ([]ddb.Value, error) {
	if len(s) > MaxSort {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(s))
	}
	return decode(kinds, s)
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
	vals := make([]ddb.Value, 0, len(kinds))
	for i, k := range kinds {
		var text []byte
		var err error
		switch {
		case k == ddb.KindN:
			var n ddb.Number
			if n, b, err = cutNumber(b); err != nil {
				return nil, err
			}
			vals = append(vals, ddb.Num(n))
			continue
		case i == len(kinds)-1:
			text, b = b, nil
		default:
			if text, b, err = cutEscaped(b); err != nil {
				return nil, err
			}
		}
		if k == ddb.KindB {
			vals = append(vals, ddb.Binary(text))
			continue
		}
		if !utf8.Valid(text) {
			return nil, fmt.Errorf("%w: string is not UTF-8", ErrMalformed)
		}
		vals = append(vals, ddb.String(string(text)))
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", ErrMalformed, len(b))
	}
	return vals, nil
}

// cutEscaped takes an escaped and terminated text off the front of b.
func cutEscaped(b []byte) (text, rest []byte, err error) {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 || i+1 == len(b) {
			return nil, nil, fmt.Errorf("%w: text without end", ErrMalformed)
		}
		switch b[i+1] {
		case terminator:
			return append(text, b[:i]...), b[i+2:], nil
		case escaped:
			text = append(text, b[:i+1]...)
			b = b[i+2:]
		default:
			return nil, nil, fmt.Errorf("%w: unknown escape", ErrMalformed)
		}
	}
}
