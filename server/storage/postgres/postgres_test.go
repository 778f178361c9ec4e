// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"testing"

	"github.com/extenddb/extenddb/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// mustOpen opens a database, a new one when o.URL is empty.
func mustOpen(t testing.TB, o Options) *DB {
	t.Helper()
	if o.URL == "" {
		o.URL = servers.Database(t)
	}
	db, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestOpen(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	if err := db.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	again := mustOpen(t, Options{URL: db.o.URL})
	if err := again.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
