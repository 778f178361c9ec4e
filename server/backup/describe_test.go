// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/engine"
)

const (
	describeKeys = `"AttributeDefinitions":[{"AttributeName":"z","AttributeType":"B"},{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"N"}],` +
		`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],`
	describeLocal = `"LocalSecondaryIndexes":[{"IndexName":"lsi","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"z","KeyType":"RANGE"}],` +
		`"Projection":{"ProjectionType":"KEYS_ONLY"}}]`
)

// DescribeTable tells the same of a table and its copy, but for what names it
// and when it was.
func TestDescribeTableOfACopy(t *testing.T) {
	t.Parallel()
	gsi := func(name, throughput string) string {
		return `{"IndexName":"` + name + `","KeySchema":[{"AttributeName":"z","KeyType":"HASH"},{"AttributeName":"pk","KeyType":"RANGE"}],` +
			`"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["y","x"]}` + throughput + `}`
	}
	for name, request := range map[string]string{
		"on demand": describeKeys + `"BillingMode":"PAY_PER_REQUEST","OnDemandThroughput":{"MaxReadRequestUnits":7},` +
			`"SSESpecification":{"Enabled":true,"SSEType":"KMS","KMSMasterKeyId":"k"},"TableClass":"STANDARD",` +
			`"GlobalSecondaryIndexes":[` + gsi("two", "") + "," + gsi("one", "") + `],` + describeLocal,
		"provisioned": describeKeys + `"BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":3,"WriteCapacityUnits":4},` +
			`"TableClass":"STANDARD_INFREQUENT_ACCESS","GlobalSecondaryIndexes":[` +
			gsi("one", `,"ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":6}`) + `],` + describeLocal,
		"plain": `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],` +
			`"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"DeletionProtectionEnabled":false`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(r *rig) {
				e := engine.New(engine.Options{Storage: r.engine, Clock: r.clock, Log: slog.New(slog.DiscardHandler), Region: "eu-west-1", Wake: func() {}})
				id := auth.Identity{Account: account}
				var in api.CreateTableInput
				if err := api.Decode([]byte(`{"TableName":"source",`+request+`}`), &in); err != nil {
					r.Fatal(err)
				}
				if err := e.CreateTable(r.Context(), id, &in, &api.Body{}); err != nil {
					r.Fatal(err)
				}
				s := r.create("source")
				r.clock.Advance(time.Hour)
				if _, err := Restore(r.Context(), r.env, s.ref(), r.target("copied")); err != nil {
					r.Fatal(err)
				}
				describe := func(name string) map[string]any {
					var out api.Body
					if err := e.DescribeTable(r.Context(), id, &api.DescribeTableInput{TableName: &name}, &out); err != nil {
						r.Fatal(err)
					}
					var d struct{ Table map[string]any }
					text := strings.ReplaceAll(string(out.B), `copied`, `source`)
					if err := json.Unmarshal([]byte(text), &d); err != nil {
						r.Fatal(err)
					}
					if b, ok := d.Table["BillingModeSummary"].(map[string]any); ok {
						if b["LastUpdateToPayPerRequestDateTime"] != d.Table["CreationDateTime"] {
							r.Errorf("billing of %s: %v, created %v", name, b, d.Table["CreationDateTime"])
						}
						delete(b, "LastUpdateToPayPerRequestDateTime")
					}
					delete(d.Table, "CreationDateTime")
					delete(d.Table, "TableId")
					return d.Table
				}
				if a, b := describe("source"), describe("copied"); !reflect.DeepEqual(a, b) {
					r.Errorf("descriptions differ:\n%v\n%v", a, b)
				}
			})
		})
	}
}
