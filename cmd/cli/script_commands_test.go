// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// servers is the key of the servers of a script.
type servers struct{}

// oldCatalog is a dump of a database of version 1; absolute, since scripts have
// directories of their own.
var oldCatalog, _ = filepath.Abs("../../server/storage/sqlite/testdata/catalogs/v1.sql")

// process is a server in the background.
type process struct {
	cmd  *exec.Cmd
	log  *logWatch
	over chan error
}

// startServer is "serve NAME args…": it starts a server and sets $NAME to its
// address.
func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: serve NAME ARGS…")
	}
	cmd := exec.Command("extenddb", append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args[1:]...)...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "EXTENDDB_STORE="+ts.Getenv("EXTENDDB_STORE"))
	p := &process{cmd: cmd, log: &logWatch{serving: make(chan string, 1)}, over: make(chan error, 1)}
	cmd.Stderr = p.log
	ts.Check(cmd.Start())
	go func() { p.over <- cmd.Wait() }()
	ts.Defer(func() { _ = cmd.Process.Kill() })
	select {
	case addr := <-p.log.serving:
		ts.Setenv(args[0], addr)
	case err := <-p.over:
		ts.Fatalf("serve %s ended: %v\n%s", args[0], err, p.log)
	}
	ts.Value(servers{}).(map[string]*process)[args[0]] = p
}

// stopServer is "stop NAME": the server must end in order. Its log goes to
// NAME.log.
func stopServer(ts *testscript.TestScript, neg bool, args []string) {
	p := theServer(ts, neg, args)
	ts.Check(p.cmd.Process.Signal(os.Interrupt))
	err := <-p.over
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".log"), []byte(p.log.String()), 0o600))
	if err != nil {
		ts.Fatalf("server %s: %v\n%s", args[0], err, p.log)
	}
}

// killServer is "kill-server NAME".
func killServer(ts *testscript.TestScript, neg bool, args []string) {
	p := theServer(ts, neg, args)
	ts.Check(p.cmd.Process.Kill())
	<-p.over
}

func theServer(ts *testscript.TestScript, neg bool, args []string) *process {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stop NAME")
	}
	p := ts.Value(servers{}).(map[string]*process)[args[0]]
	if p == nil {
		ts.Fatalf("there is no server %s", args[0])
	}
	return p
}

func client(addr string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String("http://" + addr), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
}

// fillTable is "fill ADDR TABLE N": it makes a table with an index and N items.
func fillTable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: fill ADDR TABLE N")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(fill(context.Background(), client(args[0]), args[1], n))
}

func fill(ctx context.Context, c *dynamodb.Client, table string, n int) error {
	attribute := func(name string, t types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: t}
	}
	key := func(name string, t types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: t}
	}
	_, err := c.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{attribute("pk", "S"), attribute("sk", "N"), attribute("by", "S")},
		KeySchema:            []types.KeySchemaElement{key("pk", "HASH"), key("sk", "RANGE")},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("by-by"), KeySchema: []types.KeySchemaElement{key("by", "HASH")},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	if err != nil {
		return err
	}
	var batch []types.WriteRequest
	for i := range n {
		batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: fmt.Sprintf("p%d", i%7)},
			"sk": &types.AttributeValueMemberN{Value: strconv.Itoa(i)},
			"by": &types.AttributeValueMemberS{Value: fmt.Sprintf("b%d", i%3)},
			"is": &types.AttributeValueMemberS{Value: strings.Repeat("lorem ipsum ", i%10)},
		}}})
		if len(batch) == 25 || i == n-1 {
			_, err := c.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: batch}})
			if err != nil {
				return err
			}
			batch = nil
		}
	}
	return nil
}

// countItems is "count ADDR TABLE N": the table, and its index, hold N items.
func countItems(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: count ADDR TABLE N")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(countAll(context.Background(), client(args[0]), args[1], n))
}

// countAll returns an error unless the table and its index hold n items.
func countAll(ctx context.Context, c *dynamodb.Client, table string, n int) error {
	for _, index := range []*string{nil, aws.String("by-by")} {
		pages := dynamodb.NewScanPaginator(c, &dynamodb.ScanInput{TableName: &table, IndexName: index, Select: types.SelectCount})
		total := 0
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			total += int(page.Count)
		}
		if total != n {
			return fmt.Errorf("table %s, index %s: %d items, want %d", table, aws.ToString(index), total, n)
		}
	}
	return nil
}

// wantNoTable is "no-table ADDR TABLE".
func wantNoTable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: no-table ADDR TABLE")
	}
	_, err := client(args[0]).DescribeTable(context.Background(), &dynamodb.DescribeTableInput{TableName: &args[1]})
	var none *types.ResourceNotFoundException
	if !errors.As(err, &none) {
		ts.Fatalf("table %s: %v, want none", args[1], err)
	}
}

// setBackupDir is "backup-dir NAME STORE": it sets $NAME to the directory of
// the one backup in a store, relative to the store.
func setBackupDir(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: backup-dir NAME STORE")
	}
	store := ts.MkAbs(args[1])
	var dirs []string
	ts.Check(filepath.WalkDir(store, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "extenddb-manifest.json" {
			rel, err := filepath.Rel(store, filepath.Dir(path))
			dirs = append(dirs, filepath.ToSlash(rel))
			return err
		}
		return err
	}))
	if len(dirs) != 1 {
		ts.Fatalf("%s holds backups %q, want one", args[1], dirs)
	}
	ts.Setenv(args[0], dirs[0])
}

// editFile is "edit FILE OLD NEW": it replaces text that is there.
func editFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	path := ts.MkAbs(args[0])
	text, err := os.ReadFile(path)
	ts.Check(err)
	if !bytes.Contains(text, []byte(args[1])) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(path, bytes.ReplaceAll(text, []byte(args[1]), []byte(args[2])), 0o600))
}

// makeOldFile is "old-file FILE": a database of version 1, with the table
// "indexed" among others.
func makeOldFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: old-file FILE")
	}
	path := ts.MkAbs(args[0])
	text, err := os.ReadFile(oldCatalog)
	ts.Check(err)
	_, err = sqlite.Plan(context.Background(), sqlite.Options{Path: path}, migrate.Options{}) // it must be the first to use the driver
	if !errors.Is(err, fs.ErrNotExist) {
		ts.Fatalf("%s: %v", path, err)
	}
	db, err := sql.Open("sqlite", path)
	ts.Check(err)
	_, err = db.ExecContext(context.Background(), string(text))
	ts.Check(errors.Join(err, db.Close()))
}
