// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// TestStoredRows: what is not an item, or not under its own key, is told
// without quoting it.
func TestStoredRows(t *testing.T) {
	t.Parallel()
	tab, err := NewTable(Table{Def: ddb.TableDefinition{
		TableName: "t",
		KeySchema: []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: ddb.Hash}, {AttributeName: "sk", KeyType: ddb.Range}},
		AttributeDefinitions: []ddb.AttributeDefinition{
			{AttributeName: "pk", AttributeType: "S"}, {AttributeName: "sk", AttributeType: "N"},
		},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	good := `{"pk":{"S":"p"},"secret":{"M":{"a":{"L":[{"BOOL":true}]}}},"sk":{"N":"1"}}`
	it, err := ddb.ParseItem([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	key, err := tab.KeyOf(it)
	if err != nil {
		t.Fatal(err)
	}
	long := ddb.Item{"pk": ddb.String(strings.Repeat("p", 301)), "sk": ddb.Int(1)}
	longKey, err := tab.KeyOf(long)
	if err != nil {
		t.Fatal(err)
	}
	var c StoredRows
	for _, x := range []struct {
		name, item string
		key        Key
		ordered    bool
		ok         bool
	}{
		{"good", good, key, true, true},
		{"unordered", good, key, false, true},
		{"another key", strings.Replace(good, `"1"`, `"2"`, 1), key, true, false},
		{"no sort key", `{"pk":{"S":"p"}}`, key, true, false},
		{"key of another type", strings.Replace(good, `"S":"p"`, `"B":"cA=="`, 1), key, true, false},
		{"cut", good[:len(good)-1], key, true, false},
		{"more behind it", good + "{}", key, true, false},
		{"not an item", `["secret"]`, key, true, false},
		{"bad key value", strings.Replace(good, `"1"`, `"secret"`, 1), key, true, false},
		{"nothing", "", key, true, false},
		{"shortened key", string(ddb.AppendItem(nil, long)), longKey, false, true},
		{"shortened key in order", string(ddb.AppendItem(nil, long)), longKey, true, false},
		{"good after all", good, key, true, true},
	} {
		err := c.Check(tab, &Row{Key: x.key, Item: []byte(x.item)}, x.ordered)
		if x.ok != (err == nil) || err != nil && (!errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}
