// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/extenddb/extenddb/server/api"
)

// maxClauses is how many failed constraints the service names in one message.
const maxClauses = 10

// Rules of member constraints.
const (
	ruleNotNull     = "Member must not be null"
	ruleNamePattern = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
)

// Bounds of table and index names.
const (
	minNameLength = 3
	maxNameLength = 255
)

// enum is a set of allowed values in the order the service prints them.
type enum string

// The sets that requests are checked against, in the service's order.
const (
	enumReturnConsumedCapacity enum = "INDEXES, TOTAL, NONE"
	enumReturnItemCollection   enum = "SIZE, NONE"
	enumReturnValuesOld        enum = "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW"
	enumSelect                 enum = "SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES"
	enumComparisonOperator     enum = "IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS"
	enumConditionalOperator    enum = "OR, AND"
	enumKeyType                enum = "HASH, RANGE"
	enumAttributeType          enum = "B, N, S"
	enumProjectionType         enum = "ALL, INCLUDE, KEYS_ONLY"
	enumBillingMode            enum = "PROVISIONED, PAY_PER_REQUEST"
	enumStreamViewType         enum = "OLD_IMAGE, KEYS_ONLY, NEW_AND_OLD_IMAGES, NEW_IMAGE"
	enumSSEType                enum = "AES256, KMS"
)

// has reports whether v is in the set.
func (e enum) has(v string) bool {
	for s := range strings.SplitSeq(string(e), ", ") {
		if s == v {
			return true
		}
	}
	return false
}

// rule is the constraint's text, "Member must satisfy enum value set: […]".
func (e enum) rule() string { return "Member must satisfy enum value set: [" + string(e) + "]" }

// ruleMinLength and its siblings are the texts of bounds.
func ruleMinLength(n int) string {
	return "Member must have length greater than or equal to " + strconv.Itoa(n)
}

func ruleMaxLength(n int) string {
	return "Member must have length less than or equal to " + strconv.Itoa(n)
}

func ruleMinValue(n int64) string {
	return "Member must have value greater than or equal to " + strconv.FormatInt(n, 10)
}

func ruleMaxValue(n int64) string {
	return "Member must have value less than or equal to " + strconv.FormatInt(n, 10)
}

// constraints collects the member constraints that a request breaks; the
// service reports them all in one message, in the model's member order, which
// is the order the caller checks in. The zero value is ready for use.
type constraints struct{ clauses []string }

// err is the ValidationException of what was collected, nil when nothing was.
func (c *constraints) err() error {
	n := len(c.clauses)
	switch n {
	case 0:
		return nil
	case 1:
		return api.Validation(api.VE1 + c.clauses[0])
	}
	return api.Validation(strconv.Itoa(n) + " validation errors detected: " + strings.Join(c.clauses, "; "))
}

// clause adds a finished clause. Only the first ten are kept.
func (c *constraints) clause(s string) {
	if len(c.clauses) < maxClauses {
		c.clauses = append(c.clauses, s)
	}
}

// value adds the form that echoes the value: path is lower camel case, list
// members are "x.1.member.y".
func (c *constraints) value(v, path, rule string) {
	c.clause("Value '" + v + "' at '" + path + "' failed to satisfy constraint: " + rule)
}

// null adds the form for a missing member; path as for value.
func (c *constraints) null(path string) {
	c.clause("Value null at '" + path + "' failed to satisfy constraint: " + ruleNotNull)
}

// at adds the newer form without an echo; path is spelled as on the wire.
func (c *constraints) at(path, rule string) {
	c.clause("Value at '" + path + "' failed to satisfy constraint: " + rule)
}

// nameless adds the newest form of an enum constraint, which names no member.
func (c *constraints) nameless(rule string) {
	c.clause("Failed to satisfy constraint: " + rule)
}

// required adds a clause when the member is absent.
func (c *constraints) required(present bool, path string) {
	if !present {
		c.null(path)
	}
}

// enum checks a member that may be absent against a set.
func (c *constraints) enum(v *string, path string, set enum) {
	if v != nil && !set.has(*v) {
		c.value(*v, path, set.rule())
	}
}

// length checks the length in characters of a member that may be absent.
// max 0 stands for no bound.
func (c *constraints) length(v *string, path string, minimum, maximum int) {
	if v == nil {
		return
	}
	switch n := utf8.RuneCountInString(*v); {
	case n < minimum:
		c.value(*v, path, ruleMinLength(minimum))
	case maximum > 0 && n > maximum:
		c.value(*v, path, ruleMaxLength(maximum))
	}
}

// pattern checks that a member that may be absent is made of the characters of
// names; an empty one is not.
func (c *constraints) pattern(v *string, path string) {
	if v != nil && !isName(*v) {
		c.value(*v, path, ruleNamePattern)
	}
}

// atLeast checks a number that may be absent.
func (c *constraints) atLeast(v *int64, path string, minimum int64) {
	if v != nil && *v < minimum {
		c.value(strconv.FormatInt(*v, 10), path, ruleMinValue(minimum))
	}
}

// isName reports whether s matches [a-zA-Z0-9_.-]+.
func isName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return s != ""
}
