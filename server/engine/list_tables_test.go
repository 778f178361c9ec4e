// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

func TestListTables(t *testing.T) {
	t.Parallel()
	defs := []ddb.TableDefinition{testTable("beta", "pk:S"), testTable("alpha", "pk:S"), testTable("Zeta", "pk:S"), testTable("_under", "pk:S"), testTable("0digit", "pk:S")}
	long := strings.Repeat("x", 256)
	onEachStore(t, defs, func(r *rig) {
		for _, c := range []struct{ request, want string }{
			{`{}`, `{"TableNames":["0digit","Zeta","_under","alpha","beta"]}`},
			{`{"Limit":2}`, `{"TableNames":["0digit","Zeta"],"LastEvaluatedTableName":"Zeta"}`},
			{`{"Limit":2,"ExclusiveStartTableName":"Zeta"}`, `{"TableNames":["_under","alpha"],"LastEvaluatedTableName":"alpha"}`},
			{`{"Limit":2,"ExclusiveStartTableName":"alpha"}`, `{"TableNames":["beta"]}`},
			{`{"Limit":5}`, `{"TableNames":["0digit","Zeta","_under","alpha","beta"]}`}, // no cursor: the last name was returned
			{`{"ExclusiveStartTableName":"never-was"}`, `{"TableNames":[]}`},
			{`{"ExclusiveStartTableName":"a.b"}`, `{"TableNames":["alpha","beta"]}`},
			{`{"ExclusiveStartTableName":"beta"}`, `{"TableNames":[]}`},
			{`{"Limit":0}`, tVE + "Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
			{`{"Limit":-1}`, tVE + "Value '-1' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
			{`{"Limit":101}`, tVE + "Value '101' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 100"},
			{`{"ExclusiveStartTableName":""}`, "ValidationException: 2 validation errors detected: " +
				"Value '' at 'exclusiveStartTableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+; " +
				"Value '' at 'exclusiveStartTableName' failed to satisfy constraint: Member must have length greater than or equal to 3"},
			{`{"ExclusiveStartTableName":"` + long + `"}`, tVE + "Value '" + long + "' at 'exclusiveStartTableName' failed to satisfy constraint: Member must have length less than or equal to 255"},
			{`{"ExclusiveStartTableName":"arn:aws:dynamodb:us-east-1:000000000000:table/beta"}`, tVE + "Value 'arn:aws:dynamodb:us-east-1:000000000000:table/beta' at " +
				"'exclusiveStartTableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		} {
			r.want("ListTables", c.request, c.want)
		}
	})
}

func TestListTablesPagesByAHundred(t *testing.T) {
	t.Parallel()
	r := newRig(t, storagetest.NewMemory(200))
	var names []string
	for i := range 101 {
		name := fmt.Sprintf("table%03d", i)
		names = append(names, `"`+name+`"`)
		r.must("CreateTable", merged(t, simpleTable, `{"TableName":"`+name+`"}`))
	}
	r.want("ListTables", `{}`, `{"TableNames":[`+strings.Join(names[:100], ",")+`],"LastEvaluatedTableName":"table099"}`)
	r.want("ListTables", `{"ExclusiveStartTableName":"table099"}`, `{"TableNames":["table100"]}`)
}

func TestDeleteTable(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		r.must("CreateTable", bigTable)
		r.want("DeleteTable", `{"TableName":"big"}`, tX+"Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
		if len(r.woken) != 0 {
			r.Error("a refused deletion woke the job runner")
		}
		r.must("UpdateTable", `{"TableName":"big","DeletionProtectionEnabled":false}`)
		id := r.describe("DescribeTable", `{"TableName":"big"}`)["TableId"]
		r.want("DeleteTable", `{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/big"}`, fmt.Sprintf(`{"TableDescription":{"TableName":"big","TableStatus":"DELETING",`+
			`"ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":5,"NumberOfDecreasesToday":0},"TableSizeBytes":0,"ItemCount":0,`+
			`"TableArn":"arn:aws:dynamodb:us-east-1:000000000000:table/big","TableId":%q,"DeletionProtectionEnabled":false}}`, id))
		if len(r.woken) != 1 {
			r.Errorf("the job runner was woken %d times", len(r.woken))
		}
		deleting(r)
		r.work(storage.TableDrop)
		const gone = "ResourceNotFoundException: Requested resource not found: Table: big not found"
		r.want("DescribeTable", `{"TableName":"big"}`, gone)
		r.want("DeleteTable", `{"TableName":"big"}`, gone)
		r.want("UpdateTable", `{"TableName":"big","DeletionProtectionEnabled":true}`, gone)
		r.want("ListTables", `{}`, `{"TableNames":[]}`)
		again := r.describe("CreateTable", merged(r.T, simpleTable, `{"TableName":"big"}`))
		if again["TableId"] == id {
			r.Error("a new table got the TableId of the old one")
		}
		again.check(r.T, map[string]string{"SSEDescription": "absent", "TableClassSummary": "absent", "GlobalSecondaryIndexes": "absent"})
	})
}

// deleting checks what the operations answer while table big is DELETING.
func deleting(r *rig) {
	r.Helper()
	const inUse = "ResourceInUseException: Attempt to change a resource which is still in use: Table is being deleted: big"
	r.want("DeleteTable", `{"TableName":"big"}`, inUse)
	r.want("UpdateTable", `{"TableName":"big","DeletionProtectionEnabled":true}`, inUse)
	r.want("UpdateTable", `{"TableName":"big",`+units55+`}`, inUse)
	r.want("CreateTable", bigTable, "ResourceInUseException: Table already exists: big")
	r.want("ListTables", `{}`, `{"TableNames":["big"]}`)
	r.describe("DescribeTable", `{"TableName":"big"}`).check(r.T, map[string]string{
		"TableStatus": `"DELETING"`, "GlobalSecondaryIndexes.0.IndexStatus": `"DELETING"`,
	})
	r.want("GetItem", `{"TableName":"big","Key":{"pk":{"S":"1"},"sk":{"B":"AA=="}}}`, "ResourceNotFoundException: Requested resource not found")
}
