// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// PutItem creates or replaces an item.
func (e *Engine) PutItem(ctx context.Context, id auth.Identity, in *api.PutItemInput, out *api.Body) error {
	r := writeRequest{
		layer: enveloped, table: in.TableName, object: &in.Item, path: "item",
		expected: in.Expected, operator: in.ConditionalOperator, condition: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		returns: in.ReturnValues, capacity: in.ReturnConsumedCapacity, metrics: in.ReturnItemCollectionMetrics,
		onFail: in.ReturnValuesOnConditionCheckFailure,
	}
	name, ph, err := e.begin(id, &r)
	if err != nil {
		return err
	}
	item := in.Item.Item
	if item.Size() > maxItemSize {
		return api.Validation(itemTooBig)
	}
	w := r.wanted()
	if _, err := e.bind(&w, &r, ph); err != nil {
		return err
	}
	return e.write(ctx, id, name, &put{writing: w, item: item}, out)
}

// put is a PutItem or a put in a batch or transaction.
type put struct {
	writing
	item    ddb.Item
	next    *storage.Next  // of item
	derived *storage.Table // next follows this definition
}

func (p *put) target() ddb.Item { return p.item }

// prepare implements mutation.
func (p *put) prepare(t *storage.Table) (storage.Key, error) {
	k, err := putKey(t, p.item)
	if err != nil {
		return k, err
	}
	if err := p.derive(t); err != nil {
		return k, err
	}
	return k, p.checkPaths(t)
}

// derive brings next up to date with a definition, and refuses an item that
// cannot be in its indexes.
func (p *put) derive(t *storage.Table) error {
	if p.derived == t {
		return nil
	}
	next, err := storage.Derive(t, p.item)
	if err != nil {
		return keyError(err)
	}
	if len(next.Bad) > 0 {
		return indexKeyError(&next.Bad[0], p.item, false)
	}
	p.next, p.derived = next, t
	return nil
}

// decide implements mutation.
func (p *put) decide(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
	p.reset()
	if err := p.derive(t); err != nil {
		return nil, err
	}
	var old ddb.Item
	if p.needsOld(t) {
		var err error
		if old, err = decodeRow(cur); err != nil {
			return nil, err
		}
	}
	if err := p.check(cur, old); err != nil {
		return nil, err
	}
	if p.returns == returnAllOld {
		if err := p.show(cur); err != nil {
			return nil, err
		}
	}
	if err := p.charge(t, cur, old, p.next, p.item); err != nil {
		return nil, err
	}
	return unchanged(cur, p.next), nil
}
