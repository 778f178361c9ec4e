// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// Query reads the items of one partition of a table or index in the order of
// their sort keys, a page at a time.
func (e *Engine) Query(ctx context.Context, id auth.Identity, in *api.QueryInput, out *api.Body) error {
	if err := queryConstraints(in); err != nil {
		return err
	}
	name, err := e.resolveTable(id, *in.TableName)
	if err != nil {
		return err
	}
	l, terms, err := e.readQuery(in)
	if err != nil {
		return err
	}
	start := len(out.B)
	return e.withTable(ctx, id, name, func(t *storage.Table) error {
		out.B = out.B[:start]
		p, err := planQuery(l, t, in, terms)
		if err != nil {
			return err
		}
		return whole(out, func(room *room) error { return p.write(ctx, e.store, room) })
	})
}

// queryConstraints checks the members of the request one by one.
func queryConstraints(in *api.QueryInput) error {
	// The service reads the operator of two or more conditions ahead of all else.
	if op := in.ConditionalOperator; op != nil && len(in.QueryFilter) > 1 {
		if _, err := bare.conditionalOperator(op, len(in.QueryFilter)); err != nil {
			return err
		}
	}
	var c constraints
	c.enum(in.Select, "select", enumSelect)
	c.indexName(in.IndexName)
	c.enum(in.ReturnConsumedCapacity, "returnConsumedCapacity", enumReturnConsumedCapacity)
	c.comparisons(in.QueryFilter, "queryFilter")
	c.required(in.TableName != nil, "tableName")
	c.tableRef(in.TableName)
	c.enum(in.ConditionalOperator, "conditionalOperator", enumConditionalOperator)
	c.attributesToGet(in.AttributesToGet, "attributesToGet")
	c.limit(in.Limit)
	c.comparisons(in.KeyConditions, "keyConditions")
	return c.err()
}

// indexName adds the clauses of an IndexName.
func (c *constraints) indexName(name *string) {
	c.length(name, "indexName", minNameLength, maxNameLength)
	c.pattern(name, "indexName")
}

// limit adds the clause of a Limit.
func (c *constraints) limit(n *int32) {
	if n != nil && *n < 1 {
		c.at("Limit", ruleMinValue(1))
	}
}

// readQuery makes the checks that need no table, in the service's order, and
// returns the request and its key condition.
func (e *Engine) readQuery(in *api.QueryInput) (*listing, []expr.Term, error) {
	const null = ": FilterExpression and KeyConditionExpression are null"
	if err := bare.checkMix(
		[]member{
			{"AttributesToGet", in.AttributesToGet != nil},
			{"QueryFilter", in.QueryFilter != nil},
			{"ConditionalOperator", in.ConditionalOperator != nil},
			// KeyConditions go with the other expressions.
			{"KeyConditions", in.KeyConditions != nil && in.KeyConditionExpression != nil},
		},
		[]member{
			{"ProjectionExpression", in.ProjectionExpression != nil},
			{"FilterExpression", in.FilterExpression != nil},
			{"KeyConditionExpression", in.KeyConditionExpression != nil},
		},
	); err != nil {
		return nil, nil, err
	}
	conditions := in.FilterExpression != nil || in.KeyConditionExpression != nil
	ph, err := bare.readPlaceholders(in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ProjectionExpression != nil, conditions, null)
	if err != nil {
		return nil, nil, err
	}
	l := &listing{
		index: in.IndexName, query: true, legacy: in.QueryFilter != nil, start: &in.ExclusiveStartKey,
		limit: in.Limit, consistent: isTrue(in.ConsistentRead), capacity: capacityWanted(in.ReturnConsumedCapacity),
	}
	if err := l.readSelect(in.Select, in.AttributesToGet != nil, in.ProjectionExpression != nil); err != nil {
		return nil, nil, err
	}
	if l.filter, err = bare.filter(in.QueryFilter, in.ConditionalOperator); err != nil {
		return nil, nil, err
	}
	if l.projection, err = legacyProjection(bare, in.AttributesToGet); err != nil {
		return nil, nil, err
	}
	if err := bare.startKeyValues(&in.ExclusiveStartKey); err != nil {
		return nil, nil, err
	}
	if in.KeyConditions == nil && in.KeyConditionExpression == nil {
		return nil, nil, api.Validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	if err := e.readExpressions(bare, ph, l, in.ProjectionExpression, in.FilterExpression); err != nil {
		return nil, nil, err
	}
	terms, err := e.keyTerms(ph, in)
	return l, terms, err
}

// readPlaceholders is placeholders for a read: the values belong to conditions
// only, the names to a projection too.
func (l layer) readPlaceholders(names map[string]string, values map[string]api.AttributeValue, projection, conditions bool, null string) (*expr.Placeholders, error) {
	if projection && !conditions && values != nil {
		return l.placeholders(nil, values, false, null)
	}
	return l.placeholders(names, values, projection || conditions, null)
}

// readExpressions binds the expressions that a Query and a Scan have in common.
func (e *Engine) readExpressions(ly layer, ph *expr.Placeholders, l *listing, projection, filter *string) error {
	if projection != nil {
		p, err := e.projection(ly, ph, projection)
		if err != nil {
			return err
		}
		l.projection = p
	}
	if filter != nil {
		f, err := e.condition(ly, ph, expr.RoleFilter, filter)
		if err != nil {
			return err
		}
		l.filter = f
	}
	return nil
}
