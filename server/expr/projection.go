// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"iter"

	"github.com/extenddb/extenddb/format/ddb"
)

// Projection is a bound projection expression or AttributesToGet.
type Projection struct {
	env   env
	paths [][]step
	tree  *pathNode
}

// NewProjection is AttributesToGet; it refuses a name given twice.
func NewProjection(attributesToGet []string) (*Projection, error) {
	p := &Projection{tree: &pathNode{index: -1, leaf: -1}}
	for i, name := range attributesToGet {
		if p.tree.kid(stepKey{name, -1}) != nil {
			return nil, bare("One or more parameter values were invalid: Duplicate value in attribute name: %s", name)
		}
		p.tree.addKid(stepKey{name, -1}, i).leaf = i
		p.paths = append(p.paths, []step{{name: name, ref: -1, index: -1}})
	}
	return p, nil
}

// Append appends the projected part of an item, both in canonical JSON. Maps and
// lists on the way to what is projected hold nothing else; list elements close
// ranks. It copies attributes that are projected whole, reads
// those that are projected in part, and ends with the last of them.
func (p *Projection) Append(dst, item []byte) ([]byte, error) {
	s := ddb.NewScanner(item)
	if err := s.Open(ddb.TokenObject); err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	for first, left := true, len(p.tree.kids); left > 0; first = false {
		name, more, err := s.NextKey(first)
		if err != nil {
			return dst, err
		}
		if !more {
			break
		}
		kid, from := p.tree.kid(stepKey{string(name), -1}), s.Offset()
		if kid != nil {
			left--
		}
		if kid != nil && kid.leaf < 0 {
			part, shown, err := kid.scan(s)
			if err != nil {
				return dst, err
			}
			if shown {
				dst = ddb.AppendValue(appendName(dst, kid.name), part)
			}
			continue
		}
		if err := s.Skip(); err != nil {
			return dst, err
		}
		if kid != nil {
			dst = append(appendName(dst, kid.name), item[from:s.Offset()]...)
		}
	}
	return append(dst, '}'), nil
}

// appendName appends the name of one more attribute.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(ddb.AppendString(dst, name), ':')
}

// scan reads a value and projects it.
func (n *pathNode) scan(s *ddb.Scanner) (part ddb.Value, ok bool, err error) {
	v, bad, err := ddb.ScanValue(s)
	switch {
	case err != nil:
		return v, false, err
	case bad != nil:
		return v, false, bad
	}
	part, ok = n.project(v, nil)
	return part, ok, nil
}

// Refs yields every path in the order of the text; names may repeat.
func (p *Projection) Refs() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for _, path := range p.paths {
			if !yield(p.env.ref(path)) {
				return
			}
		}
	}
}
