// SPDX-License-Identifier: Apache-2.0

// Package stored opens databases below their servers, to look at what is
// stored.
package stored

import (
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/postgres"
	"github.com/extenddb/extenddb/server/storage/sqlite"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// With opens the database of a storage URL for as long as f runs. A file must
// have no server; one on PostgreSQL may.
func With(t testing.TB, url string, f func(db storage.Engine)) {
	t.Helper()
	var db storage.Engine
	var err error
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err = sqlite.Open(t.Context(), sqlite.Options{Path: file, Clock: clock.Real{}})
	} else {
		db, err = postgres.Open(t.Context(), postgres.Options{URL: url, MaxConns: 8, Clock: clock.Real{}})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	f(db)
}

// Check compares the index entries of every table with its rows, and an SQLite
// file with itself.
func Check(t testing.TB, db storage.Engine) {
	t.Helper()
	names, _, err := db.Tables(t.Context(), auth.DefaultAccount, "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		tab, err := db.Table(t.Context(), auth.DefaultAccount, name)
		if err != nil {
			t.Fatal(err)
		}
		if tab.Status != storage.Active {
			continue
		}
		if err := storagetest.CheckEntries(t.Context(), db, tab); err != nil {
			t.Errorf("table %s: %v", name, err)
		}
	}
	if file, ok := db.(*sqlite.DB); ok {
		if err := file.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Items returns the stored bytes of every item of a table by key.
func Items(t testing.TB, db storage.Engine, table string) map[string]string {
	t.Helper()
	tab, err := db.Table(t.Context(), auth.DefaultAccount, table)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for row, err := range db.Range(t.Context(), tab, storage.Range{Want: storage.Items}) {
		if err != nil {
			t.Fatal(err)
		}
		m[string(row.Key.PK)+"\x00"+string(row.Key.SK)] = string(row.Item)
	}
	return m
}
