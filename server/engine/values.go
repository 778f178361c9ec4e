// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

// layer is the generation of the service's validation that an operation still
// runs through: it decides how messages about the request itself are worded.
// Messages about keys, indexes and stored items are the same in all of them.
type layer uint8

const (
	enveloped layer = iota + 1 // PutItem, UpdateItem, DeleteItem: newest wording behind "1 validation error detected: "
	bare                       // GetItem, BatchGetItem, Query: newest wording as it is
	older                      // BatchWriteItem, transactions, Scan: the wording before it
)

// invalid returns a ValidationException about the request itself.
func (l layer) invalid(message string) *api.Error {
	if l == enveloped {
		message = api.VE1 + message
	}
	return api.Validation(message)
}

// badValue returns the answer to a value that breaks a rule of the data model.
func (l layer) badValue(e *ddb.ValueError) *api.Error { return l.invalid(l.valueText(e)) }

// badExpressionValue is badValue for an element of ExpressionAttributeValues.
func (l layer) badExpressionValue(key string, e *ddb.ValueError) *api.Error {
	text := l.valueText(e)
	if l == older {
		text = "ExpressionAttributeValues contains invalid value: " + text + " for key " + key
	}
	return l.invalid(text)
}

// checkMap returns the answer to an item or key that breaks a rule of the data
// model, nil when it breaks none.
func (l layer) checkMap(m *api.AttributeMap) error {
	if m.Bad != nil {
		return l.badValue(m.Bad)
	}
	return nil
}

// checkValue is checkMap for one value.
func (l layer) checkValue(v *api.AttributeValue) error {
	if v.Bad != nil {
		return l.badValue(v.Bad)
	}
	return nil
}

// valueText words a ValueError.
func (l layer) valueText(e *ddb.ValueError) string {
	switch e.Problem {
	case ddb.EmptyValue:
		return "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
	case ddb.SeveralTypes:
		return severalDatatypes
	case ddb.BadNumber:
		return l.numberText(e.Number)
	case ddb.EmptySet:
		switch e.Kind {
		case ddb.KindSS:
			return api.InvalidParameters + "An string set  may not be empty"
		case ddb.KindNS:
			return api.InvalidParameters + "An number set  may not be empty"
		}
		return api.InvalidParameters + "Binary sets should not be empty"
	case ddb.DuplicateInSet:
		return l.duplicateText(e)
	case ddb.NullIsFalse:
		return api.InvalidParameters + "Null attribute value types must have the value of true"
	case ddb.TooDeep:
		return tooDeep
	case ddb.NameTooLong:
		return "Attribute name is too large, must be less than 65536 bytes"
	}
	return "Empty attribute name"
}

const (
	severalDatatypes = "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"
	tooDeep          = "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"
	notNumeric       = "The parameter cannot be converted to a numeric value"
)

func (l layer) numberText(e *ddb.NumberError) string {
	problem := e.Problem
	if l == older {
		problem = javaProblem(e)
	}
	switch problem {
	case ddb.TooManyDigits:
		return "Attempting to store more than 38 significant digits in a Number"
	case ddb.NumberOverflow:
		return "Number overflow. Attempting to store a number with magnitude larger than supported range"
	case ddb.NumberUnderflow:
		return "Number underflow. Attempting to store a number with magnitude smaller than supported range"
	}
	if l == older && e.Input == "" {
		return notNumeric
	}
	return notNumeric + ": " + e.Input
}

// javaProblem says how the older layer sees a number of extreme exponent: it
// reads it as a Java BigDecimal, whose 32-bit scale cannot hold some exponents
// and wraps around just before that.
func javaProblem(e *ddb.NumberError) ddb.NumberProblem {
	i := strings.IndexAny(e.Input, "eE")
	if i < 0 || e.Problem == ddb.NotNumber {
		return e.Problem
	}
	exp, err := strconv.ParseInt(e.Input[i+1:], 10, 32)
	if err != nil {
		return ddb.NotNumber
	}
	whole, fraction, _ := strings.Cut(strings.TrimLeft(e.Input[:i], "+-"), ".")
	scale := int64(len(fraction)) - exp
	precision := max(len(strings.TrimLeft(whole+fraction, "0")), 1)
	switch {
	case scale < math.MinInt32 || scale > math.MaxInt32:
		return ddb.NotNumber
	case e.Problem == ddb.NumberOverflow && int64(precision)-scale > math.MaxInt32:
		return ddb.NumberUnderflow
	}
	return e.Problem
}

// duplicateText shows the members of a set that has one twice. The newest
// wording shows those before the first repeat in byte order, the older one all
// as they were sent.
func (l layer) duplicateText(e *ddb.ValueError) string {
	const head, tail = api.InvalidParameters + "Input collection ", " contains duplicates."
	if e.Kind == ddb.KindNS {
		if l == older {
			return "Input collection contains duplicates"
		}
		return strings.TrimSuffix(head, " ") + tail
	}
	members, sep := e.Members, ", "
	if l != older {
		members = sortedToRepeat(e)
		if e.Kind == ddb.KindBS {
			sep = ","
		}
	}
	text := head + "[" + strings.Join(members, sep) + "]"
	if e.Kind == ddb.KindBS {
		text += "of type BS"
	}
	return text + tail
}

// sortedToRepeat returns the members quoted, those before the first repeat
// sorted by their bytes.
func sortedToRepeat(e *ddb.ValueError) []string {
	members := slices.Clone(e.Members)
	raw := func(s string) string {
		if e.Kind != ddb.KindBS {
			return s
		}
		b, _ := base64.StdEncoding.DecodeString(s) // the codec encoded it
		return string(b)
	}
	seen := make(map[string]bool, len(members))
	for i, m := range members {
		if seen[m] {
			slices.SortFunc(members[:i], func(a, b string) int { return strings.Compare(raw(a), raw(b)) })
			break
		}
		seen[m] = true
	}
	for i, m := range members {
		members[i] = string(ddb.AppendString(nil, m))
	}
	return members
}
