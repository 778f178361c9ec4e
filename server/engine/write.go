// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
)

// maxItemSize is the largest item, in bytes as the service counts them.
const maxItemSize = 409600

const (
	itemTooBig   = "Item size has exceeded the maximum allowed size"
	updateTooBig = "Item size to update has exceeded the maximum allowed size"
)

// Values of ReturnValues.
const (
	returnAllOld     = "ALL_OLD"
	returnAllNew     = "ALL_NEW"
	returnUpdatedOld = "UPDATED_OLD"
	returnUpdatedNew = "UPDATED_NEW"
)

// Sets of allowed values peculiar to writes.
const (
	enumReturnOnFailure enum = "ALL_OLD, NONE"
	enumUpdateAction    enum = "ADD, PUT, DELETE"
	// enumReturnValuesNew is what the newest message lists; the value it
	// means by UPDATE_NEW is UPDATED_NEW.
	enumReturnValuesNew enum = "ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE"
)

// writeRequest holds the members that PutItem, UpdateItem and DeleteItem share,
// and those of UpdateItem.
type writeRequest struct {
	layer                              layer
	table                              *string
	object                             *api.AttributeMap // Item or Key
	path                               string            // of object: "item" or "key"
	expected                           map[string]api.ExpectedAttributeValue
	operator                           *string
	condition                          *string
	names                              map[string]string
	values                             map[string]api.AttributeValue
	returns, capacity, metrics, onFail *string

	isUpdate bool
	updates  map[string]api.AttributeValueUpdate
	update   *string
}

// checkMembers makes the checks of single members. They are reported together,
// with exceptions: an empty TableName always stands alone, and of several faults
// UpdateItem names only ReturnValues, or all in the older form when it has no Key.
func (r *writeRequest) checkMembers() error {
	old := r.isUpdate && !r.object.Present
	var c constraints
	if r.table != nil && *r.table == "" && !old {
		c.value("", "tableName", ruleMinLength(1))
		return c.err()
	}
	badReturns := r.returns != nil && !enumReturnValuesOld.has(*r.returns)
	if badReturns && r.isUpdate && !old {
		c.nameless(enumReturnValuesNew.rule())
		return c.err()
	}
	if old {
		c.enum(r.operator, "conditionalOperator", enumConditionalOperator)
	}
	c.enum(r.capacity, "returnConsumedCapacity", enumReturnConsumedCapacity)
	c.dataTable(r.table)
	switch {
	case badReturns && old:
		c.value(*r.returns, "returnValues", enumReturnValuesOld.rule())
	case badReturns:
		c.nameless(enumReturnValuesNew.rule())
	}
	c.enum(r.metrics, "returnItemCollectionMetrics", enumReturnItemCollection)
	c.enum(r.onFail, "returnValuesOnConditionCheckFailure", enumReturnOnFailure)
	c.expectedOperators(r.expected)
	for _, attr := range sortedKeys(r.updates) {
		c.enum(r.updates[attr].Action, "attributeUpdates."+attr+".member.action", enumUpdateAction)
	}
	c.required(r.object.Present, r.path)
	return c.err()
}

// dataTable adds the constraints a TableName of the data plane breaks.
func (c *constraints) dataTable(ref *string) {
	switch {
	case ref == nil:
		c.null("tableName")
	case *ref == "":
		c.value("", "tableName", ruleMinLength(1))
	default:
		c.tableRef(ref)
	}
}

// mutation is a write on its way: a *put, *update, *deletion or *check.
type mutation interface {
	// target is the item or the key.
	target() ddb.Item
	// prepare makes the checks that need the table and encodes the key.
	prepare(t *storage.Table) (storage.Key, error)
	// blind reports whether what is written does not depend on what is there.
	blind(t *storage.Table) bool
	// decide is a storage.Decide.
	decide(t *storage.Table, cur *storage.Row) (*storage.Next, error)
	// state is what the last run of decide left.
	state() *writing
}

// write carries a single write out and answers it.
func (e *Engine) write(ctx context.Context, id auth.Identity, name string, m mutation, out *api.Body) error {
	var key storage.Key
	var table *storage.Table
	l := load{work: out.Work}
	decide := l.decide(m, m.decide)
	err := e.withTable(ctx, id, name, func(t *storage.Table) error {
		k, err := m.prepare(t)
		if err != nil {
			return err
		}
		for {
			res, err := e.store.Write(ctx, storage.Write{Table: t, Key: k, Blind: m.blind(t), Decide: decide, Change: e.change()})
			key, table = k, res.Table
			if err == nil || !l.lacked() {
				return err
			}
			drop(m)
			if err := l.await(1, 1); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	return e.respond(ctx, id, table, m.state(), key, m.target(), out)
}

// begin makes the checks up to the item or key itself and returns the table's
// name.
func (e *Engine) begin(id auth.Identity, r *writeRequest) (name string, ph *expr.Placeholders, err error) {
	if err := r.checkMembers(); err != nil {
		return "", nil, err
	}
	if name, err = e.resolveTable(id, *r.table); err != nil {
		return "", nil, err
	}
	legacy := []member{{"Expected", r.expected != nil}}
	texts := []member{{"ConditionExpression", r.condition != nil}}
	null := ""
	if r.isUpdate {
		legacy = []member{{"AttributeUpdates", r.updates != nil}, legacy[0]}
		texts = []member{{"UpdateExpression", r.update != nil}, texts[0]}
		null = ": UpdateExpression and ConditionExpression are null"
	}
	if err := r.layer.checkMix(legacy, texts); err != nil {
		return "", nil, err
	}
	if ph, err = r.placeholders(null); err != nil {
		return "", nil, err
	}
	if err := r.layer.checkMap(r.object); err != nil {
		return "", nil, err
	}
	if !r.isUpdate && r.returns != nil && *r.returns != returnAllOld && *r.returns != "NONE" {
		return "", nil, r.layer.invalid("ReturnValues can only be ALL_OLD or NONE")
	}
	return name, ph, nil
}

// placeholders checks the expression's names and values; null is what the
// message about values without an expression adds.
func (r *writeRequest) placeholders(null string) (*expr.Placeholders, error) {
	return r.layer.placeholders(r.names, r.values, r.condition != nil || r.update != nil, null)
}

// writing is what every mutation has: what the request wants to see, and what the
// last run of Decide saw and did.
type writing struct {
	cond    *expr.Condition
	returns string // "" for NONE
	onFail  bool   // the answer to a failed condition shows the item
	detail  capacityDetail
	metrics bool
	shared  *shownItems // of a transaction, of which w is one action; nil without

	shown      int    // bytes of the item that the answer to a failed condition shows
	attributes []byte // canonical JSON; empty when nothing is shown
	cost       consumed
}

// wanted reads the members that say what to return.
func (r *writeRequest) wanted() writing {
	w := writing{
		onFail:  r.onFail != nil && *r.onFail == returnAllOld,
		detail:  capacityWanted(r.capacity),
		metrics: r.metrics != nil && *r.metrics == "SIZE",
	}
	if r.returns != nil && *r.returns != "NONE" {
		w.returns = *r.returns
	}
	return w
}

// bind binds what the request says in Expected and in expressions. The update
// is nil unless there is an UpdateExpression.
func (e *Engine) bind(w *writing, r *writeRequest, ph *expr.Placeholders) (u *expr.Update, err error) {
	if w.cond, err = r.layer.expected(r.expected, r.operator); err != nil {
		return nil, err
	}
	if r.update != nil {
		if u, err = e.exprs.Update(ph, *r.update); err != nil {
			return nil, r.layer.expression(err)
		}
	}
	if r.condition != nil {
		if w.cond, err = e.condition(r.layer, ph, expr.RoleCondition, r.condition); err != nil {
			return nil, err
		}
	}
	return u, r.layer.unused(ph)
}

// checkPaths refuses a condition that looks into a key.
func (w *writing) checkPaths(t *storage.Table) error {
	if w.cond == nil {
		return nil
	}
	return checkScalarKeys(w.cond.Refs(), t, t.Indexes)
}

func (w *writing) state() *writing { return w }

func (w *writing) blind(t *storage.Table) bool {
	return w.cond == nil && w.returns == "" && w.detail == capacityNone && len(t.Indexes) == 0
}

// reset forgets an earlier run of Decide.
func (w *writing) reset() {
	w.attributes = w.attributes[:0]
	w.cost = consumed{}
	w.shared.give(w.shown)
	w.shown = 0
}

// check refuses the write when its condition does not hold.
func (w *writing) check(cur *storage.Row, old ddb.Item) error {
	if w.cond == nil || w.cond.Eval(old) {
		return nil
	}
	if w.onFail && cur != nil && w.shared.take(len(cur.Item)) {
		w.shown = len(cur.Item)
		return api.ConditionFailed(bytes.Clone(cur.Item))
	}
	return api.ConditionFailed(nil)
}

// show keeps the stored item as the response's Attributes.
func (w *writing) show(cur *storage.Row) error {
	if cur == nil {
		return nil
	}
	text, err := wholeText(cur)
	w.attributes = append(w.attributes, text...)
	return err
}

// charge counts what the write costs; next is nil for a delete.
func (w *writing) charge(t *storage.Table, cur *storage.Row, old ddb.Item, next *storage.Next, item ddb.Item) error {
	if w.detail == capacityNone {
		return nil
	}
	var was, is image
	if cur != nil {
		was = image{bytes: cur.Item, item: old, size: cur.Size}
		if len(t.Indexes) > 0 {
			var err error
			if was.entries, err = storage.EntriesOf(t, old, cur.Size); err != nil {
				return fmt.Errorf("derive stored item: %w", err)
			}
		}
	}
	if next != nil {
		is = image{bytes: next.Item, item: item, size: next.Size, entries: next.Entries}
	}
	w.cost.chargeWrite(t, &was, &is)
	return nil
}

// needsOld reports whether Decide has to decode the row that is there.
func (w *writing) needsOld(t *storage.Table) bool {
	return w.cond != nil || w.detail != capacityNone && len(t.Indexes) > 0
}

// decodeRow returns the item of a row, nil for none.
func decodeRow(r *storage.Row) (ddb.Item, error) {
	if r == nil {
		return nil, nil
	}
	it, err := ddb.ParseItem(r.Item)
	if err != nil {
		return nil, fmt.Errorf("decode stored item: %w", err)
	}
	return it, nil
}

// unchanged returns next, or storage.Unchanged when the row is that already.
func unchanged(cur *storage.Row, next *storage.Next) *storage.Next {
	if cur != nil && bytes.Equal(cur.Item, next.Item) {
		return storage.Unchanged
	}
	return next
}

// respond writes the response of a single write that was done.
func (e *Engine) respond(ctx context.Context, id auth.Identity, t *storage.Table, w *writing, k storage.Key, item ddb.Item, out *api.Body) error {
	out.B = append(out.B, '{')
	sep := ""
	if len(w.attributes) > 0 {
		out.Room(len(w.attributes)) // what was written is answered whatever the budget says
		out.Raw(`"Attributes":`)
		out.B = append(out.B, w.attributes...)
		sep = ","
	}
	if w.detail != capacityNone {
		out.Raw(sep + `"ConsumedCapacity":`)
		out.B = w.cost.appendJSON(out.B, t.Name(), w.detail)
		sep = ","
	}
	if w.metrics && t.HasLocal() {
		gb, err := e.collectionGB(ctx, id, t, k.PK)
		switch {
		case errors.Is(err, storage.ErrTableNotFound): // dropped since: there is no collection
		case err != nil:
			return err
		default:
			out.Raw(sep + `"ItemCollectionMetrics":`)
			out.B = appendMetrics(out.B, t, item, gb)
		}
	}
	out.B = append(out.B, '}')
	return nil
}

// collectionGB returns the size of an item collection, table and local indexes
// together, in whole GiB rounded down.
func (e *Engine) collectionGB(ctx context.Context, id auth.Identity, t *storage.Table, pk []byte) (int64, error) {
	var size int64
	err := e.withTable(ctx, id, t.Name(), func(t *storage.Table) error {
		size = 0
		ranges := []storage.Range{{P: pk, Want: storage.Sizes}}
		for _, ix := range t.Indexes {
			if ix.Local {
				ranges = append(ranges, storage.Range{Index: ix.ID, P: pk, Want: storage.Sizes})
			}
		}
		for _, r := range ranges {
			for row, err := range e.store.Range(ctx, t, r) {
				if err != nil {
					return err
				}
				size += int64(row.Size)
			}
		}
		return nil
	})
	return size >> 30, err
}

// appendMetrics appends the ItemCollectionMetrics of the collection of an item
// or key.
func appendMetrics(dst []byte, t *storage.Table, item ddb.Item, gb int64) []byte {
	dst = append(dst, `{"ItemCollectionKey":`...)
	dst = ddb.AppendItem(dst, ddb.Item{t.Hash.Name: item[t.Hash.Name]})
	dst = append(dst, `,"SizeEstimateRangeGB":[`...)
	dst = appendDouble(dst, float64(gb))
	dst = append(dst, ',')
	dst = appendDouble(dst, float64(gb+1))
	return append(dst, `]}`...)
}
