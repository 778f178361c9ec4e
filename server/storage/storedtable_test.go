// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

func TestStoredTable(t *testing.T) {
	t.Parallel()
	def := ddb.TableDefinition{
		TableName: "t", DeletionProtection: true,
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: "k", KeyType: ddb.Hash}},
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "k", AttributeType: "S"}},
	}
	for _, name := range []string{"a", "b"} {
		def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, ddb.IndexDefinition{IndexName: name, KeySchema: def.KeySchema})
	}
	text, err := json.Marshal(def)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	const begin = `storage is corrupt: table "t" of account "1": `
	const unknown = "; so it is not known whether the table is protected against deletion, and it is not dropped"
	for _, c := range []struct {
		name, text string
		indexes    map[string]IndexID
		want       string // error of Decode
		drops      bool
	}{
		{"whole", whole, map[string]IndexID{"b": 2, "a": 1}, "", true},
		{"an index less", whole, map[string]IndexID{"a": 1}, `index "b" of the definition is not in the catalog`, true},
		{"an index more", whole, map[string]IndexID{"a": 1, "b": 2, "c": 3}, "the definition has 2 indexes, the catalog 3", true},
		{"no keys", `{"TableName":"t","DeletionProtectionEnabled":true}`, nil, `table "t": key schema [] has no HASH attribute`, true},
		{"nothing", "", nil, "decode definition: unexpected end of JSON input", false},
		{"half", whole[:40], nil, "decode definition: unexpected end of JSON input", false},
		{"no members", "{}", nil, `the definition is of a table ""`, false},
	} {
		s := StoredTable{Table: Table{ID: 7, Account: "1", Version: 3, Status: Active}, Name: "t", Definition: []byte(c.text), Indexes: c.indexes}
		got, err := s.Decode()
		if c.want == "" {
			if err != nil || got.ID != 7 || len(got.Indexes) != 2 || got.Indexes[1].ID != 2 || got.Hash.Name != "k" {
				t.Errorf("%s: %+v (%v)", c.name, got, err)
			}
		} else if !errors.Is(err, ErrCorrupt) || err.Error() != begin+c.want {
			t.Errorf("%s: error %v", c.name, err)
		}
		got, err = s.DecodeToDrop()
		if c.drops {
			if err != nil || got.ID != 7 || got.Version != 3 || got.Name() != "t" || !got.Def.DeletionProtection {
				t.Errorf("%s: to drop: %+v (%v)", c.name, got, err)
			}
		} else if !errors.Is(err, ErrCorrupt) || err.Error() != begin+c.want+unknown {
			t.Errorf("%s: to drop: error %v", c.name, err)
		}
	}
}
