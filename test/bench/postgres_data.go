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

// indexKey is the hash attribute of an index: the first one's changes with each
// put, the second one has the partitions of the table, the others never change.
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
			value = "q" + markPartition
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
	text                  []byte
	partition, row, count []int // offsets
}

func newHoles(text string) holes {
	h := holes{text: []byte(text)}
	for mark, offsets := range map[string]*[]int{markPartition: &h.partition, markRow: &h.row, markCount: &h.count} {
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
}

// rowBytes are a row of an indexed table as a reference stores it: keys end in
// a zero byte, as the engine's do.
type rowBytes struct{ pk, sk, item, g0, g1 holes }

func newRowBytes() rowBytes {
	return rowBytes{
		pk: newHoles("p" + markPartition + "\x00"), sk: newHoles("s" + markRow), item: newHoles(indexedText(2, "")),
		g0: newHoles("v" + markCount + "\x00"), g1: newHoles("q" + markPartition + "\x00"),
	}
}

func (r rowBytes) fill(at place) {
	for _, h := range []holes{r.pk, r.sk, r.item, r.g0, r.g1} {
		h.fill(at)
	}
}
