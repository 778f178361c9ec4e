// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
)

func TestResolveTable(t *testing.T) {
	t.Parallel()
	const length = "ValidationException: TableName must be at least 3 characters long and at most 255 characters long"
	bad := func(part, arn string) string {
		return "ValidationException: 1 validation error detected: Invalid " + part + " in '" + arn +
			"'. Valid ARN format is arn:aws:dynamodb:us-east-1:000000000000:table/{table-name}"
	}
	long := strings.Repeat("x", 255)
	for _, c := range []struct{ ref, name, want string }{
		{"tab", "tab", ""},
		{long, long, ""},
		{"ab", "", length},
		{long + "x", "", length},
		{"arn:aws:dynamodb:us-east-1:000000000000:table/tab", "tab", ""},
		{"arn:aws:dynamodb:us-east-1:000000000000:table/A.b-c_d", "A.b-c_d", ""},
		{"arn:aws:dynamodb:eu-west-1:000000000000:table/tab", "", bad("AWS region", "arn:aws:dynamodb:eu-west-1:000000000000:table/tab")},
		{"arn:aws-cn:dynamodb:us-east-1:000000000000:table/tab", "", bad("AWS partition", "arn:aws-cn:dynamodb:us-east-1:000000000000:table/tab")},
		{"arn:aws:dynamodb:us-east-1:123456789012:table/tab", "", "AccessDeniedException: Access is denied"},
		{"arn:aws:dynamodb:us-east-1:000000000000:table/tab/index/gsi", "", bad("resource type", "arn:aws:dynamodb:us-east-1:000000000000:table/tab/index/gsi")},
		{"arn:aws:dynamodb:us-east-1:000000000000:backup/tab", "", bad("resource type", "arn:aws:dynamodb:us-east-1:000000000000:backup/tab")},
		{"arn:aws:dynamodb:us-east-1:000000000000:table/", "", bad("table name", "arn:aws:dynamodb:us-east-1:000000000000:table/")},
		{"arn:aws:dynamodb:us-east-1:000000000000:table/a:b", "", bad("table name", "arn:aws:dynamodb:us-east-1:000000000000:table/a:b")},
		{"arn:aws:s3:us-east-1:000000000000:table/tab", "", bad("ARN", "arn:aws:s3:us-east-1:000000000000:table/tab")},
		{"arn:", "", bad("ARN", "arn:")},
	} {
		t.Run(c.ref, func(t *testing.T) {
			t.Parallel()
			e := New(Options{Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler), Region: "us-east-1"})
			name, err := e.resolveTable(auth.Anonymous(), c.ref)
			if name != c.name || errorText(err) != c.want {
				t.Errorf("got  %q, %v\nwant %q, %s", name, err, c.name, c.want)
			}
		})
	}
}

func TestPartitionOfRegions(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{
		"us-east-1": "aws", "eu-central-2": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "localhost": "aws",
	} {
		if got := partition(region); got != want {
			t.Errorf("partition(%s) = %s, want %s", region, got, want)
		}
	}
}

// Every operation on a table takes its ARN and names the table when it is
// missing.
func TestTableOperationsTakeARNs(t *testing.T) {
	t.Parallel()
	onEachStore(t, nil, func(r *rig) {
		const arn = `"arn:aws:dynamodb:us-east-1:000000000000:table/gone"`
		for op, rest := range map[string]string{
			"DescribeTable": "", "DeleteTable": "", "UpdateTable": `,"BillingMode":"PAY_PER_REQUEST"`,
		} {
			for _, ref := range []string{`"gone"`, arn} {
				r.want(op, `{"TableName":`+ref+rest+`}`, "ResourceNotFoundException: Requested resource not found: Table: gone not found")
			}
			r.want(op, `{"X":1`+rest+`}`, "ValidationException: The parameter 'TableName' is required but was not present in the request")
			r.want(op, `{"TableName":"ab"`+rest+`}`, "ValidationException: TableName must be at least 3 characters long and at most 255 characters long")
			r.want(op, `{"TableName":""`+rest+`}`, "ValidationException: 2 validation errors detected: "+
				"Value '' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 1; "+
				"Value '' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
			r.want(op, `{"TableName":"abc;"`+rest+`}`, "ValidationException: 1 validation error detected: "+
				"Value 'abc;' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
			r.want(op, `{"TableName":"arn:aws:dynamodb:us-east-1:123456789012:table/gone"`+rest+`}`, "AccessDeniedException: Access is denied")
		}
		r.want("CreateTable", `{"TableName":`+arn+`}`, "ValidationException: 1 validation error detected: "+
			"Value 'arn:aws:dynamodb:us-east-1:000000000000:table/gone' at 'tableName' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
		r.want("ListTables", `{}`, `{"TableNames":[]}`)
	})
}
