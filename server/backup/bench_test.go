// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/backupstore/fs"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

const benchItems = 100_000

// benchEnv is a database file with a table of 400-byte items and a directory.
func benchEnv(b *testing.B) (*sqlite.DB, Env, CreateOptions) {
	b.Helper()
	dir := b.TempDir()
	db, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(dir, "db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	if err := fs.Init(filepath.Join(dir, "store")); err != nil {
		b.Fatal(err)
	}
	store, err := fs.Open(fs.Options{Root: filepath.Join(dir, "store")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	e := Env{Store: store}.withDefaults()
	t, err := db.CreateTable(b.Context(), account, richTable("source"), e.Clock.Now())
	if err != nil {
		b.Fatal(err)
	}
	var ws []storage.Write
	for i := range benchItems {
		it := ddb.Item{
			"pk": ddb.String(fmt.Sprintf("user-%06d", i/10)), "sk": ddb.Int(int64(i % 10)),
			"a": ddb.String(fmt.Sprint("group-", i%1000)), "b": ddb.Int(int64(i)), "c": ddb.Binary([]byte{byte(i), byte(i >> 8)}),
			"v": ddb.String(strings.Repeat(fmt.Sprintf("%08x", i*2654435761), 35)),
		}
		key, err := t.KeyOf(it)
		if err != nil {
			b.Fatal(err)
		}
		ws = append(ws, storage.Write{Table: t, Key: key, Blind: true, Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
			return storage.Derive(t, it)
		}})
		if len(ws) == 1000 {
			for _, r := range db.WriteEach(b.Context(), ws) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
			ws = ws[:0]
		}
	}
	return db, e, CreateOptions{Source: db, Backend: "sqlite", Region: "us-east-1", Account: account, Table: "source"}
}

func BenchmarkCreate(b *testing.B) {
	_, e, o := benchEnv(b)
	for b.Loop() {
		if _, err := Create(b.Context(), e, o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*benchItems/b.Elapsed().Seconds(), "items/s")
}

func BenchmarkVerify(b *testing.B) {
	_, e, o := benchEnv(b)
	s, err := Create(b.Context(), e, o)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		if r, err := Verify(b.Context(), e, s.ref()); err != nil || len(r.Findings) > 0 {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(b.N)*benchItems/b.Elapsed().Seconds(), "items/s")
}

func BenchmarkRestore(b *testing.B) {
	db, e, o := benchEnv(b)
	s, err := Create(b.Context(), e, o)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	b.ResetTimer()
	for b.Loop() {
		n++
		_, err := Restore(context.Background(), e, s.ref(), RestoreOptions{Target: db, Account: account, As: fmt.Sprint("copy", n)})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*benchItems/b.Elapsed().Seconds(), "items/s")
}
