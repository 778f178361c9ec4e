// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// replay yields what a range yielded the first time: storage that costs
// nothing.
type replay struct {
	storage.Engine
	rows []*storage.Row
}

func (s *replay) Range(ctx context.Context, t *storage.Table, r storage.Range) iter.Seq2[*storage.Row, error] {
	return func(yield func(*storage.Row, error) bool) {
		if s.rows == nil {
			for row, err := range s.Engine.Range(ctx, t, r) {
				if err != nil {
					yield(nil, err)
					return
				}
				s.rows = append(s.rows, row.Clone())
			}
		}
		for _, row := range s.rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// BenchmarkQuery is what decoding and this package do for a page of 100 items
// of some 300 bytes.
func BenchmarkQuery(b *testing.B) {
	memory := storagetest.NewMemory(1)
	b.Cleanup(func() { _ = memory.Close() })
	ctx, store := context.Background(), &replay{Engine: memory}
	e := New(Options{Storage: store, Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler), Region: "us-east-1", Wake: func() {}})
	table, err := memory.CreateTable(ctx, auth.DefaultAccount, testTable("orders", "pk:S/sk:S",
		testIndex{"keys", "status:S/price:N", ddb.ProjectKeysOnly}, testIndex{"some", "status:S/price:N", "note,tags"}), clock.Real{}.Now())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		it, err := ddb.ParseItem(fmt.Appendf(nil, `{"pk":{"S":"customer#12345"},"sk":{"S":"order#%05d"},"status":{"S":"shipped"},"price":{"N":"%d.25"},`+
			`"note":{"S":"%s"},"tags":{"SS":["a","b"]},"basket":{"L":[{"M":{"sku":{"S":"A-1"},"n":{"N":"2"}}}]},"paid":{"BOOL":true}}`, i, i, strings.Repeat("n", 120)))
		if err != nil {
			b.Fatal(err)
		}
		key, err := table.KeyOf(it)
		if err != nil {
			b.Fatal(err)
		}
		put := func(t *storage.Table, _ *storage.Row) (*storage.Next, error) { return storage.Derive(t, it) }
		if _, err := memory.Write(ctx, storage.Write{Table: table, Key: key, Decide: put}); err != nil {
			b.Fatal(err)
		}
	}
	const (
		ofTable = `{"TableName":"orders","KeyConditionExpression":"pk = :v","ExpressionAttributeValues":{":v":{"S":"customer#12345"}%s}%s}`
		ofIndex = `{"TableName":"orders","IndexName":"%s","KeyConditionExpression":"#s = :v","ExpressionAttributeNames":{"#s":"status"},"ExpressionAttributeValues":{":v":{"S":"shipped"}}%s}`
	)
	decoder := api.NewDecoder[api.QueryInput]()
	for _, c := range []struct{ name, request string }{
		{"items", fmt.Sprintf(ofTable, "", "")},
		{"projection", fmt.Sprintf(ofTable, "", `,"ProjectionExpression":"sk, paid, note, basket[0].sku"`)},
		{"filter", fmt.Sprintf(ofTable, `,":n":{"N":"10"}`, `,"FilterExpression":"price > :n"`)},
		{"keys", fmt.Sprintf(ofIndex, "keys", "")},
		{"keys counted", fmt.Sprintf(ofIndex, "keys", `,"Select":"COUNT"`)},
		{"included", fmt.Sprintf(ofIndex, "some", "")},
	} {
		b.Run(c.name, func(b *testing.B) {
			store.rows = nil
			var out api.Body
			b.ReportAllocs()
			for b.Loop() {
				var in api.QueryInput
				if err := decoder.Decode([]byte(c.request), &in); err != nil {
					b.Fatal(err)
				}
				out.B = out.B[:0]
				if err := e.Query(ctx, auth.Anonymous(), &in, &out); err != nil {
					b.Fatal(err)
				}
			}
			if len(store.rows) != 100 {
				b.Fatalf("%d rows", len(store.rows))
			}
			b.SetBytes(int64(len(out.B)))
		})
	}
}
