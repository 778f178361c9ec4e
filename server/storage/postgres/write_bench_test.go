// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// BenchmarkPut compares the engine with the same statement by the bare driver,
// at 16 clients, and the ways of reading and writing with each other. Servers
// of tests do not flush.
func BenchmarkPut(b *testing.B) {
	const keys = 20_000
	db := mustOpen(b, Options{})
	pad := strings.Repeat("x", 380)
	for _, bc := range []struct {
		name string
		tab  *storage.Table
		bare bool
		w    func(tab *storage.Table, n int64) storage.Write
	}{
		{"blind/bare", create(b, db, hashTable("bare")), true, nil},
		{"blind/engine", create(b, db, hashTable("blind")), false, func(tab *storage.Table, n int64) storage.Write {
			return blind(put(tab, item(fmt.Sprint("k", n%keys), "pad", pad)))
		}},
		{"read/engine", create(b, db, hashTable("read")), false, func(tab *storage.Table, n int64) storage.Write {
			return put(tab, item(fmt.Sprint("k", n%keys), "pad", pad))
		}},
		{"two indexes, one changes", create(b, db, indexed("two", "a", "b")), false, func(tab *storage.Table, n int64) storage.Write {
			return put(tab, item(fmt.Sprint("k", n%keys), "pad", pad, "a", fmt.Sprint(n), "b", "b"))
		}},
		{"20 hot keys", create(b, db, hashTable("hot")), false, func(tab *storage.Table, n int64) storage.Write {
			return add(tab, fmt.Sprint("k", n%20), 1)
		}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			text := statement(bc.tab, shape{op: opPut})
			var n atomic.Int64
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := n.Add(1)
					if !bc.bare {
						if _, err := db.Write(b.Context(), bc.w(bc.tab, n)); err != nil {
							b.Error(err)
						}
						continue
					}
					next, err := storage.Derive(bc.tab, item(fmt.Sprint("k", n%keys), "pad", pad))
					if err == nil {
						k := key(bc.tab, fmt.Sprint("k", n%keys))
						var guards, rows int
						err = db.pool.QueryRow(b.Context(), text, int64(1), k.PK, k.SK, n, int32(next.Size), int16(next.Flags), next.Item).Scan(&guards, &rows)
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
		})
	}
}

// BenchmarkWriteEach writes 25 rows, as BatchWriteItem does, at 4 clients.
func BenchmarkWriteEach(b *testing.B) {
	db := mustOpen(b, Options{})
	for name, def := range map[string]func(n int64) []storage.Write{
		"plain": func() func(n int64) []storage.Write {
			tab := create(b, db, hashTable("plain"))
			return func(n int64) (ws []storage.Write) {
				for i := range int64(25) {
					ws = append(ws, blind(put(tab, item(fmt.Sprint("k", (25*n+i)%20_000), "pad", strings.Repeat("x", 380)))))
				}
				return ws
			}
		}(),
	} {
		for way, write := range map[string]func(ctx context.Context, ws []storage.Write) error{
			"each": func(ctx context.Context, ws []storage.Write) error {
				for _, r := range db.WriteEach(ctx, ws) {
					if r.Err != nil {
						return r.Err
					}
				}
				return nil
			},
			"one after another": func(ctx context.Context, ws []storage.Write) error {
				for _, w := range ws {
					if _, err := db.Write(ctx, w); err != nil {
						return err
					}
				}
				return nil
			},
			"in one transaction": func(ctx context.Context, ws []storage.Write) error {
				_, err := db.WriteAll(ctx, ws, nil)
				return err
			},
		} {
			b.Run(name+"/"+way, func(b *testing.B) {
				var n atomic.Int64
				b.SetParallelism(2)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := write(b.Context(), def(n.Add(1))); err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(25*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
