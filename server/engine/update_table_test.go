// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"
)

// The tables that updates are tried on: "ppr" and "pro" plain, "idx" on demand
// with a global index.
func updatable(r *rig) {
	r.Helper()
	r.must("CreateTable", merged(r.T, simpleTable, `{"TableName":"ppr"}`))
	r.must("CreateTable", merged(r.T, simpleTable, `{"TableName":"pro","BillingMode":null,`+units55+`}`))
	r.must("CreateTable", merged(r.T, simpleTable, `{"TableName":"idx","GlobalSecondaryIndexes":[`+indexJSON("gsi", "pk:HASH", projectAll)+`]}`))
}

// refuseUpdate runs UpdateTable on one of the tables of updatable and checks
// that nothing changed.
func refuseUpdate(t *testing.T, table string, rows []tableRefusal) {
	t.Helper()
	onEachStore(t, nil, func(r *rig) {
		updatable(r)
		before := r.table(table)
		for _, c := range rows {
			if got := r.do("UpdateTable", merged(r.T, `{"TableName":"`+table+`"}`, c.over)); got != c.want {
				r.Errorf("%s:\ngot  %.1500s\nwant %.1500s", c.name, got, c.want)
			}
			if after := r.table(table); !reflect.DeepEqual(after.Def, before.Def) || after.Version != before.Version {
				r.Fatalf("%s changed the table:\n%+v\n%+v", c.name, after.Def, before.Def)
			}
		}
	})
}

const (
	atLeastOne = "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, SSESpecification, ReplicaUpdates, " +
		"MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required"
	onlyOne  = " must be the only operation in the request"
	createIx = `"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"new"}}]`
)

// What needs no table comes before its existence.
func TestUpdateTableBeforeExistence(t *testing.T) {
	t.Parallel()
	const (
		enable  = `"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}`
		disable = `"StreamSpecification":{"StreamEnabled":false}`
		member  = "' failed to satisfy constraint: Member must "
	)
	rows := []tableRefusal{
		{"nothing", `{}`, tX + atLeastOne},
		{"definitions only", `{"AttributeDefinitions":` + defsJSON("a:S") + `}`, tX + atLeastOne},
		{"empty structures", `{"OnDemandThroughput":{},"WarmThroughput":{}}`, tX + atLeastOne},
		{"no index updates", `{"GlobalSecondaryIndexUpdates":[]}`, tX + "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, SSESpecification, " +
			"ReplicaUpdates, MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required"},
		{"no replica updates", `{"ReplicaUpdates":[]}`, tX + "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, SSESpecification, " +
			"MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required"},
		{"no index updates beside a change", `{"GlobalSecondaryIndexUpdates":[],"DeletionProtectionEnabled":true}`, tV + "List of GlobalSecondaryIndexUpdates is empty"},
		{"billing mode", `{"BillingMode":""}`, tVE + "Value '' at 'billingMode" + member + "satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]"},
		{"one unit", `{"ProvisionedThroughput":{"ReadCapacityUnits":7}}`, tVE + "Value null at 'provisionedThroughput.writeCapacityUnits" + member + "not be null"},
		{"zero units", `{"ProvisionedThroughput":{"ReadCapacityUnits":0,"WriteCapacityUnits":5}}`,
			tVE + "Value '0' at 'provisionedThroughput.readCapacityUnits" + member + "have value greater than or equal to 1"},
		{"definition", `{"BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":` + defsJSON("a:X") + `}`,
			tVE + "Value 'X' at 'attributeDefinitions.1.member.attributeType" + member + "satisfy enum value set: [B, N, S]"},
		{"empty stream specification", `{"StreamSpecification":{}}`, tVE + "Value null at 'streamSpecification.streamEnabled" + member + "not be null"},
		{"encryption", `{"SSESpecification":{"SSEType":"DES"}}`, tVE + "Value 'DES' at 'sSESpecification.sSEType" + member + "satisfy enum value set: [AES256, KMS]"},
		{"encryption first", `{"SSESpecification":{},"TableClass":"STANDARD","DeletionProtectionEnabled":true,"WarmThroughput":{"ReadUnitsPerSecond":1}}`,
			tV + "Server-Side Encryption modification" + onlyOne},
		{"then class", `{"TableClass":"STANDARD","DeletionProtectionEnabled":true,"WarmThroughput":{"ReadUnitsPerSecond":1}}`, tV + "TableClass modification" + onlyOne},
		{"then protection", `{"DeletionProtectionEnabled":true,"WarmThroughput":{"ReadUnitsPerSecond":1}}`, tV + "DeletionProtection modification" + onlyOne},
		{"then warm throughput", `{"BillingMode":"PAY_PER_REQUEST","WarmThroughput":{"ReadUnitsPerSecond":1}}`, tV + "WarmThroughput" + onlyOne},
		{"encryption and index", `{"SSESpecification":{},` + createIx + `}`, tV + "Server-Side Encryption modification" + onlyOne},
		{"class and units", `{"TableClass":"STANDARD",` + units55 + `}`, tV + "TableClass modification" + onlyOne},
		{"protection and index", `{"DeletionProtectionEnabled":true,` + createIx + `}`, tV + "DeletionProtection modification" + onlyOne},
		{"caps and units", `{"OnDemandThroughput":{"MaxReadRequestUnits":1},` + units55 + `}`, tV + "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request"},
		{"caps and stream", `{"OnDemandThroughput":{"MaxReadRequestUnits":1},` + enable + `}`, tV + "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request"},
		{"stream and units", `{` + disable + `,` + units55 + `}`, tV + "You cannot modify stream status while updating table IOPS"},
		{"stream and provisioned", `{` + enable + `,"BillingMode":"PROVISIONED"}`, tV + "You cannot modify stream status while updating table IOPS"},
		{"index and units", `{` + createIx + `,` + units55 + `}`, tV + "You cannot create or delete index while updating table IOPS"},
		{"stream without view type", `{"StreamSpecification":{"StreamEnabled":true}}`, tV + "If stream is being enabled then UpdateViewType is required"},
		{"no stream but a view type", `{"StreamSpecification":{"StreamEnabled":false,"StreamViewType":"KEYS_ONLY"}}`, tV + "If stream is being disabled, then UpdateViewType must not be specified"},
		{"provisioned alone", `{"BillingMode":"PROVISIONED"}`, tV + "ProvisionedThroughput must be specified when BillingMode is PROVISIONED"},
		{"on demand with units", `{"BillingMode":"PAY_PER_REQUEST",` + units55 + `}`,
			tV + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"},
		{"absurd units", `{"ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":1000000000001}}`, tX + "Given value 1000000000001 for WriteCapacityUnits is out of bounds"},
		{"class", `{"TableClass":""}`, tX + "Invalid table-class parameter provided. Please try again with a valid table-class value: [STANDARD, STANDARD_INFREQUENT_ACCESS]."},
	}
	for spec, want := range sseRefusals() {
		rows = append(rows, tableRefusal{spec, `{"SSESpecification":` + spec + `}`, want})
	}
	for member, value := range map[string]string{
		"StreamSpecification":                `{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}`,
		"GlobalSecondaryIndexUpdates":        `[{"Delete":{"IndexName":"gsi"}}]`,
		"ReplicaUpdates":                     `[{"Create":{"RegionName":"eu-west-1"}}]`,
		"MultiRegionConsistency":             `"STRONG"`,
		"GlobalTableWitnessUpdates":          `[{}]`,
		"GlobalTableSettingsReplicationMode": `"ENABLED"`,
		"VectorIndexUpdates":                 `[{"Delete":{"IndexName":"vec"}}]`,
	} {
		rows = append(rows, tableRefusal{member, `{"` + member + `":` + value + `}`, tV + member + " is not supported by this server"})
	}
	refuseUpdate(t, "ppr", rows)
	onEachStore(t, nil, func(r *rig) { // none of these tables exists
		for _, c := range rows {
			r.want("UpdateTable", merged(r.T, `{"TableName":"gone"}`, c.over), c.want)
		}
	})
}

func TestUpdateTableOnDemandRefusals(t *testing.T) {
	t.Parallel()
	cold := func(member string) string {
		return tV + "Requested " + member + " for WarmThroughput for table is lower than current WarmThroughput, decreasing WarmThroughput is not supported"
	}
	const reads, writes = tV + "Requested MaxReadRequestUnits", tV + "Requested MaxWriteRequestUnits"
	refuseUpdate(t, "ppr", []tableRefusal{
		{"units", `{` + units55 + `}`, tV + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"},
		{"cap 0", `{"OnDemandThroughput":{"MaxReadRequestUnits":0}}`, reads + " for OnDemandThroughput for table is outside of valid range"},
		{"cap -2", `{"OnDemandThroughput":{"MaxReadRequestUnits":5,"MaxWriteRequestUnits":-2}}`, writes + " for OnDemandThroughput for table is outside of valid range"},
		{"cold", `{"WarmThroughput":{"ReadUnitsPerSecond":11999}}`, cold("ReadUnitsPerSecond")},
		{"cold writes", `{"WarmThroughput":{"ReadUnitsPerSecond":12000,"WriteUnitsPerSecond":3999}}`, cold("WriteUnitsPerSecond")},
		{"no stream", `{"StreamSpecification":{"StreamEnabled":false}}`, tX + "Table has no stream to disable: TableName: ppr"},
		{"no stream beside billing", `{"StreamSpecification":{"StreamEnabled":false},"BillingMode":"PAY_PER_REQUEST"}`, tX + "Table has no stream to disable: TableName: ppr"},
		{"not encrypted", `{"SSESpecification":{"Enabled":false}}`, tV + "Table is already encrypted by default"},
		{"encrypted anyway", `{"SSESpecification":{}}`, tV + "Table is already encrypted by default"},
	})
	refuseUpdate(t, "idx", []tableRefusal{
		{"index without units", `{"BillingMode":"PROVISIONED",` + units55 + `}`, tV + "ProvisionedThroughput must be specified for index: gsi"},
	})
}

func TestUpdateTableProvisionedRefusals(t *testing.T) {
	t.Parallel()
	const same = tX + "The provisioned throughput for the table will not change. The requested value equals the current value. " +
		"Current ReadCapacityUnits provisioned for the table: 5. Requested ReadCapacityUnits: 5. " +
		"Current WriteCapacityUnits provisioned for the table: 5. Requested WriteCapacityUnits: 5. " +
		"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."
	refuseUpdate(t, "pro", []tableRefusal{
		{"same units", `{` + units55 + `}`, same},
		{"same units and mode", `{"BillingMode":"PROVISIONED",` + units55 + `}`, same},
		{"caps", `{"OnDemandThroughput":{"MaxReadRequestUnits":5}}`, tV + "MaxReadRequestUnits for OnDemandThroughput cannot be specified when the table BillingMode is PROVISIONED"},
		{"write cap", `{"OnDemandThroughput":{"MaxWriteRequestUnits":-1}}`, tV + "MaxWriteRequestUnits for OnDemandThroughput cannot be specified when the table BillingMode is PROVISIONED"},
		{"cold", `{"WarmThroughput":{"ReadUnitsPerSecond":4}}`,
			tV + "Requested ReadUnitsPerSecond for WarmThroughput for table is lower than current WarmThroughput, decreasing WarmThroughput is not supported"},
	})
}

// update runs a change, checks its own response, then what is told afterwards.
func (r *rig) update(table, change string, answer, then map[string]string) {
	r.Helper()
	r.clock.Advance(time.Second)
	r.describe("UpdateTable", merged(r.T, `{"TableName":"`+table+`"}`, change)).check(r.T, answer)
	then["TableStatus"] = `"ACTIVE"`
	r.describe("DescribeTable", `{"TableName":"`+table+`"}`).check(r.T, then)
}

// unitsJSON is how JSON shows throughput when its members are sorted.
func unitsJSON(decreases, read, write int, stamps string) string {
	return fmt.Sprintf(`{%s"NumberOfDecreasesToday":%d,"ReadCapacityUnits":%d,"WriteCapacityUnits":%d}`, stamps, decreases, read, write)
}

func warmJSON(read, write int, status string) string {
	return fmt.Sprintf(`{"ReadUnitsPerSecond":%d,"Status":%q,"WriteUnitsPerSecond":%d}`, read, status, write)
}

func TestUpdateTableThroughput(t *testing.T) {
	t.Parallel()
	to := func(read, write int) string {
		return fmt.Sprintf(`{"ProvisionedThroughput":{"ReadCapacityUnits":%d,"WriteCapacityUnits":%d}}`, read, write)
	}
	onEachStore(t, nil, func(r *rig) {
		updatable(r)
		r.update("pro", to(9, 5), map[string]string{"TableStatus": `"UPDATING"`, "ProvisionedThroughput": unitsJSON(0, 5, 5, ""), "BillingModeSummary": "absent"},
			map[string]string{"ProvisionedThroughput": unitsJSON(0, 9, 5, `"LastIncreaseDateTime":1773500967,`), "WarmThroughput": warmJSON(9, 5, "ACTIVE")})
		// both dimensions at once count as one decrease; what is warm stays so
		r.update("pro", to(4, 4), map[string]string{"ProvisionedThroughput": unitsJSON(0, 9, 5, `"LastIncreaseDateTime":1773500967,`)},
			map[string]string{"ProvisionedThroughput": unitsJSON(1, 4, 4, `"LastDecreaseDateTime":1773500968,"LastIncreaseDateTime":1773500967,`), "WarmThroughput": warmJSON(9, 5, "ACTIVE")})
		r.update("pro", to(3, 8), map[string]string{}, map[string]string{
			"ProvisionedThroughput": unitsJSON(2, 3, 8, `"LastDecreaseDateTime":1773500969,"LastIncreaseDateTime":1773500969,`), "WarmThroughput": warmJSON(9, 8, "ACTIVE")})
		r.clock.Advance(9 * time.Hour) // past midnight, UTC
		r.describe("DescribeTable", `{"TableName":"pro"}`).check(r.T, map[string]string{
			"ProvisionedThroughput": unitsJSON(0, 3, 8, `"LastDecreaseDateTime":1773500969,"LastIncreaseDateTime":1773500969,`)})
		r.update("pro", to(1, 8), map[string]string{}, map[string]string{"ProvisionedThroughput.NumberOfDecreasesToday": "1"})
		// keys that would be given another type are ignored
		r.update("pro", `{"AttributeDefinitions":`+defsJSON("pk:N")+`,"ProvisionedThroughput":{"ReadCapacityUnits":2,"WriteCapacityUnits":2}}`, map[string]string{},
			map[string]string{"AttributeDefinitions": defsJSON("pk:S"), "ProvisionedThroughput.ReadCapacityUnits": "2"})
	})
}

func TestUpdateTableBillingMode(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		updatable(r)
		r.update("pro", `{"BillingMode":"PAY_PER_REQUEST"}`,
			map[string]string{"TableStatus": `"UPDATING"`, "ProvisionedThroughput": unitsJSON(0, 5, 5, ""), "BillingModeSummary": `{"BillingMode":"PAY_PER_REQUEST"}`},
			map[string]string{"ProvisionedThroughput": unitsJSON(0, 0, 0, ""), "WarmThroughput": warmJSON(12000, 4000, "ACTIVE"),
				"BillingModeSummary": `{"BillingMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":1773500967}`})
		version := r.table("pro").Version
		r.update("pro", `{"BillingMode":"PAY_PER_REQUEST"}`, map[string]string{"TableStatus": `"UPDATING"`},
			map[string]string{"BillingModeSummary.LastUpdateToPayPerRequestDateTime": "1773500967"})
		if r.table("pro").Version != version {
			r.Error("a repeated billing mode wrote the table")
		}
		r.update("pro", `{"BillingMode":"PAY_PER_REQUEST","OnDemandThroughput":{"MaxReadRequestUnits":7}}`,
			map[string]string{"TableStatus": `"UPDATING"`, "OnDemandThroughput": `{"MaxReadRequestUnits":7}`}, map[string]string{"OnDemandThroughput": `{"MaxReadRequestUnits":7}`})
		r.update("pro", `{"BillingMode":"PROVISIONED",`+units55+`}`,
			map[string]string{"TableStatus": `"UPDATING"`, "ProvisionedThroughput": unitsJSON(0, 0, 0, "")},
			map[string]string{"ProvisionedThroughput": unitsJSON(0, 5, 5, ""), "OnDemandThroughput": "absent", "WarmThroughput": warmJSON(12000, 4000, "ACTIVE"),
				"BillingModeSummary": `{"BillingMode":"PROVISIONED","LastUpdateToPayPerRequestDateTime":1773500967}`})
		// indexes follow
		r.must("CreateTable", merged(r.T, bigTable, `{"DeletionProtectionEnabled":false}`))
		r.update("big", `{"BillingMode":"PAY_PER_REQUEST"}`, map[string]string{"GlobalSecondaryIndexes.0.ProvisionedThroughput": unitsJSON(0, 7, 3, "")},
			map[string]string{"GlobalSecondaryIndexes.0.ProvisionedThroughput": unitsJSON(0, 0, 0, ""), "GlobalSecondaryIndexes.1.WarmThroughput": warmJSON(12000, 4000, "ACTIVE")})
	})
}

func TestUpdateTableSettings(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		updatable(r)
		active := func(member, value string) map[string]string {
			return map[string]string{"TableStatus": `"ACTIVE"`, member: value}
		}
		updating := func(member, value string) map[string]string {
			return map[string]string{"TableStatus": `"UPDATING"`, member: value}
		}
		for range 2 { // a repeat is as good
			r.update("ppr", `{"DeletionProtectionEnabled":true}`, active("DeletionProtectionEnabled", "true"), active("DeletionProtectionEnabled", "true"))
		}
		r.update("ppr", `{"DeletionProtectionEnabled":false}`, active("DeletionProtectionEnabled", "false"), active("DeletionProtectionEnabled", "false"))

		r.update("ppr", `{"TableClass":"STANDARD"}`, updating("TableClassSummary", "absent"), active("TableClassSummary", "absent"))
		ia := `{"LastUpdateDateTime":1773500971,"TableClass":"STANDARD_INFREQUENT_ACCESS"}`
		r.update("ppr", `{"TableClass":"STANDARD_INFREQUENT_ACCESS"}`, updating("TableClassSummary", "absent"), active("TableClassSummary", ia))
		r.update("ppr", `{"TableClass":"STANDARD_INFREQUENT_ACCESS"}`, updating("TableClassSummary", ia), active("TableClassSummary", ia))
		r.update("ppr", `{"TableClass":"STANDARD"}`, updating("TableClassSummary", ia), active("TableClassSummary.TableClass", `"STANDARD"`))

		caps := func(change, result string) {
			r.Helper()
			r.update("ppr", `{"OnDemandThroughput":`+change+`}`, active("OnDemandThroughput", result), active("OnDemandThroughput", result))
		}
		caps(`{"MaxReadRequestUnits":5}`, `{"MaxReadRequestUnits":5}`)
		caps(`{"MaxWriteRequestUnits":6}`, `{"MaxReadRequestUnits":5,"MaxWriteRequestUnits":6}`)
		caps(`{"MaxWriteRequestUnits":6}`, `{"MaxReadRequestUnits":5,"MaxWriteRequestUnits":6}`)
		caps(`{"MaxReadRequestUnits":-1}`, `{"MaxWriteRequestUnits":6}`)
		caps(`{"MaxReadRequestUnits":-1,"MaxWriteRequestUnits":-1}`, "absent")

		r.update("ppr", `{"WarmThroughput":{"ReadUnitsPerSecond":13000}}`, active("WarmThroughput", warmJSON(13000, 4000, "UPDATING")), active("WarmThroughput", warmJSON(13000, 4000, "ACTIVE")))
		r.update("ppr", `{"WarmThroughput":{"WriteUnitsPerSecond":5000}}`, active("WarmThroughput", warmJSON(13000, 5000, "UPDATING")), active("WarmThroughput", warmJSON(13000, 5000, "ACTIVE")))
	})
}

func TestUpdateTableEncryption(t *testing.T) {
	t.Parallel()
	sse := func(status, key string) map[string]string {
		if status == "" {
			return map[string]string{"TableStatus": `"ACTIVE"`, "SSEDescription": "absent"}
		}
		return map[string]string{"TableStatus": `"ACTIVE"`,
			"SSEDescription": `{"KMSMasterKeyArn":"arn:aws:kms:us-east-1:000000000000:` + key + `","SSEType":"KMS","Status":"` + status + `"}`}
	}
	onEachStore(t, nil, func(r *rig) {
		updatable(r)
		change := func(spec string) string { return `{"SSESpecification":` + spec + `}` }
		r.update("ppr", change(`{"Enabled":true}`), sse("UPDATING", "alias/aws/dynamodb"), sse("ENABLED", "alias/aws/dynamodb"))
		r.update("ppr", change(`{"SSEType":"KMS","KMSMasterKeyId":"k1"}`), sse("UPDATING", "alias/aws/dynamodb"), sse("ENABLED", "key/k1"))
		r.update("ppr", change(`{"Enabled":true}`), sse("UPDATING", "key/k1"), sse("ENABLED", "key/k1"))
		r.want("UpdateTable", `{"TableName":"ppr","SSESpecification":{"Enabled":true,"SSEType":"KMS","KMSMasterKeyId":"arn:aws:kms:us-east-1:000000000000:key/k1"}}`,
			tV+"Table is already encrypted with given KMSMasterKeyId. Use KMSMasterKeyId parameter if you want to change Master Key")
		r.update("ppr", change(`{"Enabled":false}`), sse("UPDATING", "key/k1"), sse("", ""))
	})
}

// Two changes at once are both kept.
func TestUpdateTableConcurrently(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		updatable(r)
		var wg sync.WaitGroup
		for _, change := range []string{`"DeletionProtectionEnabled":true`, `"TableClass":"STANDARD_INFREQUENT_ACCESS"`, `"OnDemandThroughput":{"MaxReadRequestUnits":5}`} {
			wg.Go(func() {
				if _, err := r.try("UpdateTable", `{"TableName":"ppr",`+change+`}`); err != nil {
					r.Error(err)
				}
			})
		}
		wg.Wait()
		r.describe("DescribeTable", `{"TableName":"ppr"}`).check(r.T, map[string]string{
			"DeletionProtectionEnabled": "true", "TableClassSummary.TableClass": `"STANDARD_INFREQUENT_ACCESS"`, "OnDemandThroughput": `{"MaxReadRequestUnits":5}`,
		})
	})
}

// A definition that a reader holds does not change under it.
func TestUpdateTableLeavesOldDefinitionsAlone(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		r.must("CreateTable", bigTable)
		held := r.table("big")
		old := *held
		units := *held.Def.GlobalSecondaryIndexes[0].Throughput
		r.must("UpdateTable", `{"TableName":"big","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}`)
		r.must("UpdateTable", `{"TableName":"big","BillingMode":"PAY_PER_REQUEST"}`)
		if !reflect.DeepEqual(*held, old) || *held.Def.GlobalSecondaryIndexes[0].Throughput != units || held.Def.GlobalSecondaryIndexes[0].WarmThroughput != nil {
			r.Errorf("the definition changed: %+v", held.Def)
		}
	})
}
