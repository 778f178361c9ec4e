// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// expression turns an error of package expr into the answer of the layer;
// others, and nil, stay as they are.
func (l layer) expression(err error) error {
	if err == nil {
		return nil
	}
	var e *expr.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Kind == expr.Invalid:
		return l.invalid(e.Error())
	}
	return api.Validation(e.Error())
}

// member is one member of a request: its name and whether it was sent.
type member struct {
	name    string
	present bool
}

func present(members []member) (names []string) {
	for _, m := range members {
		if m.present {
			names = append(names, m.name)
		}
	}
	return names
}

// checkMix refuses a request that has both legacy and expression members.
func (l layer) checkMix(legacy, expressions []member) error {
	old := present(legacy)
	if len(old) == 0 {
		return nil
	}
	if texts := present(expressions); len(texts) > 0 {
		return l.expression(expr.CheckMix(old, texts))
	}
	return nil
}

// placeholders checks ExpressionAttributeNames and -Values. used tells that the
// request has an expression; without one they may not be sent, and null is what
// the message about the values adds, ": FilterExpression is null". Without
// expressions it returns nil.
func (l layer) placeholders(names map[string]string, values map[string]api.AttributeValue, used bool, null string) (*expr.Placeholders, error) {
	if !used && names == nil && values == nil {
		return nil, nil
	}
	var plain map[string]ddb.Value
	if values != nil {
		plain = make(map[string]ddb.Value, len(values))
	}
	badKey := ""
	for k, v := range values {
		plain[k] = v.Value
		if v.Bad != nil && (badKey == "" || k < badKey) {
			badKey = k
		}
	}
	ph := expr.NewPlaceholders(names, plain)
	if !used {
		return nil, l.expression(ph.CheckAbsent(null))
	}
	if err := ph.Check(); err != nil {
		return nil, l.expression(err)
	}
	if bad := values[badKey].Bad; bad != nil {
		return nil, l.badExpressionValue(badKey, bad)
	}
	return ph, nil
}

// unused refuses placeholders that no expression has used; ph may be nil.
func (l layer) unused(ph *expr.Placeholders) error {
	if ph == nil {
		return nil
	}
	return l.expression(ph.Unused())
}

// condition parses and binds a condition or filter; nil without text.
func (e *Engine) condition(l layer, ph *expr.Placeholders, role expr.Role, text *string) (*expr.Condition, error) {
	if text == nil {
		return nil, nil
	}
	c, err := e.exprs.Condition(ph, role, *text)
	return c, l.expression(err)
}

// projection parses and binds a projection; nil without text.
func (e *Engine) projection(l layer, ph *expr.Placeholders, text *string) (*expr.Projection, error) {
	if text == nil {
		return nil, nil
	}
	p, err := e.exprs.Projection(ph, *text)
	return p, l.expression(err)
}

// sortedKeys returns the keys of m in byte order; most often there are none.
func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// comparisons adds a clause for each unknown ComparisonOperator of a legacy
// filter or key condition, which path names.
func (c *constraints) comparisons(m map[string]api.Condition, path string) {
	for _, attr := range sortedKeys(m) {
		op := m[attr].ComparisonOperator
		c.required(op != nil, path+"."+attr+".member.comparisonOperator")
		c.enum(op, path+"."+attr+".member.comparisonOperator", enumComparisonOperator)
	}
}

// terms reads a legacy filter or key condition whose operators passed their
// constraint, and checks its arguments. Terms are sorted by attribute.
func (l layer) terms(m map[string]api.Condition) ([]expr.Term, error) {
	terms := make([]expr.Term, 0, len(m))
	for _, attr := range sortedKeys(m) {
		c := m[attr]
		values, err := l.valueList(c.AttributeValueList)
		if err != nil {
			return nil, err
		}
		op, _ := expr.ParseOp(*c.ComparisonOperator)
		terms = append(terms, expr.Term{Attr: attr, Op: op, Values: values})
	}
	return terms, l.expression(expr.CheckTerms(terms))
}

func (l layer) valueList(list []api.AttributeValue) ([]ddb.Value, error) {
	if list == nil {
		return nil, nil
	}
	values := make([]ddb.Value, len(list))
	for i := range list {
		if err := l.checkValue(&list[i]); err != nil {
			return nil, err
		}
		values[i] = list[i].Value
	}
	return values, nil
}

// filter reads QueryFilter or ScanFilter with the ConditionalOperator sent
// along; nil when there is no condition.
func (l layer) filter(m map[string]api.Condition, operator *string) (*expr.Condition, error) {
	either, err := l.conditionalOperator(operator, len(m))
	if err != nil {
		return nil, err
	}
	if len(m) == 0 {
		return nil, nil
	}
	terms, err := l.terms(m)
	if err != nil {
		return nil, err
	}
	return expr.NewCondition(terms, either), nil
}

func (l layer) conditionalOperator(sent *string, conditions int) (either bool, err error) {
	if sent == nil {
		return false, nil
	}
	either, err = expr.ParseConditionalOperator(*sent, conditions)
	return either, l.expression(err)
}

// expectedOperators adds a clause for each unknown ComparisonOperator of
// Expected.
func (c *constraints) expectedOperators(m map[string]api.ExpectedAttributeValue) {
	for _, attr := range sortedKeys(m) {
		c.enum(m[attr].ComparisonOperator, "expected."+attr+".member.comparisonOperator", enumComparisonOperator)
	}
}

// expected reads the legacy condition of a write; nil when there is none.
func (l layer) expected(m map[string]api.ExpectedAttributeValue, operator *string) (*expr.Condition, error) {
	if len(m) == 0 && operator == nil {
		return nil, nil
	}
	list := make([]expr.Expected, 0, len(m))
	for _, attr := range sortedKeys(m) {
		x := m[attr]
		if err := l.checkValue(&x.Value); err != nil {
			return nil, err
		}
		values, err := l.valueList(x.AttributeValueList)
		if err != nil {
			return nil, err
		}
		want := expr.Expected{Attr: attr, Exists: x.Exists, Value: x.Value.Value, List: values}
		if x.ComparisonOperator != nil {
			want.Op, _ = expr.ParseOp(*x.ComparisonOperator)
		}
		list = append(list, want)
	}
	either, err := l.conditionalOperator(operator, len(m))
	if err != nil || len(m) == 0 {
		return nil, err
	}
	terms, err := expr.ExpectedTerms(list)
	if err != nil {
		return nil, l.expression(err)
	}
	return expr.NewCondition(terms, either), nil
}

// checkScalarKeys refuses paths that look into a key attribute of the table or
// of one of the indexes.
func checkScalarKeys(refs iter.Seq[expr.Ref], t *storage.Table, indexes []*storage.Index) error {
	const text = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
	for r := range refs {
		if !r.Nested {
			continue
		}
		if isKey(t, r.Name) {
			return api.Validation(text + "Key: " + r.Name)
		}
		for _, ix := range indexes {
			named := func(a storage.KeyAttr) bool { return a.Name == r.Name }
			if slices.ContainsFunc(ix.Hash, named) || slices.ContainsFunc(ix.Range, named) {
				return api.Validation(text + "IndexKey: " + r.Name)
			}
		}
	}
	return nil
}

// isKey reports whether an attribute is part of the table's primary key.
func isKey(t *storage.Table, name string) bool {
	return name == t.Hash.Name || t.Range != nil && name == t.Range.Name
}
