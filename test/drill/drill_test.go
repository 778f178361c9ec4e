// SPDX-License-Identifier: Apache-2.0

// Package drill loses a machine and gets its tables back.
package drill

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/stored"
)

func TestMain(m *testing.M) { proc.Main(m) }

type attributes = map[string]types.AttributeValue

func s(text string) types.AttributeValue { return &types.AttributeValueMemberS{Value: text} }

func n(text string) types.AttributeValue { return &types.AttributeValueMemberN{Value: text} }

func tables() []string { return []string{"Music.v2", "orders"} }

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
	for _, table := range tables() {
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

// TestDrill: only the store directory survives, and the tables come back, on
// the engine they were on and on another one.
func TestDrill(t *testing.T) {
	t.Parallel()
	bin := proc.Binary(t, t.TempDir())
	proc.EachEngine(t, func(t *testing.T, from proc.Engine) {
		proc.EachEngine(t, func(t *testing.T, to proc.Engine) { drill(t, bin, from, to) })
	})
}

func drill(t *testing.T, bin string, from, to proc.Engine) {
	store := filepath.Join(t.TempDir(), "store")
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, t.TempDir() // no home, no settings
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	var want string
	var bytes []map[string]string
	// Whatever that subtest made, but for the store, is gone when it ends.
	if !t.Run("machine", func(t *testing.T) {
		old := from.Database(t)
		server := proc.Start(t, bin, old)
		fill(t, server.Client())
		run(bin, "store", "init", "file://"+store)
		run(bin, "backup", "create", "--all", "--store", "file://"+store, "--storage", old)
		want = picture(t, server.Client())
		server.Kill()
		bytes = itemsOf(t, old)
	}) {
		return
	}

	db := to.Database(t)
	script, err := filepath.Abs("restore.sh")
	if err != nil {
		t.Fatal(err)
	}
	run("sh", script, bin, store, db)
	server := proc.Start(t, bin, db)
	if got := picture(t, server.Client()); got != want {
		t.Errorf("the tables came back different:\n%s\ninstead of\n%s", got, want)
	}
	server.Kill()
	for i, got := range itemsOf(t, db) {
		if !maps.Equal(got, bytes[i]) {
			t.Errorf("table %s: not the bytes that were stored", tables()[i])
		}
	}
}

// itemsOf returns the stored bytes of each table.
func itemsOf(t *testing.T, url string) (list []map[string]string) {
	t.Helper()
	stored.With(t, url, func(db storage.Engine) {
		stored.Check(t, db)
		for _, name := range tables() {
			list = append(list, stored.Items(t, db, name))
		}
	})
	return list
}
