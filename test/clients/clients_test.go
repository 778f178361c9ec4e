// SPDX-License-Identifier: Apache-2.0

//go:build full

// Package clients runs unchanged AWS clients against the server: create a
// table, wait, put, query, page, delete.
package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/test/need"
	"github.com/extenddb/extenddb/test/proc"
)

func TestMain(m *testing.M) { proc.Main(m) }

// each runs a test with a server on each engine.
func each(t *testing.T, f func(t *testing.T, srv *proc.Server)) {
	t.Helper()
	bin := proc.Binary(t, t.TempDir())
	proc.EachEngine(t, func(t *testing.T, e proc.Engine) { f(t, proc.Start(t, bin, e.Database(t))) })
}

func environment(srv *proc.Server) []string {
	return append(os.Environ(), "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=y", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=", "EXTENDDB_ENDPOINT="+srv.Endpoint())
}

func TestAWSCLI(t *testing.T) {
	t.Parallel()
	bin := need.Tool(t, "aws")
	each(t, func(t *testing.T, srv *proc.Server) { testAWSCLI(t, bin, srv) })
}

func testAWSCLI(t *testing.T, bin string, srv *proc.Server) {
	run := func(args ...string) map[string]any {
		t.Helper()
		cmd := exec.Command(bin, append([]string{"dynamodb", "--endpoint-url", srv.Endpoint(), "--output", "json"}, args...)...)
		cmd.Env = environment(srv)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("aws dynamodb %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		var v map[string]any
		if len(out) > 0 {
			if err := json.Unmarshal(out, &v); err != nil {
				t.Fatalf("aws dynamodb %s: %v in %s", args[0], err, out)
			}
		}
		return v
	}
	run("create-table", "--table-name", "music", "--billing-mode", "PAY_PER_REQUEST",
		"--attribute-definitions", "AttributeName=artist,AttributeType=S", "AttributeName=title,AttributeType=S",
		"--key-schema", "AttributeName=artist,KeyType=HASH", "AttributeName=title,KeyType=RANGE")
	run("wait", "table-exists", "--table-name", "music")
	for i := range 5 {
		run("put-item", "--table-name", "music", "--item", fmt.Sprintf(`{"artist":{"S":"a"},"title":{"S":"t%d"},"n":{"N":"%d"}}`, i, i))
	}
	got := run("query", "--table-name", "music", "--key-condition-expression", "artist = :a", "--page-size", "2",
		"--filter-expression", "n >= :n", "--expression-attribute-values", `{":a":{"S":"a"},":n":{"N":"1"}}`)
	if items, _ := got["Items"].([]any); len(items) != 4 {
		t.Errorf("query returned %d items, want 4", len(items))
	}
	page := run("scan", "--table-name", "music", "--max-items", "3")
	if items, _ := page["Items"].([]any); len(items) != 3 || page["NextToken"] == nil {
		t.Errorf("the first page of the scan: %v", page)
	}
	rest := run("scan", "--table-name", "music", "--starting-token", page["NextToken"].(string))
	if items, _ := rest["Items"].([]any); len(items) != 2 {
		t.Errorf("the second page of the scan: %v", rest)
	}
	run("delete-table", "--table-name", "music")
	run("wait", "table-not-exists", "--table-name", "music")
	if names, _ := run("list-tables")["TableNames"].([]any); len(names) != 0 {
		t.Errorf("tables left: %v", names)
	}
}

func TestBoto3(t *testing.T) {
	t.Parallel()
	python := need.Python(t, "boto3")
	each(t, func(t *testing.T, srv *proc.Server) {
		cmd := exec.Command(python, "testdata/client.py")
		cmd.Env = environment(srv)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "ok\n") {
			t.Fatalf("boto3: %v\n%s", err, out)
		}
	})
}

type song struct {
	Artist string   `dynamodbav:"artist"`
	Title  string   `dynamodbav:"title"`
	Tags   []string `dynamodbav:"tags,stringset"`
	Raw    []byte   `dynamodbav:"raw"`
	Plays  int      `dynamodbav:"plays"`
}

func TestGoSDK(t *testing.T) {
	t.Parallel()
	each(t, testGoSDK)
}

func testGoSDK(t *testing.T, srv *proc.Server) {
	// As a program would make it: default retries, default checksum validation.
	db := dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String(srv.Endpoint()), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("x", "y", "")})
	ctx := t.Context()
	name := aws.String("songs")
	_, err := db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: name, ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(5)},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("artist"), AttributeType: "S"}, {AttributeName: aws.String("title"), AttributeType: "S"}},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("artist"), KeyType: "HASH"}, {AttributeName: aws.String("title"), KeyType: "RANGE"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := dynamodb.NewTableExistsWaiter(db).Wait(ctx, &dynamodb.DescribeTableInput{TableName: name}, 1<<35); err != nil {
		t.Fatal(err)
	}
	want := song{"a\u0000é", "t", []string{"x", "y"}, []byte{0, 255}, 7}
	item, err := attributevalue.MarshalMap(want)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: item}); err != nil {
		t.Fatal(err)
	}
	got, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: name, Key: map[string]types.AttributeValue{"artist": item["artist"], "title": item["title"]}})
	if err != nil {
		t.Fatal(err)
	}
	var back song
	if err := attributevalue.UnmarshalMap(got.Item, &back); err != nil || fmt.Sprint(back) != fmt.Sprint(want) {
		t.Errorf("got %v, %v; want %v", back, err, want)
	}
	if _, err := db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: name}); err != nil {
		t.Fatal(err)
	}
	if err := dynamodb.NewTableNotExistsWaiter(db).Wait(ctx, &dynamodb.DescribeTableInput{TableName: name}, 1<<35); err != nil {
		t.Fatal(err)
	}
}
