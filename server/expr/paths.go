// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/extenddb/extenddb/format/ddb"
)

// pathNode is a set of document paths that neither overlap nor conflict, as a
// tree of their steps. The leaves are numbered as the paths were given.
type pathNode struct {
	name  string
	index int // of a list element, -1 for names
	leaf  int // number of the path that ends here, -1 for none
	first int // number of the first path that comes through here
	kids  []pathNode
	byKey map[stepKey]int // kid of a step; only when there are many
}

type stepKey struct {
	name  string
	index int
}

// manyKids is the number of kids from which searching them all is slower than
// a map.
const manyKids = 16

func (n *pathNode) kid(k stepKey) *pathNode {
	if n.byKey != nil {
		if i, ok := n.byKey[k]; ok {
			return &n.kids[i]
		}
		return nil
	}
	for i := range n.kids {
		if n.kids[i].index == k.index && n.kids[i].name == k.name {
			return &n.kids[i]
		}
	}
	return nil
}

func (n *pathNode) addKid(k stepKey, path int) *pathNode {
	n.kids = append(n.kids, pathNode{name: k.name, index: k.index, leaf: -1, first: path})
	last := len(n.kids) - 1
	switch {
	case n.byKey != nil:
		n.byKey[k] = last
	case len(n.kids) > manyKids:
		n.byKey = make(map[stepKey]int, 2*len(n.kids))
		for i := range n.kids {
			n.byKey[stepKey{n.kids[i].name, n.kids[i].index}] = i
		}
	}
	return &n.kids[last]
}

// isList reports whether the kids of n are list elements.
func (n *pathNode) isList() bool { return len(n.kids) > 0 && n.kids[0].index >= 0 }

// finish orders the elements of lists.
func (n *pathNode) finish() {
	if n.isList() {
		slices.SortFunc(n.kids, func(a, b pathNode) int { return cmp.Compare(a.index, b.index) })
		n.byKey = nil
	}
	for i := range n.kids {
		n.kids[i].finish()
	}
}

// pathTree builds the tree of n paths whose placeholders have been looked up.
// Two paths overlap when one leads through the other, and conflict when one
// needs a map where the other needs a list; any overlap is reported before any
// conflict.
func (e *env) pathTree(n int, path func(int) []step) (*pathNode, *Error) {
	root := &pathNode{index: -1, leaf: -1, kids: make([]pathNode, 0, n)}
	var conflict *Error
	for i := range n {
		other, overlaps, ok := e.insert(root, path(i), i)
		switch {
		case ok:
		case overlaps:
			return nil, e.twoPaths("overlap", path(other), path(i))
		case conflict == nil:
			conflict = e.twoPaths("conflict", path(other), path(i))
		}
	}
	if conflict != nil {
		return nil, conflict
	}
	root.finish()
	return root, nil
}

func (e *env) twoPaths(what string, one, two []step) *Error {
	return invalid(e.role, "Two document paths %s with each other; must remove or rewrite one of these paths; path one: %s, path two: %s",
		what, e.showPath(one), e.showPath(two))
}

// insert adds path number i; if it cannot, other is the path in its way.
func (e *env) insert(root *pathNode, path []step, i int) (other int, overlaps, ok bool) {
	n := root
	for j := range path {
		if n.leaf >= 0 {
			return n.leaf, true, false
		}
		k := stepKey{index: path[j].index}
		if k.index < 0 {
			k.name = e.name(&path[j])
		}
		if len(n.kids) > 0 && n.isList() != (k.index >= 0) {
			return n.first, false, false
		}
		next := n.kid(k)
		if next == nil {
			next = n.addKid(k, i)
		}
		n = next
	}
	if n.leaf >= 0 || len(n.kids) > 0 {
		return n.first, true, false
	}
	n.leaf = i
	return 0, false, true
}

func (e *env) showStep(s *step) string {
	if s.index >= 0 {
		return "[" + strconv.Itoa(s.index) + "]"
	}
	return e.name(s)
}

// project returns the part of v the tree covers; false when there is none.
// Elements of lists close ranks, in the order of their indices. Paths for
// which skip returns true are left out; skip may be nil.
func (n *pathNode) project(v ddb.Value, skip func(path int) bool) (ddb.Value, bool) {
	switch {
	case n.leaf >= 0:
		return v, skip == nil || !skip(n.leaf)
	case n.isList():
		var elems []ddb.Value
		from := v.List()
		for i := range n.kids {
			k := &n.kids[i]
			if k.index >= len(from) {
				break
			}
			if part, ok := k.project(from[k.index], skip); ok {
				elems = append(elems, part)
			}
		}
		return ddb.List(elems...), len(elems) > 0
	}
	m := n.projectMap(v.Map(), skip)
	return ddb.Map(m), len(m) > 0
}

func (n *pathNode) projectMap(from ddb.Item, skip func(path int) bool) ddb.Item {
	m := make(ddb.Item, min(len(n.kids), len(from)))
	for i := range n.kids {
		k := &n.kids[i]
		v, ok := from[k.name]
		if !ok {
			continue
		}
		if part, ok := k.project(v, skip); ok {
			m[k.name] = part
		}
	}
	return m
}
