// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
)

// Op is a comparison of legacy conditions and of key conditions.
type Op uint8

// The comparisons; Op.String is the ComparisonOperator of the wire.
const (
	EQ Op = iota + 1
	NE
	LT
	LE
	GT
	GE
	Between
	BeginsWith
	In
	Contains
	NotContains
	Null
	NotNull
)

var wireOps = [...]string{
	EQ: "EQ", NE: "NE", LT: "LT", LE: "LE", GT: "GT", GE: "GE", Between: "BETWEEN", BeginsWith: "BEGINS_WITH",
	In: "IN", Contains: "CONTAINS", NotContains: "NOT_CONTAINS", Null: "NULL", NotNull: "NOT_NULL",
}

// String returns the ComparisonOperator; "" for the zero Op.
func (o Op) String() string { return wireOps[o] }

// ParseOp is the inverse of String; false for any other text.
func ParseOp(s string) (Op, bool) {
	i := slices.Index(wireOps[1:], s) + 1
	return Op(i), i > 0
}

// Term is one comparison of one top-level attribute with Values: two for
// Between, one or more for In, none for Null and NotNull, one for the others.
type Term struct {
	Attr   string
	Op     Op
	Values []ddb.Value
}

// KeyCondition is a bound key condition expression.
type KeyCondition struct {
	env  env
	root *node
}

// Terms returns the comparisons in the order of the text, each with its
// attribute on the left. The first clause that is not fit for a key condition
// decides the error.
func (k *KeyCondition) Terms() ([]Term, error) {
	var terms []Term
	for _, n := range flatten(nil, k.root) {
		term, err := k.term(n)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(terms, func(t Term) bool { return t.Attr == term.Attr }) {
			return nil, invalid(RoleKeyCondition, "KeyConditionExpressions must only contain one condition per key")
		}
		terms = append(terms, term)
	}
	return terms, nil
}

// keyOp returns the comparison an operator means with its attribute on the
// left, and whether the attribute may only stand there.
func keyOp(o op) (ahead Op, flipped Op, fixed bool) {
	switch o {
	case opEQ:
		return EQ, EQ, false
	case opLT:
		return LT, GT, false
	case opLE:
		return LE, GE, false
	case opGT:
		return GT, LT, false
	case opGE:
		return GE, LE, false
	case opBetween:
		return Between, 0, true
	case fnBeginsWith:
		return BeginsWith, 0, true
	}
	return 0, 0, false
}

func (k *KeyCondition) term(n *node) (Term, *Error) {
	ahead, flipped, fixed := keyOp(n.op)
	if ahead == 0 {
		return Term{}, bare("Invalid operator used in KeyConditionExpression: %s", n.op)
	}
	t := Term{Op: ahead, Values: make([]ddb.Value, 0, 2)}
	named := false
	for i, arg := range n.args {
		switch {
		case arg.op.isFunction():
			return t, bare("KeyConditionExpressions cannot contain nested operations")
		case arg.op == opValue && i == 0 && fixed:
			return t, bare("Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first operand", n.op)
		case arg.op == opValue:
			t.Values = append(t.Values, k.env.values[arg.ref])
		case named:
			return t, bare("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
		case len(arg.path) > 1:
			return t, bare("KeyConditionExpressions cannot have conditions on nested attributes")
		default:
			named, t.Attr = true, k.env.name(&arg.path[0])
			if i > 0 {
				t.Op = flipped
			}
		}
	}
	if !named {
		return t, bare("Invalid condition in KeyConditionExpression: No key attribute specified")
	}
	return t, nil
}

// KeyAttr is a key attribute of a table or index.
type KeyAttr struct {
	Name string
	Kind ddb.Kind // S, N or B
}

// KeyMatch is a key condition laid over a key schema.
type KeyMatch struct {
	Hash  []ddb.Value // one for each HASH attribute, in schema order
	Range []ddb.Value // equality on the first RANGE attributes
	Last  Term        // another comparison of the RANGE attribute that follows; Op 0 if there is none
}

// MatchKey lays the terms of a key condition, or of legacy KeyConditions, over
// the HASH and RANGE attributes of a table or index: every HASH attribute must
// be given by equality, the RANGE attributes from the left without a gap, and
// only the last one given may have another comparison. Errors are of kind
// Schema.
func MatchKey(terms []Term, hash, ranges []KeyAttr) (KeyMatch, error) {
	if n := len(hash) + len(ranges); len(terms) > n {
		return KeyMatch{}, schemaError("The number of query conditions (%d) exceeds the number of key attributes defined in the schema (%d)", len(terms), n)
	}
	var m KeyMatch
	used := 0
	for _, a := range hash {
		t := termOf(terms, a.Name)
		if t == nil {
			return m, schemaError("Query condition missed key schema element: %s", a.Name)
		}
		used++
	}
	for _, a := range ranges {
		if termOf(terms, a.Name) != nil {
			used++
		}
	}
	if used < len(terms) { // so a RANGE attribute is left
		i := slices.IndexFunc(ranges, func(a KeyAttr) bool { return termOf(terms, a.Name) == nil })
		return m, schemaError("Query condition missed key schema element: %s", ranges[i].Name)
	}
	for _, a := range hash {
		t := termOf(terms, a.Name)
		if err := t.fits(a); err != nil {
			return m, err
		}
		if t.Op != EQ {
			return m, schemaError("Query key condition not supported")
		}
		m.Hash = append(m.Hash, t.Values[0])
	}
	return m, m.matchRange(terms, ranges)
}

// matchRange returns an error, not an *Error, so that nil stays nil.
func (m *KeyMatch) matchRange(terms []Term, ranges []KeyAttr) error {
	var open []string // RANGE attributes passed that have no equality
	for _, a := range ranges {
		t := termOf(terms, a.Name)
		if t == nil {
			open = append(open, a.Name)
			continue
		}
		if open != nil {
			return schemaError("RANGE key attributes %s must have equality conditions specified in the query because a condition is present on key attribute %s",
				strings.Join(open, ", "), a.Name)
		}
		if err := t.fits(a); err != nil {
			return err
		}
		if t.Op == EQ {
			m.Range = append(m.Range, t.Values[0])
			continue
		}
		m.Last = *t
		open = append(open, a.Name)
	}
	return nil
}

func termOf(terms []Term, attr string) *Term {
	for i := range terms {
		if terms[i].Attr == attr {
			return &terms[i]
		}
	}
	return nil
}

// fits checks a term against the key attribute it is about. It returns an
// error, not an *Error, so that nil stays nil.
func (t *Term) fits(a KeyAttr) error {
	switch t.Op {
	case NE, In, Contains, NotContains, Null, NotNull:
		return schemaError("Attempted conditional constraint is not an indexable operation")
	}
	for _, v := range t.Values {
		if v.Kind() != a.Kind {
			return schemaError("One or more parameter values were invalid: Condition parameter type does not match schema type")
		}
	}
	return nil
}
