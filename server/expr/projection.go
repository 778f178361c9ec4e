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

// Apply returns the projected part of item, never nil. Maps and lists on the
// way to what is projected hold nothing else; list elements close ranks.
func (p *Projection) Apply(item ddb.Item) ddb.Item { return p.tree.projectMap(item, nil) }

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
