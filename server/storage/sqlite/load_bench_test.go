// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// benchLoaded is the size of the table loaded: items of about 400 bytes.
const benchLoaded = 200_000

// wide is definition with two more indexes.
func wide(name string) ddb.TableDefinition {
	def := definition(name)
	for _, attr := range []string{"h", "i"} {
		ix := def.GlobalSecondaryIndexes[0]
		ix.IndexName, ix.KeySchema = "by-"+attr, []ddb.KeySchemaElement{{AttributeName: attr, KeyType: ddb.Hash}, {AttributeName: "g", KeyType: ddb.Range}}
		def.GlobalSecondaryIndexes = append(def.GlobalSecondaryIndexes, ix)
		def.AttributeDefinitions = append(def.AttributeDefinitions, ddb.AttributeDefinition{AttributeName: attr, AttributeType: "S"})
	}
	return def
}

// benchRowsOf are rows in key order whose index keys are in none.
func benchRowsOf(b *testing.B, t *storage.Table) []storage.LoadRow {
	b.Helper()
	rows := make([]storage.LoadRow, benchLoaded)
	pad := strings.Repeat("x", 250)
	for i := range rows {
		j := i * 7919 % benchLoaded
		it := item(fmt.Sprintf("p%04d", i/100), fmt.Sprintf("%08d", i), "g", fmt.Sprintf("g%08d", j),
			"h", fmt.Sprintf("h%05d", j%5000), "i", fmt.Sprintf("i%08d", i*104729%benchLoaded), "pad", pad)
		next, err := storage.Derive(t, it)
		if err != nil {
			b.Fatal(err)
		}
		rows[i] = storage.LoadRow{Key: key(b, t, it["pk"].Str(), it["sk"].Str()), Next: next}
	}
	return rows
}

// BenchmarkLoad compares a load with bare INSERTs of the same rows and entries
// on a connection of its own: same order, same pragmas, 500 rows to a commit,
// and SQLite's own checkpoints.
func BenchmarkLoad(b *testing.B) {
	for range b.N {
		o := Options{Path: filepath.Join(b.TempDir(), "load.db")}
		db := mustOpen(b, o)
		l, err := db.Load(b.Context(), acct, wide("t"), instant())
		if err != nil {
			b.Fatal(err)
		}
		rows := benchRowsOf(b, l.Table())
		bare := bareLoad(b, l.Table(), rows)
		begin := time.Now()
		for i := 0; i < len(rows); i += 4000 {
			if err := l.Add(context.Background(), rows[i:i+4000]); err != nil {
				b.Fatal(err)
			}
		}
		added := time.Since(begin)
		if err := l.Finish(context.Background(), nil); err != nil {
			b.Fatal(err)
		}
		whole := time.Since(begin)
		b.ReportMetric(benchLoaded/added.Seconds(), "rows/s-added")
		b.ReportMetric(benchLoaded/whole.Seconds(), "rows/s")
		b.ReportMetric(benchLoaded/bare.Seconds(), "rows/s-bare")
		b.ReportMetric(bare.Seconds()/whole.Seconds(), "of-bare")
	}
}

func bareLoad(b *testing.B, t *storage.Table, rows []storage.LoadRow) time.Duration {
	b.Helper()
	db := mustOpen(b, Options{Path: filepath.Join(b.TempDir(), "bare.db")})
	if err := db.w.s.c.exec("PRAGMA wal_autocheckpoint = 1000"); err != nil { // nobody else writes
		b.Fatal(err)
	}
	begin, s := time.Now(), db.w.s
	for i := 0; i < len(rows); i += 500 {
		if err := s.run("BEGIN IMMEDIATE"); err != nil {
			b.Fatal(err)
		}
		for j := range rows[i : i+500] {
			r := &rows[i+j]
			if err := s.run(sqlInsert, int64(t.ID), r.Key.PK, r.Key.SK, int64(i+j+1), int64(r.Next.Size), int64(r.Next.Flags), r.Next.Item); err != nil {
				b.Fatal(err)
			}
			id := s.c.lastID()
			for _, e := range r.Next.Entries {
				if err := s.run(sqlEnter, int64(e.Index), e.P, e.S, r.Key.PK, r.Key.SK, id, int64(e.Size)); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := s.run("COMMIT"); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begin)
}
