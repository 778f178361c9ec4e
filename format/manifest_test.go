// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
)

const (
	digestA = "98c13082acf79e2733794efeffb89367439c442eaab0d5cd6a6d80598887b032"
	digestB = "62154a095c9e7b9cd6303166e2418510d43fe62ead5706aee266b32b5280fe58"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "golden", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func goldenManifest(t testing.TB, name string) *Manifest {
	t.Helper()
	m, err := ParseManifest(golden(t, name+"/"+ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sealed is the document of m, whatever m holds: what a careless writer makes.
func sealed(m *Manifest) []byte {
	doc, _ := m.Canonical()
	return bytes.Replace(doc, []byte(`"manifest_sha256":""`), []byte(`"manifest_sha256":"`+hash64(doc)+`"`), 1)
}

// sealedText is text with its digest in place of the empty one.
func sealedText(text string) []byte {
	compacted := new(bytes.Buffer)
	if err := json.Compact(compacted, []byte(text)); err != nil {
		panic(err)
	}
	return []byte(strings.Replace(text, `"manifest_sha256":""`, `"manifest_sha256":"`+hash64(compacted.Bytes())+`"`, 1))
}

func hash64(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func manifestA() *Manifest {
	return &Manifest{
		FormatVersion: 1,
		BackupARN:     "arn:aws:dynamodb:us-east-1:123456789012:table/Music/backup/01757500000123-73d8d5bc",
		BackupName:    "nightly",
		Created:       1757500000.123,
		SizeBytes:     20,
		SourceBackend: "sqlite",
		SourceVersion: "0.1.0",
		Snapshot:      SnapshotInfo{Kind: "sqlite_wal_read_txn"},
		Table: SourceTable{
			Name:                 "Music",
			ID:                   "12345a12-abcd-123a-ab12-1234abc12345",
			ARN:                  "arn:aws:dynamodb:us-east-1:123456789012:table/Music",
			Created:              1757400000,
			KeySchema:            []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: "HASH"}},
			AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "pk", AttributeType: "S"}},
			BillingMode:          "PAY_PER_REQUEST",
		},
		Files: []DataFile{{Key: "data/000001.json.gz", SHA256: "ac73670af3abed54ac6fb4695131f4099be9fbe39d6076c5d0264a6bbdae9d83", Bytes: 20}},
	}
}

func manifestB() *Manifest {
	const hostile = "G\"e\\n<r>e&\u2028é键\u0001"
	keysOnly := ddb.Projection{ProjectionType: "KEYS_ONLY"}
	return &Manifest{
		FormatVersion: 1,
		BackupARN:     "arn:aws:dynamodb:eu-west-1:000000000001:table/My.Table-2/backup/01757500000456-0000abcd",
		BackupName:    "full_1.a-b",
		Created:       1757500000.5,
		SizeBytes:     207,
		SourceBackend: "postgres",
		SourceVersion: "0.1.11",
		Snapshot:      SnapshotInfo{Kind: "postgres_repeatable_read", Marker: "1234:1240:1235,1237"},
		Table: SourceTable{
			Name:                 "My.Table-2",
			ID:                   "0f0e0d0c-0b0a-4908-8706-050403020100",
			ARN:                  "arn:aws:dynamodb:eu-west-1:000000000001:table/My.Table-2",
			Created:              1700000000.001,
			KeySchema:            []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: "HASH"}, {AttributeName: "a", KeyType: "RANGE"}},
			AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "pk", AttributeType: "S"}, {AttributeName: "a", AttributeType: "N"}, {AttributeName: hostile, AttributeType: "B"}},
			BillingMode:          "PROVISIONED",
			Throughput:           &Throughput{7, 9},
			OnDemand:             &OnDemand{MaxWriteRequestUnits: new(int64(100))},
			TableClass:           new("STANDARD"),
			SSE:                  &ddb.SSEDescription{Status: "ENABLED", SSEType: "KMS", KMSMasterKeyArn: "arn:aws:kms:eu-west-1:000000000001:key/abcd"},
			GlobalIndexes: []IndexInfo{{
				IndexName:  "by_genre",
				KeySchema:  []ddb.KeySchemaElement{{AttributeName: hostile, KeyType: "HASH"}},
				Projection: ddb.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []string{"b", "m"}},
				Throughput: &Throughput{3, 4},
			}},
			LocalIndexes: []IndexInfo{{
				IndexName:  "by_lsi",
				KeySchema:  []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: "HASH"}, {AttributeName: hostile, KeyType: "RANGE"}},
				Projection: keysOnly,
			}},
			VectorIndexes: []VectorIndexInfo{{
				IndexName:       "emb",
				VectorAttribute: "vec",
				Dimensions:      1024,
				SearchSchema:    []SearchElement{{"tenant", "INLINE_FILTER"}},
				Distance:        "COSINE",
				Status:          "ACTIVE",
				ARN:             "arn:aws:dynamodb:eu-west-1:000000000001:table/My.Table-2/index/emb",
				Projection:      &keysOnly,
			}},
			Items:     2,
			SizeBytes: 73,
		},
		Files: []DataFile{{Key: "data/000001.json.gz", Items: 2, SHA256: "73d810d8c472b50053c08efdfa3b9221d0ba37354a572ca9db4fe9db6db5e510", Bytes: 207}},
	}
}

func TestGoldenManifests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		m                 *Manifest
		digest            string
		canonical, stored int
	}{
		{"A", manifestA(), digestA, 877, 941},
		{"B", manifestB(), digestB, 2248, 2312},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want, stored := golden(t, c.name+"/canonical.txt"), golden(t, c.name+"/"+ManifestName)
			if len(want) != c.canonical || len(stored) != c.stored {
				t.Fatalf("the golden files have %d and %d bytes", len(want), len(stored))
			}
			if got, err := c.m.Canonical(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("canonical form: %v\n%s\nwant\n%s", err, got, want)
			}
			doc, err := c.m.Seal()
			if err != nil || !bytes.Equal(doc, stored) {
				t.Errorf("stored document: %v\n%s\nwant\n%s", err, doc, stored)
			}
			if c.m.SHA256 != c.digest || c.m.digest() != c.digest {
				t.Errorf("digests %s and %s, want %s", c.m.SHA256, c.m.digest(), c.digest)
			}
			read, err := ReadManifest(iotest.OneByteReader(bytes.NewReader(stored)), 0)
			if err != nil || !reflect.DeepEqual(read, c.m) {
				t.Errorf("read: %v\n%+v\nwant\n%+v", err, read, c.m)
			}
			if again, err := read.Seal(); err != nil || !bytes.Equal(again, stored) {
				t.Errorf("sealed again: %v\n%s", err, again)
			}
		})
	}
}

func TestGoldenVariants(t *testing.T) {
	t.Parallel()
	want := goldenManifest(t, "A")
	for _, name := range []string{"pretty", "reordered", "intts", "extra", "nullopt"} {
		m, err := ParseManifest(golden(t, "A/variant-"+name+".json"))
		if err != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("%s: %v, %+v", name, err, m)
		}
	}
	_, err := ParseManifest(golden(t, "A/variant-tamper.json"))
	if got := new(ChecksumError); !errors.As(err, &got) || got.Expected != digestA ||
		got.Computed != "1d835f4ffa523a980dd109d90f371b9d99204ad841be82707c0c19c2a8cff750" ||
		err.Error() != "manifest checksum mismatch: expected "+digestA+", computed "+got.Computed || errors.Is(err, ErrManifest) {
		t.Errorf("tamper: %v", err)
	}
	_, err = ParseManifest(golden(t, "A/variant-dup.json"))
	if !errors.Is(err, ErrManifest) || err.Error() != "invalid backup manifest: duplicate field `backup_name`" {
		t.Errorf("dup: %v", err)
	}
}

// TestFloats has what serde_json prints.
func TestFloats(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0.0", 1: "1.0", 1757400000: "1757400000.0", 1757500000.123: "1757500000.123",
		1757500000.123456: "1757500000.123456", 1e15: "1000000000000000.0", 1e-5: "0.00001", 0.1: "0.1",
		9007199254740993: "9007199254740992.0", 1e11 - 0.001: "99999999999.999", -1.5: "-1.5", math.Copysign(0, -1): "-0.0",
	} {
		if got := string(appendFloat([]byte("."), v)); got != "."+want {
			t.Errorf("%v: %s, want %s", v, got[1:], want)
		}
	}
	for _, v := range []float64{1e16, -1e16, 9e-6, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64} {
		m := manifestA()
		m.Table.Created = v
		if _, err := m.Canonical(); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), "table_creation_date_time is out of range") {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// TestEscapes has what serde_json escapes, and nothing else.
func TestEscapes(t *testing.T) {
	t.Parallel()
	want := map[rune]string{
		'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`, '"': `\"`, '\\': `\\`,
		0: `\u0000`, 1: `\u0001`, 0x0b: `\u000b`, 0x0e: `\u000e`, 0x1a: `\u001a`, 0x1b: `\u001b`, 0x1f: `\u001f`,
	}
	const digits = "0123456789abcdef"
	chars := []rune{'\\', '/', '<', '>', '&', '\'', 0x7f, 0x80, 0x2028, 0x2029, 0xfffd, '😀'}
	for r := rune(0); r <= 0x2f; r++ {
		chars = append(chars, r)
	}
	for _, r := range chars {
		text, ok := want[r]
		switch {
		case ok:
		case r < ' ':
			text = `\u00` + string(digits[r>>4]) + string(digits[r&15])
		default:
			text = string(r)
		}
		m := manifestA()
		m.Snapshot.Marker = "a" + string(r) + "b"
		doc, err := m.Seal()
		if err != nil || !bytes.Contains(doc, []byte(`"marker":"a`+text+`b"`)) {
			t.Errorf("%U: %v, %s", r, err, doc)
		}
		if read, err := ParseManifest(doc); err != nil || read.Snapshot != m.Snapshot {
			t.Errorf("%U: %v, read as %+v", r, err, read)
		}
	}
}

// TestLongStrings are escaped piece by piece.
func TestLongStrings(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"a", "é", "键", "😀", "\u0001", `"`, "ab\n😀"} {
		for n := piece - 8; n <= piece+8; n++ {
			for _, lead := range []string{"", "x", "xy", "xyz"} {
				m := manifestA()
				m.Snapshot.Marker = lead + strings.Repeat(unit, 2*n/len(unit)+1)
				doc, err := m.Canonical()
				if err != nil || !bytes.Contains(doc, ddb.AppendString([]byte(`"marker":`), m.Snapshot.Marker)) || m.digest() != hash64(doc) {
					t.Fatalf("%d bytes of %q after %q: %v", len(m.Snapshot.Marker), unit, lead, err)
				}
			}
		}
	}
}

func TestRandomTimestamps(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	m := manifestA()
	for range 100_000 {
		created := time.UnixMilli(1000 + random.Int64N(1e11*1000-1000))
		table := time.UnixMilli(1_500_000_000_000 + random.Int64N(1_000_000_000_000))
		m.Created, m.Table.Created = Seconds(created), Seconds(table)
		doc, err := m.Seal()
		if err != nil {
			t.Fatal(created, table, err)
		}
		read, err := ParseManifest(doc)
		if err != nil || !Time(read.Created).Equal(created) || !Time(read.Table.Created).Equal(table) {
			t.Fatal(created, table, err, read)
		}
	}
}

func TestSecondsCutToMilliseconds(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 9, 10, 10, 26, 40, 123_999_999, time.FixedZone("", 3600))
	if s := Seconds(at); s != 1757496400.123 || !Time(s).Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("%v: %v, %v", at, s, Time(s))
	}
}

func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"format_version":2}`,
		` { "later" : [ ] , "format_version" : 2 , "format_version" : 1 } `,
		strings.Replace(string(golden(t, "A/"+ManifestName)), `"format_version":1`, `"format_version":2`, 1), // before the digest
		strings.Replace(string(golden(t, "A/variant-dup.json")), `"format_version":1`, `"format_version":2`, 1),
		`{"deep":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `,"format_version":2}`,
	} {
		_, err := ParseManifest([]byte(in))
		version := new(VersionError)
		if !errors.As(err, &version) || version.Found != 2 || errors.Is(err, ErrManifest) ||
			err.Error() != "unsupported backup format version 2; this build supports format version 1" {
			t.Errorf("%s: %v", in, err)
		}
	}
	m := manifestA()
	m.FormatVersion = 0
	if _, err := m.Seal(); !errors.As(err, new(*VersionError)) {
		t.Errorf("sealing version 0: %v", err)
	}
}

// TestRawDigest has members of a later writer that are covered by its digest.
func TestRawDigest(t *testing.T) {
	t.Parallel()
	canonical := string(golden(t, "A/canonical.txt"))
	for name, text := range map[string]string{
		"top":     strings.Replace(canonical, `"backup_name"`, `"order":{"by":"key","n":1e0,"s":"\u00e9 \/"},"backup_name"`, 1),
		"nested":  strings.Replace(canonical, `"item_count":0,"table`, `"later":[1.0, 2 , {}],"item_count":0,"table`, 1),
		"last":    strings.Replace(canonical, `"manifest_sha256":""}`, `"manifest_sha256":"","signature":"\"manifest_sha256\":\"\""}`, 1),
		"first":   strings.Replace(canonical, `{"format`, "{\n\t\"a\" : null ,\r\n \"manifest_sha256x\":\"\", \"format", 1),
		"escapes": strings.Replace(canonical, `"nightly"`, `"n\u0069ghtly"`, 1),
		"empty":   strings.Replace(canonical, `"item_count":0,"table`, `"vector_indexes":[],"item_count":0,"table`, 1),
	} {
		doc := sealedText(text)
		m, err := ParseManifest(doc)
		if err != nil || m.BackupName != "nightly" || len(m.SHA256) != 64 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := name == "empty"; (m.Table.VectorIndexes != nil) != want {
			t.Errorf("%s: vector indexes %v", name, m.Table.VectorIndexes)
		}
		if name == "escapes" || name == "empty" {
			continue // the canonical form says the same
		}
		for _, tamper := range [][2]string{{"1757500000.123", "1757500000.124"}, {"later", "Later"}, {`"order"`, `"Order"`}, {"signature", "Signature"}, {`"a" `, `"b" `}, {"[1.0", "[1"}, {`\u00e9`, "é"}} {
			if bad := bytes.Replace(doc, []byte(tamper[0]), []byte(tamper[1]), 1); !bytes.Equal(bad, doc) {
				if _, err := ParseManifest(bad); !errors.As(err, new(*ChecksumError)) {
					t.Errorf("%s with %s: %v", name, tamper[1], err)
				}
			}
		}
	}
}

func TestStoredDigest(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"", "x", strings.ToUpper(digestA), digestA[:63], digestB} {
		in := strings.Replace(string(golden(t, "A/"+ManifestName)), digestA, stored, 1)
		_, err := ParseManifest([]byte(in))
		if err == nil || err.Error() != "manifest checksum mismatch: expected "+stored+", computed "+digestA {
			t.Errorf("%q: %v", stored, err)
		}
	}
}

// TestEmptyIsNotAbsent: the digest covers the difference.
func TestEmptyIsNotAbsent(t *testing.T) {
	t.Parallel()
	m := goldenManifest(t, "B")
	m.Table.GlobalIndexes[0].Projection.NonKeyAttributes = []string{}
	m.Table.LocalIndexes = []IndexInfo{}
	m.Table.VectorIndexes[0].SearchSchema = nil
	read, err := ParseManifest(sealed(m))
	if err != nil || read.digest() != m.digest() {
		t.Fatal(err)
	}
	if g := read.Table.GlobalIndexes[0].Projection; g.NonKeyAttributes == nil || read.Table.LocalIndexes == nil || read.Table.VectorIndexes[0].SearchSchema != nil {
		t.Errorf("%+v", read.Table)
	}
	doc, err := m.Seal() // writes no empty lists
	if err != nil || bytes.Contains(doc, []byte(`[]`)) || m.Table.LocalIndexes != nil {
		t.Errorf("%v, %s", err, doc)
	}
}

func TestSealOnDemandOmitsThroughput(t *testing.T) {
	t.Parallel()
	m := manifestB()
	m.Table.BillingMode = "PAY_PER_REQUEST"
	doc, err := m.Seal()
	if err != nil || bytes.Contains(doc, []byte("CapacityUnits")) {
		t.Errorf("%v, %s", err, doc)
	}
	if _, err := ParseManifest(doc); err != nil {
		t.Error(err)
	}
}

func TestUnknownIndexStatus(t *testing.T) {
	t.Parallel()
	m := manifestB()
	m.Table.VectorIndexes[0].Status = "UNKNOWN"
	m.Table.VectorIndexes[0].Backfilling = new(bool)
	doc := sealed(m)
	for _, in := range [][]byte{doc, bytes.Replace(doc, []byte("UNKNOWN"), []byte("RESTING"), 1)} {
		read, err := ParseManifest(in)
		if err != nil || !reflect.DeepEqual(read.Table, m.Table) {
			t.Errorf("%v, %+v", err, read)
		}
	}
}

func TestReadManifestLimit(t *testing.T) {
	t.Parallel()
	doc := golden(t, "A/"+ManifestName)
	if _, err := ReadManifest(bytes.NewReader(doc), int64(len(doc))); err != nil {
		t.Errorf("of exactly the limit: %v", err)
	}
	_, err := ReadManifest(bytes.NewReader(doc), int64(len(doc))-1)
	if !errors.Is(err, ErrManifest) || err.Error() != "invalid backup manifest: larger than 940 bytes" {
		t.Errorf("of more: %v", err)
	}
	if _, err := ReadManifest(bytes.NewReader(doc), math.MaxInt64); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	broken := errors.New("broken")
	_, err = ReadManifest(io.MultiReader(bytes.NewReader(doc), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) || errors.Is(err, ErrManifest) || err.Error() != "read manifest: broken" {
		t.Errorf("of a broken store: %v", err)
	}
	endless := &endlessZeros{}
	_, err = ReadManifest(endless, 0)
	if !errors.Is(err, ErrManifest) || err.Error() != "invalid backup manifest: larger than 67108864 bytes" || endless.n > 2*DefaultMaxManifest {
		t.Errorf("of an endless one: %v after %d bytes", err, endless.n)
	}
}

type endlessZeros struct{ n int64 }

func (z *endlessZeros) Read(p []byte) (int, error) {
	clear(p)
	z.n += int64(len(p))
	return len(p), nil
}

// TestGoldenBytes guards the golden files against the conversion of line ends.
func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	const want = "H4sIAAAAAAAA/wMAAAAAAAAAAAA="
	if got := base64.StdEncoding.EncodeToString(golden(t, "A/data/000001.json.gz")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if bytes.Contains(golden(t, "A/variant-pretty.json"), []byte("\r")) {
		t.Error("line ends of the golden files were converted")
	}
}
