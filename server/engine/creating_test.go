// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
)

// TestTableBeingLoaded: a table that a load fills is CREATING like one of the
// service: described and listed, out of reach for everything else, until it is
// all there.
func TestTableBeingLoaded(t *testing.T) {
	t.Parallel()
	defs := []ddb.TableDefinition{testTable("other", "pk:S")}
	onEachStore(t, defs, func(r *rig) {
		def := testTable("big", "pk:S/sk:S", testIndex{"by-g", "g:S", ddb.ProjectAll}, testIndex{"by-n", "/n:N", ddb.ProjectKeysOnly})
		def.DeletionProtection = true // of no matter before the table is there
		l, err := r.store.Load(r.Context(), auth.DefaultAccount, def, r.clock.Now())
		if err != nil {
			r.Fatal(err)
		}
		defer l.Abort() //nolint:errcheck // does nothing after Finish
		creating(r)
		it := ddb.Item{"pk": ddb.String("p"), "sk": ddb.String("s"), "g": ddb.String("G"), "n": ddb.Int(1)}
		next, err := storage.Derive(l.Table(), it)
		if err != nil {
			r.Fatal(err)
		}
		k, err := l.Table().KeyOf(it)
		if err != nil {
			r.Fatal(err)
		}
		if err := l.Add(r.Context(), []storage.LoadRow{{Key: k, Next: next}}); err != nil {
			r.Fatal(err)
		}
		creating(r)
		if err := l.Finish(context.Background(), nil); err != nil {
			r.Fatal(err)
		}
		r.want("GetItem", `{"TableName":"big","Key":{"pk":{"S":"p"},"sk":{"S":"s"}}}`,
			`{"Item":{"g":{"S":"G"},"n":{"N":"1"},"pk":{"S":"p"},"sk":{"S":"s"}}}`)
		r.describe("DescribeTable", `{"TableName":"big"}`).check(r.T, map[string]string{
			"TableStatus": `"ACTIVE"`, "ItemCount": "1", "GlobalSecondaryIndexes.0.IndexStatus": `"ACTIVE"`,
			"GlobalSecondaryIndexes.0.ItemCount": "1", "LocalSecondaryIndexes.0.ItemCount": "1",
		})
		r.want("CreateTable", bigTable, "ResourceInUseException: Table already exists: big")
		r.must("UpdateTable", `{"TableName":"big","DeletionProtectionEnabled":false}`)
		r.must("DeleteTable", `{"TableName":"big"}`)
	})
}

// creating checks what the operations answer while table big is CREATING.
func creating(r *rig) {
	r.Helper()
	const (
		missing = "ResourceNotFoundException: Requested resource not found"
		inUse   = "ResourceInUseException: Attempt to change a resource which is still in use: "
		key     = `"Key":{"pk":{"S":"p"},"sk":{"S":"s"}}`
		item    = `{"pk":{"S":"p"},"sk":{"S":"s"}}`
	)
	r.describe("DescribeTable", `{"TableName":"big"}`).check(r.T, map[string]string{
		"TableStatus": `"CREATING"`, "GlobalSecondaryIndexes.0.IndexStatus": `"CREATING"`, "GlobalSecondaryIndexes.0.IndexName": `"by-g"`,
		"LocalSecondaryIndexes.0.IndexName": `"by-n"`,
	})
	r.want("ListTables", `{}`, `{"TableNames":["big","other"]}`)
	for _, c := range []struct{ op, request, want string }{
		{"GetItem", `{"TableName":"big",` + key + `}`, missing},
		{"PutItem", `{"TableName":"big","Item":` + item + `}`, missing},
		{"UpdateItem", `{"TableName":"big",` + key + `}`, missing},
		{"DeleteItem", `{"TableName":"big",` + key + `}`, missing},
		{"Query", `{"TableName":"big","KeyConditionExpression":"pk=:p","ExpressionAttributeValues":{":p":{"S":"p"}}}`, missing},
		{"Query", `{"TableName":"big","IndexName":"by-g","KeyConditionExpression":"g=:p","ExpressionAttributeValues":{":p":{"S":"G"}}}`, missing},
		{"Scan", `{"TableName":"big"}`, missing},
		{"Scan", `{"TableName":"big","Segment":0,"TotalSegments":2}`, missing},
		{"BatchGetItem", `{"RequestItems":{"big":{"Keys":[` + item + `]},"other":{"Keys":[{"pk":{"S":"p"}}]}}}`, missing},
		{"BatchWriteItem", `{"RequestItems":{"big":[{"PutRequest":{"Item":` + item + `}}],"other":[{"PutRequest":{"Item":{"pk":{"S":"p"}}}}]}}`, missing},
		{"UpdateTable", `{"TableName":"big","DeletionProtectionEnabled":false}`, inUse + "Table is being created: big"},
		{"UpdateTable", `{"TableName":"big",` + units55 + `}`, inUse + "Table is being created: big"},
		{"DeleteTable", `{"TableName":"big"}`, inUse + "Table is being created: big"},
		{"CreateTable", bigTable, inUse + "Table is being used: big"},
	} {
		r.want(c.op, c.request, c.want)
	}
	r.want("GetItem", `{"TableName":"other","Key":{"pk":{"S":"p"}}}`, `{}`) // nor did its part of the batch go through
	if len(r.woken) != 0 {
		r.Error("a refused deletion woke the job runner")
	}
}
