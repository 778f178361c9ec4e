// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

func TestRecordOf(t *testing.T) {
	t.Parallel()
	def := ddb.TableDefinition{
		TableName: "t", KeySchema: []ddb.KeySchemaElement{{AttributeName: "id", KeyType: ddb.Hash}, {AttributeName: "n", KeyType: ddb.Range}},
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "id", AttributeType: "S"}, {AttributeName: "n", AttributeType: "N"}},
	}
	table := func(view string) *Table {
		def := def
		def.StreamViewType = view
		st, err := NewTable(Table{ID: 7, Def: def}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	plain := table("")
	derive := func(it ddb.Item) (*Next, *Row) {
		next, err := Derive(plain, it)
		if err != nil {
			t.Fatal(err)
		}
		return next, &Row{Item: bytes.Clone(next.Item), Size: next.Size}
	}
	for _, id := range []string{"a", strings.Repeat("long", 200)} { // the encoded key of the second is shortened
		it := ddb.Item{"id": ddb.String(id), "n": ddb.Int(5), "x": ddb.String("1")}
		k, err := plain.KeyOf(it)
		if err != nil {
			t.Fatal(err)
		}
		first, before := derive(it)
		it["x"] = ddb.String("22")
		second, _ := derive(it)
		keys := ddb.Item{"id": it["id"], "n": it["n"]}
		for _, c := range []struct {
			name string
			view string
			cur  *Row
			next *Next
			kind RecordKind // 0: no record
			old  []byte
			new  []byte
		}{
			{"no stream", "", before, second, 0, nil, nil},
			{"unchanged", ddb.ViewBoth, before, Unchanged, 0, nil, nil},
			{"same bytes", ddb.ViewBoth, before, first, 0, nil, nil},
			{"nothing deleted", ddb.ViewBoth, nil, nil, 0, nil, nil},
			{"insert", ddb.ViewBoth, nil, first, RecordInsert, nil, first.Item},
			{"modify", ddb.ViewBoth, before, second, RecordModify, before.Item, second.Item},
			{"remove", ddb.ViewBoth, before, nil, RecordRemove, before.Item, nil},
			{"new of insert", ddb.ViewNew, nil, first, RecordInsert, nil, first.Item},
			{"new of modify", ddb.ViewNew, before, second, RecordModify, nil, second.Item},
			{"new of remove", ddb.ViewNew, before, nil, RecordRemove, nil, nil},
			{"old of insert", ddb.ViewOld, nil, first, RecordInsert, nil, nil},
			{"old of modify", ddb.ViewOld, before, second, RecordModify, before.Item, nil},
			{"old of remove", ddb.ViewOld, before, nil, RecordRemove, before.Item, nil},
			{"keys of insert", ddb.ViewKeysOnly, nil, first, RecordInsert, nil, nil},
			{"keys of modify", ddb.ViewKeysOnly, before, second, RecordModify, nil, nil},
			{"keys of remove", ddb.ViewKeysOnly, before, nil, RecordRemove, nil, nil},
		} {
			r, err := RecordOf(table(c.view), k, c.cur, c.next, Change{Service: true})
			switch {
			case err != nil:
				t.Errorf("%s: %v", c.name, err)
			case c.kind == 0:
				if r != nil {
					t.Errorf("%s: %+v", c.name, r)
				}
			case r == nil:
				t.Errorf("%s: no record", c.name)
			default:
				size := keys.Size()
				if c.old != nil {
					size += before.Size
				}
				if c.new != nil {
					size += c.next.Size
				}
				if r.Kind != c.kind || r.Table != 7 || !r.Key.Equal(k) || !r.Service || string(r.Keys) != string(ddb.AppendItem(nil, keys)) ||
					!bytes.Equal(r.Old, c.old) || !bytes.Equal(r.New, c.new) || r.Size != size || (r.Old == nil) != (c.old == nil) || (r.New == nil) != (c.new == nil) {
					t.Errorf("%s: %+v", c.name, r)
				}
			}
		}
		if r, err := RecordOf(table(ddb.ViewNew), Key{PK: []byte("?")}, before, nil, Change{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a key that makes no sense: %+v, %v", r, err)
		}
	}
}
