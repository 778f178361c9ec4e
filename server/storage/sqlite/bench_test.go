// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// benchRows is the size of the table read: items of about 400 bytes.
const benchRows = 20_000

func benchDB(b *testing.B, o Options) (*DB, *storage.Table) {
	b.Helper()
	o.Path = filepath.Join(b.TempDir(), "bench.db")
	db := mustOpen(b, o)
	return db, create(b, db, plain("t"))
}

func fill(b *testing.B, db *DB, tab *storage.Table) {
	b.Helper()
	items := many(benchRows, 350)
	for i := 0; i < len(items); i += 1000 {
		mustPut(b, db, tab, items[i:i+1000]...)
	}
}

func BenchmarkGet(b *testing.B) {
	for _, mmap := range []int64{0, 1 << 30} {
		db, tab := benchDB(b, Options{Synchronous: Normal, Mmap: mmap})
		fill(b, db, tab)
		keys := make([]storage.Key, benchRows)
		for i := range keys {
			keys[i] = key(b, tab, fmt.Sprintf("p%d", i%7), fmt.Sprintf("%06d", i))
		}
		for _, clients := range []int{1, 32} {
			b.Run(fmt.Sprintf("mmap=%d/clients=%d", mmap, clients), func(b *testing.B) {
				b.ReportAllocs()
				parallel(b, clients, func(i int) error {
					row, err := db.Get(context.Background(), tab, keys[i*7919%benchRows])
					if row == nil && err == nil {
						err = storage.ErrCorrupt
					}
					return err
				})
			})
		}
	}
}

func BenchmarkRange100(b *testing.B) {
	db, tab := benchDB(b, Options{Synchronous: Normal})
	fill(b, db, tab)
	pk := key(b, tab, "p3", "x").PK
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			b.ReportAllocs()
			parallel(b, clients, func(i int) error {
				r := storage.Range{P: pk, From: fmt.Appendf(nil, "%06d", i*7919%(benchRows-800)), Want: storage.Items, Rows: 100}
				n := 0
				for _, err := range db.Range(context.Background(), tab, r) {
					if err != nil {
						return err
					}
					if n++; n == 100 {
						break
					}
				}
				if n != 100 {
					return fmt.Errorf("%d rows", n)
				}
				return nil
			})
		})
	}
}

// BenchmarkWrite compares group commit with what it replaces: the same writes,
// each in a transaction of its own.
func BenchmarkWrite(b *testing.B) {
	for _, clients := range []int{1, 32, 128} {
		for _, own := range []bool{false, true} {
			b.Run(fmt.Sprintf("clients=%d/own=%v", clients, own), func(b *testing.B) {
				var batches atomic.Int64
				o := Options{}
				o.hooks.committed = func(int) { batches.Add(1) }
				db, tab := benchDB(b, o)
				var one sync.Mutex
				pad := string(make([]byte, 350))
				b.ReportAllocs()
				parallel(b, clients, func(i int) error {
					w := put(b, tab, item(fmt.Sprint(i%50_000), "s", "pad", pad))
					if own {
						one.Lock()
						defer one.Unlock()
					}
					_, err := db.Write(context.Background(), w)
					return err
				})
				b.ReportMetric(float64(b.N)/float64(batches.Load()), "writes/commit")
			})
		}
	}
}

// BenchmarkSync is what the disk takes for a commit.
func BenchmarkSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	for b.Loop() {
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// many2500 fills an account with tables of five indexes each.
func many2500(b *testing.B, db *DB) {
	b.Helper()
	var wg sync.WaitGroup
	for c := range 50 {
		wg.Go(func() {
			for i := range 50 {
				def := definition(fmt.Sprintf("base-%d-%d", c, i))
				for j := range 4 {
					ix := def.GlobalSecondaryIndexes[0]
					ix.IndexName = fmt.Sprint("more-", j)
					def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, ix)
				}
				create(b, db, def)
			}
		})
	}
	wg.Wait()
}

// BenchmarkCreateTable at the quota, and how long a writer waits meanwhile.
func BenchmarkCreateTable(b *testing.B) {
	db, tab := benchDB(b, Options{MaxTables: 1 << 30})
	many2500(b, db)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	longest := make(chan time.Duration)
	go func() {
		var most time.Duration
		for i := 0; ctx.Err() == nil; i++ {
			begin := time.Now()
			if _, err := db.Write(ctx, put(b, tab, item("p", fmt.Sprint(i%100)))); err == nil {
				most = max(most, time.Since(begin))
			}
		}
		longest <- most
	}()
	i := 0
	for b.Loop() {
		i++
		create(b, db, definition(fmt.Sprintf("t%d", i)))
	}
	cancel()
	b.ReportMetric(float64((<-longest).Microseconds())/1000, "ms-longest-write")
}

// BenchmarkOpen is the time to the first answer at the quota.
func BenchmarkOpen(b *testing.B) {
	o := Options{Path: filepath.Join(b.TempDir(), "bench.db"), MaxTables: 2501}
	db := mustOpen(b, o)
	many2500(b, db)
	tab := create(b, db, plain("t"))
	k := key(b, tab, "p", "s")
	for b.Loop() {
		b.StopTimer()
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		var err error
		if db, err = Open(b.Context(), o); err != nil {
			b.Fatal(err)
		}
		if _, err = db.Get(b.Context(), tab, k); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// parallel shares b.N calls among clients.
func parallel(b *testing.B, clients int, f func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}
