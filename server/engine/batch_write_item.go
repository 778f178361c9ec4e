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
	b := batchWrite{detail: capacityWanted(in.ReturnConsumedCapacity)}
	for _, table := range slices.Sorted(maps.Keys(in.RequestItems)) {
		for i := range in.RequestItems[table] {
			m, err := readBatchMember(table, &in.RequestItems[table][i], b.detail)
			if err != nil {
				return err
			}
			b.members = append(b.members, m)
		}
	}
	if err := e.findBatchTables(ctx, id, b.members); err != nil {
		return err
	}
	if err := b.checkKeys(); err != nil {
		return err
	}
	if err := b.write(ctx, e.store); err != nil {
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
	sent   string // the table as the request names it
	table  *storage.Table
	object ddb.Item // the item or the key
	key    storage.Key
	put    *put // nil for a delete
	del    deletion

	unprocessed bool
}

// readBatchMember makes the checks that need no table.
func readBatchMember(table string, r *api.WriteRequest, detail capacityDetail) (*batchMember, error) {
	m := &batchMember{sent: table}
	var sent *api.AttributeMap
	switch {
	case (r.PutRequest == nil) == (r.DeleteRequest == nil):
		return nil, older.invalid(severalDatatypes)
	case r.PutRequest != nil:
		sent = &r.PutRequest.Item
		m.put = &put{writing: writing{detail: detail}, item: sent.Item}
	default:
		sent = &r.DeleteRequest.Key
		m.del.detail = detail
	}
	if err := older.checkMap(sent); err != nil {
		return nil, err
	}
	m.object = sent.Item
	if m.put != nil && m.object.Size() > maxItemSize {
		return nil, api.Validation(itemTooBig)
	}
	return m, nil
}

// findBatchTables looks up the table of each member.
func (e *Engine) findBatchTables(ctx context.Context, id auth.Identity, members []*batchMember) error {
	for i, m := range members {
		if i > 0 && members[i-1].sent == m.sent {
			m.table = members[i-1].table
			continue
		}
		name, err := e.resolveTable(id, m.sent)
		if err != nil {
			return err
		}
		if m.table, err = e.table(ctx, id, name); err != nil {
			return err
		}
	}
	return nil
}

// batchWrite is a BatchWriteItem on its way.
type batchWrite struct {
	detail  capacityDetail
	members []*batchMember // sorted by table
}

// checkKeys encodes the keys, and refuses wrong ones, those that occur twice,
// and items that cannot be in their indexes.
func (b *batchWrite) checkKeys() (err error) {
	type row struct {
		table  storage.TableID
		pk, sk string
	}
	seen := make(map[row]bool, len(b.members))
	for _, m := range b.members {
		if m.put != nil {
			m.key, err = itemKey(m.table, m.object)
		} else {
			m.key, err = keyOf(m.table, m.object)
		}
		if err != nil {
			return err
		}
		r := row{m.table.ID, string(m.key.PK), string(m.key.SK)}
		if seen[r] {
			return api.Validation("Provided list of item keys contains duplicates")
		}
		seen[r] = true
	}
	stored := 0
	for _, m := range b.members {
		if m.put == nil {
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

// write carries the batch out. Requests the engine could not do now are left
// unprocessed, unless that is all of them.
func (b *batchWrite) write(ctx context.Context, store storage.Writer) error {
	var ws []storage.Write
	var members []*batchMember
	for _, m := range b.members {
		if m.unprocessed {
			continue
		}
		w := storage.Write{Table: m.table, Key: m.key}
		if m.put != nil {
			w.Blind, w.Decide = m.put.blind(m.table), m.put.decide
		} else {
			w.Blind, w.Decide = m.del.blind(m.table), m.del.decide
		}
		ws, members = append(ws, w), append(members, m)
	}
	failed := 0
	var last error
	for i, res := range store.WriteEach(ctx, ws) {
		switch {
		case res.Err == nil:
		case errors.Is(res.Err, storage.ErrUnavailable):
			members[i].unprocessed = true
			failed, last = failed+1, res.Err
		default:
			return res.Err
		}
	}
	if failed == len(ws) {
		return last
	}
	return nil
}

// cost is what the last run of Decide counted.
func (m *batchMember) cost() *consumed {
	if m.put != nil {
		return &m.put.cost
	}
	return &m.del.cost
}

// perTable calls f with the members of each table that were carried out.
func (b *batchWrite) perTable(f func(t *storage.Table, members []*batchMember)) {
	byTable := map[storage.TableID][]*batchMember{}
	var order []storage.TableID
	for _, m := range b.members {
		if m.unprocessed {
			continue
		}
		if byTable[m.table.ID] == nil {
			order = append(order, m.table.ID)
		}
		byTable[m.table.ID] = append(byTable[m.table.ID], m)
	}
	for _, t := range order {
		f(byTable[t][0].table, byTable[t])
	}
}

func (e *Engine) respondBatch(ctx context.Context, id auth.Identity, b *batchWrite, metrics bool, out *api.Body) (err error) {
	out.B = b.appendUnprocessed(append(out.B, `{"UnprocessedItems":`...))
	if metrics {
		if out.B, err = e.appendBatchMetrics(ctx, id, out.B, b); err != nil {
			return err
		}
	}
	if b.detail != capacityNone {
		sep := `,"ConsumedCapacity":[`
		b.perTable(func(t *storage.Table, members []*batchMember) {
			var sum consumed
			for _, m := range members {
				sum.add(m.cost())
			}
			out.Raw(sep)
			out.B = sum.appendJSON(out.B, t.Name(), b.detail)
			sep = ","
		})
		out.B = append(out.B, ']')
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
		dst = append(ddb.AppendBackupItem(append(dst, head...), m.object), '}', '}')
	}
	if table != "" {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendBatchMetrics appends the item collections written to, each once.
func (e *Engine) appendBatchMetrics(ctx context.Context, id auth.Identity, dst []byte, b *batchWrite) (_ []byte, err error) {
	dst = append(dst, `,"ItemCollectionMetrics":{`...)
	table := ""
	b.perTable(func(t *storage.Table, members []*batchMember) {
		if !t.HasLocal() || err != nil {
			return
		}
		seen := map[string]bool{}
		for _, m := range members {
			if seen[string(m.key.PK)] {
				continue
			}
			seen[string(m.key.PK)] = true
			gb, failed := e.collectionGB(ctx, id, t, m.key.PK)
			if errors.Is(failed, storage.ErrTableNotFound) { // dropped since: there is no collection
				return
			}
			if err = failed; err != nil {
				return
			}
			switch {
			case table == t.Name():
				dst = append(dst, ',')
			case table != "":
				dst = append(dst, ']', ',')
				fallthrough
			default:
				dst = append(ddb.AppendString(dst, t.Name()), ':', '[')
				table = t.Name()
			}
			dst = appendMetrics(dst, t, m.object, gb)
		}
	})
	if table != "" {
		dst = append(dst, ']')
	}
	return append(dst, '}'), err
}

// isTableRef reports whether a batch may name a table so: by its name or, as
// resolveTable checks, by its ARN.
func isTableRef(s string) bool {
	return strings.HasPrefix(s, arnPrefix) || isName(s) && len(s) >= minNameLength && len(s) <= maxNameLength
}
