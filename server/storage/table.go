// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
)

// TableID identifies a table for ever: it is never reused, and names the
// table's physical storage.
type TableID int64

// IndexID identifies an index of any table for ever; 0 stands for the table
// itself.
type IndexID int64

// Status is where a table is in its life. It is derived from the catalog row,
// never stored as text of its own.
type Status uint8

// The states of a table.
const (
	Active Status = iota + 1
	Deleting
	Creating // being loaded: see Loader
)

// String returns the TableStatus of the wire.
func (s Status) String() string {
	switch s {
	case Active:
		return "ACTIVE"
	case Deleting:
		return "DELETING"
	case Creating:
		return "CREATING"
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// KeyAttr is one attribute of a key.
type KeyAttr struct {
	Name string
	Kind ddb.Kind // S, N or B
}

// Index is a secondary index as writers and readers need it.
type Index struct {
	ID         IndexID
	Name       string
	Local      bool
	Hash       []KeyAttr // one to four; a local index has the table's
	Range      []KeyAttr // up to four, in schema order
	Projection ddb.Projection

	projected []string // attributes an entry stands for, nil for all
}

// Table is one version of a table's definition. It is immutable and shared.
type Table struct {
	ID      TableID
	UUID    string // TableId of the wire: lower-case, stable for the table's life
	Account string
	Version int64 // rises with every change a writer or reader must know
	Status  Status
	Created time.Time // millisecond precision, UTC
	Def     ddb.TableDefinition

	Hash    KeyAttr
	Range   *KeyAttr // nil on a hash-only table
	Indexes []*Index // those the definition lists: global ones first, in the order submitted

	// follow are the attributes that the entries of a row follow from, under
	// their own names; beside them only the size of the row matters.
	follow map[string]string
}

// NewTable fills in the fields that follow from def. ids gives the ids of the
// indexes in the order def lists them, global ones first.
func NewTable(t Table, ids []IndexID) (*Table, error) {
	def := &t.Def
	if n := len(def.GlobalSecondaryIndexes) + len(def.LocalSecondaryIndexes); n != len(ids) {
		return nil, fmt.Errorf("table %q: %d indexes but %d ids", def.TableName, n, len(ids))
	}
	hash, rng, err := splitSchema(def, def.KeySchema)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", def.TableName, err)
	}
	if len(hash) != 1 || len(rng) > 1 {
		return nil, fmt.Errorf("table %q: key schema %v is not one of a table", def.TableName, def.KeySchema)
	}
	t.Hash, t.Range, t.Indexes = hash[0], nil, nil
	if len(rng) == 1 {
		t.Range = &rng[0]
	}
	for i, d := range append(append([]ddb.IndexDefinition(nil), def.GlobalSecondaryIndexes...), def.LocalSecondaryIndexes...) {
		hash, rng, err := splitSchema(def, d.KeySchema)
		if err != nil {
			return nil, fmt.Errorf("index %q: %w", d.IndexName, err)
		}
		t.Indexes = append(t.Indexes, &Index{
			ID: ids[i], Name: d.IndexName, Local: i >= len(def.GlobalSecondaryIndexes),
			Hash: hash, Range: rng, Projection: d.Projection,
		})
	}
	for _, ix := range t.Indexes {
		ix.projected = ix.projectedNames(&t)
	}
	t.follow = t.entryAttrs()
	return &t, nil
}

func splitSchema(def *ddb.TableDefinition, schema []ddb.KeySchemaElement) (hash, rng []KeyAttr, err error) {
	for _, e := range schema {
		a := KeyAttr{e.AttributeName, def.AttributeKind(e.AttributeName)}
		if !a.Kind.IsScalar() {
			return nil, nil, fmt.Errorf("key attribute %q has no scalar type", e.AttributeName)
		}
		if e.KeyType == ddb.Hash {
			hash = append(hash, a)
		} else {
			rng = append(rng, a)
		}
	}
	if len(hash) == 0 {
		return nil, nil, fmt.Errorf("key schema %v has no HASH attribute", schema)
	}
	return hash, rng, nil
}

// Name returns the table's name.
func (t *Table) Name() string { return t.Def.TableName }

// Index returns the index of that name, nil when there is none.
func (t *Table) Index(name string) *Index {
	for _, ix := range t.Indexes {
		if ix.Name == name {
			return ix
		}
	}
	return nil
}

// KeyAttrs returns the table's key attributes, hash first.
func (t *Table) KeyAttrs() []KeyAttr {
	if t.Range == nil {
		return []KeyAttr{t.Hash}
	}
	return []KeyAttr{t.Hash, *t.Range}
}

// HasLocal reports whether the table has a local secondary index.
func (t *Table) HasLocal() bool {
	for _, ix := range t.Indexes {
		if ix.Local {
			return true
		}
	}
	return false
}

// Stats are counts of a table as the statistics job last saw them.
type Stats struct {
	Items, Bytes int64 // of the table
	Indexes      map[IndexID]IndexStats
}

// IndexStats are counts of one index.
type IndexStats struct{ Items, Bytes int64 }
