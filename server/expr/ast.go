// SPDX-License-Identifier: Apache-2.0

package expr

// op is what a node does.
type op uint8

const (
	opPath op = iota + 1
	opValue
	opAnd
	opOr
	opNot
	opEQ
	opNE
	opLT
	opLE
	opGT
	opGE
	opBetween
	opIn
	opAdd
	opSub
	fnUnknown
	fnExists
	fnNotExists
	fnType
	fnBeginsWith
	fnContains
	fnSize
	fnIfNotExists
	fnListAppend
)

// opNames are the names the service's messages use.
var opNames = [...]string{
	opAnd: "AND", opOr: "OR", opNot: "NOT", opEQ: "=", opNE: "<>", opLT: "<", opLE: "<=", opGT: ">", opGE: ">=",
	opBetween: "BETWEEN", opIn: "IN", opAdd: "+", opSub: "-",
	fnExists: "attribute_exists", fnNotExists: "attribute_not_exists", fnType: "attribute_type",
	fnBeginsWith: "begins_with", fnContains: "contains", fnSize: "size",
	fnIfNotExists: "if_not_exists", fnListAppend: "list_append",
}

func (o op) String() string { return opNames[o] }

// function finds a function by its name, which is case-sensitive.
func function(name string) op {
	for o := fnExists; o <= fnListAppend; o++ {
		if opNames[o] == name {
			return o
		}
	}
	return fnUnknown
}

func (o op) isFunction() bool   { return o >= fnUnknown }
func (o op) isComparison() bool { return o >= opEQ && o <= opGE }

// isUpdate reports whether o is a function of update expressions; the others
// are of conditions.
func (o op) isUpdate() bool { return o == fnIfNotExists || o == fnListAppend }

// isTest reports whether o yields true or false, so that it can stand where a
// condition can.
func (o op) isTest() bool {
	return o >= opAnd && o <= opIn || o >= fnExists && o <= fnContains
}

// arity is the number of operands a function takes.
func (o op) arity() int {
	switch o {
	case fnExists, fnNotExists, fnSize:
		return 1
	}
	return 2
}

// node is one operator, function or operand. Trees are shared between
// requests and never change after parsing: placeholders are numbers, to be
// looked up in the env of a request.
type node struct {
	op   op
	ref  int    // of opValue: number of the placeholder
	name string // of fnUnknown: as written
	path []step // of opPath
	args []*node
}

// step is one element of a document path: a name as written, a name behind a
// placeholder, or an index.
type step struct {
	name  string
	ref   int // number of the placeholder, -1 when name counts
	index int // of a list element, -1 for names
}

type section uint8

const (
	secSet section = iota
	secRemove
	secAdd
	secDelete
)

var sectionNames = [...]string{"SET", "REMOVE", "ADD", "DELETE"}

func (s section) String() string { return sectionNames[s] }

// clause is one action of an update expression.
type clause struct {
	section section
	target  []step
	value   *node // nil for REMOVE
}

// tree is a parsed expression. Which members it has depends on the grammar.
type tree struct {
	names   []string // placeholders in the order of their first use, with #
	values  []string // with :
	root    *node    // condition, filter, key condition
	paths   [][]step // projection
	clauses []clause // update, in the order of the text
}
