// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
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

// BenchmarkShapes overwrites rows of tables with many indexes, doing the same to
// their entries each time, or something else.
func BenchmarkShapes(b *testing.B) {
	for _, n := range []int{2, 6, 20} {
		for _, mode := range []string{"fixed", "random", "fixed, general"} {
			b.Run(fmt.Sprintf("%d indexes, %s", n, mode), func(b *testing.B) {
				o := Options{MaxConns: 2}
				o.hooks.write.general = func(*storage.Table) bool { return mode == "fixed, general" }
				db := mustOpen(b, o)
				tab := create(b, db, indexed("t", attributes(n)...))
				write := func(i int, r *rand.Rand) {
					if err := writeShape(b.Context(), db, tab, r, i, false); err != nil {
						b.Fatal(err)
					}
				}
				random := rand.New(rand.NewPCG(1, 2))
				source := func() *rand.Rand {
					if mode == "random" {
						return random
					}
					return rand.New(rand.NewPCG(1, 2))
				}
				for i := range 1000 {
					write(i, source())
				}
				for i := 1000; b.Loop(); i++ {
					write(i, source())
				}
				prepared, bytes := sessions(b, db)
				b.ReportMetric(float64(prepared), "statements")
				b.ReportMetric(float64(bytes)/1e6, "MB")
			})
		}
	}
}

// BenchmarkWriteAll writes 100 rows in a transaction, of keys that nobody else
// writes.
func BenchmarkWriteAll(b *testing.B) {
	db := mustOpen(b, Options{})
	tab := create(b, db, hashTable("t"))
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) {
			var n atomic.Int64
			var all sync.WaitGroup
			for g := range clients {
				all.Go(func() {
					var ws []storage.Write
					for i := range 100 {
						ws = append(ws, put(tab, item(fmt.Sprintf("k%d-%d", g, i))))
					}
					for n.Add(1) <= int64(b.N) {
						if _, err := db.WriteAll(b.Context(), ws, nil); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transactions/s")
		})
	}
}
