// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/keyenc"
)

// keyTerms reads the key condition of a Query in either form, and ends the
// checks of the request's expressions.
func (e *Engine) keyTerms(ph *expr.Placeholders, in *api.QueryInput) ([]expr.Term, error) {
	if in.KeyConditionExpression == nil {
		if err := bare.unused(ph); err != nil {
			return nil, err
		}
		terms, err := bare.terms(in.KeyConditions)
		if err == nil && len(terms) == 0 {
			err = api.Validation(oneOrTwoConditions)
		}
		return terms, err
	}
	kc, err := e.exprs.KeyCondition(ph, *in.KeyConditionExpression)
	if err != nil {
		return nil, bare.expression(err)
	}
	if err := bare.unused(ph); err != nil {
		return nil, err
	}
	terms, err := kc.Terms()
	return terms, bare.expression(err)
}

const oneOrTwoConditions = "Conditions can be of length 1 or 2 only"

// planQuery makes the checks of a Query that need the table, in the service's
// order, and lays out the page.
func planQuery(l *listing, t *storage.Table, in *api.QueryInput, terms []expr.Term) (*page, error) {
	ix, err := l.findIndex(t)
	if err != nil {
		return nil, err
	}
	if l.start.Present {
		if err := startKeyNames(t, ix, l.start.Item); err != nil {
			return nil, err
		}
	}
	hash, ranges := keySchema(t, ix)
	if in.KeyConditions != nil && len(terms) > 2 && len(hash)+len(ranges) <= 2 {
		return nil, api.Validation(oneOrTwoConditions)
	}
	match, err := expr.MatchKey(terms, exprAttrs(hash), exprAttrs(ranges))
	if err != nil {
		return nil, bare.expression(err)
	}
	if err := checkMatch(ix, match, hash, ranges); err != nil {
		return nil, err
	}
	p := l.page(t, ix)
	p.rng.P = keyenc.Hash(match.Hash)
	p.rng.From, p.rng.To = keyenc.Bounds(kindsOf(ranges), match.Range, keyOp(match.Last.Op), match.Last.Values)
	p.rng.Reverse = in.ScanIndexForward != nil && !*in.ScanIndexForward
	p.single = ix == nil && len(match.Range) == len(ranges)
	if l.start.Present {
		pos, err := startPosition(t, ix, l.start.Item)
		if err != nil {
			return nil, err
		}
		if p.single {
			return nil, api.Validation(startKeyUseless)
		}
		if err := startInQuery(&p.rng, ix, pos); err != nil {
			return nil, err
		}
		p.rng.After = &pos
	}
	return p, l.finish(p)
}

// keySchema returns the key attributes of the table (ix nil) or an index.
func keySchema(t *storage.Table, ix *storage.Index) (hash, ranges []storage.KeyAttr) {
	if ix != nil {
		return ix.Hash, ix.Range
	}
	attrs := t.KeyAttrs()
	return attrs[:1], attrs[1:]
}

func exprAttrs(attrs []storage.KeyAttr) []expr.KeyAttr {
	out := make([]expr.KeyAttr, len(attrs))
	for i, a := range attrs {
		out[i] = expr.KeyAttr{Name: a.Name, Kind: a.Kind}
	}
	return out
}

func kindsOf(attrs []storage.KeyAttr) []ddb.Kind {
	kinds := make([]ddb.Kind, len(attrs))
	for i, a := range attrs {
		kinds[i] = a.Kind
	}
	return kinds
}

// checkMatch refuses key values that no item can have: empty or too long.
func checkMatch(ix *storage.Index, m expr.KeyMatch, hash, ranges []storage.KeyAttr) error {
	size := 0
	for i, v := range m.Hash {
		if v.Size() == 0 {
			return emptyCondition(ix, hash[i])
		}
		size += v.Size()
	}
	if size > storage.MaxHashKey {
		return api.Validation(hashTooLong)
	}
	size = 0
	for i, v := range m.Range {
		if v.Size() == 0 {
			return emptyCondition(ix, ranges[i])
		}
		size += v.Size()
	}
	for _, v := range m.Last.Values {
		if v.Size() == 0 {
			return emptyCondition(ix, ranges[len(m.Range)])
		}
		if size+v.Size() > storage.MaxRangeKey {
			return api.Validation(rangeTooLong)
		}
	}
	if size > storage.MaxRangeKey {
		return api.Validation(rangeTooLong)
	}
	return nil
}

// emptyCondition is the answer to an empty value in a key condition.
func emptyCondition(ix *storage.Index, a storage.KeyAttr) error {
	text := emptyKey + emptyKind(a) + " value. "
	if ix == nil {
		return api.Validation(keyNotValid + text + "Key: " + a.Name)
	}
	return api.Validation(keyNotValid + indexKeyInPut + text + "IndexName: " + ix.Name + ", IndexKey: " + a.Name)
}

// keyOp translates the comparison of the last range attribute; never equality,
// which MatchKey lists apart.
func keyOp(op expr.Op) keyenc.Op {
	switch op {
	case expr.LT:
		return keyenc.LT
	case expr.LE:
		return keyenc.LE
	case expr.GT:
		return keyenc.GT
	case expr.GE:
		return keyenc.GE
	case expr.Between:
		return keyenc.Between
	case expr.BeginsWith:
		return keyenc.BeginsWith
	}
	return keyenc.None
}
