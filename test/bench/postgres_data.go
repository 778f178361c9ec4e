// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/extenddb/extenddb/format/ddb"
)

// plainDefinition is the table of the measurements without an index.
func plainDefinition(name string) ddb.TableDefinition {
	return ddb.TableDefinition{
		TableName: name, BillingMode: ddb.PayPerRequest, KeySchema: keySchema("pk", "sk"),
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "pk", AttributeType: "S"}, {AttributeName: "sk", AttributeType: "S"}},
	}
}

func keySchema(hash, sort string) []ddb.KeySchemaElement {
	return []ddb.KeySchemaElement{{AttributeName: hash, KeyType: ddb.Hash}, {AttributeName: sort, KeyType: ddb.Range}}
}

func plainText() string { return itemText }

func indexedName(indexes int) string { return fmt.Sprintf("indexed-%d", indexes) }

// markIndex stands for the partition of an item in its second index.
const markIndex = "&&&&"

// indexPartition is a place's partition in the second index of a table of so
// many partitions: as many items as in one of the table, from as many of its
// partitions.
func indexPartition(at place, partitions int) int {
	return (at.partition*perPartition + at.row) % partitions
}

// indexKey is the hash attribute of an index: the first one's changes with each
// put, the second one's has partitions of its own, the others never change.
func indexKey(i int) string { return fmt.Sprintf("g%02d", i) }

func indexedDefinition(name string, indexes int, projection string) ddb.TableDefinition {
	def := plainDefinition(name)
	var attrs []ddb.AttributeDefinition
	for i := range indexes {
		attrs = append(attrs, ddb.AttributeDefinition{AttributeName: indexKey(i), AttributeType: "S"})
		def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, ddb.IndexDefinition{
			IndexName: "by-" + indexKey(i), KeySchema: keySchema(indexKey(i), "sk"), Projection: ddb.Projection{ProjectionType: projection},
		})
	}
	def.AttributeDefinitions = append(attrs, def.AttributeDefinitions...)
	return def
}

// indexedText is an item with holes, of some 400 bytes when there are few
// indexes and more is empty.
func indexedText(indexes int, more string) string {
	var keys strings.Builder
	for i := range indexes {
		value := fmt.Sprintf("always-%02d", i)
		switch i {
		case 0:
			value = "v" + markCount
		case 1:
			value = "q" + markIndex
		}
		fmt.Fprintf(&keys, `%q:{"S":%q},`, indexKey(i), value)
	}
	if more == "" {
		more = strings.Repeat("The quick brown fox jumps over the lazy dog. ", 5)
	}
	return "{" + keys.String() + keyText + `,"text":{"S":"` + more + `"}}`
}

// holes is a text in which every hole is filled in place, wherever it occurs.
type holes struct {
	text                         []byte
	partition, row, count, index []int // offsets
	partitions                   int   // of the table
}

func newHoles(text string, partitions int) holes {
	h := holes{text: []byte(text), partitions: partitions}
	for mark, offsets := range map[string]*[]int{markPartition: &h.partition, markRow: &h.row, markCount: &h.count, markIndex: &h.index} {
		for from := 0; ; {
			i := bytes.Index(h.text[from:], []byte(mark))
			if i < 0 {
				break
			}
			*offsets = append(*offsets, from+i)
			from += i + len(mark)
		}
	}
	return h
}

func (h holes) fill(at place) {
	for _, o := range h.partition {
		digits(h.text, o, len(markPartition), at.partition)
	}
	for _, o := range h.row {
		digits(h.text, o, len(markRow), at.row)
	}
	for _, o := range h.count {
		digits(h.text, o, len(markCount), at.count)
	}
	for _, o := range h.index {
		digits(h.text, o, len(markIndex), indexPartition(at, h.partitions))
	}
}

// rowBytes are a row of an indexed table as a reference stores it: keys end in
// a zero byte, as the engine's do.
type rowBytes struct{ pk, sk, item, g0, g1 holes }

func newRowBytes(partitions int) rowBytes {
	of := func(text string) holes { return newHoles(text, partitions) }
	return rowBytes{
		pk: of("p" + markPartition + "\x00"), sk: of("s" + markRow), item: of(indexedText(2, "")),
		g0: of("v" + markCount + "\x00"), g1: of("q" + markIndex + "\x00"),
	}
}

func (r rowBytes) fill(at place) {
	for _, h := range []holes{r.pk, r.sk, r.item, r.g0, r.g1} {
		h.fill(at)
	}
}
