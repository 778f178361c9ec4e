// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
)

// hashTable defines a table with a key of one attribute.
func hashTable(name string) ddb.TableDefinition {
	return ddb.TableDefinition{
		TableName:            name,
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: "k", KeyType: ddb.Hash}},
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "k", AttributeType: "S"}},
		BillingMode:          "PAY_PER_REQUEST",
	}
}

// agree is the check of a drop.
func agree(*storage.Table) error { return nil }

// mustConnect opens a connection beside the engine.
func mustConnect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) }) // it is of no more use
	return c
}

func mustExec(t testing.TB, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
