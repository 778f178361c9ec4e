// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/test/servers"
)

// Engine is a storage engine that a black-box test runs on.
type Engine struct {
	Name string // "sqlite" or "postgres"
	// Database returns the storage URL of a new, empty database, which is gone
	// when the test ends.
	Database func(t testing.TB) string
}

// SQLite keeps each database in a file of its own.
func SQLite() Engine {
	return Engine{"sqlite", func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "data.db") }}
}

// Postgres keeps databases on the private server that the tests of this process
// share.
func Postgres() Engine {
	return Engine{"postgres", func(t testing.TB) string { t.Helper(); return servers.Database(t) }}
}

// EachEngine runs a test once per engine, at the same time. What a machine
// lacks is skipped with a visible reason.
func EachEngine(t *testing.T, f func(t *testing.T, e Engine)) {
	t.Helper()
	for _, e := range []Engine{SQLite(), Postgres()} {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			f(t, e)
		})
	}
}

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres:") || strings.HasPrefix(url, "postgresql:")
}
