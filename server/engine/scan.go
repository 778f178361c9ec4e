// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// maxSegments is the largest TotalSegments of a parallel Scan.
const maxSegments = 1_000_000

// Scan reads all items of a table or index, or one segment of them, a page at
// a time.
func (e *Engine) Scan(ctx context.Context, id auth.Identity, in *api.ScanInput, out *api.Body) error {
	if err := scanConstraints(in); err != nil {
		return err
	}
	name, err := e.resolveTable(id, *in.TableName)
	if err != nil {
		return err
	}
	l, err := e.readScan(in)
	if err != nil {
		return err
	}
	start := len(out.B)
	return e.withTable(ctx, id, name, func(t *storage.Table) error {
		out.B = out.B[:start]
		p, err := e.planScan(ctx, l, t, in)
		if err != nil {
			return err
		}
		return whole(out, func(room *room) error { return p.write(ctx, e.store, room) })
	})
}

// scanConstraints checks the members of the request one by one.
func scanConstraints(in *api.ScanInput) error {
	var c constraints
	c.enum(in.Select, "select", enumSelect)
	c.indexName(in.IndexName)
	c.enum(in.ReturnConsumedCapacity, "returnConsumedCapacity", enumReturnConsumedCapacity)
	if n := in.TotalSegments; n != nil {
		switch {
		case *n < 1:
			c.at("TotalSegments", ruleMinValue(1))
		case *n > maxSegments:
			c.at("TotalSegments", ruleMaxValue(maxSegments))
		}
	}
	c.required(in.TableName != nil, "tableName")
	c.tableRef(in.TableName)
	c.enum(in.ConditionalOperator, "conditionalOperator", enumConditionalOperator)
	if n := in.Segment; n != nil {
		switch {
		case *n < 0:
			c.at("Segment", ruleMinValue(0))
		case *n >= maxSegments:
			c.at("Segment", ruleMaxValue(maxSegments-1))
		}
	}
	c.attributesToGet(in.AttributesToGet, "attributesToGet")
	c.limit(in.Limit)
	c.comparisons(in.ScanFilter, "scanFilter")
	return c.err()
}

// readScan makes the checks that need no table, in the service's order.
func (e *Engine) readScan(in *api.ScanInput) (*listing, error) {
	if err := older.checkMix(
		[]member{
			{"AttributesToGet", in.AttributesToGet != nil},
			{"ScanFilter", in.ScanFilter != nil},
			{"ConditionalOperator", in.ConditionalOperator != nil},
		},
		[]member{
			{"ProjectionExpression", in.ProjectionExpression != nil},
			{"FilterExpression", in.FilterExpression != nil},
		},
	); err != nil {
		return nil, err
	}
	ph, err := older.readPlaceholders(in.ExpressionAttributeNames, in.ExpressionAttributeValues,
		in.ProjectionExpression != nil, in.FilterExpression != nil, ": FilterExpression is null")
	if err != nil {
		return nil, err
	}
	l := &listing{
		index: in.IndexName, legacy: in.ScanFilter != nil, start: &in.ExclusiveStartKey,
		limit: in.Limit, consistent: isTrue(in.ConsistentRead), capacity: capacityWanted(in.ReturnConsumedCapacity),
	}
	if err := l.readSelect(in.Select, in.AttributesToGet != nil, in.ProjectionExpression != nil); err != nil {
		return nil, err
	}
	if l.projection, err = legacyProjection(older, in.AttributesToGet); err != nil {
		return nil, err
	}
	if l.filter, err = older.filter(in.ScanFilter, in.ConditionalOperator); err != nil {
		return nil, err
	}
	if err := older.startKeyValues(&in.ExclusiveStartKey); err != nil {
		return nil, err
	}
	if err := checkSegments(in.Segment, in.TotalSegments); err != nil {
		return nil, err
	}
	if err := e.readExpressions(older, ph, l, in.ProjectionExpression, in.FilterExpression); err != nil {
		return nil, err
	}
	return l, older.unused(ph)
}

// planScan makes the checks of a Scan that need the table, in the service's
// order, and lays out the page.
func (e *Engine) planScan(ctx context.Context, l *listing, t *storage.Table, in *api.ScanInput) (*page, error) {
	ix, err := l.findIndex(t)
	if err != nil {
		return nil, err
	}
	p := l.page(t, ix)
	if l.start.Present {
		if err := startKeyNames(t, ix, l.start.Item); err != nil {
			return nil, err
		}
		pos, err := startPosition(t, ix, l.start.Item)
		if err != nil {
			return nil, err
		}
		p.rng.After = &pos
	}
	if err := l.finish(p); err != nil {
		return nil, err
	}
	if in.TotalSegments == nil || *in.TotalSegments == 1 {
		return p, nil
	}
	sample, err := e.store.Sample(ctx, t, p.rng.Index, e.clock.Now())
	if err != nil {
		return nil, err
	}
	s := segmentOf(sample, int(*in.Segment), int(*in.TotalSegments))
	if p.rng.After != nil && !s.holds(*p.rng.After) {
		return nil, startKeyOutside(*in.Segment, *in.TotalSegments)
	}
	p.rng.Start, p.rng.End, p.empty = s.start, s.end, s.empty
	return p, nil
}
