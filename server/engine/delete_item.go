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
		table: in.TableName, object: &in.Key, path: "key",
		expected: in.Expected, operator: in.ConditionalOperator, condition: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		returns: in.ReturnValues, capacity: in.ReturnConsumedCapacity, metrics: in.ReturnItemCollectionMetrics,
		onFail: in.ReturnValuesOnConditionCheckFailure,
	}
	name, ph, err := e.begin(id, &r)
	if err != nil {
		return err
	}
	d := deletion{r.wanted()}
	if _, err := e.bind(&d.writing, &r, ph); err != nil {
		return err
	}
	t, err := e.table(ctx, id, name)
	if err != nil {
		return err
	}
	k, err := keyOf(t, in.Key.Item)
	if err != nil {
		return err
	}
	if err := d.checkPaths(t); err != nil {
		return err
	}
	res, err := e.store.Write(ctx, storage.Write{Table: t, Key: k, Blind: d.blind(t), Decide: d.decide})
	if err != nil {
		return err
	}
	return e.respond(ctx, id, res.Table, &d.writing, k, in.Key.Item, out)
}

// deletion is a DeleteItem or the delete of a batch.
type deletion struct{ writing }

// decide is a storage.Decide.
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
		d.show(cur)
	}
	return nil, d.charge(t, cur, old, nil, nil)
}
