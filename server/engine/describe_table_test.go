// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// description is a TableDescription as JSON reads it.
type description map[string]any

// describe carries out an operation that answers with a description.
func (r *rig) describe(op, request string) description {
	r.Helper()
	var out struct{ TableDescription, Table description }
	if err := json.Unmarshal([]byte(r.must(op, request)), &out); err != nil {
		r.Fatal(err)
	}
	if op == "DescribeTable" {
		return out.Table
	}
	return out.TableDescription
}

// check compares members of a description; "absent" stands for none.
func (d description) check(t *testing.T, want map[string]string) {
	t.Helper()
	for path, w := range want {
		got := any(map[string]any(d))
		for part := range strings.SplitSeq(path, ".") {
			switch v := got.(type) {
			case map[string]any:
				got = v[part]
			case []any:
				got = v[part[0]-'0']
			default:
				got = nil
			}
		}
		j, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if g := string(j); g != w && !(got == nil && w == "absent") {
			t.Errorf("%s = %s, want %s", path, g, w)
		}
	}
}

const bigTable = `{"TableName":"big","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"a","AttributeType":"N"},
	{"AttributeName":"sk","AttributeType":"B"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
	"GlobalSecondaryIndexes":[
		{"IndexName":"zzz","KeySchema":[{"AttributeName":"a","KeyType":"HASH"},{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
			"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["y","x"]},"ProvisionedThroughput":{"ReadCapacityUnits":7,"WriteCapacityUnits":3}},
		{"IndexName":"big","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"},` + units55 + `}],
	"LocalSecondaryIndexes":[{"IndexName":"lsi","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"a","KeyType":"RANGE"}],
		"Projection":{"ProjectionType":"ALL"}}],` + units55 + `,"TableClass":"STANDARD","DeletionProtectionEnabled":true,"Tags":[],
	"StreamSpecification":{"StreamEnabled":false},"SSESpecification":{"Enabled":true,"SSEType":"KMS","KMSMasterKeyId":"alias/mine"}}`

// What CreateTable and DescribeTable answer, byte for byte.
func TestDescriptionOfAProvisionedTable(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		id := regexp.MustCompile(`"TableId":"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"`)
		plain := func(s string) string { return id.ReplaceAllString(s, `"TableId":"ID"`) }
		want := func(root, status, warmTable, warmFirst, warmSecond string) string {
			const gsi = `"AttributeName":"pk","KeyType":"HASH"}`
			arn := `"arn:aws:dynamodb:us-east-1:000000000000:table/big`
			return `{"` + root + `":{"AttributeDefinitions":[{"AttributeName":"a","AttributeType":"N"},{"AttributeName":"pk","AttributeType":"S"},` +
				`{"AttributeName":"sk","AttributeType":"B"}],"TableName":"big","KeySchema":[{` + gsi + `,{"AttributeName":"sk","KeyType":"RANGE"}],` +
				`"TableStatus":"` + status + `","CreationDateTime":1773500966,"ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":5,` +
				`"NumberOfDecreasesToday":0},"TableSizeBytes":0,"ItemCount":0,"TableArn":` + arn + `","TableId":"ID",` +
				`"LocalSecondaryIndexes":[{"IndexName":"lsi","KeySchema":[{` + gsi + `,{"AttributeName":"a","KeyType":"RANGE"}],` +
				`"Projection":{"ProjectionType":"ALL"},"IndexSizeBytes":0,"ItemCount":0,"IndexArn":` + arn + `/index/lsi"}],` +
				`"GlobalSecondaryIndexes":[{"IndexName":"zzz","KeySchema":[{"AttributeName":"a","KeyType":"HASH"},{` + gsi + `,{"AttributeName":"sk","KeyType":"RANGE"}],` +
				`"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["x","y"]},"IndexStatus":"` + status + `",` +
				`"ProvisionedThroughput":{"ReadCapacityUnits":7,"WriteCapacityUnits":3,"NumberOfDecreasesToday":0},"IndexSizeBytes":0,"ItemCount":0,` +
				`"IndexArn":` + arn + `/index/zzz"` + warmFirst + `},{"IndexName":"big","KeySchema":[{` + gsi + `],"Projection":{"ProjectionType":"KEYS_ONLY"},` +
				`"IndexStatus":"` + status + `","ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":5,"NumberOfDecreasesToday":0},` +
				`"IndexSizeBytes":0,"ItemCount":0,"IndexArn":` + arn + `/index/big"` + warmSecond + `}],` +
				`"SSEDescription":{"Status":"ENABLED","SSEType":"KMS","KMSMasterKeyArn":"arn:aws:kms:us-east-1:000000000000:alias/mine"},` +
				`"TableClassSummary":{"TableClass":"STANDARD"},"DeletionProtectionEnabled":true` + warmTable + `}}`
		}
		const warm55 = `,"WarmThroughput":{"ReadUnitsPerSecond":5,"WriteUnitsPerSecond":5,"Status":"ACTIVE"}`
		created := r.must("CreateTable", bigTable)
		if got, want := plain(created), want("TableDescription", "CREATING", "", "", ""); got != want {
			r.Errorf("created:\ngot  %s\nwant %s", got, want)
		}
		described := r.must("DescribeTable", `{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/big"}`)
		if got, want := plain(described), want("Table", "ACTIVE", warm55, `,"WarmThroughput":{"ReadUnitsPerSecond":7,"WriteUnitsPerSecond":3,"Status":"ACTIVE"}`, warm55); got != want {
			r.Errorf("described:\ngot  %s\nwant %s", got, want)
		}
		if c, d := id.FindString(created), id.FindString(described); c != d || c == "" {
			r.Errorf("TableId is %q, then %q", c, d)
		}
	})
}

func TestDescriptionOfAnOnDemandTable(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		r.clock.Advance(123 * time.Millisecond)
		request := merged(r.T, simpleTable, `{"GlobalSecondaryIndexes":[`+indexJSON("gsi", "pk:HASH", projectAll, `,"OnDemandThroughput":{"MaxReadRequestUnits":9}`)+
			`],"OnDemandThroughput":{"MaxWriteRequestUnits":8},"WarmThroughput":{"ReadUnitsPerSecond":12001}}`)
		created := map[string]string{
			"TableStatus": `"CREATING"`, "CreationDateTime": `1773500966.123`,
			"BillingModeSummary":    `{"BillingMode":"PAY_PER_REQUEST"}`,
			"ProvisionedThroughput": `{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0}`,
			"OnDemandThroughput":    `{"MaxWriteRequestUnits":8}`,
			"WarmThroughput":        `{"ReadUnitsPerSecond":12001,"Status":"UPDATING","WriteUnitsPerSecond":4000}`,
			"TableClassSummary":     "absent", "SSEDescription": "absent", "StreamSpecification": "absent", "LatestStreamArn": "absent",
			"LocalSecondaryIndexes": "absent", "DeletionProtectionEnabled": "false",
			"GlobalSecondaryIndexes.0.IndexStatus":           `"CREATING"`,
			"GlobalSecondaryIndexes.0.Backfilling":           "absent",
			"GlobalSecondaryIndexes.0.WarmThroughput":        "absent",
			"GlobalSecondaryIndexes.0.OnDemandThroughput":    `{"MaxReadRequestUnits":9}`,
			"GlobalSecondaryIndexes.0.ProvisionedThroughput": `{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0}`,
		}
		r.describe("CreateTable", request).check(r.T, created)
		created["TableStatus"], created["GlobalSecondaryIndexes.0.IndexStatus"] = `"ACTIVE"`, `"ACTIVE"`
		created["BillingModeSummary"] = `{"BillingMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":1773500966.123}`
		created["WarmThroughput"] = `{"ReadUnitsPerSecond":12001,"Status":"ACTIVE","WriteUnitsPerSecond":4000}`
		created["GlobalSecondaryIndexes.0.WarmThroughput"] = `{"ReadUnitsPerSecond":12000,"Status":"ACTIVE","WriteUnitsPerSecond":4000}`
		r.describe("DescribeTable", `{"TableName":"tab"}`).check(r.T, created)
	})
}

// What the service takes although it looks odd.
func TestCreateTableAccepts(t *testing.T) {
	t.Parallel()
	key := func(n string) string { return `"arn:aws:kms:us-east-1:000000000000:` + n + `"` }
	for name, c := range map[string]struct {
		over string
		want map[string]string
	}{
		"units alone mean provisioned": {`{"BillingMode":null,` + units55 + `}`, map[string]string{"BillingModeSummary": "absent"}},
		"provisioned is not reported":  {`{"BillingMode":"PROVISIONED",` + units55 + `}`, map[string]string{"BillingModeSummary": "absent"}},
		"no tags, no stream": {`{"Tags":[],"StreamSpecification":{"StreamEnabled":false}}`,
			map[string]string{"StreamSpecification": "absent", "Tags": "absent"}},
		"empty structures": {`{"OnDemandThroughput":{},"WarmThroughput":{},"SSESpecification":{}}`,
			map[string]string{"OnDemandThroughput": "absent", "WarmThroughput": "absent", "SSEDescription": "absent"}},
		"encryption off":       {`{"SSESpecification":{"Enabled":false}}`, map[string]string{"SSEDescription": "absent"}},
		"encryption by type":   {`{"SSESpecification":{"SSEType":"KMS"}}`, map[string]string{"SSEDescription.KMSMasterKeyArn": key("alias/aws/dynamodb")}},
		"encryption by key id": {`{"SSESpecification":{"SSEType":"KMS","KMSMasterKeyId":"1234"}}`, map[string]string{"SSEDescription.KMSMasterKeyArn": key("key/1234")}},
		"encryption by ARN": {`{"SSESpecification":{"Enabled":true,"SSEType":"KMS","KMSMasterKeyId":"arn:aws:kms:x:1:key/2"}}`,
			map[string]string{"SSEDescription": `{"KMSMasterKeyArn":"arn:aws:kms:x:1:key/2","SSEType":"KMS","Status":"ENABLED"}`}},
		"infrequent access": {`{"TableClass":"STANDARD_INFREQUENT_ACCESS"}`, map[string]string{"TableClassSummary": `{"TableClass":"STANDARD_INFREQUENT_ACCESS"}`}},
		"index with the table's key and name": {`{"GlobalSecondaryIndexes":[` + indexJSON("tab", "pk:HASH", projectAll) + `]}`,
			map[string]string{"GlobalSecondaryIndexes.0.IndexName": `"tab"`}},
		"local index on the table's sort key": {`{"AttributeDefinitions":` + defsJSON("pk:S sk:N") + `,"KeySchema":` + schemaJSON("pk:HASH sk:RANGE") +
			`,"LocalSecondaryIndexes":[` + indexJSON("lsi", "pk:HASH sk:RANGE", projectAll) + `]}`, map[string]string{"LocalSecondaryIndexes.0.IndexName": `"lsi"`}},
		"key attribute projected": {`{"GlobalSecondaryIndexes":[` + indexJSON("gsi", "pk:HASH", `{"ProjectionType":"INCLUDE","NonKeyAttributes":["pk"]}`) + `]}`,
			map[string]string{"GlobalSecondaryIndexes.0.Projection.NonKeyAttributes": `["pk"]`}},
		"definitions are sorted": {`{"AttributeDefinitions":` + defsJSON("z:S b:N a:B") + `,"KeySchema":` + schemaJSON("z:HASH a:RANGE") +
			`,"GlobalSecondaryIndexes":[` + indexJSON("gsi", "b:HASH z:RANGE", projectAll) + `]}`, map[string]string{
			"AttributeDefinitions": `[{"AttributeName":"a","AttributeType":"B"},{"AttributeName":"b","AttributeType":"N"},{"AttributeName":"z","AttributeType":"S"}]`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, nil, func(r *rig) {
				r.describe("CreateTable", merged(r.T, simpleTable, c.over)).check(r.T, c.want)
			})
		})
	}
}

func TestCreateTableWithAllItsIndexes(t *testing.T) {
	t.Parallel()
	var global, local []string
	for i := range 20 {
		global = append(global, indexJSON(fmt.Sprintf("gsi%d", i), "a:HASH b:HASH c:HASH d:HASH pk:RANGE sk:RANGE e:RANGE f:RANGE", projectAll))
	}
	for i := range 5 {
		local = append(local, indexJSON(fmt.Sprintf("lsi%d", i), "pk:HASH "+string(rune('a'+i))+":RANGE", projectAll))
	}
	onEachStore(t, nil, func(r *rig) {
		d := r.describe("CreateTable", merged(r.T, simpleTable, `{"AttributeDefinitions":`+defsJSON("pk:S sk:N a:S b:N c:B d:S e:N f:B")+
			`,"KeySchema":`+schemaJSON("pk:HASH sk:RANGE")+`,"GlobalSecondaryIndexes":[`+strings.Join(global, ",")+`],"LocalSecondaryIndexes":[`+strings.Join(local, ",")+`]}`))
		if g, l := d["GlobalSecondaryIndexes"].([]any), d["LocalSecondaryIndexes"].([]any); len(g) != 20 || len(l) != 5 {
			r.Errorf("%d global and %d local indexes", len(g), len(l))
		}
		d.check(r.T, map[string]string{
			"GlobalSecondaryIndexes.7.IndexName": `"gsi7"`,
			"GlobalSecondaryIndexes.7.KeySchema": schemaJSON("a:HASH b:HASH c:HASH d:HASH pk:RANGE sk:RANGE e:RANGE f:RANGE"),
		})
	})
}

// The table can be used as soon as CreateTable has answered, and its
// statistics are shown once they were taken.
func TestDescribeTableShowsStatistics(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		r.must("CreateTable", merged(r.T, simpleTable, `{"AttributeDefinitions":`+defsJSON("pk:S a:S")+
			`,"GlobalSecondaryIndexes":[`+indexJSON("gsi", "a:HASH", `{"ProjectionType":"KEYS_ONLY"}`)+`]}`))
		r.must("PutItem", `{"TableName":"tab","Item":{"pk":{"S":"1"},"x":{"S":"12345678"}}}`)
		r.must("PutItem", `{"TableName":"tab","Item":{"pk":{"S":"2"},"a":{"S":"3"}}}`)
		r.clock.Advance(24 * time.Hour)
		r.work(storage.Statistics)
		r.describe("DescribeTable", `{"TableName":"tab"}`).check(r.T, map[string]string{
			"ItemCount": "2", "TableSizeBytes": "17", // pk1 x12345678, pk2 a3
			"GlobalSecondaryIndexes.0.ItemCount": "1", "GlobalSecondaryIndexes.0.IndexSizeBytes": "5",
		})
	})
}

// work does all pending work of one kind.
func (r *rig) work(kind storage.WorkKind) {
	r.Helper()
	pending, err := r.store.Pending(r.Context(), r.clock.Now())
	if err != nil {
		r.Fatal(err)
	}
	for _, w := range pending {
		if w.Kind != kind {
			continue
		}
		lease, err := r.store.Claim(r.Context(), w)
		if err != nil {
			r.Fatal(err)
		}
		for finished := false; !finished; {
			p, err := lease.Step(r.Context(), r.clock.Now())
			if err != nil {
				r.Fatal(err)
			}
			finished = p.Finished
		}
		if err := lease.Release(); err != nil {
			r.Fatal(err)
		}
	}
}

func TestTooManyTables(t *testing.T) {
	t.Parallel()
	r := newRig(t, storagetest.NewMemory(1))
	r.must("CreateTable", simpleTable)
	r.want("CreateTable", merged(t, simpleTable, `{"TableName":"two"}`),
		"LimitExceededException: Subscriber limit exceeded: There is a limit of 2500 tables per subscriber")
}

// A storage engine that fails gives an internal error, never half an answer.
func TestTableOperationsWhenStorageFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, storagetest.NewMemory(1))
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	for op, request := range map[string]string{
		"CreateTable": simpleTable, "DescribeTable": `{"TableName":"tab"}`, "ListTables": `{}`,
		"UpdateTable": `{"TableName":"tab","BillingMode":"PAY_PER_REQUEST"}`, "DeleteTable": `{"TableName":"tab"}`,
	} {
		_, err := r.try(op, request)
		if err == nil || err.Code != "InternalServerError" || !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestDescribeLimitsAndEndpoints(t *testing.T) {
	t.Parallel()
	r := newRig(t, storagetest.NewMemory(1))
	r.want("DescribeLimits", `{}`, `{"AccountMaxReadCapacityUnits":80000,"AccountMaxWriteCapacityUnits":80000,`+
		`"TableMaxReadCapacityUnits":40000,"TableMaxWriteCapacityUnits":40000}`)
	var out api.Body
	if err := r.e.DescribeEndpoints(t.Context(), auth.Anonymous(), &api.DescribeEndpointsInput{Host: "localhost:8000"}, &out); err != nil {
		t.Fatal(err)
	}
	if got, want := string(out.B), `{"Endpoints":[{"Address":"localhost:8000","CachePeriodInMinutes":1440}]}`; got != want {
		t.Errorf("DescribeEndpoints: %s, want %s", got, want)
	}
}

// Accounts do not see each other's tables.
func TestTablesBelongToAccounts(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		def := ddb.TableDefinition{TableName: "tab", BillingMode: ddb.PayPerRequest, Throughput: ddb.Throughput{},
			KeySchema:            []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: ddb.Hash}},
			AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "pk", AttributeType: "S"}}}
		if _, err := r.store.CreateTable(r.Context(), "111111111111", def, r.clock.Now()); err != nil {
			r.Fatal(err)
		}
		r.want("ListTables", `{}`, `{"TableNames":[]}`)
		r.want("DescribeTable", `{"TableName":"tab"}`, "ResourceNotFoundException: Requested resource not found: Table: tab not found")
		r.must("CreateTable", simpleTable)
		r.must("DeleteTable", `{"TableName":"tab"}`)
		other, _, err := r.store.Describe(r.Context(), "111111111111", "tab")
		if err != nil || other.Status != storage.Active || !reflect.DeepEqual(other.Def.KeySchema, def.KeySchema) || auth.DefaultAccount == other.Account {
			r.Errorf("the other account's table: %+v, %v", other, err)
		}
	})
}
