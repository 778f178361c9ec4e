// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"iter"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/extenddb/extenddb/format/ddb"
)

// Condition is a bound condition or filter, of an expression or of legacy
// parameters. The nil Condition holds for every item.
type Condition struct {
	env  env
	root *node
}

// Eval reports whether the condition holds for item; nil is a missing item,
// which has no attributes.
func (c *Condition) Eval(item ddb.Item) bool {
	return c == nil || c.env.test(c.root, item)
}

// Refs yields every path in the order of the text; names may repeat.
func (c *Condition) Refs() iter.Seq[Ref] {
	return seq(func(yield func(Ref) bool) bool { return c == nil || c.env.refs(c.root, yield) })
}

func (e *env) test(n *node, item ddb.Item) bool {
	switch n.op {
	case opAnd:
		return !slices.ContainsFunc(n.args, func(a *node) bool { return !e.test(a, item) })
	case opOr:
		return slices.ContainsFunc(n.args, func(a *node) bool { return e.test(a, item) })
	case opNot:
		return !e.test(n.args[0], item)
	case fnExists, fnNotExists:
		_, found := e.find(n.args[0].path, item)
		return found == (n.op == fnExists)
	}
	a, ok := e.operand(n.args[0], item)
	if !ok {
		return false
	}
	switch n.op {
	case opIn:
		return slices.ContainsFunc(n.args[1:], func(arg *node) bool {
			b, ok := e.operand(arg, item)
			return ok && same(a, b)
		})
	case opBetween:
		low, _ := e.operand(n.args[1], item)
		high, _ := e.operand(n.args[2], item)
		return ordered(opGE, a, low) && ordered(opLE, a, high)
	}
	b, ok := e.operand(n.args[1], item)
	return ok && holds(n.op, a, b)
}

// operand returns the value of an operand: the zero Value for an attribute
// that is missing, and false for a size that does not exist, with which no
// comparison holds, not even <>.
func (e *env) operand(n *node, item ddb.Item) (ddb.Value, bool) {
	switch n.op {
	case opValue:
		return e.values[n.ref], true
	case fnSize:
		v, _ := e.operand(n.args[0], item)
		size, ok := sizeOf(v)
		if !ok {
			return ddb.Value{}, false
		}
		return ddb.Int(int64(size)), true
	}
	v, _ := e.find(n.path, item)
	return v, true
}

// find returns the value at a document path.
func (e *env) find(path []step, item ddb.Item) (ddb.Value, bool) {
	v, ok := item[e.name(&path[0])]
	for i := 1; ok && i < len(path); i++ {
		s := &path[i]
		if s.index < 0 {
			v, ok = v.Map()[e.name(s)]
			continue
		}
		l := v.List()
		if ok = s.index < len(l); ok {
			v = l[s.index]
		}
	}
	if !ok {
		return ddb.Value{}, false
	}
	return v, true
}

// same is equality; a missing attribute equals nothing.
func same(a, b ddb.Value) bool { return a.Kind() != 0 && a.Equal(b) }

func holds(o op, a, b ddb.Value) bool {
	switch o {
	case opEQ:
		return same(a, b)
	case opNE:
		return !same(a, b)
	case fnType:
		return a.Kind() != 0 && a.Kind().String() == b.Str()
	case fnContains:
		return contains(a, b)
	case fnBeginsWith:
		return a.Kind() == b.Kind() && (a.Kind() == ddb.KindS || a.Kind() == ddb.KindB) && strings.HasPrefix(a.Str(), b.Str())
	}
	return ordered(o, a, b)
}

// ordered compares scalars of one type; anything else has no order.
func ordered(o op, a, b ddb.Value) bool {
	c, ok := ddb.Compare(a, b)
	if !ok {
		return false
	}
	switch o {
	case opLT:
		return c < 0
	case opLE:
		return c <= 0
	case opGT:
		return c > 0
	}
	return c >= 0
}

// contains looks for a substring, a member of a set or an element of a list.
func contains(in, v ddb.Value) bool {
	switch k := in.Kind(); {
	case k == ddb.KindS || k == ddb.KindB:
		return v.Kind() == k && strings.Contains(in.Str(), v.Str())
	case k == ddb.KindL:
		return slices.ContainsFunc(in.List(), func(e ddb.Value) bool { return same(e, v) })
	case k.IsSet() && v.Kind() == k.Element():
		_, ok := slices.BinarySearch(in.Set(), v.Str())
		return ok
	}
	return false
}

// sizeOf is the function size: UTF-16 units of a string, bytes of a binary,
// elements of a set, list or map. Other values have none.
func sizeOf(v ddb.Value) (int, bool) {
	switch k := v.Kind(); {
	case k == ddb.KindS:
		n := 0
		for _, r := range v.Str() {
			n += max(utf16.RuneLen(r), 1)
		}
		return n, true
	case k == ddb.KindB:
		return len(v.Str()), true
	case k == ddb.KindL:
		return len(v.List()), true
	case k == ddb.KindM:
		return len(v.Map()), true
	case k.IsSet():
		return len(v.Set()), true
	}
	return 0, false
}
