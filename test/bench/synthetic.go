// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// The table that is backed up and restored: items of about 400 bytes, as
// DynamoDB counts them, under a composite key and in three indexes. Items are
// made from their number alone, so that every process makes the same.
const (
	syntheticTable = "orders"
	maxSynthetic   = 1_000_000
	ordersEach     = 100 // items of a partition
	loadBatch      = 2000
)

func syntheticDefinition() ddb.TableDefinition {
	index := func(name, hash, sort string) ddb.IndexDefinition {
		ix := ddb.IndexDefinition{
			IndexName: name, Projection: ddb.Projection{ProjectionType: ddb.ProjectAll},
			KeySchema: []ddb.KeySchemaElement{{AttributeName: hash, KeyType: ddb.Hash}},
		}
		if sort != "" {
			ix.KeySchema = append(ix.KeySchema, ddb.KeySchemaElement{AttributeName: sort, KeyType: ddb.Range})
		}
		return ix
	}
	return ddb.TableDefinition{
		TableName: syntheticTable,
		AttributeDefinitions: []ddb.AttributeDefinition{
			{AttributeName: "customer", AttributeType: "S"}, {AttributeName: "order", AttributeType: "S"},
			{AttributeName: "at", AttributeType: "N"}, {AttributeName: "code", AttributeType: "S"},
			{AttributeName: "owner", AttributeType: "S"}, {AttributeName: "state", AttributeType: "S"},
		},
		KeySchema: []ddb.KeySchemaElement{
			{AttributeName: "customer", KeyType: ddb.Hash}, {AttributeName: "order", KeyType: ddb.Range},
		},
		GlobalSecondaryIndexes: []ddb.IndexDefinition{
			index("by-code", "code", ""), index("by-owner", "owner", "at"), index("by-state", "state", "at"),
		},
		BillingMode: ddb.PayPerRequest,
	}
}

// words are what notes are made of, so that items compress as text does.
func words() []string {
	return strings.Fields("a about after all also and any as ask at back because but by call check come customer day deliver door " +
		"even find first for from gate get give go good have he her him I if in into it just key know leave like look make me " +
		"morning my neighbour new no not now of on one only or other our out over parcel people please return ring say see she " +
		"signature so some take than that the their them then there these they think this time to twice two up us use want way we " +
		"well what when which who will with work would year yesterday you your")
}

// synthetic makes items.
type synthetic struct {
	words  []string
	states []string
}

func newSynthetic() synthetic {
	return synthetic{words(), strings.Fields("new paid packed sent delivered returned refunded lost")}
}

// item appends item i of the key order, in the form in which it is stored.
func (s synthetic) item(dst []byte, i int) []byte {
	r := rand.New(rand.NewPCG(20120810, uint64(i)))
	dst = fmt.Appendf(dst, `{"at":{"N":"%d"},"code":{"S":"%016X"},"customer":{"S":"customer-%05d"},"lines":{"L":[`,
		1_700_000_000_000+r.Int64N(1e11), r.Uint64(), i/ordersEach)
	for n := range 2 {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"M":{"count":{"N":"%d"},"price":{"N":"%d.%d"},"sku":{"S":"SKU-%06d"}}}`,
			1+r.IntN(9), 1+r.IntN(500), 1+r.IntN(9), r.IntN(1e6))
	}
	dst = append(dst, `]},"note":{"S":"`...)
	for n := 0; n < 205; {
		w := s.words[r.IntN(len(s.words))]
		dst, n = append(append(dst, w...), ' '), n+len(w)+1
	}
	return fmt.Appendf(dst[:len(dst)-1], `."},"order":{"S":"order-%08d"},"owner":{"S":"owner-%04d"},"paid":{"BOOL":%t},"state":{"S":"%s"}}`,
		i, r.IntN(5000), r.IntN(2) == 0, s.states[r.IntN(len(s.states))])
}

// row makes the row of item i.
func (s synthetic) row(t *storage.Table, i int) (storage.LoadRow, error) {
	it, err := ddb.ParseItem(s.item(nil, i))
	if err != nil {
		return storage.LoadRow{}, err
	}
	key, err := t.KeyOf(it)
	if err != nil {
		return storage.LoadRow{}, err
	}
	next, err := storage.Derive(t, it)
	return storage.LoadRow{Key: key, Next: next}, err
}

// fillSynthetic makes a database with the table. Rows come in an order that has
// nothing to do with their keys, as orders do.
func fillSynthetic(ctx context.Context, file string, items int) (err error) {
	db, err := sqlite.Open(ctx, sqlite.Options{Path: file, Synchronous: sqlite.Normal, Clock: clock.Real{}})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := db.Close(); err == nil {
			err = cerr
		}
	}()
	load, err := db.Load(ctx, auth.DefaultAccount, syntheticDefinition(), time.Now())
	if err != nil {
		return err
	}
	defer load.Abort() // does nothing once it is finished
	source, step := newSynthetic(), stride(items)
	var rows []storage.LoadRow
	for n := range items {
		row, err := source.row(load.Table(), n*step%items)
		if err != nil {
			return err
		}
		if rows = append(rows, row); len(rows) < loadBatch && n < items-1 {
			continue
		}
		if err := load.Add(ctx, rows); err != nil {
			return err
		}
		rows = rows[:0]
	}
	return load.Finish(ctx, nil)
}

// stride is a step that visits every item once, and goes to another partition
// each time where there are enough.
func stride(items int) int {
	step := min(7919, max(items-1, 1))
	for gcd(step, items) > 1 {
		step--
	}
	return step
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// writeLines writes the lines that a backup of the table has, in key order, and
// returns how many bytes they are.
func writeLines(file string, items int) (size int64, err error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	source := newSynthetic()
	var line []byte
	for i := range items {
		line = append(source.item(append(line[:0], `{"Item":`...), i), "}\n"...)
		size += int64(len(line))
		if _, err := w.Write(line); err != nil {
			_ = f.Close()
			return 0, err
		}
	}
	if err := w.Flush(); err != nil {
		_ = f.Close()
		return 0, err
	}
	return size, f.Close()
}

// sameLines checks that r yields what writeLines wrote.
func sameLines(r io.Reader, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	got, want := bufio.NewScanner(r), bufio.NewScanner(f)
	for n := 1; ; n++ {
		more, wanted := got.Scan(), want.Scan()
		switch {
		case got.Err() != nil || want.Err() != nil:
			return fmt.Errorf("line %d: %w", n, errors.Join(got.Err(), want.Err()))
		case more != wanted:
			return fmt.Errorf("the backup does not have as many lines as the table: one of them ends at line %d", n)
		case !more:
			return nil
		case string(got.Bytes()) != string(want.Bytes()):
			return fmt.Errorf("line %d of the backup is not that of the table: %.200s", n, got.Bytes())
		}
	}
}
