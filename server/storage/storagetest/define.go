// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
)

// index describes an index for define.
type index struct {
	name, key string // key as in define; of a local index the range part only: "/l:N"
	project   string // ALL, KEYS_ONLY, or the attributes included: "x,y"
}

// define writes a table definition shortly: the key "a:S,b:N/c:B,d:S" has the
// hash attributes a and b and the range attributes c and d.
func define(name, key string, ixs ...index) ddb.TableDefinition {
	def := ddb.TableDefinition{TableName: name, BillingMode: ddb.PayPerRequest}
	def.KeySchema = schema(&def, key)
	for _, ix := range ixs {
		d := ddb.IndexDefinition{IndexName: ix.name, Projection: ddb.Projection{ProjectionType: ix.project}}
		if ix.project != ddb.ProjectAll && ix.project != ddb.ProjectKeysOnly {
			d.Projection = ddb.Projection{ProjectionType: ddb.ProjectInclude, NonKeyAttributes: strings.Split(ix.project, ",")}
		}
		d.KeySchema = schema(&def, ix.key)
		if strings.HasPrefix(ix.key, "/") {
			d.KeySchema = append(slices.Clone(def.KeySchema[:1]), d.KeySchema...)
			def.LocalSecondaryIndexes = append(def.LocalSecondaryIndexes, d)
		} else {
			def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, d)
		}
	}
	return def
}

// schema reads a key and defines its attributes.
func schema(def *ddb.TableDefinition, key string) []ddb.KeySchemaElement {
	var elems []ddb.KeySchemaElement
	hash, rng, _ := strings.Cut(key, "/")
	for i, part := range []string{hash, rng} {
		for attr := range strings.SplitSeq(part, ",") {
			name, kind, ok := strings.Cut(attr, ":")
			if !ok {
				continue
			}
			elems = append(elems, ddb.KeySchemaElement{AttributeName: name, KeyType: []string{ddb.Hash, ddb.Range}[i]})
			if def.AttributeKind(name) == 0 {
				def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: name, AttributeType: kind})
			}
		}
	}
	slices.SortFunc(def.AttributeDefinitions, func(a, b ddb.AttributeDefinition) int {
		return cmp.Compare(a.AttributeName, b.AttributeName)
	})
	return elems
}

// item makes an item of names and values: string, int, []byte or ddb.Value.
func item(pairs ...any) ddb.Item {
	it := ddb.Item{}
	for i := 0; i < len(pairs); i += 2 {
		it[pairs[i].(string)] = value(pairs[i+1])
	}
	return it
}

func value(x any) ddb.Value {
	switch x := x.(type) {
	case string:
		return ddb.String(x)
	case int:
		return ddb.Int(int64(x))
	case []byte:
		return ddb.Binary(x)
	}
	return x.(ddb.Value)
}

// number reads a decimal literal.
func number(s string) ddb.Value {
	n, err := ddb.ParseNumber(s)
	if err != nil {
		panic("storagetest: " + err.Error()) // a mistake in the suite
	}
	return ddb.Num(n)
}

// with returns it with more attributes.
func with(it ddb.Item, pairs ...any) ddb.Item {
	out := item(pairs...)
	for name, v := range it {
		if _, ok := out[name]; !ok {
			out[name] = v
		}
	}
	return out
}
