// SPDX-License-Identifier: Apache-2.0

// Package ddb is the DynamoDB data model: values, numbers, items, key schemas
// and table definitions, with the one DynamoDB-JSON codec of the program.
//
// Values are immutable and canonical from the moment they exist: numbers are
// kept in plain digits, sets are sorted and free of duplicates. So equal
// values have equal encodings, and what is stored is what is served.
package ddb

import (
	"slices"
	"strings"
)

// Kind is the type of a Value.
type Kind uint8

// The ten DynamoDB types. The zero Kind is that of the zero Value, which is
// no value at all.
const (
	KindS Kind = iota + 1
	KindN
	KindB
	KindBOOL
	KindNULL
	KindM
	KindL
	KindSS
	KindNS
	KindBS
)

var kindNames = [...]string{"", "S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"}

// String returns the type descriptor of the wire: "S", "N", "BOOL" …
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// ParseKind is the inverse of String; false for any other text.
func ParseKind(s string) (Kind, bool) {
	i := slices.Index(kindNames[1:], s)
	return Kind(i + 1), i >= 0
}

// IsSet reports whether k is SS, NS or BS.
func (k Kind) IsSet() bool { return k >= KindSS }

// IsScalar reports whether k can be a key: S, N or B.
func (k Kind) IsScalar() bool { return k >= KindS && k <= KindB }

// Element returns the kind of a set's members, or 0 when k is no set.
func (k Kind) Element() Kind {
	if k.IsSet() {
		return k - KindSS + KindS
	}
	return 0
}

// Set returns the set kind whose members are of scalar kind k.
func (k Kind) Set() Kind { return k - KindS + KindSS }

// Value is one attribute value. It must not be modified after construction,
// nor may the slices and maps its accessors return.
type Value struct {
	x    any    // []Value of L, Item of M, []string of a set
	s    string // text of S, plain digits of N, raw bytes of B
	kind Kind
	b    bool
}

// Item is the attribute map of an item, or of a value of type M.
type Item map[string]Value

// String returns a value of type S.
func String(s string) Value { return Value{kind: KindS, s: s} }

// Num returns a value of type N.
func Num(n Number) Value { return Value{kind: KindN, s: n.String()} }

// Int returns a value of type N.
func Int(i int64) Value { return Num(NumberFromInt(i)) }

// Binary returns a value of type B.
func Binary(b []byte) Value { return Value{kind: KindB, s: string(b)} }

// Bool returns a value of type BOOL.
func Bool(b bool) Value { return Value{kind: KindBOOL, b: b} }

// Null returns the value of type NULL.
func Null() Value { return Value{kind: KindNULL} }

// List returns a value of type L; it keeps elems.
func List(elems ...Value) Value { return Value{kind: KindL, x: elems} }

// Map returns a value of type M; it keeps m.
func Map(m Item) Value { return Value{kind: KindM, x: m} }

// NewSet returns a set of kind k (SS, NS, BS) of members that are already
// canonical (plain digits for NS, raw bytes for BS): it sorts them in place,
// drops duplicates and keeps the slice. An empty set is the caller's fault.
func NewSet(k Kind, members []string) Value {
	slices.Sort(members)
	return Value{kind: k, x: slices.Compact(members)}
}

// StringSet returns a value of type SS.
func StringSet(members ...string) Value { return NewSet(KindSS, slices.Clone(members)) }

// Kind returns the type; 0 for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// Str returns the text of S, the plain digits of N or the raw bytes of B.
func (v Value) Str() string { return v.s }

// Number returns the number of an N; 0 for any other kind.
func (v Value) Number() Number {
	if v.kind != KindN {
		return Number{}
	}
	return mustNumber(v.s)
}

func mustNumber(plain string) Number {
	n, err := ParseNumber(plain)
	if err != nil { // values hold canonical digits only
		panic("ddb: value holds an invalid number: " + err.Error())
	}
	return n
}

// Bool returns the truth of a BOOL.
func (v Value) Bool() bool { return v.b }

// List returns the elements of an L.
func (v Value) List() []Value { l, _ := v.x.([]Value); return l }

// Map returns the members of an M.
func (v Value) Map() Item { m, _ := v.x.(Item); return m }

// Set returns the members of a set, sorted by their bytes: texts of SS, plain
// digits of NS, raw bytes of BS.
func (v Value) Set() []string { s, _ := v.x.([]string); return s }

// Equal reports whether v and o are the same value: numbers by value, sets
// without order, lists with order.
func (v Value) Equal(o Value) bool {
	if v.kind != o.kind || v.s != o.s || v.b != o.b {
		return false
	}
	switch v.kind {
	case KindL:
		return slices.EqualFunc(v.List(), o.List(), Value.Equal)
	case KindM:
		return v.Map().Equal(o.Map())
	case KindSS, KindNS, KindBS:
		return slices.Equal(v.Set(), o.Set())
	}
	return true
}

// Equal reports whether both items have the same attributes.
func (it Item) Equal(o Item) bool {
	if len(it) != len(o) {
		return false
	}
	for name, v := range it {
		w, ok := o[name]
		if !ok || !v.Equal(w) {
			return false
		}
	}
	return true
}

// Compare orders two scalars of one kind as a sort key does: S and B by their
// bytes, N by value. It returns false when they are not comparable.
func Compare(a, b Value) (int, bool) {
	if a.kind != b.kind || !a.kind.IsScalar() {
		return 0, false
	}
	if a.kind == KindN {
		return a.Number().Cmp(b.Number()), true
	}
	return strings.Compare(a.s, b.s), true
}

// Size is the number of bytes the service counts for v, as measured on it.
func (v Value) Size() int {
	switch v.kind {
	case KindS, KindB:
		return len(v.s)
	case KindN:
		return plainSize(v.s)
	case KindBOOL, KindNULL:
		return 1
	case KindL:
		n := 3
		for _, e := range v.List() {
			n += 1 + e.Size()
		}
		return n
	case KindM:
		n := 3
		for name, e := range v.Map() {
			n += 1 + len(name) + e.Size()
		}
		return n
	}
	n := 0
	for _, m := range v.Set() {
		if v.kind == KindNS {
			n += plainSize(m)
		} else {
			n += len(m)
		}
	}
	return n
}

// Size is the number of bytes the service counts for the item: names and
// values, without the overhead of storage.
func (it Item) Size() int {
	n := 0
	for name, v := range it {
		n += len(name) + v.Size()
	}
	return n
}

// ScalarSize is the Size of the S, N or B whose Str is text.
func ScalarSize(k Kind, text []byte) int {
	if k == KindN {
		return plainSize(string(text))
	}
	return len(text)
}

// longNumber is the plain length beyond which backup lines use the exponent
// form.
const longNumber = 40

// HasLongNumber reports whether a number anywhere in v has a plain form of
// more than 40 characters.
func (v Value) HasLongNumber() bool {
	switch v.kind {
	case KindN:
		return len(v.s) > longNumber
	case KindL:
		return slices.ContainsFunc(v.List(), Value.HasLongNumber)
	case KindM:
		return v.Map().HasLongNumber()
	case KindNS:
		return slices.ContainsFunc(v.Set(), func(s string) bool { return len(s) > longNumber })
	}
	return false
}

// HasLongNumber reports whether any value of the item has one.
func (it Item) HasLongNumber() bool {
	for _, v := range it {
		if v.HasLongNumber() {
			return true
		}
	}
	return false
}

// names appends the item's names to dst, sorted by their UTF-8 bytes.
func (it Item) names(dst []string) []string {
	for name := range it {
		dst = append(dst, name)
	}
	slices.Sort(dst)
	return dst
}
