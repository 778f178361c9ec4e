// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
)

// Update is a bound update expression or AttributeUpdates.
type Update struct {
	env     env
	clauses []clause
	tree    *pathNode // of the targets; leaves are numbered as clauses
	legacy  bool      // AttributeUpdates: ADD takes lists, another text for wrong types
}

// The texts about updates that do not fit the stored item.
const (
	badUpdatePath   = "The document path provided in the update expression is invalid for update"
	noSuchAttribute = "The provided expression refers to an attribute that does not exist in the item"
	badOperand      = "An operand in the update expression has an incorrect data type"
	legacyMismatch  = "Type mismatch for attribute to update"
	updateTooBig    = "Item size to update has exceeded the maximum allowed size"
	tooDeep         = "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"
)

// maxSet bounds what SET clauses make together, by the service's count of bytes:
// twice an item, as other faults of an item that is too large by less come first.
// A list can be appended to itself hundreds of times in one expression.
const maxSet = 2 * 409600

// checkUpdate makes the checks that need the placeholders, rule by rule as the
// service does: undefined placeholders, paths that collide, operands of ADD
// and DELETE, then the functions and operators of SET.
func (e *env) checkUpdate(clauses []clause) (*pathNode, *Error) {
	for i := range clauses {
		if err := e.checkPath(clauses[i].target); err != nil {
			return nil, err
		}
		if err := e.lookUp(clauses[i].value); err != nil {
			return nil, err
		}
	}
	tree, err := e.pathTree(len(clauses), func(i int) []step { return clauses[i].target })
	if err != nil {
		return nil, err
	}
	for i := range clauses {
		c := &clauses[i]
		if c.section != secAdd && c.section != secDelete {
			continue
		}
		if k := e.values[c.value.ref].Kind(); !k.IsSet() && (c.section == secDelete || k != ddb.KindN) {
			return nil, invalid(e.role, "Incorrect operand type for operator or function; operator: %s, operand type: %s",
				c.section, longKindNames[k])
		}
	}
	for i := range clauses {
		if clauses[i].value == nil {
			continue
		}
		if err := e.checkNode(clauses[i].value); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// longKindNames are the type names in messages about ADD and DELETE; they
// never name a set.
var longKindNames = [...]string{
	ddb.KindS: "STRING", ddb.KindN: "NUMBER", ddb.KindB: "BINARY", ddb.KindBOOL: "BOOLEAN",
	ddb.KindNULL: "NULL", ddb.KindM: "MAP", ddb.KindL: "LIST",
}

// lookUp looks up the placeholders below n.
func (e *env) lookUp(n *node) *Error {
	if n == nil {
		return nil
	}
	switch n.op {
	case opPath:
		return e.checkPath(n.path)
	case opValue:
		return e.checkValue(n.ref)
	}
	for _, arg := range n.args {
		if err := e.lookUp(arg); err != nil {
			return err
		}
	}
	return nil
}

// Targets yields the paths that are set, added to or removed, in the order of
// the text.
func (u *Update) Targets() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for i := range u.clauses {
			if !yield(u.env.ref(u.clauses[i].target)) {
				return
			}
		}
	}
}

// Refs yields every path in the order of the text, also those only read.
func (u *Update) Refs() iter.Seq[Ref] {
	return seq(func(yield func(Ref) bool) bool {
		for i := range u.clauses {
			if !yield(u.env.ref(u.clauses[i].target)) || !u.env.refs(u.clauses[i].value, yield) {
				return false
			}
		}
		return true
	})
}

// Apply returns the updated item, which shares values with old. old is nil when
// there is no item: the result is then based on key, and nil when the update
// does nothing but remove. Operands are read as they were before the update.
// Errors are of kind Runtime.
func (u *Update) Apply(old, key ddb.Item) (ddb.Item, error) {
	base := old
	if base == nil {
		base = key
	}
	run := updateRun{Update: u, values: make([]ddb.Value, len(u.clauses))}
	creates := len(u.clauses) == 0
	size := 0
	for i := range u.clauses {
		c := &u.clauses[i]
		creates = creates || c.section == secSet || c.section == secAdd
		if c.value == nil {
			continue
		}
		v, err := u.env.compute(c.value, base)
		if err != nil {
			return nil, err
		}
		if c.section == secSet {
			size += v.Size()
		}
		if size > maxSet {
			return nil, runtime(updateTooBig)
		}
		run.values[i] = v
	}
	updated, err := run.mapKids(base, u.tree, 1)
	if err != nil {
		return nil, err
	}
	if old == nil && !creates {
		return nil, nil
	}
	return updated, nil
}

// UpdatedOld returns what ReturnValues UPDATED_OLD shows of the item before
// the update: the targets, and nothing beside them. It may be empty.
func (u *Update) UpdatedOld(old ddb.Item) ddb.Item { return u.tree.projectMap(old, nil) }

// UpdatedNew returns what UPDATED_NEW shows of the item after the update; what
// was removed has nothing to show, not even an element that took its place.
func (u *Update) UpdatedNew(updated ddb.Item) ddb.Item {
	return u.tree.projectMap(updated, func(i int) bool { return u.clauses[i].section == secRemove })
}

// compute evaluates an operand of SET, or the value of ADD and DELETE.
func (e *env) compute(n *node, item ddb.Item) (ddb.Value, *Error) {
	switch n.op {
	case opValue:
		return e.values[n.ref], nil
	case opPath:
		v, ok := e.find(n.path, item)
		if !ok {
			return v, runtime(noSuchAttribute)
		}
		return v, nil
	case fnIfNotExists:
		if v, ok := e.find(n.args[0].path, item); ok {
			return v, nil
		}
		return e.compute(n.args[1], item)
	}
	a, err := e.compute(n.args[0], item)
	if err != nil {
		return a, err
	}
	b, err := e.compute(n.args[1], item)
	if err != nil {
		return b, err
	}
	if n.op != fnListAppend {
		return arithmetic(n.op, a, b)
	}
	if a.Kind() != ddb.KindL || b.Kind() != ddb.KindL {
		return a, runtime(badOperand)
	}
	if len(a.List())+len(b.List()) > maxSet { // an element counts a byte at least
		return a, runtime(updateTooBig)
	}
	return ddb.List(slices.Concat(a.List(), b.List())...), nil
}

func arithmetic(o op, a, b ddb.Value) (ddb.Value, *Error) {
	if a.Kind() != ddb.KindN || b.Kind() != ddb.KindN {
		return a, runtime(badOperand)
	}
	calc := ddb.Number.Add
	if o == opSub {
		calc = ddb.Number.Sub
	}
	n, err := calc(a.Number(), b.Number())
	if err != nil {
		return a, runtime(numberText(err))
	}
	return ddb.Num(n), nil
}

func numberText(err error) string {
	var ne *ddb.NumberError
	if errors.As(err, &ne) {
		switch ne.Problem {
		case ddb.TooManyDigits:
			return "Attempting to store more than 38 significant digits in a Number"
		case ddb.NumberUnderflow:
			return "Number underflow. Attempting to store a number with magnitude smaller than supported range"
		}
	}
	return "Number overflow. Attempting to store a number with magnitude larger than supported range"
}

// updateRun is one application of an update.
type updateRun struct {
	*Update
	values []ddb.Value // by clause
}

// within applies what is below n to v, a value at the given level of nesting.
func (r *updateRun) within(v ddb.Value, n *pathNode, level int) (ddb.Value, *Error) {
	switch {
	case n.isList() && v.Kind() == ddb.KindL:
		l, err := r.listKids(v.List(), n, level+1)
		return ddb.List(l...), err
	case !n.isList() && v.Kind() == ddb.KindM:
		m, err := r.mapKids(v.Map(), n, level+1)
		return ddb.Map(m), err
	}
	return v, runtime(badUpdatePath)
}

// kid applies what is at and below k to the value there, if any.
func (r *updateRun) kid(v ddb.Value, found bool, k *pathNode, level int) (_ ddb.Value, keep bool, err *Error) {
	if k.leaf >= 0 {
		return r.act(k.leaf, v, found, level)
	}
	if !found {
		return v, false, runtime(badUpdatePath)
	}
	v, err = r.within(v, k, level)
	return v, true, err
}

func (r *updateRun) mapKids(from ddb.Item, n *pathNode, level int) (ddb.Item, *Error) {
	m := make(ddb.Item, len(from)+len(n.kids))
	maps.Copy(m, from)
	for i := range n.kids {
		k := &n.kids[i]
		v, found := from[k.name]
		v, keep, err := r.kid(v, found, k, level)
		if err != nil {
			return nil, err
		}
		if keep {
			m[k.name] = v
		} else {
			delete(m, k.name)
		}
	}
	return m, nil
}

// listKids works on original indices, in ascending order: elements beyond the
// end are appended in that order, and those removed go when all is done.
func (r *updateRun) listKids(from []ddb.Value, n *pathNode, level int) ([]ddb.Value, *Error) {
	l := make([]ddb.Value, len(from), len(from)+len(n.kids))
	copy(l, from)
	for i := range n.kids {
		k := &n.kids[i]
		var v ddb.Value
		found := k.index < len(from)
		if found {
			v = from[k.index]
		}
		v, keep, err := r.kid(v, found, k, level)
		switch {
		case err != nil:
			return nil, err
		case found && keep:
			l[k.index] = v
		case found:
			l[k.index] = ddb.Value{} // no value at all: removed below
		case keep:
			l = append(l, v)
		}
	}
	return slices.DeleteFunc(l, func(v ddb.Value) bool { return v.Kind() == 0 }), nil
}

// act performs clause i on the value at its target, if there is one; level is
// that of the target.
func (r *updateRun) act(i int, old ddb.Value, found bool, level int) (v ddb.Value, keep bool, err *Error) {
	v = r.values[i]
	switch s := r.clauses[i].section; {
	case s == secRemove:
		return old, false, nil
	case s == secAdd && found:
		v, err = r.add(old, v)
	case s == secDelete && !found:
		return old, false, nil
	case s == secDelete:
		return r.subtract(old, v)
	}
	if err == nil && level-1+levels(v) > ddb.MaxNesting {
		err = runtime(tooDeep)
	}
	return v, err == nil, err
}

func (r *updateRun) mismatch() *Error {
	if r.legacy {
		return runtime(legacyMismatch)
	}
	return runtime(badOperand)
}

// add is ADD to an attribute that exists.
func (r *updateRun) add(old, v ddb.Value) (ddb.Value, *Error) {
	k := v.Kind()
	switch {
	case k != old.Kind():
		return v, r.mismatch()
	case k == ddb.KindN:
		return arithmetic(opAdd, old, v)
	case k == ddb.KindL:
		return ddb.List(slices.Concat(old.List(), v.List())...), nil
	}
	return ddb.NewSet(k, slices.Concat(old.Set(), v.Set())), nil
}

// subtract is DELETE of members from a set; no set is left without members.
func (r *updateRun) subtract(old, v ddb.Value) (_ ddb.Value, keep bool, err *Error) {
	if v.Kind() != old.Kind() {
		return old, false, r.mismatch()
	}
	left := slices.DeleteFunc(slices.Clone(old.Set()), func(m string) bool {
		_, found := slices.BinarySearch(v.Set(), m)
		return found
	})
	if len(left) == 0 {
		return old, false, nil
	}
	return ddb.NewSet(old.Kind(), left), true, nil
}

// levels is the depth of a value: 1 for all but documents.
func levels(v ddb.Value) int {
	deepest := 0
	for _, e := range v.List() {
		deepest = max(deepest, levels(e))
	}
	for _, e := range v.Map() {
		deepest = max(deepest, levels(e))
	}
	return 1 + deepest
}
