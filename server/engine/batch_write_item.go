// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	// maxBatchWrites is how many requests a BatchWriteItem may hold.
	maxBatchWrites = 25
	// maxBatchBytes bounds the stored bytes one BatchWriteItem writes: numbers
	// of small exponents are stored in many more bytes than they were sent in.
	// What is beyond is left unprocessed.
	maxBatchBytes = 16 << 20
)

// ruleBatchNames is the constraint on the names of a batch's tables.
const ruleBatchNames = "Map keys must satisfy constraint: [Member must have length less than or equal to 255, " +
	"Member must have length greater than or equal to 3, " + ruleNamePattern + "]"

// ruleBatchWrites is the constraint on the number of requests for one table.
const ruleBatchWrites = "Map value must satisfy constraint: [Member must have length less than or equal to 25, " +
	"Member must have length greater than or equal to 1]"

// BatchWriteItem puts and deletes items of several tables independently of each
// other. It writes nothing when any of its requests is wrong.
func (e *Engine) BatchWriteItem(ctx context.Context, id auth.Identity, in *api.BatchWriteItemInput, out *api.Body) error {
	if err := checkBatchWrite(in); err != nil {
		return err
	}
	b := batchWrite{detail: capacityWanted(in.ReturnConsumedCapacity), load: load{work: out.Work}}
	for _, table := range slices.Sorted(maps.Keys(in.RequestItems)) {
		for i := range in.RequestItems[table] {
			m, err := readBatchMember(table, &in.RequestItems[table][i], b.detail)
			if err != nil {
				return err
			}
			b.members = append(b.members, m)
		}
	}
	for _, m := range b.members {
		var err error
		if m.name, err = e.resolveTable(id, m.sent); err != nil {
			return err
		}
	}
	err := e.withTables(ctx, id, func(find finder) error {
		if err := b.findTables(find); err != nil {
			return err
		}
		if err := b.checkKeys(); err != nil {
			return err
		}
		return b.write(ctx, e)
	})
	if err != nil {
		return err
	}
	metrics := in.ReturnItemCollectionMetrics != nil && *in.ReturnItemCollectionMetrics == "SIZE"
	return e.respondBatch(ctx, id, &b, metrics, out)
}

// checkBatchWrite makes the checks of single members: enums stand before what
// is wrong with RequestItems.
func checkBatchWrite(in *api.BatchWriteItemInput) error {
	var c constraints
	c.enum(in.ReturnConsumedCapacity, "returnConsumedCapacity", enumReturnConsumedCapacity)
	c.enum(in.ReturnItemCollectionMetrics, "returnItemCollectionMetrics", enumReturnItemCollection)
	if err := c.err(); err != nil {
		return err
	}
	switch {
	case in.RequestItems == nil:
		c.null("requestItems")
		return c.err()
	case len(in.RequestItems) == 0:
		return api.Validation("The requestItems parameter is required for BatchWriteItem")
	}
	badName, badCount, total := false, false, 0
	for table, list := range in.RequestItems {
		badName = badName || !isTableRef(table)
		badCount = badCount || len(list) == 0 || len(list) > maxBatchWrites
		total += len(list)
	}
	if badName {
		c.value(echoRequestItems(in.RequestItems), "requestItems", ruleBatchNames)
	}
	if badCount {
		c.value(echoRequestItems(in.RequestItems), "requestItems", ruleBatchWrites)
	}
	if err := c.err(); err != nil {
		return err
	}
	if total > maxBatchWrites {
		return api.Validation("Too many items requested for the BatchWriteItem call")
	}
	return nil
}

// batchMember is one request of a BatchWriteItem on its way.
type batchMember struct {
	mutation
	put   *put   // the mutation, when it is one
	sent  string // the table as the request names it
	name  string
	table *storage.Table
	key   storage.Key

	done, unprocessed bool
}

// readBatchMember makes the checks that need no table.
func readBatchMember(table string, r *api.WriteRequest, detail capacityDetail) (*batchMember, error) {
	m := &batchMember{sent: table}
	var sent *api.AttributeMap
	w := writing{detail: detail}
	switch {
	case (r.PutRequest == nil) == (r.DeleteRequest == nil):
		return nil, older.invalid(severalDatatypes)
	case r.PutRequest != nil:
		sent = &r.PutRequest.Item
		m.put = &put{writing: w, item: sent.Item}
		m.mutation = m.put
	default:
		sent = &r.DeleteRequest.Key
		m.mutation = &deletion{writing: w, key: sent.Item}
	}
	if err := older.checkMap(sent); err != nil {
		return nil, err
	}
	if m.put != nil && m.put.item.Size() > maxItemSize {
		return nil, api.Validation(itemTooBig)
	}
	return m, nil
}

// batchWrite is a BatchWriteItem on its way.
type batchWrite struct {
	detail  capacityDetail
	members []*batchMember // sorted by table
	load    load
}

// findTables looks up the tables of the members that are not done.
func (b *batchWrite) findTables(find finder) (err error) {
	var last *batchMember
	for _, m := range b.members {
		if m.done {
			continue
		}
		if last != nil && last.sent == m.sent {
			m.table = last.table
		} else if m.table, err = find(m.name); err != nil {
			return err
		}
		last = m
	}
	return nil
}

// checkKeys encodes the keys, and refuses wrong ones, those that occur twice,
// and items that cannot be in their indexes.
func (b *batchWrite) checkKeys() (err error) {
	seen := rowSet{}
	for _, m := range b.members {
		if m.put != nil {
			m.key, err = itemKey(m.table, m.target())
		} else {
			m.key, err = keyOf(m.table, m.target())
		}
		if err != nil {
			return err
		}
		if !seen.add(m.table, m.key) {
			return api.Validation("Provided list of item keys contains duplicates")
		}
	}
	stored := 0
	for _, m := range b.members {
		if m.put == nil || m.done {
			continue
		}
		if err := m.put.derive(m.table); err != nil {
			return err
		}
		stored += len(m.put.next.Item)
		if m.unprocessed = stored > maxBatchBytes && stored > len(m.put.next.Item); m.unprocessed {
			m.put.next, m.put.derived = nil, nil
		}
	}
	return nil
}

// write carries out what is not done yet. What there was no room for waits for
// it, and is done then.
func (b *batchWrite) write(ctx context.Context, e *Engine) error {
	for {
		err := b.writeOnce(ctx, e)
		if err != nil || !b.load.lacked() {
			return err
		}
		left := 0
		for _, m := range b.members {
			if !m.done && !m.unprocessed {
				drop(m.mutation)
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if err := b.load.await(left, 0); err != nil {
			return b.leave(err)
		}
	}
}

// leave leaves unprocessed what is not done, unless that is all.
func (b *batchWrite) leave(err error) error {
	for _, m := range b.members {
		m.unprocessed = !m.done
		if m.done {
			err = nil
		}
	}
	return err
}

// writeOnce tries what is not done yet. Requests the engine could not do now
// are left unprocessed, unless that is all of them: puts and deletes may be
// sent again even where nobody knows what became of them.
func (b *batchWrite) writeOnce(ctx context.Context, e *Engine) error {
	var ws []storage.Write
	var members []*batchMember
	for _, m := range b.members {
		if m.done || m.unprocessed {
			continue
		}
		ws = append(ws, storage.Write{Table: m.table, Key: m.key, Blind: m.blind(m.table), Decide: b.load.decide(m, m.decide), Change: e.change()})
		members = append(members, m)
	}
	var refused, failed error
	for i, res := range e.store.WriteEach(ctx, ws) {
		switch {
		case res.Err == nil:
			members[i].done = true
		case errors.Is(res.Err, errNoRoom): // written after it was waited for
		case errors.Is(res.Err, storage.ErrConflict):
			members[i].unprocessed = true
		case errors.Is(res.Err, storage.ErrUnavailable), errors.Is(res.Err, storage.ErrInDoubt):
			members[i].unprocessed = true
			failed = res.Err
		case refused == nil:
			refused = res.Err
		}
	}
	if refused == nil && !slices.ContainsFunc(b.members, func(m *batchMember) bool { return m.done }) {
		return failed
	}
	return refused
}

// written lists what was carried out.
func (b *batchWrite) written() []touched {
	var list []touched
	for _, m := range b.members {
		if m.done {
			list = append(list, touched{m.table, m.key, m.target(), &m.state().cost})
		}
	}
	return list
}

func (e *Engine) respondBatch(ctx context.Context, id auth.Identity, b *batchWrite, metrics bool, out *api.Body) (err error) {
	out.B = b.appendUnprocessed(append(out.B, `{"UnprocessedItems":`...))
	if metrics {
		if out.B, err = e.appendCollections(ctx, id, append(out.B, `,"ItemCollectionMetrics":`...), b.written()); err != nil {
			return err
		}
	}
	if b.detail != capacityNone {
		out.B = appendCapacities(append(out.B, `,"ConsumedCapacity":`...), b.written(), b.detail, unitsJoint)
	}
	out.B = append(out.B, '}')
	return nil
}

// appendUnprocessed appends the requests that were not carried out, in the form
// of RequestItems. Long numbers are short in it, for it to fit into a request.
func (b *batchWrite) appendUnprocessed(dst []byte) []byte {
	dst = append(dst, '{')
	table := ""
	for _, m := range b.members {
		switch {
		case !m.unprocessed:
			continue
		case m.sent == table:
			dst = append(dst, ',')
		default:
			if table != "" {
				dst = append(dst, ']', ',')
			}
			dst = append(ddb.AppendString(dst, m.sent), ':', '[')
			table = m.sent
		}
		head := `{"DeleteRequest":{"Key":`
		if m.put != nil {
			head = `{"PutRequest":{"Item":`
		}
		dst = append(ddb.AppendBackupItem(append(dst, head...), m.target()), '}', '}')
	}
	if table != "" {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// isTableRef reports whether a batch may name a table so: by its name or, as
// resolveTable checks, by its ARN.
func isTableRef(s string) bool {
	return strings.HasPrefix(s, arnPrefix) || isName(s) && len(s) >= minNameLength && len(s) <= maxNameLength
}
