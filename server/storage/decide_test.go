// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
)

func TestRunDecide(t *testing.T) {
	t.Parallel()
	def := ddb.TableDefinition{
		TableName:            "t",
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: "k", KeyType: ddb.Hash}},
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "k", AttributeType: "S"}},
		GlobalSecondaryIndexes: []ddb.IndexDefinition{{
			IndexName: "by-k", KeySchema: []ddb.KeySchemaElement{{AttributeName: "k", KeyType: ddb.Hash}}, Projection: ddb.Projection{ProjectionType: ddb.ProjectAll},
		}},
	}
	tab, err := NewTable(Table{ID: 1, Version: 1, Status: Active, Created: time.Unix(0, 0), Def: def}, []IndexID{7})
	if err != nil {
		t.Fatal(err)
	}
	good, err := Derive(tab, ddb.Item{"k": ddb.String("a")})
	if err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	for name, tc := range map[string]struct {
		item    []byte // of the row that is there; nil: none
		decide  Decide
		refusal error
		old     int
		err     error
	}{
		"put":                {decide: func(*Table, *Row) (*Next, error) { return good, nil }},
		"put over a row":     {item: good.Item, old: 1, decide: func(*Table, *Row) (*Next, error) { return good, nil }},
		"delete":             {item: good.Item, old: 1, decide: func(*Table, *Row) (*Next, error) { return nil, nil }},
		"unchanged":          {decide: func(*Table, *Row) (*Next, error) { return Unchanged, nil }},
		"refusal":            {decide: func(*Table, *Row) (*Next, error) { return nil, no }, refusal: no},
		"panic":              {decide: func(*Table, *Row) (*Next, error) { panic("oh") }, refusal: ErrInvalid},
		"no item":            {decide: func(*Table, *Row) (*Next, error) { return &Next{}, nil }, refusal: ErrInvalid},
		"row that is no row": {item: []byte("{"), decide: func(*Table, *Row) (*Next, error) { panic("not to be called") }, err: ErrCorrupt},
		"row without a key":  {item: []byte("{}"), decide: func(*Table, *Row) (*Next, error) { panic("not to be called") }, err: ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var row *Row
			if tc.item != nil {
				row = &Row{Item: tc.item}
			}
			made, err := tc.decide.Run(tab, row)
			if !errors.Is(err, tc.err) || !errors.Is(made.Err, tc.refusal) || len(made.Old) != tc.old {
				t.Errorf("%+v, %v", made, err)
			}
		})
	}
}
