// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
)

const (
	invalidSchema = "Invalid KeySchema: "
	firstNotHash  = invalidSchema + "The first KeySchemaElement is not a HASH key type"
	secondNotRng  = invalidSchema + "The second KeySchemaElement is not a RANGE key type"
	noDefinition  = invalidSchema + "Some index key attribute have no definition"
	sameKeyName   = "Both the Hash Key and the Range Key element in the KeySchema have the same name"
)

// invalidParameter is a ValidationException with the usual prefix.
func invalidParameter(message string) error { return api.Validation(api.InvalidParameters + message) }

// checkTableKeys compares the table's schema with the definitions, both of
// which have passed their constraints.
func checkTableKeys(def *ddb.TableDefinition) error {
	names := definedNames(def)
	defined := make(map[string]bool, len(names))
	for _, n := range names {
		if defined[n] {
			return api.Validation("Attribute Name is duplicated: " + n)
		}
		defined[n] = true
	}
	if len(names) < len(def.KeySchema) {
		return api.Validation(noDefinition)
	}
	if err := checkDefined(def, def.KeySchema, defined); err != nil {
		return err
	}
	return checkPair(def.KeySchema)
}

// checkPair checks a schema of one or two elements.
func checkPair(ks []ddb.KeySchemaElement) error {
	switch {
	case len(ks) == 2 && ks[0].AttributeName == ks[1].AttributeName:
		return api.Validation(sameKeyName)
	case ks[0].KeyType != ddb.Hash:
		return api.Validation(firstNotHash)
	case len(ks) == 2 && ks[1].KeyType != ddb.Range:
		return api.Validation(secondNotRng)
	}
	return nil
}

// checkDefined refuses a schema with an attribute that no definition types.
func checkDefined(def *ddb.TableDefinition, ks []ddb.KeySchemaElement, defined map[string]bool) error {
	for _, k := range ks {
		if !defined[k.AttributeName] {
			return invalidParameter("Some index key attributes are not defined in AttributeDefinitions. Keys: " +
				printSet(keyNames(ks)) + ", AttributeDefinitions: " + printSet(definedNames(def)))
		}
	}
	return nil
}

// checkUsed refuses definitions that nothing uses, in other words for a table
// without indexes.
func checkUsed(def *ddb.TableDefinition) error {
	used := keyNames(def.KeySchema)
	if len(def.GlobalSecondaryIndexes)+len(def.LocalSecondaryIndexes) == 0 {
		if len(def.AttributeDefinitions) > len(used) {
			return invalidParameter("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
		}
		return nil
	}
	for _, ixs := range [][]ddb.IndexDefinition{def.LocalSecondaryIndexes, def.GlobalSecondaryIndexes} {
		for _, ix := range ixs {
			used = append(used, keyNames(ix.KeySchema)...)
		}
	}
	names, set := definedNames(def), setOf(used)
	for _, n := range names {
		if !set[n] {
			return invalidParameter("Some AttributeDefinitions are not used. AttributeDefinitions: " + printSet(names) + ", keys used: " + printSet(used))
		}
	}
	return nil
}

func definedNames(def *ddb.TableDefinition) []string {
	names := make([]string, len(def.AttributeDefinitions))
	for i, d := range def.AttributeDefinitions {
		names[i] = d.AttributeName
	}
	return names
}

func keyNames(ks []ddb.KeySchemaElement) []string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.AttributeName
	}
	return names
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// printSet prints names in the order in which the service's hash sets yield
// them: by bucket, then as inserted.
func printSet(names []string) string {
	seen := make(map[string]bool, len(names))
	var set []string
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			set = append(set, n)
		}
	}
	buckets := uint32(16)
	for 4*len(set) > 3*int(buckets) {
		buckets *= 2
	}
	slices.SortStableFunc(set, func(a, b string) int {
		return cmp.Compare(hashOf(a)&(buckets-1), hashOf(b)&(buckets-1))
	})
	return "[" + strings.Join(set, ", ") + "]"
}

// hashOf is the hash of a string as the service's hash maps spread it.
func hashOf(s string) uint32 {
	var h uint32
	for _, u := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(u)
	}
	return h ^ h>>16
}
