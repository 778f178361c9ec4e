// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// hostileBase has, for each operation, requests that name every member. What
// cannot be together is in several.
var hostileBase = map[string][]string{
	"PutItem": {
		`{"TableName":"ttt","Item":{"p":{"S":"a"},"r":{"S":"a"},"m":{"M":{"x":{"L":[{"N":"1"},{"SS":["a"]},{"NS":["1"]},{"BS":["AA=="]},{"B":"AA=="},{"BOOL":true},{"NULL":true}]}}}},` + hostileCondition + `,` + hostileReturns + `}`,
		`{"TableName":"ttt","Item":{"p":{"S":"a"},"r":{"S":"a"}},` + hostileExpected + `}`,
	},
	"DeleteItem": {
		`{"TableName":"ttt",` + hostileKey + `,` + hostileCondition + `,` + hostileReturns + `}`,
		`{"TableName":"ttt",` + hostileKey + `,` + hostileExpected + `}`,
	},
	"UpdateItem": {
		`{"TableName":"ttt",` + hostileKey + `,"UpdateExpression":"SET #a=:a",` + hostileCondition + `,` + hostileReturns + `}`,
		`{"TableName":"ttt",` + hostileKey + `,"AttributeUpdates":{"z":{"Value":{"S":"a"},"Action":"PUT"}},` + hostileExpected + `}`,
	},
	"GetItem": {
		`{"TableName":"ttt",` + hostileKey + `,"ProjectionExpression":"#a","ExpressionAttributeNames":{"#a":"a"},"ConsistentRead":true,"ReturnConsumedCapacity":"NONE"}`,
		`{"TableName":"ttt",` + hostileKey + `,"AttributesToGet":["a"]}`,
	},
	"Query": {
		`{"TableName":"ttt","IndexName":"gix","KeyConditionExpression":"g=:g","FilterExpression":"#a=:a","ProjectionExpression":"#a",` + hostileRead + `,"ScanIndexForward":true,"ExpressionAttributeNames":{"#a":"a"},"ExpressionAttributeValues":{":a":{"S":"a"},":g":{"N":"1"}}}`,
		`{"TableName":"ttt","KeyConditions":{"p":` + hostileCompare + `},"QueryFilter":{"a":` + hostileCompare + `,"b":` + hostileCompare + `},"ConditionalOperator":"AND","AttributesToGet":["a"],"Select":"SPECIFIC_ATTRIBUTES"}`,
	},
	"Scan": {
		`{"TableName":"ttt","IndexName":"gix","FilterExpression":"#a=:a","ProjectionExpression":"#a",` + hostileRead + `,"TotalSegments":1,"Segment":0,"ExpressionAttributeNames":{"#a":"a"},"ExpressionAttributeValues":{":a":{"S":"a"}}}`,
		`{"TableName":"ttt","ScanFilter":{"a":` + hostileCompare + `,"b":` + hostileCompare + `},"ConditionalOperator":"AND","AttributesToGet":["a"],"Select":"SPECIFIC_ATTRIBUTES"}`,
	},
	"BatchGetItem": {
		`{"RequestItems":{"ttt":{"Keys":[{"p":{"S":"a"},"r":{"S":"a"}}],"ProjectionExpression":"#a","ExpressionAttributeNames":{"#a":"a"},"ConsistentRead":true}},"ReturnConsumedCapacity":"NONE"}`,
		`{"RequestItems":{"ttt":{"Keys":[{"p":{"S":"a"},"r":{"S":"a"}}],"AttributesToGet":["a"]}}}`,
	},
	"BatchWriteItem": {
		`{"RequestItems":{"ttt":[{"PutRequest":{"Item":{"p":{"S":"a"},"r":{"S":"a"}}}},{"DeleteRequest":{"Key":{"p":{"S":"b"},"r":{"S":"a"}}}}]},"ReturnConsumedCapacity":"NONE","ReturnItemCollectionMetrics":"SIZE"}`,
	},
	"CreateTable": {
		hostileTable,
		`{"TableName":"ttt","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_IMAGE"},"SSESpecification":{"Enabled":true,"SSEType":"KMS","KMSMasterKeyId":"a"},"Tags":[{"Key":"a","Value":"b"}],"ResourcePolicy":"a","GlobalTableSourceArn":"a","VectorIndexes":[{"IndexName":"vvv"}]}`,
	},
	"UpdateTable": {
		`{"TableName":"ttt","AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"}],"BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"OnDemandThroughput":{"MaxReadRequestUnits":1,"MaxWriteRequestUnits":1},"WarmThroughput":{"ReadUnitsPerSecond":1,"WriteUnitsPerSecond":1}}`,
		`{"TableName":"ttt","TableClass":"STANDARD"}`,
		`{"TableName":"ttt","DeletionProtectionEnabled":false}`,
		`{"TableName":"ttt","GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":"gix","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}},{"Create":{"IndexName":"hhh","KeySchema":[],"Projection":{}}},{"Delete":{"IndexName":"kkk"}}]}`,
		`{"TableName":"ttt","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_IMAGE"},"SSESpecification":{"Enabled":true,"SSEType":"KMS","KMSMasterKeyId":"a"},"ReplicaUpdates":[{"Create":{"RegionName":"a"}}],"MultiRegionConsistency":"EVENTUAL","GlobalTableWitnessUpdates":[{}],"VectorIndexUpdates":[{}]}`,
	},
	"DescribeTable":     {`{"TableName":"ttt"}`},
	"DeleteTable":       {`{"TableName":"nothere"}`},
	"ListTables":        {`{"ExclusiveStartTableName":"aaa","Limit":1}`},
	"DescribeLimits":    {`{}`},
	"DescribeEndpoints": {`{}`},
}

const (
	hostileKey       = `"Key":{"p":{"S":"a"},"r":{"S":"a"}}`
	hostileCondition = `"ConditionExpression":"#a=:a","ExpressionAttributeNames":{"#a":"a"},"ExpressionAttributeValues":{":a":{"S":"a"}}`
	hostileReturns   = `"ReturnValues":"NONE","ReturnConsumedCapacity":"NONE","ReturnItemCollectionMetrics":"NONE","ReturnValuesOnConditionCheckFailure":"NONE"`
	hostileExpected  = `"Expected":{"a":{"Value":{"S":"a"},"Exists":true,"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"b":{"Exists":false}},"ConditionalOperator":"AND"`
	hostileRead      = `"Select":"SPECIFIC_ATTRIBUTES","Limit":1,"ConsistentRead":false,"ReturnConsumedCapacity":"INDEXES","ExclusiveStartKey":{"p":{"S":"a"},"r":{"S":"a"},"g":{"N":"1"}}`
	hostileCompare   = `{"AttributeValueList":[{"S":"a"}],"ComparisonOperator":"EQ"}`
	hostileTable     = `{"TableName":"ttt","AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"},{"AttributeName":"r","AttributeType":"S"},{"AttributeName":"g","AttributeType":"N"}],` +
		`"KeySchema":[{"AttributeName":"p","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],` +
		`"LocalSecondaryIndexes":[{"IndexName":"lix","KeySchema":[{"AttributeName":"p","KeyType":"HASH"},{"AttributeName":"g","KeyType":"RANGE"}],"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["q"]}}],` +
		`"GlobalSecondaryIndexes":[{"IndexName":"gix","KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"},"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}],` +
		`"BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"TableClass":"STANDARD","DeletionProtectionEnabled":false}`
)

// hostileValues are put in place of every value.
var hostileValues = []string{
	`null`, `true`, `0`, `-1`, `1.5`, `1e400`, `9223372036854775808`, `2147483648`, `""`, `"a"`, `"\ud800"`, "\"\xff\"", `"\u0000"`,
	`"` + strings.Repeat("x", 3000) + `"`, `[]`, `[null]`, `[1]`, `["a"]`, `[""]`, `[{}]`, `{}`, `{"":{}}`, `{"a":null}`, `{"a":1}`, `{"a":"b"}`,
	`{"a":[]}`, `{"a":{}}`, `{"a":{"S":1}}`, `{"a":{"S":"x","N":"1"}}`, `{"p":{"N":"1"}}`, `{"p":{"S":""}}`, `{"p":{"S":"a"},"r":{"S":"b"}}`,
	`{"S":"a","S":"b"}`, `{"N":"1e999999999999"}`, `{"N":""}`, `{"SS":[]}`, `{"SS":["a","a"]}`, `{"B":"a"}`, `{"M":{"":{"S":""}}}`,
	strings.Repeat(`{"L":[`, 40) + strings.Repeat(`]}`, 40), strings.Repeat(`{"M":{"a":`, 200) + `1` + strings.Repeat(`}}`, 200),
	`"` + strings.Repeat("(", 4000) + `"`, `"` + strings.Repeat("a.", 2000) + `a"`, `"` + strings.Repeat("NOT ", 1000) + `a=a"`,
	`"a IN (` + strings.TrimSuffix(strings.Repeat(":a,", 200), ",") + `)"`, `"SET ` + strings.TrimSuffix(strings.Repeat("a[0]=:a,", 400), ",") + `"`, `tru`, `{"a"`, `]`,
}

// TestNoRequestIsAnInternalError sends every member of every operation with
// every value that does not belong there. What is wrong with a request is the
// client's to know: nothing is answered with a 5xx, and every error says what.
func TestNoRequestIsAnInternalError(t *testing.T) {
	t.Parallel()
	for name, bodies := range hostileBase {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			s := New(Options{Storage: storagetest.NewMemory(100), Log: slog.New(slog.NewTextHandler(&log, nil))})
			if status, answer := hostileCall(s, "CreateTable", hostileTable); status != http.StatusOK {
				t.Fatal(string(answer))
			}
			for _, body := range bodies {
				if status, answer := hostileCall(s, name, body); status >= 500 {
					t.Errorf("%s: %s", body, answer)
				}
				for hostile := range hostileRequests(t, body) {
					checkHostile(t, s, name, hostile)
				}
			}
			if strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("log holds %s", log.String())
			}
		})
	}
}

func checkHostile(t *testing.T, s *Server, name, body string) {
	t.Helper()
	status, answer := hostileCall(s, name, body)
	var e struct {
		Type    string `json:"__type"`
		Message string
	}
	switch {
	case !json.Valid(answer):
		t.Errorf("%.300s: no JSON: %.300s", body, answer)
	case status == http.StatusOK:
	case status != http.StatusBadRequest:
		t.Errorf("%.300s: %d %.300s", body, status, answer)
	case json.Unmarshal(answer, &e) != nil || e.Type == "" || e.Message == "" && !strings.HasSuffix(e.Type, "#SerializationException"):
		t.Errorf("%.300s: %.300s", body, answer)
	}
}

func hostileCall(s *Server, name, body string) (status int, answer []byte) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+name)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// hostileRequests yields body with each of its values replaced by each of
// hostileValues.
func hostileRequests(t *testing.T, body string) func(yield func(string) bool) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return func(yield func(string) bool) { replaceEach(v, yield) }
}

// replaceEach yields v as JSON, with one value at a time replaced.
func replaceEach(v any, yield func(string) bool) bool {
	for _, h := range hostileValues {
		if !yield(h) {
			return false
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !replaceEach(v[name], func(s string) bool { return yield(withMember(v, name, s)) }) {
				return false
			}
		}
	case []any:
		for i := range v {
			if !replaceEach(v[i], func(s string) bool { return yield(withElement(v, i, s)) }) {
				return false
			}
		}
	}
	return true
}

func withMember(v map[string]any, name, raw string) string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(v)) {
		text := raw
		if n != name {
			text = jsonText(v[n])
		}
		parts = append(parts, fmt.Sprintf("%q:%s", n, text))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func withElement(v []any, i int, raw string) string {
	parts := make([]string, len(v))
	for j := range v {
		parts[j] = jsonText(v[j])
	}
	parts[i] = raw
	return "[" + strings.Join(parts, ",") + "]"
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(b)
}
