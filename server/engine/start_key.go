// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

// Texts about ExclusiveStartKey.
const (
	startKeyInvalid   = "The provided starting key is invalid"
	startKeyElsewhere = "The provided starting key is outside query boundaries based on provided conditions"
	startKeyUnmatched = "The provided starting key does not match the range key predicate"
	startKeyUseless   = "The query can return at most one row and cannot be restarted"
)

// startKeyValues checks the values of an ExclusiveStartKey against the data
// model. The service prefixes some of its messages and not others.
func (l layer) startKeyValues(m *api.AttributeMap) error {
	if m.Bad == nil {
		return nil
	}
	text := l.valueText(m.Bad)
	switch {
	case m.Bad.Problem == ddb.BadNumber, m.Bad.Problem == ddb.DuplicateInSet,
		m.Bad.Problem == ddb.EmptySet && m.Bad.Kind == ddb.KindNS:
		return l.invalid(text)
	}
	return l.invalid(startKeyInvalid + ": " + text)
}

// startKeyNames checks that key has the attributes of a LastEvaluatedKey of
// the table or index and no others.
func startKeyNames(t *storage.Table, ix *storage.Index, key ddb.Item) error {
	attrs := t.KeyAttrs()
	if ix != nil {
		attrs = ix.KeyAttrs(t)
	}
	if len(key) != len(attrs) {
		return api.Validation(startKeyInvalid)
	}
	for _, a := range attrs {
		if _, ok := key[a.Name]; !ok {
			return api.Validation(startKeyInvalid)
		}
	}
	return nil
}

// startPosition is where an ExclusiveStartKey points.
func startPosition(t *storage.Table, ix *storage.Index, key ddb.Item) (storage.Position, error) {
	pos, err := t.PositionOf(ix, key)
	var bad *storage.KeyError
	if errors.As(err, &bad) {
		err = api.Validation(startKeyInvalid)
	}
	return pos, err
}

// startInQuery checks that a Query over the range may continue behind pos.
func startInQuery(rng *storage.Range, ix *storage.Index, pos storage.Position) error {
	p, s := pos.PK, pos.SK
	if ix != nil {
		p, s = pos.P, pos.S
	}
	if bytes.Compare(s, rng.From) < 0 || rng.To != nil && bytes.Compare(s, rng.To) >= 0 {
		return api.Validation(startKeyUnmatched)
	}
	if !bytes.Equal(p, rng.P) {
		return api.Validation(startKeyElsewhere)
	}
	return nil
}
