// SPDX-License-Identifier: Apache-2.0

package expr

// The grammar of conditions, loosest operator first:
//
//	condition = and { OR and }
//	and       = not { AND not }
//	not       = NOT not | test
//	test      = operand [ comparator operand | BETWEEN operand AND operand | IN "(" operand {"," operand} ")" ]
//	operand   = "(" condition ")" [path steps] | call | :value | path
//
// Parentheses may hold a condition or an operand, and only what follows them
// tells which; so one rule reads both and asTest and asOperand sort them out.

func parseCondition(p *parser) *Error {
	n, err := p.condition()
	if err != nil {
		return err
	}
	p.tree.root = n
	return p.asTest(n)
}

// asTest refuses an operand where a condition must stand. The token behind it
// is the one at fault: an operator is missing there.
func (p *parser) asTest(n *node) *Error {
	switch {
	case n.op.isTest() || n.op == fnUnknown || n.op.isUpdate():
		return nil
	case n.op == fnSize:
		p.misplaced(n)
		return nil
	}
	return p.syntaxError()
}

// asOperand refuses a condition where an operand must stand.
func (p *parser) asOperand(n *node) *Error {
	switch {
	case n.op >= fnExists && n.op <= fnContains:
		p.misplaced(n)
	case n.op.isTest():
		return p.syntaxError()
	}
	return nil
}

func (p *parser) misplaced(n *node) {
	p.breaks(ruleFunctionPlace, "The function is not allowed to be used this way in an expression; function: %s", n.op)
}

func (p *parser) condition() (*node, *Error) { return p.chain(opOr, p.and) }

func (p *parser) and() (*node, *Error) { return p.chain(opAnd, p.not) }

// chain reads operands of AND or OR into one node; alone, an operand may turn
// out not to be a condition.
func (p *parser) chain(o op, operand func() (*node, *Error)) (*node, *Error) {
	first, err := operand()
	if err != nil || !p.isWord(p.peek(), o.String()) {
		return first, err
	}
	n := &node{op: o}
	for arg := first; ; {
		if err := p.asTest(arg); err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
		if !p.acceptWord(o.String()) {
			return n, nil
		}
		p.operator()
		if arg, err = operand(); err != nil {
			return nil, err
		}
	}
}

func (p *parser) not() (*node, *Error) {
	if !p.acceptWord("NOT") {
		return p.test()
	}
	p.operator()
	arg, err := p.not()
	if err != nil {
		return nil, err
	}
	return &node{op: opNot, args: []*node{arg}}, p.asTest(arg)
}

func (p *parser) test() (*node, *Error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	n := &node{args: []*node{left}}
	t := p.peek()
	switch {
	case p.isWord(t, "BETWEEN"):
		n.op = opBetween
	case p.isWord(t, "IN"):
		n.op = opIn
	default:
		if n.op = p.comparator(t); n.op == 0 {
			return left, nil
		}
	}
	if err := p.asOperand(left); err != nil {
		return nil, err
	}
	p.pos++
	p.operator()
	switch n.op {
	case opIn:
		return n, p.inList(n)
	case opBetween:
		if err := p.addOperand(n); err != nil {
			return nil, err
		}
		if !p.acceptWord("AND") {
			return nil, p.syntaxError()
		}
	}
	return n, p.addOperand(n)
}

func (p *parser) comparator(t token) op {
	if t.kind == tokPunct {
		for o := opEQ; o <= opGE; o++ {
			if p.str(t) == opNames[o] {
				return o
			}
		}
	}
	return 0
}

func (p *parser) addOperand(n *node) *Error {
	arg, err := p.functionOperand()
	n.args = append(n.args, arg)
	return err
}

// functionOperand reads an operand that cannot be a condition.
func (p *parser) functionOperand() (*node, *Error) {
	n, err := p.operand()
	if err != nil {
		return nil, err
	}
	return n, p.asOperand(n)
}

func (p *parser) inList(n *node) *Error {
	if err := p.expect("("); err != nil {
		return err
	}
	for {
		if err := p.addOperand(n); err != nil {
			return err
		}
		if !p.accept(",") {
			break
		}
	}
	if listed := len(n.args) - 1; listed > maxInOperands {
		p.breaks(ruleOperators, "The IN operator is provided with too many operands; number of operands: %d", listed)
	}
	return p.expect(")")
}

// operand reads one operand, or a condition in parentheses.
func (p *parser) operand() (*node, *Error) {
	switch t := p.peek(); {
	case p.accept("("):
		n, err := p.parenthesized(p.condition)
		if err == nil && n.op == opPath && (p.is(p.peek(), ".") || p.is(p.peek(), "[")) {
			n.path, err = p.path(n.path)
		}
		return n, err
	case p.isCall() && !p.isKeyword(t):
		return p.call(p.functionOperand)
	case t.kind == tokParam:
		p.pos++
		return p.value(t), nil
	}
	path, err := p.path(nil)
	return &node{op: opPath, path: path}, err
}
