// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
)

// maxSearchTerms is one HASH and 20 INLINE_FILTER attributes.
const maxSearchTerms = 21

// SearchCondition parses and binds the SearchConditionExpression of a vector
// search: equality of one or more top-level attributes with values, joined by
// AND. The terms are in the order of the text.
func (c *Cache) SearchCondition(p *Placeholders, text string) ([]Term, error) {
	t, err := c.tree(RoleSearchCondition, text, parseCondition)
	if err != nil {
		return nil, err
	}
	e := newEnv(p, RoleSearchCondition, t)
	if err := e.checkNode(t.root); err != nil {
		return nil, err
	}
	var terms []Term
	for _, n := range flatten(nil, t.root) {
		term, err := e.searchTerm(n)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(terms, func(t Term) bool { return t.Attr == term.Attr }) {
			return nil, invalid(e.role, "SearchConditionExpression must only contain one condition per attribute")
		}
		terms = append(terms, term)
	}
	if len(terms) > maxSearchTerms {
		return nil, invalid(e.role, "SearchConditionExpression cannot have more than 1 partition key and more than 20 inline filter key attributes")
	}
	return terms, nil
}

// flatten appends the operands of nested ANDs from left to right.
func flatten(list []*node, n *node) []*node {
	if n.op != opAnd {
		return append(list, n)
	}
	for _, arg := range n.args {
		list = flatten(list, arg)
	}
	return list
}

func (e *env) searchTerm(n *node) (Term, *Error) {
	if n.op != opEQ {
		return Term{}, invalid(e.role, "Invalid comparator used in SearchConditionExpression")
	}
	attr, v := n.args[0], n.args[1]
	if attr.op == opValue {
		attr, v = v, attr
	}
	switch {
	case attr.op != opPath || v.op != opValue:
		return Term{}, invalid(e.role, "Invalid comparator used in SearchConditionExpression")
	case len(attr.path) > 1:
		return Term{}, invalid(e.role, "SearchConditionExpression cannot have conditions on nested attributes")
	}
	return Term{Attr: e.name(&attr.path[0]), Op: EQ, Values: []ddb.Value{e.values[v.ref]}}, nil
}
