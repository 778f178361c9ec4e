// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// maxBatchGet is how many keys a BatchGetItem may name.
const maxBatchGet = 100

// BatchGetItem reads items of several tables, all of one instant. What does
// not fit into the response is listed in UnprocessedKeys.
func (e *Engine) BatchGetItem(ctx context.Context, id auth.Identity, in *api.BatchGetItemInput, out *api.Body) error {
	refs := slices.Sorted(maps.Keys(in.RequestItems))
	if err := batchGetConstraints(in, refs); err != nil {
		return err
	}
	b := &batchGet{detail: capacityWanted(in.ReturnConsumedCapacity), tables: make([]batchTable, len(refs))}
	for i, ref := range refs {
		name, err := e.resolveTable(id, ref)
		if err != nil {
			return err
		}
		b.tables[i] = batchTable{ref: ref, name: name, request: in.RequestItems[ref]}
	}
	if err := e.readBatchGet(b); err != nil {
		return err
	}
	start := len(out.B)
	return e.withTables(ctx, id, func(find finder) error {
		out.B = out.B[:start]
		return whole(out, func(room *room) error { return e.batchGet(ctx, find, b, room) })
	})
}

// batchGet is a BatchGetItem whose request has passed the checks that need no
// table.
type batchGet struct {
	detail capacityDetail
	tables []batchTable // in the order of refs
	buf    []byte
}

type batchTable struct {
	ref        string // as the request names it: a name or an ARN
	name       string
	request    api.KeysAndAttributes
	projection *expr.Projection
	table      *storage.Table
	first      int // index of its first key among those of all tables
}

// batchGetConstraints checks the members of the request one by one.
func batchGetConstraints(in *api.BatchGetItemInput, refs []string) error {
	var c constraints
	switch {
	case in.RequestItems == nil:
		c.null("requestItems")
	case len(in.RequestItems) == 0:
		c.at("RequestItems", ruleMinLength(1))
	case len(in.RequestItems) > maxBatchGet:
		c.at("RequestItems", ruleMaxLength(maxBatchGet))
	}
	if slices.ContainsFunc(refs, func(ref string) bool { return !isTableRef(ref) }) {
		c.value(string(appendRequestItems(nil, in.RequestItems)), "requestItems", ruleBatchNames)
	}
	for _, ref := range refs {
		r := in.RequestItems[ref]
		switch {
		case r.Keys == nil:
			c.null("requestItems." + ref + ".member.keys")
		case len(r.Keys) == 0:
			c.at("RequestItems."+ref+".member.Keys", ruleMinLength(1))
		case len(r.Keys) > maxBatchGet:
			c.at("RequestItems."+ref+".member.Keys", ruleMaxLength(maxBatchGet))
		}
		c.attributesToGet(r.AttributesToGet, "requestItems."+ref+".member.attributesToGet")
	}
	c.enum(in.ReturnConsumedCapacity, "returnConsumedCapacity", enumReturnConsumedCapacity)
	return c.err()
}

// readBatchGet makes the checks that need no table.
func (e *Engine) readBatchGet(b *batchGet) error {
	keys := 0
	var legacy, text bool
	for i := range b.tables {
		r := &b.tables[i].request
		b.tables[i].first = keys
		keys += len(r.Keys)
		legacy, text = legacy || r.AttributesToGet != nil, text || r.ProjectionExpression != nil
	}
	if keys > maxBatchGet {
		return api.Validation("Too many items requested for the BatchGetItem call")
	}
	if err := bare.checkMix([]member{{"AttributesToGet", legacy}}, []member{{"ProjectionExpression", text}}); err != nil {
		return err
	}
	for i := range b.tables {
		t := &b.tables[i]
		ph, err := bare.placeholders(t.request.ExpressionAttributeNames, nil, t.request.ProjectionExpression != nil, "")
		if err != nil {
			return err
		}
		for k := range t.request.Keys {
			if err := bare.checkMap(&t.request.Keys[k]); err != nil {
				return err
			}
		}
		if t.projection, err = e.attributes(bare, ph, t.request.AttributesToGet, t.request.ProjectionExpression); err != nil {
			return err
		}
		if err := bare.unused(ph); err != nil {
			return err
		}
	}
	return nil
}

// batchGet is the part of BatchGetItem that needs the tables.
func (e *Engine) batchGet(ctx context.Context, find finder, b *batchGet, room *room) error {
	keys, err := b.keys(find)
	if err != nil {
		return err
	}
	out, budget := room.out, pagedRows
	if !room.waited {
		budget = rowsRoom(out.Work)
	}
	rows, err := e.store.GetAll(ctx, keys, budget)
	if err != nil {
		return err
	}
	if !room.waited {
		keepRows(out.Work, rows)
	}
	done, err := b.appendResponses(rows, room)
	if err != nil {
		return err
	}
	b.appendUnprocessed(done, out)
	if b.detail != capacityNone {
		b.appendCapacity(rows[:done], out)
	}
	out.Raw("}")
	return nil
}

// keys looks the tables up and encodes the keys.
func (b *batchGet) keys(find finder) ([]storage.TableKey, error) {
	for i := range b.tables {
		t, err := find(b.tables[i].name)
		if err != nil {
			return nil, err
		}
		b.tables[i].table = t
	}
	var keys []storage.TableKey
	seen := rowSet{}
	for i := range b.tables {
		t := &b.tables[i]
		if err := checkProjectedKeys(t.projection, t.table); err != nil {
			return nil, err
		}
		for k := range t.request.Keys {
			key, err := keyOf(t.table, t.request.Keys[k].Item)
			if err != nil {
				return nil, err
			}
			if !seen.add(t.table, key) {
				return nil, api.Validation("Provided list of item keys contains duplicates")
			}
			keys = append(keys, storage.TableKey{Table: t.table, Key: key})
		}
	}
	return keys, nil
}

// rowsOf returns the part of rows, which may end early, that belongs to t.
func (t *batchTable) rowsOf(rows []*storage.Row) []*storage.Row {
	from, to := min(t.first, len(rows)), min(t.first+len(t.request.Keys), len(rows))
	return rows[from:to]
}

// appendResponses appends the items found, table by table, and returns how
// many keys were answered: when the response has no room for an item, that
// item and all that follow are left for the next call. The first item is
// always answered.
func (b *batchGet) appendResponses(rows []*storage.Row, room *room) (done int, err error) {
	out := room.out
	out.Raw(`{"Responses":{`)
	full, found := false, false
	for i := range b.tables {
		t := &b.tables[i]
		if i > 0 {
			out.Raw(",")
		}
		out.B = appendName(out.B, t.ref)
		out.Raw("[")
		sep := ""
		for _, row := range t.rowsOf(rows) {
			if full {
				break
			}
			if row != nil {
				item, err := projectRow(row, t.projection, b.buf[:0])
				if err != nil {
					return 0, err
				}
				if t.projection != nil {
					b.buf = item
				}
				if !found {
					if err := room.must(len(item)); err != nil {
						b.buf = nil
						return 0, err
					}
				} else if full = !out.Room(len(item) + 1); full {
					break
				}
				found = true
				out.Raw(sep)
				out.B = append(out.B, item...)
				sep = ","
			}
			done++
		}
		out.Raw("]")
	}
	out.Raw("}")
	return done, nil
}

// appendUnprocessed lists the keys from the done-th on, as a request to send
// next.
func (b *batchGet) appendUnprocessed(done int, out *api.Body) {
	out.Raw(`,"UnprocessedKeys":{`)
	sep := ""
	for i := range b.tables {
		t := &b.tables[i]
		rest := t.request
		rest.Keys = rest.Keys[min(max(done-t.first, 0), len(rest.Keys)):]
		if len(rest.Keys) == 0 {
			continue
		}
		out.Raw(sep)
		out.B = appendKeysAndAttributes(appendName(out.B, t.ref), &rest)
		sep = ","
	}
	out.Raw("}")
}

// appendCapacity lists what each table was charged for the rows answered.
func (b *batchGet) appendCapacity(rows []*storage.Row, out *api.Body) {
	out.Raw(`,"ConsumedCapacity":[`)
	sep := ""
	for i := range b.tables {
		t := &b.tables[i]
		var used consumed
		for _, row := range t.rowsOf(rows) {
			size := 0
			if row != nil {
				size = row.Size
			}
			used.table += readUnits(size, isTrue(t.request.ConsistentRead))
		}
		if used.table == 0 {
			continue
		}
		out.Raw(sep)
		out.B = used.appendJSON(out.B, t.name, b.detail)
		sep = ","
	}
	out.Raw("]")
}
