// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// sourceTable is a table's definition as a manifest has it, without counts. A
// manifest has no room for warm throughput, deletion protection and the
// on-demand caps of indexes.
func sourceTable(t *storage.Table, region string) format.SourceTable {
	def := &t.Def
	s := format.SourceTable{
		Name:                 def.TableName,
		ID:                   t.UUID,
		ARN:                  "arn:aws:dynamodb:" + region + ":" + t.Account + ":table/" + def.TableName,
		Created:              format.Seconds(t.Created),
		KeySchema:            def.KeySchema,
		AttributeDefinitions: def.AttributeDefinitions,
		BillingMode:          def.BillingMode,
		SSE:                  def.SSE,
		GlobalIndexes:        indexInfos(def.GlobalSecondaryIndexes, def.BillingMode == ddb.Provisioned),
		LocalIndexes:         indexInfos(def.LocalSecondaryIndexes, false),
	}
	if def.BillingMode == ddb.Provisioned {
		s.Throughput = &format.Throughput{
			ReadCapacityUnits:  def.Throughput.ReadCapacityUnits,
			WriteCapacityUnits: def.Throughput.WriteCapacityUnits,
		}
	}
	if o := def.OnDemandThroughput; o != nil {
		s.OnDemand = &format.OnDemand{MaxReadRequestUnits: o.MaxReadRequestUnits, MaxWriteRequestUnits: o.MaxWriteRequestUnits}
	}
	if def.TableClass != "" {
		s.TableClass = &def.TableClass
	}
	return s
}

func indexInfos(ixs []ddb.IndexDefinition, throughput bool) []format.IndexInfo {
	var infos []format.IndexInfo
	for _, ix := range ixs {
		info := format.IndexInfo{IndexName: ix.IndexName, KeySchema: ix.KeySchema, Projection: ix.Projection}
		if t := ix.Throughput; throughput && t != nil {
			info.Throughput = &format.Throughput{ReadCapacityUnits: t.ReadCapacityUnits, WriteCapacityUnits: t.WriteCapacityUnits}
		}
		infos = append(infos, info)
	}
	return infos
}

// Definition is the definition of the table that a restore of the backup makes
// under the given name: what CreateTable would have been asked for. What a
// restore does not carry over is not in it. PayPerRequestSince is left out:
// it is the instant of the restore.
func Definition(m *format.Manifest, name string) (ddb.TableDefinition, error) {
	s := &m.Table
	def := ddb.TableDefinition{TableName: name, KeySchema: s.KeySchema, BillingMode: s.BillingMode, SSE: encryption(s.SSE)}
	if err := checkRestorable(m); err != nil {
		return def, err
	}
	switch s.BillingMode {
	case ddb.Provisioned:
		if t := s.Throughput; t != nil {
			def.Throughput = ddb.Throughput{ReadCapacityUnits: t.ReadCapacityUnits, WriteCapacityUnits: t.WriteCapacityUnits}
		}
	case ddb.PayPerRequest:
		def.BillingModeReported = true
		if o := s.OnDemand; o != nil {
			caps := ddb.OnDemandThroughput{MaxReadRequestUnits: limit(o.MaxReadRequestUnits), MaxWriteRequestUnits: limit(o.MaxWriteRequestUnits)}
			if caps != (ddb.OnDemandThroughput{}) {
				def.OnDemandThroughput = &caps
			}
		}
	default:
		return def, badTable("billing mode %q", s.BillingMode)
	}
	if s.TableClass != nil {
		def.TableClass = *s.TableClass
	}
	def.GlobalSecondaryIndexes = indexDefinitions(s.GlobalIndexes, s.BillingMode, true)
	def.LocalSecondaryIndexes = indexDefinitions(s.LocalIndexes, s.BillingMode, false)
	def.AttributeDefinitions = usedAttributes(s.AttributeDefinitions, &def)
	return def, checkDefinition(&def)
}

// limit is a maximum; -1 stands for none.
func limit(n *int64) *int64 {
	if n != nil && *n < 0 {
		return nil
	}
	return n
}

// encryption is what a new table has of that of the source: a change that was
// under way is not under way any more.
func encryption(s *ddb.SSEDescription) *ddb.SSEDescription {
	if s == nil || s.Status != "ENABLED" && s.Status != "ENABLING" && s.Status != "UPDATING" {
		return nil
	}
	e := *s
	e.Status = "ENABLED"
	return &e
}

func badTable(text string, args ...any) error {
	return errorf(Failed, "%w: source table: %s", format.ErrManifest, fmt.Sprintf(text, args...))
}

// checkRestorable refuses tables that this program cannot have.
func checkRestorable(m *format.Manifest) error {
	if n := len(m.Table.VectorIndexes); n > 0 {
		return errorf(Refused, "backup %s has %d vector index(es); restoring a table with vector indexes is not supported by this storage backend",
			m.BackupARN, n)
	}
	hash := 0
	for _, k := range m.Table.KeySchema {
		if k.KeyType == ddb.Hash {
			hash++
		}
	}
	if rng := len(m.Table.KeySchema) - hash; hash > 1 || rng > 1 {
		return errorf(Refused, "backup %s is of a table with a multi-part key (%d HASH, %d RANGE attributes); restoring it is not supported",
			m.BackupARN, hash, rng)
	}
	return nil
}

func indexDefinitions(infos []format.IndexInfo, billingMode string, global bool) []ddb.IndexDefinition {
	var defs []ddb.IndexDefinition
	for _, info := range infos {
		d := ddb.IndexDefinition{IndexName: info.IndexName, KeySchema: info.KeySchema, Projection: info.Projection}
		d.Projection.NonKeyAttributes = slices.Sorted(slices.Values(info.Projection.NonKeyAttributes))
		if global {
			d.Throughput = &ddb.Throughput{}
			if t := info.Throughput; t != nil && billingMode == ddb.Provisioned {
				d.Throughput.ReadCapacityUnits, d.Throughput.WriteCapacityUnits = t.ReadCapacityUnits, t.WriteCapacityUnits
			}
		}
		defs = append(defs, d)
	}
	return defs
}

// usedAttributes returns the attribute definitions that a key of def uses,
// sorted by name.
func usedAttributes(defs []ddb.AttributeDefinition, def *ddb.TableDefinition) []ddb.AttributeDefinition {
	used := map[string]bool{}
	add := func(ks []ddb.KeySchemaElement) {
		for _, k := range ks {
			used[k.AttributeName] = true
		}
	}
	add(def.KeySchema)
	for _, ix := range slices.Concat(def.GlobalSecondaryIndexes, def.LocalSecondaryIndexes) {
		add(ix.KeySchema)
	}
	defs = slices.DeleteFunc(slices.Clone(defs), func(d ddb.AttributeDefinition) bool { return !used[d.AttributeName] })
	slices.SortFunc(defs, func(a, b ddb.AttributeDefinition) int { return cmp.Compare(a.AttributeName, b.AttributeName) })
	return defs
}

// checkDefinition refuses what CreateTable would never have made: a manifest
// comes from outside.
func checkDefinition(def *ddb.TableDefinition) error {
	for i, a := range def.AttributeDefinitions {
		if i > 0 && def.AttributeDefinitions[i-1].AttributeName == a.AttributeName {
			return badTable("attribute %q is defined twice", a.AttributeName)
		}
	}
	names := map[string]bool{}
	all := slices.Concat(def.GlobalSecondaryIndexes, def.LocalSecondaryIndexes)
	for i := range all {
		ix := &all[i]
		if !isName(ix.IndexName) || names[ix.IndexName] {
			return badTable("index name %q is not valid or used twice", ix.IndexName)
		}
		names[ix.IndexName] = true
		if err := checkIndex(def, ix, i >= len(def.GlobalSecondaryIndexes)); err != nil {
			return err
		}
	}
	if _, err := storage.NewTable(storage.Table{Def: *def}, make([]storage.IndexID, len(all))); err != nil {
		return badTable("%v", err)
	}
	return nil
}

func checkIndex(def *ddb.TableDefinition, ix *ddb.IndexDefinition, local bool) error {
	const maxParts = 4 // of either kind in a global index
	seen := map[string]bool{}
	hash, rng := 0, 0
	for _, k := range ix.KeySchema {
		switch {
		case seen[k.AttributeName]:
			return badTable("index %q has attribute %q twice in its key", ix.IndexName, k.AttributeName)
		case k.KeyType == ddb.Range:
			rng++
		case k.KeyType != ddb.Hash || rng > 0:
			return badTable("index %q has a key schema out of order", ix.IndexName)
		default:
			hash++
		}
		seen[k.AttributeName] = true
	}
	switch {
	case local && (hash != 1 || rng != 1 || len(def.KeySchema) != 2 ||
		ix.KeySchema[0] != def.KeySchema[0]):
		return badTable("local index %q does not have the table's hash key and one range key", ix.IndexName)
	case hash == 0 || hash > maxParts || rng > maxParts:
		return badTable("index %q has %d HASH and %d RANGE attributes", ix.IndexName, hash, rng)
	}
	switch t := ix.Projection.ProjectionType; t {
	case ddb.ProjectAll, ddb.ProjectKeysOnly, ddb.ProjectInclude:
		return nil
	default:
		return badTable("index %q has projection type %q", ix.IndexName, t)
	}
}
