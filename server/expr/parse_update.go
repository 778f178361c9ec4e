// SPDX-License-Identifier: Apache-2.0

package expr

// The grammar of updates:
//
//	update   = section { section }
//	section  = SET assign {"," assign} | REMOVE path {"," path}
//	         | ADD path :value {"," …} | DELETE path :value {"," …}
//	assign   = path "=" sum
//	sum      = term [ ("+" | "-") term ]
//	term     = "(" sum ")" | call | :value | path
func parseUpdate(p *parser) *Error {
	var seen [len(sectionNames)]bool
	for {
		s, ok := p.section()
		if !ok {
			return p.syntaxError()
		}
		if seen[s] {
			p.breaks(ruleSection, `The "%s" section can only be used once in an update expression;`, s)
		}
		seen[s] = true
		for {
			if err := p.action(s); err != nil {
				return err
			}
			if !p.accept(",") {
				break
			}
		}
		if p.peek().kind == tokEOF {
			return nil
		}
	}
}

func (p *parser) section() (section, bool) {
	for s := secSet; s <= secDelete; s++ {
		if p.acceptWord(s.String()) {
			return s, true
		}
	}
	return 0, false
}

func (p *parser) action(s section) *Error {
	path, err := p.path(nil)
	if err != nil {
		return err
	}
	c := clause{section: s, target: path}
	switch s {
	case secSet:
		if err := p.expect("="); err != nil {
			return err
		}
		if c.value, err = p.sum(); err != nil {
			return err
		}
	case secAdd, secDelete:
		if p.peek().kind != tokParam {
			return p.syntaxError()
		}
		c.value = p.value(p.next())
	}
	p.tree.clauses = append(p.tree.clauses, c)
	return nil
}

func (p *parser) sum() (*node, *Error) {
	left, err := p.term()
	if err != nil {
		return nil, err
	}
	n := &node{op: opAdd, args: []*node{left}}
	switch {
	case p.accept("+"):
	case p.accept("-"):
		n.op = opSub
	default:
		return left, nil
	}
	p.operator()
	right, err := p.term()
	n.args = append(n.args, right)
	return n, err
}

func (p *parser) term() (*node, *Error) {
	switch t := p.peek(); {
	case p.accept("("):
		return p.parenthesized(p.sum)
	case p.isCall() && !p.isKeyword(t):
		return p.call(p.term)
	case t.kind == tokParam:
		p.pos++
		return p.value(t), nil
	}
	path, err := p.path(nil)
	return &node{op: opPath, path: path}, err
}
