// SPDX-License-Identifier: Apache-2.0

// Package expr is DynamoDB's expression language: condition, filter,
// key-condition, projection, update and search-condition expressions, their
// placeholders, and
// the legacy request members (Expected, QueryFilter, ScanFilter,
// KeyConditions, AttributeUpdates) that say the same in other words.
//
// A Cache turns text into a syntax tree, once per text. Binding a tree to the
// Placeholders of a request makes every check the service makes before it
// looks at a table, and yields a Condition, a Projection, an Update or a
// KeyCondition, which are then evaluated against items:
//
//	ph := expr.NewPlaceholders(names, values)
//	if err := ph.Check(); err != nil { … }
//	update, err := cache.Update(ph, updateText)
//	cond, err := cache.Condition(ph, expr.RoleCondition, conditionText)
//	err = ph.Unused()
//
// Every error is an *Error whose Error() is the service's text. Items handed
// in are never modified, and what is handed out may share values with them.
package expr
