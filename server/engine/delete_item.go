// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// DeleteItem deletes an item; deleting one that is not there succeeds.
func (e *Engine) DeleteItem(ctx context.Context, id auth.Identity, in *api.DeleteItemInput, out *api.Body) error {
	r := writeRequest{
		layer: enveloped, table: in.TableName, object: &in.Key, path: "key",
		expected: in.Expected, operator: in.ConditionalOperator, condition: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		returns: in.ReturnValues, capacity: in.ReturnConsumedCapacity, metrics: in.ReturnItemCollectionMetrics,
		onFail: in.ReturnValuesOnConditionCheckFailure,
	}
	name, ph, err := e.begin(id, &r)
	if err != nil {
		return err
	}
	d := &deletion{writing: r.wanted(), key: in.Key.Item}
	if _, err := e.bind(&d.writing, &r, ph); err != nil {
		return err
	}
	return e.write(ctx, id, name, d, out)
}

// deletion is a DeleteItem or a delete in a batch or transaction.
type deletion struct {
	writing
	key ddb.Item
}

func (d *deletion) target() ddb.Item { return d.key }

// prepare implements mutation.
func (d *deletion) prepare(t *storage.Table) (storage.Key, error) {
	k, err := keyOf(t, d.key)
	if err != nil {
		return k, err
	}
	return k, d.checkPaths(t)
}

// decide implements mutation.
func (d *deletion) decide(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
	d.reset()
	var old ddb.Item
	if d.needsOld(t) {
		var err error
		if old, err = decodeRow(cur); err != nil {
			return nil, err
		}
	}
	if err := d.check(cur, old); err != nil {
		return nil, err
	}
	if d.returns == returnAllOld {
		if err := d.show(cur); err != nil {
			return nil, err
		}
	}
	return nil, d.charge(t, cur, old, nil, nil)
}
