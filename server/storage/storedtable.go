// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/json"
	"fmt"

	"github.com/extenddb/extenddb/format/ddb"
)

// StoredTable is a table as the catalog of an engine has it. Whatever became of
// its definition, the names and ids are known.
type StoredTable struct {
	Table      Table // without Def and what follows from it
	Name       string
	Definition []byte // JSON of a ddb.TableDefinition
	Indexes    map[string]IndexID
}

// Decode returns the table. The error is ErrCorrupt, and names table, account
// and what is wrong.
func (s *StoredTable) Decode() (*Table, error) {
	t := s.Table
	if err := json.Unmarshal(s.Definition, &t.Def); err != nil {
		return nil, s.corrupt(fmt.Errorf("decode definition: %w", err))
	}
	if t.Name() != s.Name {
		return nil, s.corrupt(fmt.Errorf("the definition is of a table %q", t.Name()))
	}
	names := indexNames(&t.Def)
	ids := make([]IndexID, 0, len(names))
	for _, name := range names {
		id := s.Indexes[name]
		if id == 0 {
			return nil, s.corrupt(fmt.Errorf("index %q of the definition is not in the catalog", name))
		}
		ids = append(ids, id)
	}
	if len(ids) != len(s.Indexes) {
		return nil, s.corrupt(fmt.Errorf("the definition has %d indexes, the catalog %d", len(ids), len(s.Indexes)))
	}
	made, err := NewTable(t, ids)
	if err != nil {
		return nil, s.corrupt(err)
	}
	return made, nil
}

// DecodeToDrop returns the table, or when its definition is damaged what
// suffices to decide whether it may be dropped: one without keys and indexes. It
// is an ErrCorrupt when nobody can tell whether the table is protected.
func (s *StoredTable) DecodeToDrop() (*Table, error) {
	t, err := s.Decode()
	if err == nil {
		return t, nil
	}
	known := s.Table
	if json.Unmarshal(s.Definition, &known.Def) != nil || known.Name() != s.Name {
		return nil, fmt.Errorf("%w; so it is not known whether the table is protected against deletion, and it is not dropped", err)
	}
	return &known, nil
}

func (s *StoredTable) corrupt(why error) error {
	return fmt.Errorf("%w: table %q of account %q: %w", ErrCorrupt, s.Name, s.Table.Account, why)
}

// indexNames lists the indexes of a definition as NewTable wants their ids.
func indexNames(def *ddb.TableDefinition) []string {
	var names []string
	for _, list := range [][]ddb.IndexDefinition{def.GlobalSecondaryIndexes, def.LocalSecondaryIndexes} {
		for _, d := range list {
			names = append(names, d.IndexName)
		}
	}
	return names
}
