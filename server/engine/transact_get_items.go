// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// TransactGetItems reads items of several tables as they are at one instant.
func (e *Engine) TransactGetItems(ctx context.Context, id auth.Identity, in *api.TransactGetItemsInput, out *api.Body) error {
	if err := checkTransactGet(in); err != nil {
		return err
	}
	tx := &transactGet{detail: capacityWanted(in.ReturnConsumedCapacity)}
	for i := range in.TransactItems {
		r, err := e.readGet(id, in.TransactItems[i].Get)
		if err != nil {
			return err
		}
		tx.reads = append(tx.reads, r)
	}
	start := len(out.B)
	return e.withTables(ctx, id, func(find finder) error {
		out.B = out.B[:start]
		return whole(out, func(room *room) error { return e.transactGet(ctx, find, tx, room) })
	})
}

// transactGet is a TransactGetItems on its way.
type transactGet struct {
	detail capacityDetail
	reads  []*transactRead
}

// transactRead is one of its elements.
type transactRead struct {
	name       string
	request    *api.Get
	projection *expr.Projection
	table      *storage.Table
	key        storage.Key
}

// checkTransactGet makes the checks of single members, all in one message.
func checkTransactGet(in *api.TransactGetItemsInput) error {
	var c constraints
	c.enum(in.ReturnConsumedCapacity, "returnConsumedCapacity", enumReturnConsumedCapacity)
	c.transactItems(in.TransactItems != nil, len(in.TransactItems), func() string { return echoGets(in.TransactItems) })
	if len(in.TransactItems) > maxTransaction {
		return c.err()
	}
	for i := range in.TransactItems {
		path := memberPath("transactItems", i) + "get"
		g := in.TransactItems[i].Get
		if g == nil {
			c.null(path)
			continue
		}
		c.required(g.Key.Present, path+".key")
		c.required(g.TableName != nil, path+".tableName")
		c.tableRefAt(g.TableName, path+".tableName")
	}
	return c.err()
}

// readGet makes the checks of an element that need no table.
func (e *Engine) readGet(id auth.Identity, g *api.Get) (*transactRead, error) {
	name, err := e.resolveTable(id, *g.TableName)
	if err != nil {
		return nil, err
	}
	ph, err := older.placeholders(g.ExpressionAttributeNames, nil, g.ProjectionExpression != nil, "")
	if err != nil {
		return nil, err
	}
	r := &transactRead{name: name, request: g}
	if r.projection, err = e.projection(older, ph, g.ProjectionExpression); err != nil {
		return nil, err
	}
	if err := older.unused(ph); err != nil {
		return nil, err
	}
	return r, older.checkMap(&g.Key)
}

// transactGet is the part of TransactGetItems that needs the tables.
func (e *Engine) transactGet(ctx context.Context, find finder, tx *transactGet, room *room) error {
	keys, err := tx.prepare(find)
	if err != nil {
		return err
	}
	rows, err := e.getAll(ctx, keys, room)
	if err != nil {
		return cancellation(err, len(keys))
	}
	if !room.waited {
		keepRows(room.out.Work, rows)
	}
	return tx.respond(rows, room)
}

// getAll reads all rows, little first: small transactions need no more, and most
// that are too large are found out. Then it waits for room.
func (e *Engine) getAll(ctx context.Context, keys []storage.TableKey, room *room) ([]*storage.Row, error) {
	work := room.out.Work
	budgets := []int{pagedRows, nearlyTooBig, maxStored}
	if room.waited {
		work, budgets = nil, budgets[2:] // it was waited for
	}
	for _, budget := range budgets {
		if work != nil && budget > pagedRows && !work.Try(budget) {
			if _, err := work.Await(budget); err != nil {
				return nil, err
			}
		}
		rows, err := e.store.GetAll(ctx, keys, budget)
		if err != nil {
			return nil, err
		}
		size := 0
		for _, row := range rows {
			if row != nil {
				size += row.Size
			}
		}
		switch {
		case size > maxTransactionBytes:
			return nil, api.Validation(transactionTooBig)
		case len(rows) == len(keys):
			return rows, nil
		}
		if work != nil {
			work.Keep(0)
		}
	}
	return nil, api.Validation(transactionTooBig)
}

// prepare looks up all tables, then checks and encodes the keys: those that do
// not fit the table are reasons to cancel.
func (tx *transactGet) prepare(find finder) ([]storage.TableKey, error) {
	for _, r := range tx.reads {
		t, err := find(r.name)
		if err != nil {
			return nil, err
		}
		r.table = t
	}
	reasons := make([]error, len(tx.reads))
	keys := make([]storage.TableKey, len(tx.reads))
	seen := rowSet{}
	for i, r := range tx.reads {
		if r.key, reasons[i] = keyOf(r.table, r.request.Key.Item); reasons[i] == nil {
			reasons[i] = checkProjectedKeys(r.projection, r.table)
		}
		if reasons[i] == nil && !seen.add(r.table, r.key) {
			return nil, api.Validation(sameItemTwice)
		}
		keys[i] = storage.TableKey{Table: r.table, Key: r.key}
	}
	return keys, canceled(reasons)
}

// respond writes one object for each element; it is empty when there is no item
// or the projection leaves nothing of it.
func (tx *transactGet) respond(rows []*storage.Row, room *room) error {
	out := room.out
	list := make([]touched, len(tx.reads))
	var buf []byte
	out.Raw(`{`)
	if tx.detail != capacityNone {
		for i, r := range tx.reads {
			size := 0
			if rows[i] != nil {
				size = rows[i].Size
			}
			list[i] = touched{r.table, r.key, nil, &consumed{table: transactionFactor * readUnits(size, true)}}
		}
		out.B = append(appendCapacities(append(out.B, `"ConsumedCapacity":`...), list, tx.detail, unitsRead), ',')
	}
	out.Raw(`"Responses":[`)
	for i, r := range tx.reads {
		if i > 0 {
			out.Raw(",")
		}
		out.Raw("{")
		if rows[i] != nil {
			item, err := projectRow(rows[i], r.projection, buf[:0])
			if err != nil {
				return err
			}
			if r.projection != nil {
				buf = item
			}
			if room.must(len(item)) != nil { // there is no part of a transaction to answer
				return wide(storedBytes(rows))
			}
			if string(item) != "{}" {
				out.Raw(`"Item":`)
				out.B = append(out.B, item...)
			}
		}
		out.Raw("}")
	}
	out.Raw("]}")
	return nil
}

// echoGets prints TransactItems of a TransactGetItems; see echoRequestItems.
func echoGets(items []api.TransactGetItem) string {
	var e echo
	e.open("[")
	for _, x := range items {
		if e.Len() >= maxEcho {
			break
		}
		e.next("TransactGetItem(get=")
		if x.Get == nil {
			e.text("null)")
			continue
		}
		e.text("Get(key=")
		e.item(x.Get.Key.Item)
		e.member("tableName", x.Get.TableName)
		e.member("projectionExpression", x.Get.ProjectionExpression)
		e.text("))")
	}
	e.close("]")
	return e.String()
}
