// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"maps"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
)

// Placeholders are the ExpressionAttributeNames and -Values of one request.
// Binding an expression notes which of them it uses. Not for concurrent use.
type Placeholders struct {
	names      map[string]string
	values     map[string]ddb.Value
	usedNames  []string // may repeat
	usedValues []string
}

// NewPlaceholders returns the placeholders of a request. A nil map is a member
// that was not sent, an empty one was sent empty. The maps are kept.
func NewPlaceholders(names map[string]string, values map[string]ddb.Value) *Placeholders {
	return &Placeholders{
		names: names, values: values,
		usedNames: make([]string, 0, len(names)), usedValues: make([]string, 0, len(values)),
	}
}

const (
	namesMember  = "ExpressionAttributeNames"
	valuesMember = "ExpressionAttributeValues"
)

// Check refuses empty maps and malformed keys, names first. A request without
// expressions has CheckAbsent instead.
func (p *Placeholders) Check() error {
	if err := checkKeys(namesMember, '#', p.names); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(p.names)) {
		if p.names[key] == "" {
			return bare("%s contains invalid value: Empty attribute name for key %s", namesMember, key)
		}
	}
	if err := checkKeys(valuesMember, ':', p.values); err != nil {
		return err
	}
	return nil
}

func checkKeys[V any](member string, sign byte, m map[string]V) *Error {
	if m == nil {
		return nil
	}
	if len(m) == 0 {
		return bare("%s must not be empty", member)
	}
	worst := "" // the first in byte order, so that the answer does not vary
	for key := range m {
		if !validKey(key, sign) && (worst == "" || key < worst) {
			worst = key
		}
		if key == "" {
			return bare("%s contains invalid key: The expression attribute map contains an empty key;", member)
		}
	}
	switch {
	case len(worst) > maxPlaceholder:
		return bare("%s contains invalid key: The expression attribute map contains a key that is too long; key: \"%s\"", member, worst)
	case worst != "":
		return bare("%s contains invalid key: Syntax error; key: \"%s\"", member, worst)
	}
	return nil
}

func validKey(key string, sign byte) bool {
	return len(key) > 1 && len(key) <= maxPlaceholder && key[0] == sign && skipWord(key, 1) == len(key)
}

// CheckAbsent refuses the maps of a request without expressions. null is what
// the operation adds to the text about the values, as
// ": FilterExpression is null"; "" for PutItem and DeleteItem.
func (p *Placeholders) CheckAbsent(null string) error {
	const text = " can only be specified when using expressions"
	switch {
	case p.names != nil:
		return bare("%s", namesMember+text)
	case p.values != nil:
		return bare("%s", valuesMember+text+null)
	}
	return nil
}

// Unused refuses placeholders that none of the expressions bound so far uses,
// names before values.
func (p *Placeholders) Unused() error {
	if err := unused(namesMember, p.names, p.usedNames); err != nil {
		return err
	}
	if err := unused(valuesMember, p.values, p.usedValues); err != nil {
		return err
	}
	return nil
}

func unused[V any](member string, sent map[string]V, used []string) *Error {
	slices.Sort(used)
	var left []string
	for key := range sent {
		if _, ok := slices.BinarySearch(used, key); !ok {
			left = append(left, key)
		}
	}
	if left == nil {
		return nil
	}
	slices.Sort(left)
	return bare("Value provided in %s unused in expressions: keys: {%s}", member, strings.Join(left, ", "))
}

// CheckMix refuses a request that has both legacy and expression members. It
// takes the names of those present, in the order the operation lists them.
func CheckMix(legacy, expressions []string) error {
	if len(legacy) == 0 || len(expressions) == 0 {
		return nil
	}
	return bare("Can not use both expression and non-expression parameters in the same request: "+
		"Non-expression parameters: {%s} Expression parameters: {%s}",
		strings.Join(legacy, ", "), strings.Join(expressions, ", "))
}
