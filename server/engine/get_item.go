// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// GetItem reads one item. Without a projection its stored bytes are copied
// into the response.
func (e *Engine) GetItem(ctx context.Context, id auth.Identity, in *api.GetItemInput, out *api.Body) error {
	var c constraints
	c.enum(in.ReturnConsumedCapacity, "returnConsumedCapacity", enumReturnConsumedCapacity)
	c.required(in.TableName != nil, "tableName")
	c.tableRef(in.TableName)
	c.required(in.Key.Present, "key")
	c.attributesToGet(in.AttributesToGet, "attributesToGet")
	if err := c.err(); err != nil {
		return err
	}
	name, err := e.resolveTable(id, *in.TableName)
	if err != nil {
		return err
	}
	if err := bare.checkMix(
		[]member{{"AttributesToGet", in.AttributesToGet != nil}},
		[]member{{"ProjectionExpression", in.ProjectionExpression != nil}},
	); err != nil {
		return err
	}
	ph, err := bare.placeholders(in.ExpressionAttributeNames, nil, in.ProjectionExpression != nil, "")
	if err != nil {
		return err
	}
	if err := bare.checkMap(&in.Key); err != nil {
		return err
	}
	projection, err := e.attributes(bare, ph, in.AttributesToGet, in.ProjectionExpression)
	if err != nil {
		return err
	}
	if err := bare.unused(ph); err != nil {
		return err
	}
	start := len(out.B)
	return e.withTable(ctx, id, name, func(t *storage.Table) error {
		out.B = out.B[:start]
		return whole(out, func(room *room) error { return e.getItem(ctx, t, in, projection, room) })
	})
}

// getItem is the part of GetItem that needs the table.
func (e *Engine) getItem(ctx context.Context, t *storage.Table, in *api.GetItemInput, projection *expr.Projection, room *room) error {
	if err := checkProjectedKeys(projection, t); err != nil {
		return err
	}
	key, err := keyOf(t, in.Key.Item)
	if err != nil {
		return err
	}
	row, err := e.store.Get(ctx, t, key)
	if err != nil {
		return err
	}
	out, size, sep := room.out, 0, ""
	out.Raw("{")
	if row != nil {
		item, err := projectRow(row, projection, nil)
		if err != nil {
			return err
		}
		if err := room.must(len(item)); err != nil {
			return err
		}
		out.Raw(`"Item":`)
		out.B = append(out.B, item...)
		size, sep = row.Size, ","
	}
	if detail := capacityWanted(in.ReturnConsumedCapacity); detail != capacityNone {
		used := consumed{table: readUnits(size, isTrue(in.ConsistentRead))}
		out.Raw(sep + `"ConsumedCapacity":`)
		out.B = used.appendJSON(out.B, t.Name(), detail)
	}
	out.Raw("}")
	return nil
}

// attributes binds the projection of a read: AttributesToGet or a
// ProjectionExpression; nil without either.
func (e *Engine) attributes(l layer, ph *expr.Placeholders, names []string, text *string) (*expr.Projection, error) {
	if names == nil {
		return e.projection(l, ph, text)
	}
	return legacyProjection(l, names)
}

// legacyProjection binds AttributesToGet; nil without it.
func legacyProjection(l layer, names []string) (*expr.Projection, error) {
	if names == nil {
		return nil, nil
	}
	p, err := expr.NewProjection(names)
	return p, l.expression(err)
}

// attributesToGet adds the clause for a list that was sent empty.
func (c *constraints) attributesToGet(names []string, path string) {
	if names != nil && len(names) == 0 {
		c.value("[]", path, ruleMinLength(1))
	}
}

// checkProjectedKeys refuses a projection, which may be nil, that looks into a
// key attribute.
func checkProjectedKeys(p *expr.Projection, t *storage.Table) error {
	if p == nil {
		return nil
	}
	return checkScalarKeys(p.Refs(), t, t.Indexes)
}

// projectRow returns the JSON of a row's item: the stored bytes without a
// projection, else the projected part appended to buf.
func projectRow(row *storage.Row, p *expr.Projection, buf []byte) ([]byte, error) {
	if p == nil {
		return wholeText(row)
	}
	return projected(buf, row.Item, p)
}

// wholeText is the stored text of an item, to be answered as it is. What cannot
// be the text of one is found out at its ends, the rest by who decodes it.
func wholeText(row *storage.Row) ([]byte, error) {
	if n := len(row.Item); n < 2 || row.Item[0] != '{' || row.Item[n-1] != '}' {
		return nil, corrupt(errors.New("not an object"))
	}
	return row.Item, nil
}

// projected appends the projected part of a stored item.
func projected(dst, item []byte, p *expr.Projection) ([]byte, error) {
	dst, err := p.Append(dst, item)
	if err != nil {
		return nil, corrupt(err)
	}
	return dst, nil
}

// storedItem decodes a row.
func storedItem(row *storage.Row) (ddb.Item, error) {
	it, err := ddb.ParseItem(row.Item)
	if err != nil {
		return nil, corrupt(err)
	}
	return it, nil
}

// readAttributes reads some attributes of a stored item into it, no others.
func readAttributes(it ddb.Item, item []byte, names []string) error {
	clear(it)
	s := ddb.NewScanner(item)
	err := s.Open(ddb.TokenObject)
	for first := true; err == nil && len(it) < len(names); first = false {
		name, more, e := s.NextKey(first)
		if e != nil || !more {
			err = e
			break
		}
		i := slices.IndexFunc(names, func(n string) bool { return n == string(name) })
		if i < 0 {
			err = s.Skip()
			continue
		}
		v, bad, e := ddb.ScanValue(s)
		if err = e; err == nil && bad != nil {
			err = bad
		}
		it[names[i]] = v
	}
	if err != nil {
		return corrupt(err)
	}
	return nil
}

func corrupt(err error) error { return fmt.Errorf("%w: decode item: %w", storage.ErrCorrupt, err) }

func isTrue(b *bool) bool { return b != nil && *b }
