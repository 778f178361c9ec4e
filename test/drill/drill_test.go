// SPDX-License-Identifier: Apache-2.0

// Package drill loses a machine and gets its tables back.
package drill

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/test/proc"
)

type attributes = map[string]types.AttributeValue

func s(text string) types.AttributeValue { return &types.AttributeValueMemberS{Value: text} }

func n(text string) types.AttributeValue { return &types.AttributeValueMemberN{Value: text} }

// fill makes a table with an index, and another with provisioned capacity.
func fill(t *testing.T, db *dynamodb.Client) {
	t.Helper()
	el := func(name string, kt types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: aws.String(name), KeyType: kt}
	}
	def := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: kind}
	}
	for _, in := range []*dynamodb.CreateTableInput{
		{TableName: aws.String("orders"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{def("id", "S"), def("state", "S"), def("sum", "N")},
			KeySchema:            []types.KeySchemaElement{el("id", "HASH")},
			GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String("by-state"),
				KeySchema: []types.KeySchemaElement{el("state", "HASH"), el("sum", "RANGE")}, Projection: &types.Projection{ProjectionType: "ALL"}}}},
		{TableName: aws.String("Music.v2"), TableClass: types.TableClassStandardInfrequentAccess,
			AttributeDefinitions:  []types.AttributeDefinition{def("artist", "B"), def("year", "N")},
			KeySchema:             []types.KeySchemaElement{el("artist", "HASH"), el("year", "RANGE")},
			ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(7), WriteCapacityUnits: aws.Int64(3)}},
	} {
		if _, err := db.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	put := func(table string, it attributes) {
		if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: it}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		put("orders", attributes{"id": s(fmt.Sprintf("%05d", i*7919%300)), "state": s([]string{"new", "paid", "sent"}[i%3]),
			"sum": n(fmt.Sprintf("%d.%02d", i, i%100+1)), "note": s(strings.Repeat("ä\n\"\u2028", i%50)),
			"tiny": n("1E-130"), "tags": &types.AttributeValueMemberSS{Value: []string{"b", "a", fmt.Sprint(i)}}})
	}
	for i := range 40 {
		put("Music.v2", attributes{"artist": &types.AttributeValueMemberB{Value: []byte{byte(i % 4), 0, 255}}, "year": n(fmt.Sprint(1960 + i))})
	}
}

// picture is everything clients see of the tables, as text, but for what a
// restored table has of its own: ids and instants.
func picture(t *testing.T, db *dynamodb.Client) string {
	t.Helper()
	var out strings.Builder
	for _, table := range []string{"Music.v2", "orders"} {
		d, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
		if err != nil {
			t.Fatal(err)
		}
		d.Table.TableId, d.Table.CreationDateTime, d.Table.ItemCount, d.Table.TableSizeBytes = nil, nil, nil, nil
		for i := range d.Table.GlobalSecondaryIndexes {
			d.Table.GlobalSecondaryIndexes[i].ItemCount, d.Table.GlobalSecondaryIndexes[i].IndexSizeBytes = nil, nil
		}
		if d.Table.BillingModeSummary != nil {
			d.Table.BillingModeSummary.LastUpdateToPayPerRequestDateTime = nil
		}
		if d.Table.TableClassSummary != nil {
			d.Table.TableClassSummary.LastUpdateDateTime = nil
		}
		text(t, &out, d.Table)
		var items []string
		for p := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: aws.String(table)}); p.HasMorePages(); {
			page, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Items {
				var line strings.Builder
				text(t, &line, it)
				items = append(items, line.String())
			}
		}
		slices.Sort(items)
		out.WriteString(strings.Join(items, ""))
	}
	for _, state := range []string{"new", "paid", "sent", "lost"} {
		q, err := db.Query(t.Context(), &dynamodb.QueryInput{TableName: aws.String("orders"), IndexName: aws.String("by-state"),
			KeyConditionExpression: aws.String("#s = :s"), ExpressionAttributeNames: map[string]string{"#s": "state"},
			ExpressionAttributeValues: attributes{":s": s(state)}})
		if err != nil {
			t.Fatal(err)
		}
		text(t, &out, q.Items)
	}
	return out.String()
}

func text(t *testing.T, out *strings.Builder, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(append(b, '\n'))
}

// TestDrill: only the store directory survives, and the tables come back.
func TestDrill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin, old, store := proc.Binary(t, dir), filepath.Join(dir, "old"), filepath.Join(dir, "store")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, t.TempDir() // no home, no settings
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	file := filepath.Join(old, "data.db")
	server := proc.Start(t, bin, file)
	fill(t, server.Client())
	run(bin, "store", "init", "file://"+store)
	run(bin, "backup", "create", "--all", "--store", "file://"+store, "--storage", "sqlite:"+file)
	want := picture(t, server.Client())
	server.Kill()
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}

	db := filepath.Join(dir, "new.db")
	script, err := filepath.Abs("restore.sh")
	if err != nil {
		t.Fatal(err)
	}
	run("sh", script, bin, store, db)
	got := picture(t, proc.Start(t, bin, db).Client())
	if got != want {
		t.Errorf("the tables came back different:\n%s\ninstead of\n%s", got, want)
	}
}
