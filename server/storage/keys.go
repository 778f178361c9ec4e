// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// KeyWriter writes the key attributes of rows of a table or an index as JSON,
// without making items of them. It is for one goroutine.
type KeyWriter struct {
	table         *Table
	index         *Index
	hash, rng     []ddb.Kind // of the table
	ixHash, ixRng []ddb.Kind // of the index
	members       []keyMember
	texts         keyenc.Texts
}

// keyMember is one attribute, in the order of names.
type keyMember struct {
	name string
	head []byte // the name as JSON, with the colon
	kind ddb.Kind
	text int // where texts has it
}

// NewKeyWriter returns a KeyWriter for rows that Range yields over the table (ix
// nil) or an index.
func NewKeyWriter(t *Table, ix *Index) *KeyWriter {
	attrs := t.KeyAttrs()
	w := &KeyWriter{table: t, index: ix, hash: kinds(attrs[:1]), rng: kinds(attrs[1:])}
	if ix != nil {
		w.ixHash, w.ixRng = kinds(ix.Hash), kinds(ix.Range)
		attrs = slices.Concat(attrs, ix.Hash, ix.Range)
	}
	for i, a := range attrs {
		if !hasAttr(attrs[:i], a.Name) { // a key of both is the same in both
			w.members = append(w.members, keyMember{a.Name, append(ddb.AppendString(nil, a.Name), ':'), a.Kind, i})
		}
	}
	slices.SortFunc(w.members, func(a, b keyMember) int { return cmp.Compare(a.name, b.name) })
	return w
}

// Append appends what ddb.AppendItem makes of KeysOf, and returns the Size of
// that. The errors are those of KeysOf.
func (w *KeyWriter) Append(dst []byte, r *Row) (json []byte, size int, err error) {
	if (keyenc.IsShortened(r.Key.PK) || keyenc.IsShortened(r.P)) && r.Item != nil {
		keys, err := w.table.KeysOf(w.index, r)
		if err != nil {
			return dst, 0, err
		}
		return ddb.AppendItem(dst, keys), keys.Size(), nil
	}
	w.texts.Reset()
	err = w.decode(w.hash, w.rng, r.Key.PK, r.Key.SK)
	if err == nil && w.index != nil {
		err = w.decode(w.ixHash, w.ixRng, r.P, r.S)
	}
	if err != nil {
		return dst, 0, err
	}
	dst = append(dst, '{')
	for i := range w.members {
		m := &w.members[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		text := w.texts.At(m.text)
		dst = ddb.AppendScalar(append(dst, m.head...), m.kind, text)
		size += len(m.name) + ddb.ScalarSize(m.kind, text)
	}
	return append(dst, '}'), size, nil
}

func (w *KeyWriter) decode(hash, rng []ddb.Kind, p, s []byte) error {
	if err := w.texts.AddHash(hash, p); err != nil {
		return fmt.Errorf("decode hash key: %w", err)
	}
	if err := w.texts.AddSort(rng, s); err != nil {
		return fmt.Errorf("decode sort key: %w", err)
	}
	return nil
}
