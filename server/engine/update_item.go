// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"iter"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// UpdateItem changes attributes of an item, or creates it.
func (e *Engine) UpdateItem(ctx context.Context, id auth.Identity, in *api.UpdateItemInput, out *api.Body) error {
	r := writeRequest{
		layer: enveloped, table: in.TableName, object: &in.Key, path: "key",
		expected: in.Expected, operator: in.ConditionalOperator, condition: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
		returns: in.ReturnValues, capacity: in.ReturnConsumedCapacity, metrics: in.ReturnItemCollectionMetrics,
		onFail:   in.ReturnValuesOnConditionCheckFailure,
		isUpdate: true, updates: in.AttributeUpdates, update: in.UpdateExpression,
	}
	name, ph, err := e.begin(id, &r)
	if err != nil {
		return err
	}
	u := &update{writing: r.wanted(), key: in.Key.Item}
	if r.update == nil {
		if u.what, err = attributeUpdates(in.AttributeUpdates); err != nil {
			return err
		}
	}
	bound, err := e.bind(&u.writing, &r, ph)
	if err != nil {
		return err
	}
	if bound != nil {
		u.what = bound
	}
	return e.write(ctx, id, name, u, out)
}

// attributeUpdates binds the legacy way to say what to change; without any it
// is the update that does nothing.
func attributeUpdates(m map[string]api.AttributeValueUpdate) (*expr.Update, error) {
	list := make([]expr.AttributeUpdate, 0, len(m))
	for _, attr := range sortedKeys(m) {
		x := m[attr]
		if err := enveloped.checkValue(&x.Value); err != nil {
			return nil, err
		}
		action := expr.Put
		if x.Action != nil {
			action, _ = expr.ParseAction(*x.Action) // passed its constraint
		}
		list = append(list, expr.AttributeUpdate{Attr: attr, Action: action, Value: x.Value.Value})
	}
	u, err := expr.NewUpdate(list)
	return u, enveloped.expression(err)
}

// update is an UpdateItem or an update in a transaction.
type update struct {
	writing
	what   *expr.Update
	key    ddb.Item
	static bool // what only writes values of the request: it reads no attribute
}

func (u *update) target() ddb.Item { return u.key }

// blind implements mutation: an update builds on what is there.
func (*update) blind(*storage.Table) bool { return false }

// prepare implements mutation.
func (u *update) prepare(t *storage.Table) (storage.Key, error) {
	k, err := keyOf(t, u.key)
	if err != nil {
		return k, err
	}
	return k, u.checkTargets(t)
}

// checkTargets refuses updates of key attributes and paths into keys.
func (u *update) checkTargets(t *storage.Table) error {
	if err := checkScalarKeys(u.what.Refs(), t, t.Indexes); err != nil {
		return err
	}
	if err := u.checkPaths(t); err != nil {
		return err
	}
	for r := range u.what.Targets() {
		if isKey(t, r.Name) {
			return api.Validation(api.InvalidParameters + "Cannot update attribute " + r.Name + ". This attribute is part of the key")
		}
	}
	u.static = count(u.what.Refs()) == count(u.what.Targets())
	return nil
}

func count[T any](seq iter.Seq[T]) (n int) {
	for range seq {
		n++
	}
	return n
}

// decide implements mutation.
func (u *update) decide(t *storage.Table, cur *storage.Row) (*storage.Next, error) {
	u.reset()
	old, err := decodeRow(cur)
	if err != nil {
		return nil, err
	}
	failed := u.check(cur, old)
	if failed != nil && !u.static {
		return nil, failed
	}
	next, updated, bad, err := u.apply(t, old)
	switch {
	case failed != nil: // an index key that the request itself spoils is found before the condition
		if bad != nil {
			return nil, bad
		}
		return nil, failed
	case err == nil && bad != nil:
		return nil, bad
	case err != nil:
		return nil, err
	case next == nil:
		return storage.Unchanged, u.charge(t, nil, nil, nil, nil)
	case next.Size > maxItemSize:
		return nil, api.Validation(updateTooBig)
	}
	if err := u.charge(t, cur, old, next, updated); err != nil {
		return nil, err
	}
	u.showUpdated(cur, old, next, updated)
	return unchanged(cur, next), nil
}

// apply returns what the item becomes, nil when it is not there and stays so;
// bad is the answer when the update leaves an index key unusable.
func (u *update) apply(t *storage.Table, old ddb.Item) (next *storage.Next, updated ddb.Item, bad, err error) {
	updated, err = u.what.Apply(old, u.key)
	if err != nil || updated == nil {
		return nil, nil, nil, enveloped.expression(err)
	}
	if next, err = storage.Derive(t, updated); err != nil {
		return nil, nil, nil, keyError(err)
	}
	for i := range next.Bad {
		b := &next.Bad[i]
		if !updated[b.Attr.Name].Equal(old[b.Attr.Name]) {
			return next, updated, indexKeyError(b, updated, true), nil
		}
	}
	return next, updated, nil, nil
}

// showUpdated keeps what ReturnValues asks for.
func (u *update) showUpdated(cur *storage.Row, old ddb.Item, next *storage.Next, updated ddb.Item) {
	var part ddb.Item
	switch u.returns {
	case returnAllOld:
		_ = u.show(cur) // was decoded
	case returnAllNew:
		u.attributes = append(u.attributes, next.Item...)
	case returnUpdatedOld:
		if old != nil {
			part = u.what.UpdatedOld(old)
		}
	case returnUpdatedNew:
		part = u.what.UpdatedNew(updated)
	}
	if len(part) > 0 {
		u.attributes = ddb.AppendItem(u.attributes, part)
	}
}
