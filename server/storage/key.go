// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// Limits of key values, in bytes as the service counts them. Those of an
// index hold for all its hash or range attributes together.
const (
	MaxHashKey  = 2048
	MaxRangeKey = 1024
)

// KeyError says why an item, or a request's key, has no usable primary key.
type KeyError struct {
	Attr    KeyAttr
	Problem BadKeyReason
	Actual  ddb.Kind // of the value found; 0 when it is missing
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("key attribute %q (%s, found %s): %s", e.Attr.Name, e.Attr.Kind, e.Actual, e.Problem)
}

// KeyOf encodes the primary key of an item, or of a request's key; it ignores
// all other attributes. The error is a *KeyError: Missing, WrongType,
// EmptyKey, HashTooLong or RangeTooLong of the first attribute in schema order
// that is missing or has the wrong type, or else of the first that is empty or
// too long.
func (t *Table) KeyOf(it ddb.Item) (Key, error) {
	attrs := t.KeyAttrs()
	for _, a := range attrs {
		if v := it[a.Name]; v.Kind() != a.Kind {
			reason := WrongType
			if v.Kind() == 0 {
				reason = Missing
			}
			return Key{}, &KeyError{a, reason, v.Kind()}
		}
	}
	for i, a := range attrs {
		v, limit, tooLong := it[a.Name], MaxHashKey, HashTooLong
		if i > 0 {
			limit, tooLong = MaxRangeKey, RangeTooLong
		}
		switch n := v.Size(); {
		case n == 0:
			return Key{}, &KeyError{a, EmptyKey, a.Kind}
		case n > limit:
			return Key{}, &KeyError{a, tooLong, a.Kind}
		}
	}
	k := Key{PK: keyenc.Hash([]ddb.Value{it[t.Hash.Name]}), SK: []byte{}}
	if t.Range != nil {
		var err error
		if k.SK, err = keyenc.Sort([]ddb.Value{it[t.Range.Name]}); err != nil {
			return Key{}, err // not reached: a single value is not escaped
		}
	}
	return k, nil
}

// KeyAttrs returns the attributes of a LastEvaluatedKey: those of the index,
// hash first, then those of the table it does not have.
func (ix *Index) KeyAttrs(t *Table) []KeyAttr {
	attrs := append(append([]KeyAttr(nil), ix.Hash...), ix.Range...)
	for _, a := range t.KeyAttrs() {
		if !hasAttr(attrs, a.Name) {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

func hasAttr(attrs []KeyAttr, name string) bool {
	for _, a := range attrs {
		if a.Name == name {
			return true
		}
	}
	return false
}

// kinds returns the types of attrs.
func kinds(attrs []KeyAttr) []ddb.Kind {
	ks := make([]ddb.Kind, len(attrs))
	for i, a := range attrs {
		ks[i] = a.Kind
	}
	return ks
}

// RangeKinds returns the types of the range attributes, for keyenc.Bounds.
func (ix *Index) RangeKinds() []ddb.Kind { return kinds(ix.Range) }

// RangeKinds returns the type of the range attribute, none on a hash-only
// table, for keyenc.Bounds.
func (t *Table) RangeKinds() []ddb.Kind { return kinds(t.KeyAttrs()[1:]) }

// PositionOf returns the position that key attributes name in the table (ix
// nil) or an index: where an ExclusiveStartKey points. It ignores all other
// attributes. The error is a *KeyError.
func (t *Table) PositionOf(ix *Index, it ddb.Item) (Position, error) {
	k, err := t.KeyOf(it)
	if err != nil || ix == nil {
		return Position{PK: k.PK, SK: k.SK}, err
	}
	p, s, bad, ok := ix.entryKey(it, k)
	switch {
	case len(bad) > 0:
		return Position{}, &KeyError{bad[0].Attr, bad[0].Reason, it[bad[0].Attr.Name].Kind()}
	case !ok:
		for _, a := range ix.KeyAttrs(t) {
			if _, present := it[a.Name]; !present {
				return Position{}, &KeyError{a, Missing, 0}
			}
		}
	}
	return Position{P: p, S: s, PK: k.PK, SK: k.SK}, nil
}

// KeysOf returns the key attributes of a row that Range yielded over the table
// (ix nil) or an index: a LastEvaluatedKey, or the whole answer of a KEYS_ONLY
// index. They are decoded from the encoded keys, and from r.Item where one is
// shortened; an error that wraps keyenc.ErrShortened when it is not there
// (Sizes), keyenc.ErrMalformed when the keys make no sense.
func (t *Table) KeysOf(ix *Index, r *Row) (ddb.Item, error) {
	attrs := t.KeyAttrs()
	if ix != nil {
		attrs = ix.KeyAttrs(t)
	}
	if (keyenc.IsShortened(r.Key.PK) || keyenc.IsShortened(r.P)) && r.Item != nil {
		it, err := ddb.ParseItem(r.Item)
		if err != nil {
			return nil, fmt.Errorf("read keys of row: %w", err)
		}
		return project(it, attrs), nil
	}
	keys := make(ddb.Item, len(attrs))
	hash, rng := t.KeyAttrs()[:1], t.KeyAttrs()[1:]
	if err := decodeInto(keys, hash, rng, r.Key.PK, r.Key.SK); err != nil {
		return nil, err
	}
	if ix != nil {
		if err := decodeInto(keys, ix.Hash, ix.Range, r.P, r.S); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func decodeInto(keys ddb.Item, hash, rng []KeyAttr, p, s []byte) error {
	hv, err := keyenc.DecodeHash(kinds(hash), p)
	if err != nil {
		return fmt.Errorf("decode hash key: %w", err)
	}
	rv, err := keyenc.DecodeSort(kinds(rng), s)
	if err != nil {
		return fmt.Errorf("decode sort key: %w", err)
	}
	for i, a := range hash {
		keys[a.Name] = hv[i]
	}
	for i, a := range rng {
		keys[a.Name] = rv[i]
	}
	return nil
}

func project(it ddb.Item, attrs []KeyAttr) ddb.Item {
	out := make(ddb.Item, len(attrs))
	for _, a := range attrs {
		if v, ok := it[a.Name]; ok {
			out[a.Name] = v
		}
	}
	return out
}

// Position returns where Range read the row.
func (r *Row) Position() Position { return Position{P: r.P, S: r.S, PK: r.Key.PK, SK: r.Key.SK} }

// Compare orders positions of one table or index as Range reads them forward.
func (p Position) Compare(o Position) int {
	for _, c := range [...][2][]byte{{p.P, o.P}, {p.S, o.S}, {p.PK, o.PK}, {p.SK, o.SK}} {
		if d := bytes.Compare(c[0], c[1]); d != 0 {
			return d
		}
	}
	return 0
}
