// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { Main(m) }

func TestDatabase(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d tables in a new database: %v", n, err)
	}
}
