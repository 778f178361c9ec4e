// SPDX-License-Identifier: Apache-2.0

package expr

import "fmt"

// Role says which request member an expression was sent in.
type Role uint8

// The roles. Condition and filter expressions share one grammar; the role
// only changes how their errors start.
const (
	RoleCondition Role = iota + 1
	RoleFilter
	RoleKeyCondition
	RoleProjection
	RoleUpdate
	RoleSearchCondition
)

var roleNames = [...]string{"", "ConditionExpression", "FilterExpression", "KeyConditionExpression", "ProjectionExpression", "UpdateExpression",
	"SearchConditionExpression"}

// String returns the name of the request member, "ConditionExpression" and so
// on; "" for the zero Role.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return ""
}

// Kind says when an error can be known, which decides its envelope and its
// place among the other errors of a request.
type Kind uint8

// The kinds of Error.
const (
	// Invalid: the request alone is wrong; found before any table is looked
	// up. PutItem, UpdateItem and DeleteItem put it into the
	// "1 validation error detected: " envelope.
	Invalid Kind = iota
	// Schema: the request does not fit the table's keys. Never enveloped.
	Schema
	// Runtime: an update does not fit the stored item. Never enveloped.
	Runtime
)

// Error is a ValidationException about expressions or their legacy
// counterparts. Every error of this package is one.
type Error struct {
	Kind    Kind
	Role    Role   // not 0: the text starts with "Invalid <role>: "
	Message string // the text behind that prefix
}

// Error returns the service's text, with the prefix the Role asks for and
// without any envelope.
func (e *Error) Error() string {
	if e.Role == 0 {
		return e.Message
	}
	return "Invalid " + e.Role.String() + ": " + e.Message
}

func invalid(role Role, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Role: role, Message: fmt.Sprintf(format, args...)}
}

// bare is an Invalid error whose text has no prefix.
func bare(format string, args ...any) *Error { return invalid(0, format, args...) }

func schemaError(format string, args ...any) *Error {
	return &Error{Kind: Schema, Message: fmt.Sprintf(format, args...)}
}

func runtime(message string) *Error { return &Error{Kind: Runtime, Message: message} }
