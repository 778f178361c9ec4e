// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strconv"
	"strings"
)

// Limits of the service.
const (
	maxText        = 4096 // bytes, as sent
	maxOperators   = 300  // operators and functions
	maxInOperands  = 100
	maxPathSteps   = 32
	maxListIndex   = 1<<31 - 1
	maxPlaceholder = 255 // bytes, with # or :
)

// A text can break several rules at once. The service checks them one after
// the other over the whole text, in this order (the syntax itself first); what
// needs the placeholders comes after them all.
type rule uint8

const (
	ruleNone rule = iota
	ruleParens
	ruleFunctionName
	ruleFunctionKind
	ruleFunctionPlace
	ruleReserved
	ruleSection
	ruleIndex
	ruleSteps
	ruleOperators
)

// parser holds what the three grammars share. Its recursion is bounded because
// the text is: a level of nesting takes at least one byte of 4,096.
type parser struct {
	text      string
	role      Role
	tokens    []token
	pos       int
	tree      *tree
	refs      map[string]int // placeholder -> number
	operators int
	opened    int  // token behind the ( of the last pair of parentheses
	closed    int  // token behind its )
	broken    rule // the first rule in checking order that is broken
	fault     *Error
}

// grammar is parse* of one kind of expression.
type grammar func(*parser) *Error

// parse turns text into a tree. The result depends on nothing but the text.
func parse(role Role, text string, g grammar) (*tree, *Error) {
	if strings.Trim(text, " \t\r\n") == "" {
		return nil, invalid(role, "The expression can not be empty;")
	}
	if len(text) > maxText {
		if role == RoleUpdate {
			return nil, invalid(role, "Expression size has exceeded the maximum allowed size;")
		}
		return nil, invalid(role, "Expression size has exceeded the maximum allowed size; expression size: %d", len(text))
	}
	p := &parser{text: text, role: role, tokens: lex(text), tree: &tree{}, refs: map[string]int{}}
	if err := g(p); err != nil {
		return nil, err
	}
	if p.peek().kind != tokEOF {
		return nil, p.syntaxError()
	}
	if p.fault != nil {
		return nil, p.fault
	}
	return p.tree, nil
}

// breaks records a broken rule; the error is kept if its rule is checked
// before the one kept so far.
func (p *parser) breaks(r rule, format string, args ...any) {
	if p.broken == ruleNone || r < p.broken {
		p.broken, p.fault = r, invalid(p.role, format, args...)
	}
}

func (p *parser) peek() token { return p.tokens[p.pos] }

// peekAt looks n tokens ahead.
func (p *parser) peekAt(n int) token { return p.tokens[min(p.pos+n, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) str(t token) string { return p.text[t.start:t.end] }

// is reports whether t is the punctuation s.
func (p *parser) is(t token, s string) bool { return t.kind == tokPunct && p.str(t) == s }

// accept skips the punctuation s if it is next.
func (p *parser) accept(s string) bool {
	ok := p.is(p.peek(), s)
	if ok {
		p.pos++
	}
	return ok
}

func (p *parser) expect(s string) *Error {
	if !p.accept(s) {
		return p.syntaxError()
	}
	return nil
}

// isWord reports whether t is the keyword word, in any case.
func (p *parser) isWord(t token, word string) bool {
	return t.kind == tokName && strings.EqualFold(p.str(t), word)
}

func (p *parser) acceptWord(word string) bool {
	ok := p.isWord(p.peek(), word)
	if ok {
		p.pos++
	}
	return ok
}

// syntaxError blames the next token, quoting it between its neighbours as
// they stand in the text.
func (p *parser) syntaxError() *Error {
	t := p.peek()
	shown, from, to := p.str(t), t.start, t.end
	if p.pos > 0 {
		from = p.tokens[p.pos-1].start
	}
	if t.kind == tokEOF {
		shown, to = "<EOF>", p.tokens[p.pos-1].end
	} else if next := p.tokens[p.pos+1]; next.kind != tokEOF {
		to = next.end
	}
	return invalid(p.role, `Syntax error; token: "%s", near: "%s"`, shown, p.text[from:to])
}

// operator counts an operator or function.
func (p *parser) operator() {
	if p.operators++; p.operators > maxOperators {
		p.breaks(ruleOperators, "The expression contains too many operators; operator count: %d", p.operators)
	}
}

// isKeyword reports whether t cannot be an attribute name because the grammar
// of the expression uses the word.
func (p *parser) isKeyword(t token) bool {
	words := [...]string{"AND", "OR", "NOT", "BETWEEN", "IN"}
	set := words[:]
	switch p.role {
	case RoleProjection:
		return false
	case RoleUpdate:
		set = sectionNames[:]
	}
	for _, w := range set {
		if p.isWord(t, w) {
			return true
		}
	}
	return false
}

// path reads a document path, or what follows of one that has begun with base.
func (p *parser) path(base []step) ([]step, *Error) {
	steps := base
	if len(base) == 0 {
		s, err := p.pathName()
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	for {
		switch {
		case p.accept("."):
			s, err := p.pathName()
			if err != nil {
				return nil, err
			}
			steps = append(steps, s)
		case p.accept("["):
			t := p.peek()
			if t.kind != tokInt {
				return nil, p.syntaxError()
			}
			p.pos++
			if err := p.expect("]"); err != nil {
				return nil, err
			}
			steps = append(steps, step{ref: -1, index: p.listIndex(p.str(t))})
		default:
			if len(steps) > maxPathSteps {
				p.breaks(ruleSteps, "The document path has too many nesting levels; nesting levels: %d", len(steps))
			}
			return steps, nil
		}
	}
}

func (p *parser) pathName() (step, *Error) {
	t := p.peek()
	switch {
	case t.kind == tokAlias:
		p.pos++
		return step{ref: p.placeholder(&p.tree.names, p.str(t)), index: -1}, nil
	case t.kind != tokName || p.isKeyword(t):
		return step{}, p.syntaxError()
	}
	p.pos++
	name := p.str(t)
	if isReserved(name) {
		p.breaks(ruleReserved, "Attribute name is a reserved keyword; reserved keyword: %s", name)
	}
	return step{name: name, ref: -1, index: -1}, nil
}

func (p *parser) listIndex(digits string) int {
	i, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || i > maxListIndex {
		p.breaks(ruleIndex, "List index is not within the allowable range; index: [%s]", digits)
		return 0
	}
	return int(i)
}

// placeholder returns the number of a placeholder in list.
func (p *parser) placeholder(list *[]string, name string) int {
	ref, ok := p.refs[name]
	if !ok {
		ref = len(*list)
		p.refs[name] = ref
		*list = append(*list, name)
	}
	return ref
}

// call reads a function call, of which isCall has seen the beginning, whose
// operands operand reads.
func (p *parser) call(operand func() (*node, *Error)) (*node, *Error) {
	name := p.str(p.next())
	p.pos++ // (
	n := &node{op: function(name)}
	p.operator()
	switch {
	case n.op == fnUnknown:
		n.name = name
		p.breaks(ruleFunctionName, "Invalid function name; function: %s", name)
	case p.role == RoleUpdate && !n.op.isUpdate():
		p.breaks(ruleFunctionKind, "The function is not allowed in an update expression; function: %s", name)
	case p.role != RoleUpdate && n.op.isUpdate():
		p.breaks(ruleFunctionKind, "The function is not allowed in a condition expression; function: %s", name)
	}
	for {
		arg, err := operand()
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
		if !p.accept(",") {
			return n, p.expect(")")
		}
	}
}

// isCall reports whether a function call is next.
func (p *parser) isCall() bool { return p.peek().kind == tokName && p.is(p.peekAt(1), "(") }

// parenthesized reads what is behind an opening parenthesis, and the closing
// one. Parentheses that hold nothing but a pair of parentheses are redundant.
func (p *parser) parenthesized(content func() (*node, *Error)) (*node, *Error) {
	start := p.pos
	n, err := content()
	if err != nil {
		return nil, err
	}
	if p.is(p.tokens[start], "(") && p.opened == start+1 && p.closed == p.pos {
		p.breaks(ruleParens, "The expression has redundant parentheses;")
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	p.opened, p.closed = start, p.pos
	return n, nil
}

func (p *parser) value(t token) *node {
	return &node{op: opValue, ref: p.placeholder(&p.tree.values, p.str(t))}
}

func parseProjection(p *parser) *Error {
	for {
		path, err := p.path(nil)
		if err != nil {
			return err
		}
		p.tree.paths = append(p.tree.paths, path)
		if !p.accept(",") {
			return nil
		}
	}
}
