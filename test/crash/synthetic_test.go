// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	random "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
)

// The table of synthetic items: partitions of a thousand, three indexes.
const (
	perHash  = 1000
	indexed  = 97 // values of the hash of index "by-a"
	itemSize = 400
	fixed    = 41 // bytes of an item beside its filling
)

// itemAt appends the i-th synthetic item, in key order, as it goes into a line.
func itemAt(dst []byte, i int) []byte {
	pcg := random.NewPCG(uint64(i), 1) // the same each time
	filling := make([]byte, 0, itemSize)
	for len(filling) < (itemSize-fixed)/2 {
		filling = fmt.Appendf(filling, "%016x", pcg.Uint64())
	}
	for len(filling) < itemSize-fixed {
		filling = append(filling, "the quick brown fox "...)
	}
	return fmt.Appendf(dst, `{"a":{"S":"a%04d"},"b":{"N":"%d"},"c":{"S":"c%07d"},"n":{"N":"%d"},"pad":{"S":"%s"},"pk":{"S":"p%06d"},"sk":{"N":"%d"}}`,
		i%indexed, i%1009, i*7919%1_000_003, i*31%10_007, filling[:itemSize-fixed], i/perHash, i%perHash)
}

func sourceOf(name string, items, size int64) format.SourceTable {
	key := func(hash, rng string) []ddb.KeySchemaElement {
		return []ddb.KeySchemaElement{{AttributeName: hash, KeyType: ddb.Hash}, {AttributeName: rng, KeyType: ddb.Range}}
	}
	return format.SourceTable{
		Name: name, ID: "12345a12-abcd-123a-ab12-1234abc12345", Created: 1_757_400_000,
		ARN:       "arn:aws:dynamodb:us-east-1:" + auth.DefaultAccount + ":table/" + name,
		KeySchema: key("pk", "sk"),
		AttributeDefinitions: []ddb.AttributeDefinition{
			{AttributeName: "a", AttributeType: "S"}, {AttributeName: "b", AttributeType: "N"}, {AttributeName: "c", AttributeType: "S"},
			{AttributeName: "n", AttributeType: "N"}, {AttributeName: "pk", AttributeType: "S"}, {AttributeName: "sk", AttributeType: "N"},
		},
		BillingMode: ddb.PayPerRequest,
		GlobalIndexes: []format.IndexInfo{
			{IndexName: "by-a", KeySchema: key("a", "n"), Projection: ddb.Projection{ProjectionType: ddb.ProjectAll}},
			{IndexName: "by-b", KeySchema: key("b", "sk"), Projection: ddb.Projection{ProjectionType: ddb.ProjectKeysOnly}},
			{IndexName: "by-c", KeySchema: key("c", "n"), Projection: ddb.Projection{ProjectionType: ddb.ProjectInclude, NonKeyAttributes: []string{"b"}}},
		},
		Items: items, SizeBytes: size,
	}
}

// written is a data file in a store, as the manifests describe it.
type written struct {
	format.DataFile
	md5   string
	plain int64
}

// newRef names a new backup of a table.
func newRef(t *testing.T, name string) format.Ref {
	t.Helper()
	id, err := format.NewBackupID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return format.Ref{Account: auth.DefaultAccount, Table: name, ID: id}
}

func (m *machine) object(ref format.Ref, name string) string {
	return filepath.Join(m.store, filepath.FromSlash(ref.Key(name)))
}

// synthetic writes a backup of so many items into the store, in files of so
// many plain bytes, with nothing but package format.
func (m *machine) synthetic(t *testing.T, items int, target int64) format.Ref {
	t.Helper()
	ref := newRef(t, table)
	var files []written
	var line []byte
	var out *os.File
	var w *format.FileWriter
	size := int64(0)
	finish := func() {
		sums, err := w.Close()
		if err == nil {
			err = out.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		key := format.DataFileKey(len(files) + 1)
		files = append(files, written{format.DataFile{Key: key, Items: sums.Items, SHA256: sums.SHA256, Bytes: sums.Bytes},
			base64.StdEncoding.EncodeToString(sums.MD5[:]), sums.Plain})
	}
	begin := func() {
		out = m.create(t, ref, format.DataFileKey(len(files)+1))
		w = format.NewFileWriter(out, format.WriterOptions{Workers: 2, TargetBytes: target})
	}
	begin()
	for i := range items {
		line = itemAt(line[:0], i)
		size += sizeOf(t, line)
		if !w.Fits(len(line)) {
			finish()
			begin()
		}
		if err := w.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	finish()
	m.seal(t, ref, files, size)
	return ref
}

// sizeOf is the size of an item as DynamoDB counts it.
func sizeOf(t *testing.T, line []byte) int64 {
	t.Helper()
	it, err := ddb.ParseItem(line)
	if err != nil {
		t.Fatal(err)
	}
	return int64(it.Size())
}

// create makes an object of a backup.
func (m *machine) create(t *testing.T, ref format.Ref, name string) *os.File {
	t.Helper()
	path := m.object(ref, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// gzipped puts a data file that is there already as it is.
func (m *machine) gzipped(t *testing.T, ref format.Ref, k int, raw []byte, items, plain int64) written {
	t.Helper()
	f := m.create(t, ref, format.DataFileKey(k))
	_, err := f.Write(raw)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return describe(t, f.Name(), format.DataFileKey(k), items, plain)
}

// describe computes what manifests say of a data file.
func describe(t *testing.T, path, key string, items, plain int64) written {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum, md := sha256.New(), md5.New()
	count, err := io.Copy(io.MultiWriter(sum, md), f)
	if err != nil {
		t.Fatal(err)
	}
	return written{format.DataFile{Key: key, Items: items, SHA256: hex.EncodeToString(sum.Sum(nil)), Bytes: count},
		base64.StdEncoding.EncodeToString(md.Sum(nil)), plain}
}

// seal writes everything of a backup but its data files.
func (m *machine) seal(t *testing.T, ref format.Ref, files []written, size int64) {
	t.Helper()
	arn := format.ARN{Region: "us-east-1", Account: ref.Account, Table: ref.Table, ID: ref.ID}.String()
	man := format.Manifest{FormatVersion: format.Version, BackupARN: arn, BackupName: "synthetic", Created: format.Seconds(time.Now()),
		SourceBackend: "sqlite", SourceVersion: "0.0.0", Snapshot: format.SnapshotInfo{Kind: "sqlite_wal_read_txn"},
		Table: sourceOf(ref.Table, 0, size)}
	annex := format.Annex{KeyOrdered: true, Writer: "a test"}
	var lines []byte
	for _, f := range files {
		man.Files = append(man.Files, f.DataFile)
		man.SizeBytes += f.Bytes
		man.Table.Items += f.Items
		lines = format.AppendExportFile(lines, format.ExportFile{Items: f.Items, MD5: f.md5, ETag: hexOf(t, f.md5), Key: ref.Key(f.Key)})
		annex.Files = append(annex.Files, format.AnnexFile{Key: f.Key, Plain: f.plain, MD5: f.md5})
	}
	doc, err := man.Seal()
	if err != nil {
		t.Fatal(err)
	}
	at := format.Time(man.Created)
	summary := format.ExportSummary{ExportARN: man.Table.ARN + "/export/" + ref.ID, StartTime: at, EndTime: at, ExportTime: at,
		TableARN: man.Table.ARN, TableID: man.Table.ID, S3Prefix: ref.Prefix(), S3SSEAlgorithm: "NONE",
		ManifestFilesS3Key: ref.Key(format.FilesName), BilledSizeBytes: size, ItemCount: man.Table.Items}
	text := summary.Append(nil)
	for name, data := range map[string][]byte{
		format.StartedName: nil, format.FilesName: lines, format.FilesMD5Name: []byte(format.MD5Text(lines)),
		format.SummaryName: text, format.SummaryMD5Name: []byte(format.MD5Text(text)),
		format.AnnexName: annex.Append(nil), format.ManifestName: doc,
	} {
		f := m.create(t, ref, name)
		if _, err := f.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func hexOf(t *testing.T, b64 string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw)
}

// attributesOf is what a client reads of a synthetic item.
func attributesOf(t *testing.T, i int) attributes {
	t.Helper()
	it, err := ddb.ParseItem(itemAt(nil, i))
	if err != nil {
		t.Fatal(err)
	}
	out := attributes{}
	for name, v := range it {
		if out[name] = s(v.Str()); v.Kind() == ddb.KindN {
			out[name] = &types.AttributeValueMemberN{Value: v.Number().String()}
		}
	}
	return out
}

// sameItem reports whether a client read the i-th item.
func sameItem(t *testing.T, got attributes, i int) bool {
	t.Helper()
	want := attributesOf(t, i)
	return maps.EqualFunc(got, want, func(a, b types.AttributeValue) bool { return textOf(a) == textOf(b) })
}

func textOf(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return "S" + v.Value
	case *types.AttributeValueMemberN:
		return "N" + v.Value
	}
	return fmt.Sprintf("%T", v)
}

// number is which synthetic item has a key.
func number(t *testing.T, it attributes) int {
	t.Helper()
	pk, err := strconv.Atoi(textOf(it["pk"])[2:])
	if err != nil {
		t.Fatal(err)
	}
	sk, err := strconv.Atoi(textOf(it["sk"])[1:])
	if err != nil {
		t.Fatal(err)
	}
	return pk*perHash + sk
}

// sameTable fails unless the table holds the synthetic items and nothing else,
// and its indexes know them.
func sameTable(t *testing.T, db *dynamodb.Client, name string, want int) {
	t.Helper()
	seen := make([]bool, want)
	count := 0
	for p := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: aws.String(name)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			i := number(t, it)
			if i >= want || seen[i] || !sameItem(t, it, i) {
				t.Fatalf("table %s: item %d is not the one that was backed up: %v", name, i, it)
			}
			seen[i] = true
			count++
		}
	}
	if count != want {
		t.Fatalf("table %s has %d items of %d", name, count, want)
	}
	sameIndex(t, db, name, want)
}

// sameIndex compares one value of each index with what the items say.
func sameIndex(t *testing.T, db *dynamodb.Client, name string, want int) {
	t.Helper()
	probe := want / 3
	at := attributesOf(t, probe)
	for index, attribute := range map[string]string{"by-a": "a", "by-b": "b", "by-c": "c"} {
		var expected, found []int
		step := map[string]int{"a": indexed, "b": 1009, "c": 1_000_003}[attribute]
		for i := probe % step; i < want; i += step {
			expected = append(expected, i)
		}
		in := &dynamodb.QueryInput{TableName: aws.String(name), IndexName: aws.String(index), KeyConditionExpression: aws.String("#k = :v"),
			ExpressionAttributeNames: map[string]string{"#k": attribute}, ExpressionAttributeValues: attributes{":v": at[attribute]}}
		for p := dynamodb.NewQueryPaginator(db, in); p.HasMorePages(); {
			page, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Items {
				found = append(found, number(t, it))
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, expected) {
			t.Fatalf("index %s of table %s has %d items where %d belong", index, name, len(found), len(expected))
		}
	}
}

// tree is every file below a directory, with its content's digest.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		sum := sha256.Sum256(data)
		out[rel] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
