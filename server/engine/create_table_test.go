// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// Prefixes of messages in the tables below.
const (
	tV  = "ValidationException: One or more parameter values were invalid: "
	tVE = "ValidationException: 1 validation error detected: "
	tX  = "ValidationException: "
)

// merged merges JSON objects, the later ones winning; null takes a member away.
func merged(t *testing.T, objects ...string) string {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, o := range objects {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(o), &m); err != nil {
			t.Fatalf("%v in %s", err, o)
		}
		maps.Copy(all, m)
	}
	maps.DeleteFunc(all, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// schemaJSON writes a KeySchema: "pk:HASH sk:RANGE".
func schemaJSON(s string) string { return pairsJSON(s, `{"AttributeName":%q,"KeyType":%q}`) }

// defsJSON writes AttributeDefinitions: "pk:S sk:N".
func defsJSON(s string) string { return pairsJSON(s, `{"AttributeName":%q,"AttributeType":%q}`) }

func pairsJSON(s, format string) string {
	var out []string
	for p := range strings.FieldsSeq(s) {
		name, kind, _ := strings.Cut(p, ":")
		out = append(out, fmt.Sprintf(format, name, kind))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// indexJSON writes an index; more holds further members.
func indexJSON(name, schema, projection string, more ...string) string {
	return fmt.Sprintf(`{"IndexName":%q,"KeySchema":%s,"Projection":%s%s}`, name, schemaJSON(schema), projection, strings.Join(more, ""))
}

const (
	projectAll  = `{"ProjectionType":"ALL"}`
	units55     = `"ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":5}`
	simpleTable = `{"TableName":"tab","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],` +
		`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"BillingMode":"PAY_PER_REQUEST"}`
)

type tableRefusal struct{ name, over, want string }

// refuseCreate runs CreateTable with changes to simpleTable and checks that nothing
// was created.
func refuseCreate(t *testing.T, rows []tableRefusal) {
	t.Helper()
	onEachStore(t, nil, func(r *rig) {
		for _, c := range rows {
			if got := r.do("CreateTable", merged(r.T, simpleTable, c.over)); got != c.want {
				r.Errorf("%s:\ngot  %.1500s\nwant %.1500s", c.name, got, c.want)
			}
		}
		r.want("ListTables", `{}`, `{"TableNames":[]}`)
		r.must("CreateTable", simpleTable) // it was not for another reason
	})
}

// Clauses of constraint messages, and several of them.
func clauseNull(path string) string {
	return "Value null at '" + path + "' failed to satisfy constraint: Member must not be null"
}

func clauseAt(v, path, rule string) string {
	return "Value '" + v + "' at '" + path + "' failed to satisfy constraint: Member must " + rule
}

func clauses(cs ...string) string {
	return fmt.Sprintf("ValidationException: %d validation errors detected: %s", len(cs), strings.Join(cs, "; "))
}

const (
	rulePattern = "satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
	ruleAtLeast = "have length greater than or equal to "
	ruleAtMost  = "have length less than or equal to "
	ruleOne     = "have value greater than or equal to 1"
)

func TestCreateTableShape(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 256)
	refuseCreate(t, []tableRefusal{
		{"no name", `{"TableName":null}`, tX + "The parameter 'TableName' is required but was not present in the request"},
		{"no name beats all", `{"TableName":null,"KeySchema":[]}`, tX + "The parameter 'TableName' is required but was not present in the request"},
		{"short name", `{"TableName":"ab"}`, tVE + clauseAt("ab", "tableName", ruleAtLeast+"3")},
		{"long name", `{"TableName":"` + long + `"}`, tVE + clauseAt(long, "tableName", ruleAtMost+"255")},
		{"empty name only", `{"TableName":"","KeySchema":[],"AttributeDefinitions":[]}`, clauses(clauseAt("", "tableName", ruleAtLeast+"3"), clauseAt("", "tableName", rulePattern))},
		{"bad name only", `{"TableName":"x!","KeySchema":[]}`, clauses(clauseAt("x!", "tableName", ruleAtLeast+"3"), clauseAt("x!", "tableName", rulePattern))},
		{"no definitions", `{"AttributeDefinitions":null}`, tVE + clauseNull("attributeDefinitions")},
		{"no schema", `{"KeySchema":null}`, tVE + clauseNull("keySchema")},
		{"empty schema", `{"KeySchema":[]}`, tVE + clauseAt("[]", "keySchema", ruleAtLeast+"1")},
		{"three keys", `{"AttributeDefinitions":` + defsJSON("pk:S sk:S extra:S") + `,"KeySchema":` + schemaJSON("pk:HASH sk:RANGE extra:RANGE") + `}`,
			tVE + clauseAt("[KeySchemaElement(attributeName=pk, keyType=HASH), KeySchemaElement(attributeName=sk, keyType=RANGE), "+
				"KeySchemaElement(attributeName=extra, keyType=RANGE)]", "keySchema", ruleAtMost+"2")},
		{"three empty keys", `{"KeySchema":[{},{"KeyType":"HASH","AttributeName":"a"},{"KeyType":"RANGE","AttributeName":"b"}]}`, clauses(clauseAt("[KeySchemaElement(attributeName=null, keyType=null), KeySchemaElement(attributeName=a, keyType=HASH), "+
			"KeySchemaElement(attributeName=b, keyType=RANGE)]", "keySchema", ruleAtMost+"2"),
			clauseNull("keySchema.1.member.attributeName"), clauseNull("keySchema.1.member.keyType"))},
		{"key type", `{"KeySchema":` + schemaJSON("pk:INVALID") + `}`, tVE + clauseAt("INVALID", "keySchema.1.member.keyType", "satisfy enum value set: [HASH, RANGE]")},
		{"attribute type", `{"AttributeDefinitions":` + defsJSON("pk:INVALID") + `}`,
			tVE + clauseAt("INVALID", "attributeDefinitions.1.member.attributeType", "satisfy enum value set: [B, N, S]")},
		{"empty definition", `{"AttributeDefinitions":[{}]}`, clauses(clauseNull("attributeDefinitions.1.member.attributeType"), clauseNull("attributeDefinitions.1.member.attributeName"))},
		{"attribute names", `{"AttributeDefinitions":` + defsJSON(":S "+long+":S") + `}`, clauses(clauseAt("", "attributeDefinitions.1.member.attributeName", ruleAtLeast+"1"), clauseAt(long, "attributeDefinitions.2.member.attributeName", ruleAtMost+"255"))},
		{"billing mode", `{"BillingMode":"FREE"}`, tVE + clauseAt("FREE", "billingMode", "satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]")},
		{"billing mode and key type", `{"BillingMode":"FREE","KeySchema":` + schemaJSON("pk:X") + `}`, clauses(clauseAt("X", "keySchema.1.member.keyType", "satisfy enum value set: [HASH, RANGE]"), clauseAt("FREE", "billingMode", "satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]"))},
		{"no units", `{"ProvisionedThroughput":{}}`, clauses(clauseNull("provisionedThroughput.writeCapacityUnits"), clauseNull("provisionedThroughput.readCapacityUnits"))},
		{"units below one come before the billing mode", `{"ProvisionedThroughput":{"ReadCapacityUnits":0,"WriteCapacityUnits":-5}}`, clauses(clauseAt("-5", "provisionedThroughput.writeCapacityUnits", ruleOne), clauseAt("0", "provisionedThroughput.readCapacityUnits", ruleOne))},
		{"empty stream specification", `{"StreamSpecification":{}}`, tVE + clauseNull("streamSpecification.streamEnabled")},
		{"view type only", `{"StreamSpecification":{"StreamViewType":"KEYS_ONLY"}}`, tVE + clauseNull("streamSpecification.streamEnabled")},
		{"view type", `{"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"ALL"}}`,
			tVE + clauseAt("ALL", "streamSpecification.streamViewType", "satisfy enum value set: [OLD_IMAGE, KEYS_ONLY, NEW_AND_OLD_IMAGES, NEW_IMAGE]")},
		{"encryption type", `{"SSESpecification":{"SSEType":"DES","KMSMasterKeyId":""}}`, clauses(clauseAt("DES", "sSESpecification.sSEType", "satisfy enum value set: [AES256, KMS]"), clauseAt("", "sSESpecification.kMSMasterKeyId", ruleAtLeast+"1"))},
	})
}

func TestCreateTableIndexShape(t *testing.T) {
	t.Parallel()
	var names21 []string
	for i := range 21 {
		names21 = append(names21, fmt.Sprintf("a%d", i))
	}
	refuseCreate(t, []tableRefusal{
		{"global before local index", `{"GlobalSecondaryIndexes":[` + indexJSON("g1", "pk:HASH", projectAll) + `],"LocalSecondaryIndexes":[` + indexJSON("l1", "pk:HASH", projectAll) + `]}`,
			clauses(clauseAt("g1", "globalSecondaryIndexes.1.member.indexName", ruleAtLeast+"3"), clauseAt("l1", "localSecondaryIndexes.1.member.indexName", ruleAtLeast+"3"))},
		{"empty indexes", `{"GlobalSecondaryIndexes":[{}],"LocalSecondaryIndexes":[{}]}`, clauses(clauseNull("globalSecondaryIndexes.1.member.indexName"), clauseNull("globalSecondaryIndexes.1.member.keySchema"), clauseNull("globalSecondaryIndexes.1.member.projection"),
			clauseNull("localSecondaryIndexes.1.member.indexName"), clauseNull("localSecondaryIndexes.1.member.keySchema"), clauseNull("localSecondaryIndexes.1.member.projection"))},
		{"ten at most", `{"GlobalSecondaryIndexes":[{},{},{},{}]}`, clauses(clauseNull("globalSecondaryIndexes.1.member.indexName"), clauseNull("globalSecondaryIndexes.1.member.keySchema"), clauseNull("globalSecondaryIndexes.1.member.projection"),
			clauseNull("globalSecondaryIndexes.2.member.indexName"), clauseNull("globalSecondaryIndexes.2.member.keySchema"), clauseNull("globalSecondaryIndexes.2.member.projection"),
			clauseNull("globalSecondaryIndexes.3.member.indexName"), clauseNull("globalSecondaryIndexes.3.member.keySchema"), clauseNull("globalSecondaryIndexes.3.member.projection"),
			clauseNull("globalSecondaryIndexes.4.member.indexName"))},
		{"index name", `{"GlobalSecondaryIndexes":[` + indexJSON("a!b", "pk:HASH", projectAll) + `]}`, tVE + clauseAt("a!b", "globalSecondaryIndexes.1.member.indexName", rulePattern)},
		{"local index with three keys", `{"LocalSecondaryIndexes":[` + indexJSON("lsi", "a:HASH b:RANGE c:RANGE", projectAll) + `]}`,
			tVE + clauseAt("[KeySchemaElement(attributeName=a, keyType=HASH), KeySchemaElement(attributeName=b, keyType=RANGE), "+
				"KeySchemaElement(attributeName=c, keyType=RANGE)]", "localSecondaryIndexes.1.member.keySchema", ruleAtMost+"2")},
		{"index units", `{"GlobalSecondaryIndexes":[` + indexJSON("gsi", "pk:HASH", projectAll, `,"ProvisionedThroughput":{"ReadCapacityUnits":0}`) + `]}`, clauses(clauseNull("globalSecondaryIndexes.1.member.provisionedThroughput.writeCapacityUnits"), clauseAt("0", "globalSecondaryIndexes.1.member.provisionedThroughput.readCapacityUnits", ruleOne))},
		{"projection type", `{"GlobalSecondaryIndexes":[` + indexJSON("gsi", "pk:HASH", `{"ProjectionType":"SOME"}`) + `]}`,
			tVE + clauseAt("SOME", "globalSecondaryIndexes.1.member.projection.projectionType", "satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]")},
		{"nothing projected", `{"GlobalSecondaryIndexes":[` + indexJSON("gsi", "pk:HASH", `{"ProjectionType":"INCLUDE","NonKeyAttributes":[]}`) + `]}`,
			tVE + clauseAt("[]", "globalSecondaryIndexes.1.member.projection.nonKeyAttributes", ruleAtLeast+"1")},
		{"21 projected", `{"GlobalSecondaryIndexes":[` + indexJSON("gsi", "pk:HASH", `{"ProjectionType":"INCLUDE","NonKeyAttributes":["`+strings.Join(names21, `","`)+`"]}`) + `]}`,
			tVE + clauseAt("["+strings.Join(names21, ", ")+"]", "globalSecondaryIndexes.1.member.projection.nonKeyAttributes", ruleAtMost+"20")},
		{"projected name", `{"GlobalSecondaryIndexes":[` + indexJSON("gsi", "pk:HASH", `{"ProjectionType":"INCLUDE","NonKeyAttributes":["a",""]}`) + `]}`,
			tVE + clauseAt("[a, ]", "globalSecondaryIndexes.1.member.projection.nonKeyAttributes",
				"satisfy constraint: [Member must have length less than or equal to 255, Member must have length greater than or equal to 1]")},
	})
}

func TestCreateTableKeys(t *testing.T) {
	t.Parallel()
	table := func(d, k string) string {
		return `{"AttributeDefinitions":` + defsJSON(d) + `,"KeySchema":` + schemaJSON(k) + `}`
	}
	const noDef = tX + "Invalid KeySchema: Some index key attribute have no definition"
	refuseCreate(t, []tableRefusal{
		{"no definition", table("", "pk:HASH"), noDef},
		{"fewer definitions than keys", table("pk:S", "pk:HASH sk:RANGE"), noDef},
		{"same name, one definition", table("pk:S", "pk:HASH pk:RANGE"), noDef},
		{"same name, two definitions", table("pk:S sk:S", "pk:HASH pk:RANGE"),
			tX + "Both the Hash Key and the Range Key element in the KeySchema have the same name"},
		{"duplicate definition", table("pk:S pk:S", "pk:HASH"), tX + "Attribute Name is duplicated: pk"},
		{"duplicate definition of another type", table("pk:S sk:S pk:N", "pk:HASH sk:RANGE"), tX + "Attribute Name is duplicated: pk"},
		{"undefined key", table("b:S", "a:HASH"),
			tV + "Some index key attributes are not defined in AttributeDefinitions. Keys: [a], AttributeDefinitions: [b]"},
		{"undefined key, in the order of hash sets", table("pk:S sk:S", "pk:HASH q:RANGE"),
			tV + "Some index key attributes are not defined in AttributeDefinitions. Keys: [q, pk], AttributeDefinitions: [sk, pk]"},
		{"range first", table("pk:S sk:S", "sk:RANGE pk:HASH"), tX + "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"},
		{"range alone", table("pk:S", "pk:RANGE"), tX + "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"},
		{"two hash keys", table("pk:S sk:S", "pk:HASH sk:HASH"), tX + "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"},
		{"unused definition", table("pk:S x:N", "pk:HASH"),
			tV + "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions"},
	})
}

func TestCreateTableIndexes(t *testing.T) {
	t.Parallel()
	table := func(d, k string, indexes ...string) string {
		return `{"AttributeDefinitions":` + defsJSON(d) + `,"KeySchema":` + schemaJSON(k) + `,` + strings.Join(indexes, ",") + `}`
	}
	local := func(ix ...string) string { return `"LocalSecondaryIndexes":[` + strings.Join(ix, ",") + `]` }
	global := func(ix ...string) string { return `"GlobalSecondaryIndexes":[` + strings.Join(ix, ",") + `]` }
	lsi := func(schema, projection string) string {
		return table("pk:S sk:S a:S", "pk:HASH sk:RANGE", local(indexJSON("lsi", schema, projection)), global(indexJSON("gsi", "a:HASH", projectAll)))
	}
	gsi := func(schema, projection string) string {
		return table("pk:S a:S b:S", "pk:HASH", global(indexJSON("gsi", schema, projection), indexJSON("use", "a:HASH b:RANGE", projectAll)))
	}
	var locals, globals, wide []string
	for i := range 21 {
		globals = append(globals, indexJSON(fmt.Sprintf("gsi%d", i), "a:HASH", projectAll))
		if i < 6 {
			locals = append(locals, indexJSON(fmt.Sprintf("lsi%d", i), "pk:HASH a:RANGE", projectAll))
		}
		if i < 11 {
			var names []string
			for j := range 10 - i/10*9 { // ten times ten and one
				names = append(names, fmt.Sprintf(`"x%d"`, j))
			}
			wide = append(wide, indexJSON(fmt.Sprintf("gsi%d", i), "a:HASH", `{"ProjectionType":"INCLUDE","NonKeyAttributes":[`+strings.Join(names, ",")+`]}`))
		}
	}
	const (
		undefined = tV + "Some index key attributes are not defined in AttributeDefinitions. Keys: [q], AttributeDefinitions: [sk, pk]"
		firstHash = tX + "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"
		include   = `{"ProjectionType":"INCLUDE"}`
	)
	refuseCreate(t, []tableRefusal{
		{"empty lists", table("pk:S", "pk:HASH", local()), tV + "List of LocalSecondaryIndexes is empty"},
		{"empty list", table("pk:S", "pk:HASH", global()), tV + "List of GlobalSecondaryIndexes is empty"},
		{"undefined key of a global index", table("pk:S sk:S", "pk:HASH sk:RANGE", global(indexJSON("gsi", "q:HASH", include))), undefined},
		{"undefined key of a local index comes before its other faults", table("pk:S sk:S", "pk:HASH sk:RANGE", local(indexJSON("lsi", "q:RANGE", include))), undefined},
		{"unused definition", table("pk:S sk:S", "pk:HASH", global(indexJSON("gsi", "pk:HASH", projectAll))),
			tV + "Some AttributeDefinitions are not used. AttributeDefinitions: [sk, pk], keys used: [pk]"},
		{"local index without range key of the table", table("pk:S a:S", "pk:HASH", local(indexJSON("lsi", "pk:HASH a:RANGE", projectAll))),
			tV + "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex"},
		{"six local indexes", table("pk:S sk:S a:S", "pk:HASH sk:RANGE", local(locals...)), tV + "Number of LocalSecondaryIndexes exceeds per-table limit of 5"},
		{"other hash key", lsi("a:HASH sk:RANGE", projectAll),
			tV + "Index KeySchema does not have the same leading hash key as table KeySchema for index: lsi. index hash key: a, table hash key: pk"},
		{"no range key", lsi("pk:HASH", projectAll), tV + "Index KeySchema does not have a range key for index: lsi"},
		{"local range first", lsi("a:RANGE pk:HASH", projectAll), firstHash},
		{"local two hash keys", lsi("pk:HASH a:HASH", projectAll), tX + "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"},
		{"local same name", lsi("pk:HASH pk:RANGE", projectAll), tX + "Both the Hash Key and the Range Key element in the KeySchema have the same name"},
		{"local projection", lsi("pk:HASH a:RANGE", include), tV + "ProjectionType is INCLUDE, but NonKeyAttributes is not specified"},
		{"21 global indexes", table("pk:S a:S", "pk:HASH", global(globals...)), tV + "GlobalSecondaryIndex count exceeds the per-table limit of 20"},
		{"global range first", gsi("a:RANGE b:HASH", projectAll), firstHash},
		{"global hash after range", gsi("a:HASH b:RANGE pk:HASH", projectAll), tV + "All HASH key attributes must precede RANGE key attributes in the KeySchema"},
		{"global same name", gsi("a:HASH a:RANGE", projectAll), tV + "The KeySchema contains multiple key attributes with the same name"},
		{"five hash keys", table("pk:S a:S b:S c:S d:S", "pk:HASH", global(indexJSON("gsi", "pk:HASH a:HASH b:HASH c:HASH d:HASH", projectAll))),
			tV + "The KeySchema exceeds the maximum allowed number of HASH key attributes"},
		{"five range keys", table("pk:S a:S b:S c:S d:S e:S", "pk:HASH", global(indexJSON("gsi", "pk:HASH a:RANGE b:RANGE c:RANGE d:RANGE e:RANGE", projectAll))),
			tV + "The KeySchema exceeds the maximum allowed number of RANGE key attributes"},
		{"no projection type", gsi("a:HASH", `{}`), tV + "Unknown ProjectionType: null"},
		{"all and names", gsi("a:HASH", `{"ProjectionType":"ALL","NonKeyAttributes":["x"]}`), tV + "ProjectionType is ALL, but NonKeyAttributes is specified"},
		{"keys and names", gsi("a:HASH", `{"ProjectionType":"KEYS_ONLY","NonKeyAttributes":["x"]}`), tV + "ProjectionType is KEYS_ONLY, but NonKeyAttributes is specified"},
		{"repeated name", gsi("a:HASH", `{"ProjectionType":"INCLUDE","NonKeyAttributes":["x","y","x"]}`), tX + "Duplicate element in NonKeyAttributes: x"},
		{"same index name", table("pk:S a:S", "pk:HASH", global(indexJSON("same", "a:HASH", projectAll), indexJSON("same", "pk:HASH", projectAll))),
			tV + "Duplicate index name: same"},
		{"same index name in both kinds", table("pk:S sk:S a:S", "pk:HASH sk:RANGE", local(indexJSON("same", "pk:HASH a:RANGE", projectAll)), global(indexJSON("same", "a:HASH", projectAll))),
			tV + "Duplicate index name: same"},
		{"101 projected attributes", table("pk:S a:S", "pk:HASH", global(wide...)), tV + "Number of NonKeyAttributes of all indexes exceeds per-table limit of 100"},
	})
}

func TestCreateTableThroughput(t *testing.T) {
	t.Parallel()
	gsi := func(more string) string {
		return `"GlobalSecondaryIndexes":[` + indexJSON("gsi", "pk:HASH", projectAll, more) + `]`
	}
	const (
		provisioned = `"BillingMode":"PROVISIONED",` + units55
		initial     = "initial throughput for OnDemand. See: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html#on-demand-capacity-mode-initial"
		warmRead    = tV + "Requested ReadUnitsPerSecond for WarmThroughput for "
		warmWrite   = tV + "Requested WriteUnitsPerSecond for WarmThroughput for "
		missing     = tV + "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED"
		huge        = `"ProvisionedThroughput":{"ReadCapacityUnits":1000000000001,"WriteCapacityUnits":5}`
	)
	rows := []tableRefusal{
		{"neither mode nor units", `{"BillingMode":null}`, missing},
		{"billing comes before keys", `{"BillingMode":null,"AttributeDefinitions":[]}`, missing},
		{"provisioned without units", `{"BillingMode":"PROVISIONED"}`, missing},
		{"on demand with units", `{` + units55 + `}`, tV + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"},
		{"absurd units", `{"BillingMode":null,` + huge + `}`, tX + "Given value 1000000000001 for ReadCapacityUnits is out of bounds"},
		{"absurd write units", `{"BillingMode":null,"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":9223372036854775807}}`,
			tX + "Given value 9223372036854775807 for WriteCapacityUnits is out of bounds"},
		{"absurd units of an index", `{` + provisioned + `,` + gsi(`,`+huge) + `}`, tX + "Given value 1000000000001 for ReadCapacityUnits is out of bounds for index gsi"},
		{"provisioned with read cap", `{` + provisioned + `,"OnDemandThroughput":{"MaxReadRequestUnits":5,"MaxWriteRequestUnits":5}}`,
			tV + "MaxReadRequestUnits for OnDemandThroughput cannot be specified when table BillingMode is PROVISIONED."},
		{"provisioned with write cap", `{` + provisioned + `,"OnDemandThroughput":{"MaxWriteRequestUnits":5}}`,
			tV + "MaxWriteRequestUnits for OnDemandThroughput cannot be specified when table BillingMode is PROVISIONED."},
		{"write cap", `{"OnDemandThroughput":{"MaxReadRequestUnits":1,"MaxWriteRequestUnits":0}}`,
			tV + "Requested MaxWriteRequestUnits for OnDemandThroughput for table is outside of valid range"},
		{"index cap", `{` + gsi(`,"OnDemandThroughput":{"MaxReadRequestUnits":0}`) + `}`,
			tV + "Requested MaxReadRequestUnits for OnDemandThroughput for index gsi is outside of valid range"},
		{"lukewarm", `{"WarmThroughput":{"ReadUnitsPerSecond":11999,"WriteUnitsPerSecond":4000}}`, warmRead + "table is lower than " + initial},
		{"lukewarm writes", `{"WarmThroughput":{"WriteUnitsPerSecond":3999}}`, warmWrite + "table is lower than " + initial},
		{"colder than units", `{` + provisioned + `,"WarmThroughput":{"ReadUnitsPerSecond":4}}`, warmRead + "table is lower than ReadCapacityUnits of ProvisionedThroughput"},
		{"colder writes than units", `{` + provisioned + `,"WarmThroughput":{"WriteUnitsPerSecond":4}}`, warmWrite + "table is lower than WriteCapacityUnits of ProvisionedThroughput"},
		{"lukewarm index", `{` + gsi(`,"WarmThroughput":{"ReadUnitsPerSecond":1}`) + `}`, warmRead + "index gsi is lower than " + initial},
		{"index without units", `{` + provisioned + `,` + gsi("") + `}`, tV + "ProvisionedThroughput is not specified for index: gsi"},
		{"index with units", `{` + gsi(`,`+units55) + `}`, tV + "ProvisionedThroughput should not be specified for index: gsi when BillingMode is PAY_PER_REQUEST"},
	}
	for _, n := range []string{"0", "-1", "-2"} {
		rows = append(rows, tableRefusal{"read cap " + n, `{"OnDemandThroughput":{"MaxReadRequestUnits":` + n + `}}`,
			tV + "Requested MaxReadRequestUnits for OnDemandThroughput for table is outside of valid range"})
	}
	refuseCreate(t, rows)
}

func TestCreateTableSettings(t *testing.T) {
	t.Parallel()
	rows := []tableRefusal{
		{"stream without view type", `{"StreamSpecification":{"StreamEnabled":true}}`, tV + "Table is being created with a stream enabled, UpdateViewType is required"},
		{"no stream but a view type", `{"StreamSpecification":{"StreamEnabled":false,"StreamViewType":"KEYS_ONLY"}}`,
			tV + "Table is being created with a stream disabled, UpdateViewType should not be specified"},
		{"table class", `{"TableClass":"CHEAP"}`,
			tX + "Invalid table-class parameter provided. Please try again with a valid table-class value: [STANDARD, STANDARD_INFREQUENT_ACCESS]."},
		{"no vector indexes", `{"VectorIndexes":[]}`, tV + "List of VectorIndexes is empty"},
	}
	for spec, want := range sseRefusals() {
		rows = append(rows, tableRefusal{spec, `{"SSESpecification":` + spec + `}`, want})
	}
	for member, value := range map[string]string{
		"StreamSpecification":                `{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}`,
		"ResourcePolicy":                     `"{}"`,
		"VectorIndexes":                      `[{"IndexName":"vec"}]`,
		"GlobalTableSourceArn":               `"arn:x"`,
		"GlobalTableSettingsReplicationMode": `"ENABLED"`,
	} {
		rows = append(rows, tableRefusal{member, `{"` + member + `":` + value + `}`, tV + member + " is not supported by this server"})
	}
	refuseCreate(t, rows)
}

// sseRefusals gives the answers to specifications that contradict themselves.
func sseRefusals() map[string]string {
	return map[string]string{
		`{"Enabled":false,"SSEType":"KMS"}`:                           tV + "SSEType can not be specified if Enabled is false",
		`{"Enabled":false,"SSEType":"AES256","KMSMasterKeyId":"key"}`: tV + "SSEType can not be specified if Enabled is false",
		`{"Enabled":false,"KMSMasterKeyId":"key"}`:                    tV + "KMSMasterKeyId can not be specified if Enabled is false",
		`{"Enabled":true,"SSEType":"AES256"}`:                         tV + "SSEType AES256 is not supported",
		`{"Enabled":true,"KMSMasterKeyId":"key"}`:                     tV + "SSEType KMS is required if KMSMasterKeyId is specified",
		`{"KMSMasterKeyId":"key"}`:                                    tV + "SSEType KMS is required if KMSMasterKeyId is specified",
	}
}

// Invalid parameters win over a name in use, in every state of the table.
func TestCreateTableNameInUse(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		r.must("CreateTable", simpleTable)
		check := func() {
			r.Helper()
			r.want("CreateTable", simpleTable, "ResourceInUseException: Table already exists: tab")
			r.want("CreateTable", merged(r.T, simpleTable, `{"AttributeDefinitions":[]}`), tX+"Invalid KeySchema: Some index key attribute have no definition")
		}
		check()
		r.must("CreateTable", merged(r.T, simpleTable, `{"TableName":"Tab"}`)) // names are case-sensitive
		r.must("DeleteTable", `{"TableName":"tab"}`)
		check()
	})
}

// Names are printed in the order of hash sets, which grow beyond twelve.
func TestPrintSet(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]string{
		"":                                 "[]",
		"a":                                "[a]",
		"pk sk pk":                         "[sk, pk]",
		"a q b":                            "[a, q, b]", // a and q share a bucket
		"q a b":                            "[q, a, b]",
		"l k j i h g f e d c b a":          "[a, b, c, d, e, f, g, h, i, j, k, l]",
		"q l k j i h g f e d c b a":        "[a, b, c, d, e, f, g, h, i, j, k, l, q]",
		"polygenelubricants zz \U0001F600": "[polygenelubricants, zz, \U0001F600]", // a hash of -2^31, 3904, a surrogate pair
	} {
		if got := printSet(strings.Fields(names)); got != want {
			t.Errorf("printSet(%s) = %s, want %s", names, got, want)
		}
	}
}

// Long lists are refused in time that grows with their length only.
func TestCreateTableWithLongLists(t *testing.T) {
	t.Parallel()
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf("a%d", i)
	}
	definitions := `"AttributeDefinitions":` + defsJSON(strings.Join(many, ":S ")+":S pk:S")
	key := schemaJSON("pk:HASH " + strings.Join(many, ":HASH ") + ":HASH")
	indexes := `"LocalSecondaryIndexes":[` + strings.TrimSuffix(strings.Repeat(indexJSON("lsi", "pk:HASH", projectAll)+",", 30_000), ",") + `]`
	refuseCreate(t, []tableRefusal{
		{"definitions", `{` + definitions + `}`, tV + "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions"},
		{"keys", `{` + definitions + `,"GlobalSecondaryIndexes":[{"IndexName":"gsi","KeySchema":` + key + `,"Projection":` + projectAll + `}]}`,
			tV + "The KeySchema exceeds the maximum allowed number of HASH key attributes"},
		{"indexes", `{` + indexes + `}`, tV + "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex"},
	})
}
