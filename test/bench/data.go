// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The table of the measurements: partitions of 100 items of some 300 bytes.
const (
	tableName    = "bench"
	perPartition = 100
	createTable  = `{"TableName":"` + tableName + `","BillingMode":"PAY_PER_REQUEST",` +
		`"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"}],` +
		`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}]}`
)

// In texts with holes, markPartition, markRow and markCount stand for digits
// that differ from request to request.
const (
	markPartition = "@@@@"
	markRow       = "##"
	markCount     = "$$$$$$$$$$"
	firstCount    = 1_000_000_000

	keyText  = `"pk":{"S":"p` + markPartition + `"},"sk":{"S":"s` + markRow + `"}`
	itemText = `{"count":{"N":"` + markCount + `"},"flags":{"L":[{"BOOL":true},{"N":"42"},{"S":"blue"}]},` +
		`"info":{"M":{"city":{"S":"Reykjav\u00edk"},"height":{"N":"1.74"},"seen":{"SS":["a","b","c"]}}},` +
		keyText + `,"text":{"S":"The quick brown fox jumps over the lazy dog, and nobody knows why it does so every day."}}`
)

// operation is a measured operation.
type operation struct {
	name   string
	body   string // with holes
	writes bool
}

func operations() []operation {
	table := `{"TableName":"` + tableName + `",`
	return []operation{
		{"GetItem", table + `"Key":{` + keyText + `}}`, false},
		{"PutItem", table + `"Item":` + itemText + `}`, true},
		{"UpdateItem", table + `"Key":{` + keyText + `},"UpdateExpression":"SET #c = #c + :one",` +
			`"ExpressionAttributeNames":{"#c":"count"},"ExpressionAttributeValues":{":one":{"N":"1"}}}`, true},
		{"Query", table + `"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p` + markPartition + `"}}}`, false},
	}
}

// template is a text whose holes are filled in place.
type template struct {
	text                  []byte
	partition, row, count int // offsets; -1 for none
}

func newTemplate(text []byte) template {
	return template{
		text:      text,
		partition: bytes.Index(text, []byte(markPartition)),
		row:       bytes.Index(text, []byte(markRow)),
		count:     bytes.Index(text, []byte(markCount)),
	}
}

// fill fills the holes.
func (t template) fill(at place) {
	digits(t.text, t.partition, len(markPartition), at.partition)
	digits(t.text, t.row, len(markRow), at.row)
	digits(t.text, t.count, len(markCount), at.count)
}

func digits(text []byte, offset, n, value int) {
	if offset < 0 {
		return
	}
	for i := offset + n - 1; i >= offset; i-- {
		text[i] = byte('0' + value%10)
		value /= 10
	}
}

// place is what fills the holes of a template.
type place struct{ partition, row, count int }

// walk chooses places at random, of client number i of a run. No two places
// have the same count, so that a put never finds what it is about to write.
type walk struct {
	r          *rand.Rand
	partitions int
	count      int
}

func newWalk(partitions, i int) *walk {
	return &walk{rand.New(rand.NewPCG(rand.Uint64(), uint64(i))), partitions, firstCount + i*10_000_000}
}

func (w *walk) next() place {
	w.count++
	return place{w.r.IntN(w.partitions), w.r.IntN(perPartition), w.count}
}

// caller carries out an operation that is not measured.
type caller func(operation, body string) ([]byte, error)

// fillTable creates and loads the table.
func fillTable(call caller, partitions int) error {
	if _, err := call("CreateTable", createTable); err != nil {
		return fmt.Errorf("create table: %w", err)
	}
	item := newTemplate([]byte(itemText))
	for n := 0; n < partitions*perPartition; {
		var puts []string
		for ; len(puts) < 25 && n < partitions*perPartition; n++ {
			item.fill(place{n / perPartition, n % perPartition, firstCount})
			puts = append(puts, `{"PutRequest":{"Item":`+string(item.text)+`}}`)
		}
		answer, err := call("BatchWriteItem", `{"RequestItems":{"`+tableName+`":[`+strings.Join(puts, ",")+`]}}`)
		if err != nil {
			return fmt.Errorf("load table: %w", err)
		}
		if !bytes.Contains(answer, []byte(`"UnprocessedItems":{}`)) {
			return fmt.Errorf("load table: %s", answer)
		}
	}
	return nil
}

// answerSizes carries out each operation once and returns the sizes of the
// answers: they are the same for all places.
func answerSizes(call caller) (map[string]int, error) {
	sizes := map[string]int{}
	for _, op := range operations() {
		body := newTemplate([]byte(op.body))
		body.fill(place{count: firstCount})
		answer, err := call(op.name, string(body.text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
		if op.name == "Query" && !bytes.Contains(answer, []byte(`"Count":`+strconv.Itoa(perPartition))) {
			return nil, fmt.Errorf("query does not answer %d items: %.200s", perPartition, answer)
		}
		sizes[op.name] = len(answer)
	}
	return sizes, nil
}
