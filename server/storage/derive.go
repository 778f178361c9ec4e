// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"cmp"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// Derive says what becomes of an item: its row and the entries of its table's
// indexes. It is the only place that knows. The error is a *KeyError of the
// table's own key; trouble with index keys is listed in Next.Bad.
//
// An item is in an index when it carries every key attribute of it with the
// right type, not empty and within the limits.
func Derive(t *Table, it ddb.Item) (*Next, error) {
	k, err := t.KeyOf(it)
	if err != nil {
		return nil, err
	}
	size := it.Size()
	n := &Next{Item: ddb.AppendItem(make([]byte, 0, size+size/4+12*len(it)+2), it), Size: size}
	if it.HasLongNumber() {
		n.Flags |= FlagLongNumber
	}
	n.Entries, n.Bad = t.entries(it, k, size)
	slices.SortStableFunc(n.Bad, func(a, b BadKey) int { return cmp.Compare(a.Index.Name, b.Index.Name) })
	return n, nil
}

// EntriesOf returns the entries that a stored item has, of which size is the
// size: those that Derive would return, for less. Of it only the attributes
// count that keys and projections name. The error is that of Derive.
func EntriesOf(t *Table, it ddb.Item, size int) ([]Entry, error) {
	k, err := t.KeyOf(it)
	if err != nil {
		return nil, err
	}
	entries, _ := t.entries(it, k, size)
	return entries, nil
}

// entries derives the entries of an item with key and size, and lists the
// index keys that are not usable, index by index.
func (t *Table) entries(it ddb.Item, k Key, size int) (entries []Entry, bad []BadKey) {
	if len(t.Indexes) > 0 {
		entries = make([]Entry, 0, len(t.Indexes))
	}
	for _, ix := range t.Indexes {
		p, s, wrong, ok := ix.entryKey(it, k)
		bad = append(bad, wrong...)
		if ok {
			entries = append(entries, Entry{Index: ix.ID, P: p, S: s, Size: ix.size(it, size)})
		}
	}
	return entries, bad
}

// entryAttrs returns the attributes that entries follow from.
func (t *Table) entryAttrs() map[string]string {
	names := map[string]string{}
	for _, ix := range t.Indexes {
		for _, a := range ix.KeyAttrs(t) {
			names[a.Name] = a.Name
		}
		for _, name := range ix.projected {
			names[name] = name
		}
	}
	return names
}

// entryKey encodes the position in the index of an item whose table key is k;
// not ok when it has none. Attributes that are missing are no fault.
func (ix *Index) entryKey(it ddb.Item, k Key) (p, s []byte, bad []BadKey, ok bool) {
	var hash []ddb.Value
	whole := true
	if !ix.Local { // the hash key of a local index is the table's: k
		hash, whole = ix.values(it, ix.Hash, MaxHashKey, HashTooLong, &bad)
	}
	rng, all := ix.values(it, ix.Range, MaxRangeKey, RangeTooLong, &bad)
	if !whole || !all || len(bad) > 0 {
		return nil, nil, bad, false
	}
	s, err := keyenc.Sort(rng)
	if err != nil {
		return nil, nil, ix.all(ix.Range, EncodedTooLong), false
	}
	if ix.Local {
		return k.PK, s, nil, true
	}
	return keyenc.Hash(hash), s, nil, true
}

// values collects the key attributes of one role. It adds what is wrong with
// them to bad; whole tells that none is missing.
func (ix *Index) values(it ddb.Item, attrs []KeyAttr, limit int, tooLong BadKeyReason, bad *[]BadKey) (vals []ddb.Value, whole bool) {
	size := 0
	vals = make([]ddb.Value, 0, len(attrs))
	for _, a := range attrs {
		v, found := it[a.Name]
		switch {
		case !found:
			continue
		case v.Kind() != a.Kind:
			*bad = append(*bad, BadKey{ix, a, WrongType})
			continue
		case v.Size() == 0:
			*bad = append(*bad, BadKey{ix, a, EmptyKey})
			continue
		}
		size += v.Size()
		vals = append(vals, v)
	}
	if size > limit { // whichever of them a write changed is to blame
		for _, a := range attrs {
			if v := it[a.Name]; v.Kind() == a.Kind && v.Size() > 0 {
				*bad = append(*bad, BadKey{ix, a, tooLong})
			}
		}
	}
	return vals, len(vals) == len(attrs)
}

func (ix *Index) all(attrs []KeyAttr, reason BadKeyReason) []BadKey {
	bad := make([]BadKey, len(attrs))
	for i, a := range attrs {
		bad[i] = BadKey{ix, a, reason}
	}
	return bad
}

// size is what an entry counts: the projected attributes of the item, of which
// whole is the size.
func (ix *Index) size(it ddb.Item, whole int) int {
	if ix.projected == nil {
		return whole
	}
	n := 0
	for _, name := range ix.projected {
		if v, ok := it[name]; ok {
			n += len(name) + v.Size()
		}
	}
	return n
}

// Projected lists the attributes that a read of the index sees of an item, each
// once: table keys, index keys and what else it projects; nil for all of them. It must not be modified.
func (ix *Index) Projected() []string { return ix.projected }

// projectedNames lists the attributes the index carries, each once; nil for
// all of them.
func (ix *Index) projectedNames(t *Table) []string {
	if ix.Projection.ProjectionType == ddb.ProjectAll {
		return nil
	}
	var names []string
	for _, a := range ix.KeyAttrs(t) {
		names = append(names, a.Name)
	}
	for _, name := range ix.Projection.NonKeyAttributes {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
