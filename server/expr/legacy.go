// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
)

// CheckTerms makes the argument checks of QueryFilter, ScanFilter,
// KeyConditions and Expected, term by term.
func CheckTerms(terms []Term) error {
	for i := range terms {
		if err := terms[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Term) check() error {
	ok := len(t.Values) == 1
	switch t.Op {
	case Null, NotNull:
		ok = len(t.Values) == 0
	case Between:
		ok = len(t.Values) == 2
	case In:
		ok = len(t.Values) > 0
	}
	if !ok {
		return bare("One or more parameter values were invalid: Invalid number of argument(s) for the %s ComparisonOperator", t.Op)
	}
	for _, v := range t.Values {
		if !t.Op.takes(v.Kind()) {
			return bare("One or more parameter values were invalid: ComparisonOperator %s is not valid for %s AttributeValue type", t.Op, v.Kind())
		}
		if v.Kind() != t.Values[0].Kind() {
			return bare("One or more parameter values were invalid: AttributeValues inside AttributeValueList must be of same type")
		}
	}
	if t.Op == Between {
		if c, _ := ddb.Compare(t.Values[0], t.Values[1]); c > 0 {
			return bare("The BETWEEN condition was provided a range where the lower bound is greater than the upper bound")
		}
	}
	return nil
}

// takes reports whether o accepts arguments of type k.
func (o Op) takes(k ddb.Kind) bool {
	switch o {
	case LT, LE, GT, GE, Between, In:
		return k.IsScalar()
	case BeginsWith:
		return k == ddb.KindS || k == ddb.KindB
	case Contains, NotContains:
		return !k.IsSet() && k != ddb.KindL && k != ddb.KindM
	}
	return true
}

// ParseConditionalOperator checks a ConditionalOperator that was sent with n
// conditions; or is true for OR.
func ParseConditionalOperator(sent string, n int) (or bool, err error) {
	switch {
	case n == 0:
		return false, bare("ConditionalOperator cannot be used without Filter or Expected")
	case n == 1:
		return false, bare("ConditionalOperator can only be used when Filter or Expected has two or more elements")
	case sent != "AND" && sent != "OR":
		return false, bare("Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]")
	}
	return sent == "OR", nil
}

// legacyOps are the operators of expressions that terms are evaluated with.
var legacyOps = [...]op{
	EQ: opEQ, NE: opNE, LT: opLT, LE: opLE, GT: opGT, GE: opGE, Between: opBetween, BeginsWith: fnBeginsWith,
	In: opIn, Contains: fnContains, NotContains: fnContains, Null: fnNotExists, NotNull: fnExists,
}

// NewCondition makes one condition of terms that CheckTerms or ExpectedTerms
// has accepted: all must hold, or one of them if or is set. No terms make the
// nil Condition, which always holds.
func NewCondition(terms []Term, or bool) *Condition {
	if len(terms) == 0 {
		return nil
	}
	c := &Condition{root: &node{op: opAnd}}
	if or {
		c.root.op = opOr
	}
	for _, t := range terms {
		n := &node{op: legacyOps[t.Op], args: []*node{{op: opPath, path: attributePath(t.Attr)}}}
		for _, v := range t.Values {
			n.args = append(n.args, c.env.literal(v))
		}
		if t.Op == NotContains {
			n = &node{op: opNot, args: []*node{n}}
		}
		c.root.args = append(c.root.args, n)
	}
	return c
}

func attributePath(name string) []step { return []step{{name: name, ref: -1, index: -1}} }

func (e *env) literal(v ddb.Value) *node {
	e.values = append(e.values, v)
	return &node{op: opValue, ref: len(e.values) - 1}
}

// Expected is one member of the Expected map.
type Expected struct {
	Attr   string
	Exists *bool       // nil when absent
	Value  ddb.Value   // zero when absent
	Op     Op          // 0 when absent
	List   []ddb.Value // AttributeValueList, nil when absent
}

// ExpectedTerms checks the members of Expected and returns the terms they
// stand for, to be given to NewCondition.
func ExpectedTerms(expected []Expected) ([]Term, error) {
	terms := make([]Term, 0, len(expected))
	for i := range expected {
		t, err := expected[i].term()
		if err != nil {
			return nil, err
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		terms = append(terms, t)
	}
	return terms, nil
}

func (x *Expected) term() (Term, error) {
	const prefix = "One or more parameter values were invalid: "
	hasValue := x.Value.Kind() != 0
	t := Term{Attr: x.Attr, Op: EQ}
	if hasValue {
		t.Values = []ddb.Value{x.Value}
	}
	switch {
	case hasValue && x.List != nil:
		return t, bare(prefix+"Value and AttributeValueList cannot be used together for Attribute: %s", x.Attr)
	case x.Op != 0 && x.Exists != nil:
		return t, bare(prefix+"Exists and ComparisonOperator cannot be used together for Attribute: %s", x.Attr)
	case x.Op == 0 && x.List != nil:
		return t, bare(prefix+"AttributeValueList can only be used with a ComparisonOperator for Attribute: %s", x.Attr)
	case x.Op != 0:
		t.Op = x.Op
		if x.List != nil {
			t.Values = x.List
		}
		if len(t.Values) == 0 && x.List == nil && x.Op != Null && x.Op != NotNull {
			return t, bare(prefix+"Value or AttributeValueList must be used with ComparisonOperator: %s for Attribute: %s", x.Op, x.Attr)
		}
	case x.Exists != nil && !*x.Exists:
		if hasValue {
			return t, bare(prefix+"Value cannot be used when Exists is false for Attribute: %s", x.Attr)
		}
		t.Op = Null
	case !hasValue:
		shown := "null"
		if x.Exists != nil {
			shown = "true"
		}
		return t, bare(prefix+"Value must be provided when Exists is %s for Attribute: %s", shown, x.Attr)
	}
	return t, nil
}

// Action is what AttributeUpdates does to an attribute.
type Action uint8

// The actions; an absent one is Put.
const (
	Put Action = iota
	Add
	Delete
)

var actionNames = [...]string{"PUT", "ADD", "DELETE"}

// String returns the action's name on the wire.
func (a Action) String() string { return actionNames[a] }

// ParseAction is the inverse of String; false for any other text.
func ParseAction(s string) (Action, bool) {
	i := slices.Index(actionNames[:], s)
	return Action(max(i, 0)), i >= 0
}

// AttributeUpdate is one member of AttributeUpdates.
type AttributeUpdate struct {
	Attr   string
	Action Action
	Value  ddb.Value // zero when absent
}

// NewUpdate checks AttributeUpdates, whose names differ, and makes an update
// of them. Without any it is the update of an UpdateItem that asks for none:
// it creates a missing item and changes nothing else.
func NewUpdate(updates []AttributeUpdate) (*Update, error) {
	u := &Update{tree: &pathNode{index: -1, leaf: -1}, legacy: true}
	for i, a := range updates {
		c := clause{target: attributePath(a.Attr)}
		switch k := a.Value.Kind(); {
		case k == 0 && a.Action != Delete:
			return nil, bare("One or more parameter values were invalid: Only DELETE action is allowed when no attribute value is specified")
		case k == 0:
			c.section = secRemove
		case a.Action == Delete && !k.IsSet():
			return nil, bare("One or more parameter values were invalid: DELETE action with value is not supported for the type %s", k)
		case a.Action == Delete:
			c.section = secDelete
		case a.Action == Add && !k.IsSet() && k != ddb.KindN && k != ddb.KindL:
			return nil, bare("One or more parameter values were invalid: ADD action is not supported for the type %s", k)
		case a.Action == Add:
			c.section = secAdd
		}
		if c.section != secRemove {
			c.value = u.env.literal(a.Value)
		}
		u.clauses = append(u.clauses, c)
		u.tree.addKid(stepKey{a.Attr, -1}, i).leaf = i
	}
	return u, nil
}
