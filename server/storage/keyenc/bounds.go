// SPDX-License-Identifier: Apache-2.0

package keyenc

import (
	"bytes"

	"github.com/extenddb/extenddb/format/ddb"
)

// Op is a comparison in a key condition.
type Op uint8

// The comparisons, and None for no condition.
const (
	None Op = iota
	EQ
	LT
	LE
	GT
	GE
	Between    // two operands, both included
	BeginsWith // strings and binaries only
)

// Bounds returns the half-open interval from <= s < to of the encoded sort keys
// of these kinds whose first len(equal) attributes equal those and whose next
// attribute satisfies op. nil is unbounded; an interval that cannot hold any
// key has from equal to to, neither nil nor empty. Operands may be of any
// length. Operands of another kind than the attribute, or of another number
// than op takes, are the caller's mistake.
func Bounds(kinds []ddb.Kind, equal []ddb.Value, op Op, operands []ddb.Value) (from, to []byte) {
	if op == EQ {
		equal = append(equal[:len(equal):len(equal)], operands[0])
		op = None
	}
	var prefix []byte
	for i, v := range equal {
		prefix = appendPart(prefix, v, i == len(kinds)-1)
	}
	if len(kinds) > 0 && len(equal) == len(kinds) {
		return prefix, next(prefix)
	}
	last := len(equal) == len(kinds)-1
	part := func(v ddb.Value) []byte { return appendPart(append([]byte{}, prefix...), v, last) }
	after := func(v ddb.Value) []byte { // the first key behind those with v here
		if last {
			return next(part(v))
		}
		return afterPrefix(part(v))
	}
	from, to = prefix, afterPrefix(prefix)
	switch op {
	case LT:
		to = part(operands[0])
	case LE:
		to = after(operands[0])
	case GT:
		from = after(operands[0])
	case GE:
		from = part(operands[0])
	case Between:
		from, to = part(operands[0]), after(operands[1])
	case BeginsWith:
		from = beginning(prefix, operands[0].Str(), last)
		to = afterPrefix(from)
	}
	if to != nil && bytes.Compare(from, to) >= 0 {
		return []byte{0}, []byte{0}
	}
	return from, to
}

// beginning is what the encoded keys start with whose attribute behind prefix
// begins with s.
func beginning(prefix []byte, s string, last bool) []byte {
	if last {
		return append(bytes.Clone(prefix), s...)
	}
	return appendEscaped(bytes.Clone(prefix), s)
}

// next is the smallest byte string larger than s.
func next(s []byte) []byte { return append(s[:len(s):len(s)], 0) }

// afterPrefix is the smallest byte string larger than all that begin with p;
// nil when there is none.
func afterPrefix(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xFF {
			a := bytes.Clone(p[:i+1])
			a[i]++
			return a
		}
	}
	return nil
}
