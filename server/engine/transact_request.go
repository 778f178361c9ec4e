// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
)

// maxTokenLength is the length of the longest ClientRequestToken.
const maxTokenLength = 36

// actionMembers are the members of an action of any kind.
type actionMembers struct {
	path      string            // of the action: "put"
	object    *api.AttributeMap // Item or Key
	table     *string
	update    *string
	condition *string
	names     map[string]string
	values    map[string]api.AttributeValue
	onFail    *string
}

// actionsOf lists the actions that an element of TransactItems holds: one,
// unless something is wrong. Elements without any are the caller's to refuse.
func actionsOf(x *api.TransactWriteItem) (list []actionMembers) {
	if c := x.ConditionCheck; c != nil {
		list = append(list, actionMembers{
			"conditionCheck", &c.Key, c.TableName, nil, c.ConditionExpression,
			c.ExpressionAttributeNames, c.ExpressionAttributeValues, c.ReturnValuesOnConditionCheckFailure,
		})
	}
	if p := x.Put; p != nil {
		list = append(list, actionMembers{
			"put", &p.Item, p.TableName, nil, p.ConditionExpression,
			p.ExpressionAttributeNames, p.ExpressionAttributeValues, p.ReturnValuesOnConditionCheckFailure,
		})
	}
	if d := x.Delete; d != nil {
		list = append(list, actionMembers{
			"delete", &d.Key, d.TableName, nil, d.ConditionExpression,
			d.ExpressionAttributeNames, d.ExpressionAttributeValues, d.ReturnValuesOnConditionCheckFailure,
		})
	}
	if u := x.Update; u != nil {
		list = append(list, actionMembers{
			"update", &u.Key, u.TableName, u.UpdateExpression, u.ConditionExpression,
			u.ExpressionAttributeNames, u.ExpressionAttributeValues, u.ReturnValuesOnConditionCheckFailure,
		})
	}
	return list
}

// checkTransactWrite makes the checks of single members, all in one message.
func checkTransactWrite(in *api.TransactWriteItemsInput) error {
	var c constraints
	c.length(in.ClientRequestToken, "clientRequestToken", 1, maxTokenLength)
	c.enum(in.ReturnConsumedCapacity, "returnConsumedCapacity", enumReturnConsumedCapacity)
	c.enum(in.ReturnItemCollectionMetrics, "returnItemCollectionMetrics", enumReturnItemCollection)
	c.transactItems(in.TransactItems != nil, len(in.TransactItems), func() string { return echoActions(in.TransactItems) })
	if len(in.TransactItems) <= maxTransaction {
		for i := range in.TransactItems {
			for _, m := range actionsOf(&in.TransactItems[i]) {
				c.action(&m, memberPath("transactItems", i)+m.path+".")
			}
		}
	}
	return c.err()
}

// transactItems checks how many elements there are.
func (c *constraints) transactItems(sent bool, n int, echo func() string) {
	const path = "transactItems"
	switch {
	case !sent:
		c.null(path)
	case n == 0:
		c.value("[]", path, ruleMinLength(1))
	case n > maxTransaction:
		c.value(echo(), path, ruleMaxLength(maxTransaction))
	}
}

// action checks the members of an action, which path names.
func (c *constraints) action(m *actionMembers, path string) {
	object := "key"
	if m.path == "put" {
		object = "item"
	}
	c.required(m.object.Present, path+object)
	c.required(m.path != "update" || m.update != nil, path+"updateExpression")
	c.required(m.table != nil, path+"tableName")
	c.tableRefAt(m.table, path+"tableName")
	c.required(m.path != "conditionCheck" || m.condition != nil, path+"conditionExpression")
	c.enum(m.onFail, path+"returnValuesOnConditionCheckFailure", enumReturnOnFailure)
}

// readAction makes the checks of an action that need no table. The condition
// of one that names a key is read before the key.
func (e *Engine) readAction(id auth.Identity, x *api.TransactWriteItem, detail capacityDetail) (*action, error) {
	list := actionsOf(x)
	if len(list) != 1 {
		return nil, api.Validation(severalActions)
	}
	m := &list[0]
	name, err := e.resolveTable(id, *m.table)
	if err != nil {
		return nil, err
	}
	r := &writeRequest{
		layer: older, object: m.object, condition: m.condition, names: m.names, values: m.values,
		onFail: m.onFail, isUpdate: m.update != nil, update: m.update,
	}
	w := r.wanted()
	w.detail = detail
	a := &action{name: name}
	if m.path == "put" {
		a.put = &put{item: m.object.Item}
		a.mutation = a.put
		return a, e.readPut(a.put, r, w)
	}
	ph, err := r.placeholders("")
	if err != nil {
		return nil, err
	}
	what, err := e.bind(&w, r, ph)
	if err != nil {
		return nil, err
	}
	switch m.path {
	case "update":
		a.mutation = &update{writing: w, key: m.object.Item, what: what}
	case "delete":
		a.mutation = &deletion{writing: w, key: m.object.Item}
	default:
		a.mutation = &check{writing: w, key: m.object.Item}
	}
	return a, older.checkMap(m.object)
}

// readPut is readAction for a put: its item is read before its condition.
func (e *Engine) readPut(p *put, r *writeRequest, w writing) error {
	ph, err := r.placeholders("")
	if err != nil {
		return err
	}
	if err := older.checkMap(r.object); err != nil {
		return err
	}
	if p.item.Size() > maxItemSize {
		return api.Validation(itemTooBig)
	}
	if _, err := e.bind(&w, r, ph); err != nil {
		return err
	}
	p.writing = w
	return nil
}

// echoActions prints TransactItems the way the service's constraint messages
// do; see echoRequestItems.
func echoActions(items []api.TransactWriteItem) string {
	var e echo
	e.open("[")
	for i := range items {
		if e.Len() >= maxEcho {
			break
		}
		e.next("")
		e.action(&items[i])
	}
	e.close("]")
	return e.String()
}

// action prints one element of TransactItems.
func (e *echo) action(x *api.TransactWriteItem) {
	byPath := map[string]actionMembers{}
	for _, m := range actionsOf(x) {
		byPath[m.path] = m
	}
	e.text("TransactWriteItem(")
	for i, k := range [...]struct{ path, class, object string }{
		{"conditionCheck", "ConditionCheck", "key"}, {"put", "Put", "item"}, {"delete", "Delete", "key"}, {"update", "Update", "key"},
	} {
		if i > 0 {
			e.text(", ")
		}
		m, ok := byPath[k.path]
		if !ok {
			e.text(k.path + "=null")
			continue
		}
		e.text(k.path + "=" + k.class + "(" + k.object + "=")
		e.item(m.object.Item)
		e.member("tableName", m.table)
		if k.path == "update" {
			e.member("updateExpression", m.update)
		}
		e.member("conditionExpression", m.condition)
		e.text(")")
	}
	e.text(")")
}

// member prints a string member that is not the first.
func (e *echo) member(name string, v *string) {
	e.text(", " + name + "=")
	if v == nil {
		e.text("null")
		return
	}
	e.text(*v)
}

// digestTransaction is the digest of a whole request but for its token: what
// the service compares when a token is used again. It does not depend on the
// order that the members of maps were sent in, nor on how numbers were spelled.
func digestTransaction(in *api.TransactWriteItemsInput) (sum [32]byte) {
	d := digest{Hash: sha256.New()}
	d.optional(in.ReturnConsumedCapacity)
	d.optional(in.ReturnItemCollectionMetrics)
	for i := range in.TransactItems {
		for _, m := range actionsOf(&in.TransactItems[i]) {
			d.text(m.path)
			d.optional(m.table)
			d.buf = ddb.AppendItem(d.buf[:0], m.object.Item)
			d.bytes(d.buf)
			d.optional(m.update)
			d.optional(m.condition)
			d.optional(m.onFail)
			d.count(len(m.names))
			for _, name := range sortedKeys(m.names) {
				d.text(name)
				d.text(m.names[name])
			}
			d.count(len(m.values))
			for _, name := range sortedKeys(m.values) {
				d.text(name)
				d.buf = ddb.AppendValue(d.buf[:0], m.values[name].Value)
				d.bytes(d.buf)
			}
		}
	}
	d.Sum(sum[:0])
	return sum
}

// digest hashes values that cannot be mistaken for each other: each is preceded
// by its length.
type digest struct {
	hash.Hash
	buf []byte
}

func (d *digest) count(n int) {
	_, _ = d.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) // a hash does not fail
}

func (d *digest) bytes(b []byte) {
	d.count(len(b))
	_, _ = d.Write(b)
}

func (d *digest) text(s string) { d.bytes([]byte(s)) }

// optional hashes a member that may be absent.
func (d *digest) optional(s *string) {
	if s == nil {
		d.count(0)
		return
	}
	d.count(1)
	d.text(*s)
}
