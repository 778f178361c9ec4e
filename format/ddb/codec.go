// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"encoding/base64"
	"errors"
	"math/bits"
	"slices"
)

// MaxNesting is the number of levels an attribute may have: a scalar at the
// top is at level 1, so 31 documents may enclose one.
const MaxNesting = 32

// maxName is the number of bytes an attribute name may have.
const maxName = 65535

// ValueProblem says why a value that is well-formed JSON is not a DynamoDB
// value.
type ValueProblem uint8

// What can be wrong with a value.
const (
	EmptyValue     ValueProblem = iota + 1 // no type descriptor
	SeveralTypes                           // more than one
	BadNumber                              // Number says which
	EmptySet                               // Kind says which
	DuplicateInSet                         // Members as sent, Kind
	NullIsFalse                            // {"NULL": false}
	TooDeep                                // more than MaxNesting levels
	EmptyName                              // an attribute without a name
	NameTooLong                            // an attribute name of 65,536 bytes or more
	DuplicateName                          // an attribute given twice; of strict reading only
)

// ValueError reports the first value of a document that breaks a rule of the
// data model: the wire's ValidationException, worded by server/api.
type ValueError struct {
	Problem ValueProblem
	Kind    Kind         // of the set
	Members []string     // of the set, as sent (BS in base64)
	Number  *NumberError // for BadNumber
}

func (e *ValueError) Error() string {
	switch e.Problem {
	case EmptyValue:
		return "value has no type"
	case SeveralTypes:
		return "value has more than one type"
	case BadNumber:
		return e.Number.Error()
	case EmptySet:
		return e.Kind.String() + " is empty"
	case DuplicateInSet:
		return e.Kind.String() + " holds a member twice"
	case NullIsFalse:
		return "NULL must be true"
	case TooDeep:
		return "value is nested more than 32 levels deep"
	case NameTooLong:
		return "attribute name is longer than 65,535 bytes"
	case DuplicateName:
		return "attribute is given twice"
	}
	return "attribute name is empty"
}

// Unwrap returns the NumberError of a BadNumber.
func (e *ValueError) Unwrap() error {
	if e.Number == nil {
		return nil
	}
	return e.Number
}

// ParseItem reads one item in DynamoDB JSON, {"name":{"S":"…"},…}, and nothing
// behind it. Errors are *SyntaxError or *ValueError.
func ParseItem(json []byte) (Item, error) {
	s := NewScanner(json)
	it, bad, err := ScanItem(s)
	if err = endError(s, bad, err); err != nil {
		return nil, err
	}
	return it, nil
}

// ParseValue reads one value in DynamoDB JSON, {"S":"…"}. Errors as ParseItem.
func ParseValue(json []byte) (Value, error) {
	s := NewScanner(json)
	v, bad, err := ScanValue(s)
	if err = endError(s, bad, err); err != nil {
		return Value{}, err
	}
	return v, nil
}

// endError is the error of a document that ends here: bad syntax, also behind
// the document, comes before bad values.
func endError(s *Scanner, bad *ValueError, err error) error {
	if err == nil {
		err = s.End()
	}
	if err == nil && bad != nil {
		return bad
	}
	return err
}

// ScanItem reads one item from s. A document of the right JSON types is read
// to its end: bad is the first value in it that breaks a rule of the model, and
// then the item is not to be used. A member given twice counts once, the last.
func ScanItem(s *Scanner) (it Item, bad *ValueError, err error) {
	p := parser{s: s}
	it, err = p.item(1)
	return it, p.bad, err
}

// ScanItemStrict is ScanItem for what a program wrote, not a client: it refuses
// also what the service forgives, an attribute or a type given twice, a
// descriptor that is none beside one that is, and number texts of more than 400
// characters.
func ScanItemStrict(s *Scanner) (it Item, bad *ValueError, err error) {
	p := parser{s: s, strict: true}
	it, err = p.item(1)
	return it, p.bad, err
}

// ScanValue reads one value; results as ScanItem.
func ScanValue(s *Scanner) (v Value, bad *ValueError, err error) {
	p := parser{s: s}
	v, err = p.value(1)
	return v, p.bad, err
}

// What reading takes of memory, in bytes, for Scanner.Take: the standard
// library's maps, and slices that grew. It need not be exact.
const (
	CostString  = 16  // beside the text
	CostEntry   = 128 // one more entry of a map to a Value or something of that size
	CostMap     = 528 // a map with room for eight
	costElement = 96  // of a list: in the scratch and in the list
	costMember  = 48  // of a set
)

type parser struct {
	s       *Scanner
	bad     *ValueError
	topName bool // an attribute of the item itself has no name
	strict  bool // as ScanItemStrict

	// Scratch, so that lists and sets are allocated once, at their length.
	elems   []Value  // of the open lists, the innermost last
	members []string // of the set being read, as sent
}

// take counts memory, as long as what is read is kept.
func (p *parser) take(n int) error {
	if p.bad != nil {
		return nil
	}
	return p.s.Take(n)
}

// fault keeps the first fault. Only among these three the order is another: an
// empty name at the top beats depth, which beats an empty name further down.
func (p *parser) fault(e ValueError) {
	if p.bad == nil || (e.Problem == TooDeep && p.bad.Problem == EmptyName && !p.topName) {
		kept := e // only what is kept is allocated
		p.bad = &kept
	}
}

// checkName checks the name of an attribute at the given level.
func (p *parser) checkName(name []byte, level int) {
	if len(name) > maxName {
		p.fault(ValueError{Problem: NameTooLong})
	}
	if len(name) > 0 {
		return
	}
	if level == 1 {
		p.topName = true
		if p.bad != nil && p.bad.Problem == TooDeep {
			p.bad = nil
		}
	}
	p.fault(ValueError{Problem: EmptyName})
}

const (
	parameterizedCast = "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class java.lang.Class " +
		"(sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are in module java.base of loader 'bootstrap')"
	attributeValue = "com.amazonaws.dynamodb.v20120810.AttributeValue"
)

// item reads an attribute map whose values are at the given level.
func (p *parser) item(level int) (Item, error) {
	t, err := p.s.Peek()
	if err != nil {
		return nil, err
	}
	switch t {
	case TokenObject:
	case TokenArray:
		return nil, p.s.Fail("Unrecognized collection type java.util.Map<java.lang.String, " + attributeValue + ">")
	case TokenEnd:
		return nil, p.s.Fail("")
	default:
		if level > 1 {
			return nil, p.s.Fail("Unexpected field type")
		}
		return nil, p.s.Fail(parameterizedCast)
	}
	p.s.pos++ // the brace just seen
	it := Item{}
	cost := CostMap
	for n := 0; ; n++ {
		key, ok, err := p.s.NextKey(n == 0)
		if err != nil || !ok {
			return it, err
		}
		p.checkName(key, level)
		if err := p.take(cost + CostString + len(key)); err != nil {
			return nil, err
		}
		cost = CostEntry
		v, err := p.value(level)
		if err != nil {
			return nil, err
		}
		if p.bad == nil { // else nobody will look at it
			it[string(key)] = v
			if p.strict && len(it) == n {
				p.fault(ValueError{Problem: DuplicateName})
			}
		}
	}
}

func (p *parser) value(level int) (Value, error) {
	t, err := p.s.Peek()
	switch {
	case err != nil:
		return Value{}, err
	case t == TokenEnd:
		return Value{}, p.s.Fail("")
	case t == TokenArray:
		return Value{}, p.s.Fail("Unrecognized collection type class " + attributeValue)
	case t == TokenNull:
		p.fault(ValueError{Problem: EmptyValue})
		return Value{}, p.s.Literal()
	case t != TokenObject:
		return Value{}, p.s.Fail("Unexpected value type in payload")
	}
	if level > MaxNesting {
		p.fault(ValueError{Problem: TooDeep})
		return Value{}, p.s.Skip()
	}
	p.s.pos++ // the brace just seen
	var v Value
	var types uint16 // one bit a kind: a member given twice is still one type
	members := 0
	for ; ; members++ {
		key, ok, err := p.s.NextKey(members == 0)
		if err != nil {
			return Value{}, err
		}
		if !ok {
			break
		}
		kind, known := ParseKind(string(key))
		t, err := p.s.Peek()
		if err != nil {
			return Value{}, err
		}
		if !known || t == TokenNull {
			if err := p.s.Skip(); err != nil {
				return Value{}, err
			}
			continue
		}
		types |= 1 << kind
		if v, err = p.payload(kind, level); err != nil {
			return Value{}, err
		}
	}
	switch n := bits.OnesCount16(types); {
	case n == 0:
		p.fault(ValueError{Problem: EmptyValue})
	case n > 1, p.strict && members > 1:
		p.fault(ValueError{Problem: SeveralTypes})
	}
	return v, nil
}

func (p *parser) payload(kind Kind, level int) (Value, error) {
	switch kind {
	case KindS:
		s, err := p.s.Text()
		return String(s), err
	case KindN:
		s, err := p.number()
		return Value{kind: KindN, s: s}, err
	case KindB:
		b, err := p.s.Blob()
		return Binary(b), err
	case KindBOOL:
		b, err := p.s.Bool()
		return Bool(b), err
	case KindNULL:
		b, err := p.s.Bool()
		if err == nil && !b {
			p.fault(ValueError{Problem: NullIsFalse})
		}
		return Null(), err
	case KindM:
		m, err := p.item(level + 1)
		return Map(m), err
	case KindL:
		return p.list(level + 1)
	}
	return p.set(kind)
}

func (p *parser) number() (string, error) {
	text, err := p.s.text()
	if err != nil {
		return "", err
	}
	if p.strict && len(text) > maxNumberText {
		p.fault(ValueError{Problem: BadNumber, Number: &NumberError{Problem: NumberTooLong}})
		return "0", nil
	}
	if err := p.take(CostString + len(text)); err != nil {
		return "", err
	}
	s := string(text)
	n, err := ParseNumber(s)
	if err != nil {
		fault := ValueError{Problem: BadNumber}
		errors.As(err, &fault.Number)
		p.fault(fault)
		return "0", nil
	}
	var buf [maxPlain]byte
	if plain := n.AppendPlain(buf[:0]); string(plain) != s {
		return string(plain), p.take(2 * len(plain)) // the canonical text has it again
	}
	return s, nil
}

func (p *parser) openList() error {
	t, err := p.s.Peek()
	switch {
	case err != nil:
		return err
	case t == TokenArray:
		p.s.pos++
		return nil
	case t == TokenEnd:
		return p.s.Fail("")
	case t == TokenObject:
		return p.s.Fail("Start of structure or map found where not expected")
	}
	return p.s.Fail("Unexpected field type")
}

func (p *parser) list(level int) (Value, error) {
	if err := p.openList(); err != nil {
		return Value{}, err
	}
	outer := len(p.elems)
	for first := true; ; first = false {
		ok, err := p.s.NextElement(first)
		if err != nil {
			return Value{}, err
		}
		if !ok {
			break
		}
		if err := p.take(costElement); err != nil {
			return Value{}, err
		}
		v, err := p.value(level)
		if err != nil {
			return Value{}, err
		}
		if p.bad == nil {
			p.elems = append(p.elems, v)
		}
	}
	elems := append([]Value{}, p.elems[outer:]...) // never the scratch itself, not even its empty end
	p.elems = p.elems[:outer]
	return List(elems...), nil
}

func (p *parser) set(kind Kind) (Value, error) {
	if err := p.openList(); err != nil {
		return Value{}, err
	}
	p.members = p.members[:0]
	for first := true; ; first = false {
		ok, err := p.s.NextElement(first)
		if err != nil {
			return Value{}, err
		}
		if !ok {
			break
		}
		if err := p.take(costMember); err != nil {
			return Value{}, err
		}
		var m string
		switch kind {
		case KindSS:
			m, err = p.s.Text()
		case KindNS:
			m, err = p.number()
		default:
			var b []byte
			b, err = p.s.Blob()
			m = string(b)
		}
		if err != nil {
			return Value{}, err
		}
		if p.bad == nil {
			p.members = append(p.members, m)
		}
	}
	if len(p.members) == 0 {
		p.fault(ValueError{Problem: EmptySet, Kind: kind})
	}
	v := NewSet(kind, slices.Clone(p.members))
	if len(v.Set()) < len(p.members) {
		sent := slices.Clone(p.members)
		if kind == KindBS {
			for i, m := range sent {
				sent[i] = base64.StdEncoding.EncodeToString([]byte(m))
			}
		}
		p.fault(ValueError{Problem: DuplicateInSet, Kind: kind, Members: sent})
	}
	return v, nil
}
