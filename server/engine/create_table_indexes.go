// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strconv"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

// Limits of a table's indexes.
const (
	maxLocalIndexes  = 5
	maxGlobalIndexes = 20
	maxHashElements  = 4 // of a global index
	maxRangeElements = 4
	maxProjected     = 100 // NonKeyAttributes of all indexes, repeats counted
)

// checkIndexes checks the indexes of a definition whose table keys are good:
// that their keys are defined and definitions used, then local before global
// ones, each kind in order, then what concerns them together.
func checkIndexes(in *api.CreateTableInput, def *ddb.TableDefinition) error {
	switch {
	case in.LocalSecondaryIndexes != nil && len(in.LocalSecondaryIndexes) == 0:
		return invalidParameter("List of LocalSecondaryIndexes is empty")
	case in.GlobalSecondaryIndexes != nil && len(in.GlobalSecondaryIndexes) == 0:
		return invalidParameter("List of GlobalSecondaryIndexes is empty")
	}
	all := slices.Concat(def.LocalSecondaryIndexes, def.GlobalSecondaryIndexes)
	defined := setOf(definedNames(def))
	for _, ix := range all {
		if err := checkDefined(def, ix.KeySchema, defined); err != nil {
			return err
		}
	}
	if err := checkUsed(def); err != nil {
		return err
	}
	if err := checkLocalIndexes(in, def); err != nil {
		return err
	}
	if err := checkGlobalIndexes(in, def); err != nil {
		return err
	}
	return checkTogether(all)
}

func checkLocalIndexes(in *api.CreateTableInput, def *ddb.TableDefinition) error {
	switch n := len(in.LocalSecondaryIndexes); {
	case n > 0 && len(def.KeySchema) < 2:
		return invalidParameter("Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	case n > maxLocalIndexes:
		return invalidParameter("Number of LocalSecondaryIndexes exceeds per-table limit of " + strconv.Itoa(maxLocalIndexes))
	}
	tableHash := def.KeySchema[0].AttributeName
	for i, ix := range def.LocalSecondaryIndexes {
		hash := ix.KeySchema[0].AttributeName
		switch {
		case ix.KeySchema[0].KeyType != ddb.Hash:
			return api.Validation(firstNotHash)
		case hash != tableHash:
			return invalidParameter("Index KeySchema does not have the same leading hash key as table KeySchema for index: " +
				ix.IndexName + ". index hash key: " + hash + ", table hash key: " + tableHash)
		case len(ix.KeySchema) < 2:
			return invalidParameter("Index KeySchema does not have a range key for index: " + ix.IndexName)
		}
		if err := checkPair(ix.KeySchema); err != nil {
			return err
		}
		if err := checkProjection(in.LocalSecondaryIndexes[i].Projection); err != nil {
			return err
		}
	}
	return nil
}

func checkGlobalIndexes(in *api.CreateTableInput, def *ddb.TableDefinition) error {
	if len(in.GlobalSecondaryIndexes) > maxGlobalIndexes {
		return invalidParameter("GlobalSecondaryIndex count exceeds the per-table limit of " + strconv.Itoa(maxGlobalIndexes))
	}
	for i, ix := range def.GlobalSecondaryIndexes {
		if err := checkGlobalKeys(ix.KeySchema); err != nil {
			return err
		}
		req := &in.GlobalSecondaryIndexes[i]
		if err := checkProjection(req.Projection); err != nil {
			return err
		}
		if err := checkIndexThroughput(def.BillingMode, req); err != nil {
			return err
		}
	}
	return nil
}

// checkGlobalKeys checks the schema of a global index: up to four HASH
// elements, then up to four RANGE ones.
func checkGlobalKeys(ks []ddb.KeySchemaElement) error {
	if ks[0].KeyType != ddb.Hash {
		return api.Validation(firstNotHash)
	}
	names := keyNames(ks)
	var hashes, ranges int
	for i, k := range ks {
		switch {
		case slices.Contains(names[:i], k.AttributeName):
			return invalidParameter("The KeySchema contains multiple key attributes with the same name")
		case k.KeyType == ddb.Range:
			ranges++
		case ranges > 0:
			return invalidParameter("All HASH key attributes must precede RANGE key attributes in the KeySchema")
		default:
			hashes++
		}
		switch { // at once: the list may be long
		case hashes > maxHashElements:
			return invalidParameter("The KeySchema exceeds the maximum allowed number of HASH key attributes")
		case ranges > maxRangeElements:
			return invalidParameter("The KeySchema exceeds the maximum allowed number of RANGE key attributes")
		}
	}
	return nil
}

func checkProjection(p *api.Projection) error {
	switch {
	case p.ProjectionType == nil:
		return invalidParameter("Unknown ProjectionType: null")
	case *p.ProjectionType == ddb.ProjectInclude && p.NonKeyAttributes == nil:
		return invalidParameter("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	case *p.ProjectionType != ddb.ProjectInclude && p.NonKeyAttributes != nil:
		return invalidParameter("ProjectionType is " + *p.ProjectionType + ", but NonKeyAttributes is specified")
	}
	for i, a := range p.NonKeyAttributes {
		if slices.Contains(p.NonKeyAttributes[:i], a) {
			return api.Validation("Duplicate element in NonKeyAttributes: " + a)
		}
	}
	return nil
}

// checkTogether checks what concerns the indexes of both kinds: one namespace,
// one budget of projected attributes.
func checkTogether(all []ddb.IndexDefinition) error {
	seen := make(map[string]bool, len(all))
	projected := 0
	for _, ix := range all {
		if seen[ix.IndexName] {
			return invalidParameter("Duplicate index name: " + ix.IndexName)
		}
		seen[ix.IndexName] = true
		projected += len(ix.Projection.NonKeyAttributes)
	}
	if projected > maxProjected {
		return invalidParameter("Number of NonKeyAttributes of all indexes exceeds per-table limit of " + strconv.Itoa(maxProjected))
	}
	return nil
}
