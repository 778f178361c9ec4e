// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"encoding/base64"
	"iter"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
)

// Ref is an attribute an expression names: the top-level name, and whether the
// path goes on below it.
type Ref struct {
	Name   string
	Nested bool
}

// env is what a request adds to a tree: the meaning of its placeholders.
type env struct {
	role   Role
	tree   *tree
	p      *Placeholders // until bound
	names  []string      // by number; "" until looked up
	values []ddb.Value   // by number; zero until looked up
}

func newEnv(p *Placeholders, role Role, t *tree) env {
	e := env{role: role, tree: t, p: p}
	if len(t.names) > 0 {
		e.names = make([]string, len(t.names))
	}
	if len(t.values) > 0 {
		e.values = make([]ddb.Value, len(t.values))
	}
	return e
}

// name returns the attribute name of a step that is no index.
func (e *env) name(s *step) string {
	if s.ref >= 0 {
		return e.names[s.ref]
	}
	return s.name
}

// checkPath looks up the placeholders of a path.
func (e *env) checkPath(path []step) *Error {
	for i := range path {
		ref := path[i].ref
		if ref < 0 || e.names[ref] != "" {
			continue
		}
		key := e.tree.names[ref]
		name, ok := e.p.names[key]
		if !ok {
			return invalid(e.role, "An expression attribute name used in the document path is not defined; attribute name: %s", key)
		}
		e.names[ref] = name
		e.p.usedNames = append(e.p.usedNames, key)
	}
	return nil
}

func (e *env) checkValue(ref int) *Error {
	if e.values[ref].Kind() != 0 {
		return nil
	}
	key := e.tree.values[ref]
	v, ok := e.p.values[key]
	if !ok {
		return invalid(e.role, "An expression attribute value used in expression is not defined; attribute value: %s", key)
	}
	e.values[ref] = v
	e.p.usedValues = append(e.p.usedValues, key)
	return nil
}

// checkNode makes the checks that need the placeholders: of the operands from
// left to right, then of the operator itself. The first problem counts.
func (e *env) checkNode(n *node) *Error {
	switch n.op {
	case opPath:
		return e.checkPath(n.path)
	case opValue:
		return e.checkValue(n.ref)
	}
	for _, arg := range n.args {
		if err := e.checkNode(arg); err != nil {
			return err
		}
	}
	if n.op.isFunction() {
		if err := e.checkFunction(n); err != nil {
			return err
		}
	}
	if n.op.isComparison() || n.op == opBetween || n.op == opIn || n.op >= fnType && n.op <= fnContains {
		if err := e.checkDistinct(n); err != nil {
			return err
		}
	}
	return e.checkTypes(n)
}

func (e *env) checkFunction(n *node) *Error {
	if len(n.args) != n.op.arity() {
		return invalid(e.role, "Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d",
			n.op, len(n.args))
	}
	needsPath := n.op == fnExists || n.op == fnNotExists || n.op == fnIfNotExists
	if needsPath && n.args[0].op != opPath {
		return invalid(e.role, "Operator or function requires a document path; operator or function: %s", n.op)
	}
	return nil
}

// checkDistinct refuses an operator that compares a path with itself.
func (e *env) checkDistinct(n *node) *Error {
	first := n.args[0]
	if first.op != opPath {
		return nil
	}
	for _, arg := range n.args[1:] {
		if arg.op == opPath && e.samePath(first.path, arg.path) {
			return invalid(e.role, "The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s",
				n.op, e.showPath(first.path))
		}
	}
	return nil
}

func (e *env) samePath(a, b []step) bool {
	return slices.EqualFunc(a, b, func(s, t step) bool {
		return s.index == t.index && (s.index >= 0 || e.name(&s) == e.name(&t))
	})
}

// showPath writes a path as messages do: [a, [0], b].
func (e *env) showPath(path []step) string {
	parts := make([]string, len(path))
	for i := range path {
		parts[i] = e.showStep(&path[i])
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// kind is the type an operand has whatever the item; 0 when that depends.
func (e *env) kind(n *node) ddb.Kind {
	switch n.op {
	case opValue:
		return e.values[n.ref].Kind()
	case fnSize, opAdd, opSub:
		return ddb.KindN
	case fnListAppend:
		return ddb.KindL
	}
	return 0
}

// allowed reports whether an operand of o, the first or a later one, may be of
// type k.
func (o op) allowed(k ddb.Kind) bool {
	switch o {
	case opLT, opLE, opGT, opGE, opBetween:
		return k.IsScalar()
	case fnBeginsWith:
		return k == ddb.KindS || k == ddb.KindB
	case fnSize:
		return k != ddb.KindN && k != ddb.KindBOOL && k != ddb.KindNULL
	case opAdd, opSub:
		return k == ddb.KindN
	case fnListAppend:
		return k == ddb.KindL
	}
	return true
}

func (e *env) checkTypes(n *node) *Error {
	if n.op == opAnd || n.op == opOr || n.op == opNot {
		return nil
	}
	for _, arg := range n.args {
		if k := e.kind(arg); k != 0 && !n.op.allowed(k) {
			return e.wrongType(n.op, k.String())
		}
	}
	switch n.op {
	case opBetween:
		return e.checkBounds(n.args[1], n.args[2])
	case fnType:
		return e.checkTypeName(n.args[1])
	}
	return nil
}

func (e *env) wrongType(o op, kind string) *Error {
	return invalid(e.role, "Incorrect operand type for operator or function; operator or function: %s, operand type: %s", o, kind)
}

// typeNames is the set of type names as one order of it the service shows.
const typeNames = "{B,NULL,SS,BOOL,L,BS,N,NS,S,M}"

func (e *env) checkTypeName(n *node) *Error {
	switch k := e.kind(n); {
	case k == 0:
		return e.wrongType(fnType, typeNames)
	case k != ddb.KindS:
		return e.wrongType(fnType, k.String())
	}
	if name := e.values[n.ref].Str(); !isTypeName(name) {
		return invalid(e.role, "Invalid attribute type name found; type: %s, valid types: %s", name, typeNames)
	}
	return nil
}

func isTypeName(s string) bool {
	_, ok := ddb.ParseKind(s)
	return ok
}

// checkBounds compares the bounds of a BETWEEN when both are values.
func (e *env) checkBounds(low, high *node) *Error {
	if low.op != opValue || high.op != opValue {
		return nil
	}
	l, h := e.values[low.ref], e.values[high.ref]
	problem := ""
	if c, ok := ddb.Compare(l, h); !ok {
		problem = "same data type for lower and upper bounds"
	} else if c > 0 {
		problem = "upper bound to be greater than or equal to lower bound"
	}
	if problem == "" {
		return nil
	}
	return invalid(e.role, "The BETWEEN operator requires %s; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s",
		problem, showScalar(l), showScalar(h))
}

func showScalar(v ddb.Value) string {
	s := v.Str()
	if v.Kind() == ddb.KindB {
		s = base64.StdEncoding.EncodeToString([]byte(s))
	}
	return "{" + v.Kind().String() + ":" + s + "}"
}

// refs yields the paths below n.
func (e *env) refs(n *node, yield func(Ref) bool) bool {
	if n == nil {
		return true
	}
	if n.op == opPath {
		return yield(e.ref(n.path))
	}
	for _, arg := range n.args {
		if !e.refs(arg, yield) {
			return false
		}
	}
	return true
}

func (e *env) ref(path []step) Ref {
	return Ref{Name: e.name(&path[0]), Nested: len(path) > 1}
}

func seq(walk func(yield func(Ref) bool) bool) iter.Seq[Ref] {
	return func(yield func(Ref) bool) { walk(yield) }
}
