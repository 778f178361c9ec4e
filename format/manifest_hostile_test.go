// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// allocatedBy is how much f allocates, altogether.
func allocatedBy(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// parseBounded is ParseManifest; it fails t when that allocates too much.
func parseBounded(t *testing.T, name string, data []byte) (m *Manifest, err error) {
	t.Helper()
	grown := allocatedBy(func() { m, err = ParseManifest(data) })
	if grown > 2*len(data)+1<<20 {
		t.Errorf("%s: %d bytes make it allocate %d, %.2f times as much", name, len(data), grown, float64(grown)/float64(len(data)))
	}
	return m, err
}

// TestHostileManifests is not parallel: it measures what the process
// allocates. Were reading quadratic in any of them, it would not end.
func TestHostileManifests(t *testing.T) {
	const size = 2 << 20
	canonical := string(golden(t, "B/canonical.txt"))
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	in := func(old, new string) string {
		if !strings.Contains(canonical, old) {
			t.Fatalf("no %s in the golden manifest", old)
		}
		return strings.Replace(canonical, old, new, 1)
	}
	many := func(member, element string) string {
		return in(`"`+member+`":[`, `"`+member+`":[`+fill(element+","))
	}
	const sum = "73d810d8c472b50053c08efdfa3b9221d0ba37354a572ca9db4fe9db6db5e510"
	for name, text := range map[string]string{
		"spaces":              canonical + fill(" "),
		"only spaces":         fill(" "),
		"zeros":               fill("\x00"),
		"open brackets":       fill("["),
		"open braces":         fill(`{"a":`),
		"deep":                in(`{"format`, `{"deep":`+fill("[")+fill("]")+`,"format`),
		"deep strings":        in(`{"format`, `{"flat":["`+fill("[")+`"],"format`),
		"unknown numbers":     in(`{"format`, `{"later":[`+fill("0,")+`0],"format`),
		"unknown members":     in(`{"format`, `{`+fill(`"a":0,`)+`"format`),
		"escaped members":     in(`{"format`, `{`+fill(`"\u0061":0,`)+`"format`),
		"long escaped member": in(`{"format`, `{"`+fill(`\u0061`)+`":0,"format`),
		"long name":           in(`"full_1.a-b"`, `"`+fill("x")+`"`),
		"long ARN":            in(`:aws:dynamodb:eu-west-1:000000000001:table/My.Table-2/backup`, fill("x")),
		"long table ARN":      in(`"table_arn":"`, `"table_arn":"`+fill(":")),
		"long marker":         in(`"marker":"`, `"marker":"`+fill("x")),
		"control characters":  in(`"marker":"`, `"marker":"`+fill("\\u0001")),
		"quotes":              in(`"marker":"`, `"marker":"`+fill(`\"`)),
		"late escape":         in(`"marker":"`, `"marker":"`+fill("x")+`\n`),
		"half surrogates":     in(`"marker":"`, `"marker":"`+fill(`\ud800`)),
		"not UTF-8":           in(`"marker":"`, `"marker":"`+fill("\xff")),
		"open string":         in(`"marker":"`, `"marker":"`+fill("x"))[:size],
		"digits":              in(`"backup_size_bytes":`, `"backup_size_bytes":`+strings.Repeat("9", size)),
		"float digits":        in(`"backup_creation_date_time":`, `"backup_creation_date_time":`+strings.Repeat("9", size)),
		"exponent":            in(`1757500000.5`, `1e`+strings.Repeat("9", size)),
		"version":             `{"format_version":` + strings.Repeat("9", size) + `}`,
		"long digest":         in(`"manifest_sha256":"`, `"manifest_sha256":"`+fill("é")),
		"empty objects":       many("data_files", "{}"),
		"nulls":               many("data_files", "null"),
		"empty files":         many("data_files", `{"key":"","item_count":0,"sha256":"","bytes":0}`),
		"files":               many("data_files", `{"key":"data/1.json.gz","item_count":0,"sha256":"`+sum+`","bytes":0}`),
		"keys":                many("key_schema", `{"AttributeName":"","KeyType":"HASH"}`),
		"key objects":         many("key_schema", `{}`),
		"attributes":          many("attribute_definitions", `{"AttributeName":"","AttributeType":"S"}`),
		"attribute names":     many("attribute_definitions", `{"AttributeName":"123456789","AttributeType":"S"}`),
		"escaped attributes":  many("attribute_definitions", `{"AttributeName":"\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","AttributeType":"S"}`),
		"bad attributes":      many("attribute_definitions", `{"AttributeName":"","AttributeType":""}`),
		"indexes":             many("global_secondary_indexes", `{"IndexName":"","KeySchema":[],"Projection":{"ProjectionType":""}}`),
		"index keys":          many("global_secondary_indexes", `{"IndexName":"","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}`),
		"throughputs":         many("global_secondary_indexes", `{"IndexName":"","KeySchema":[],"Projection":{"ProjectionType":""},"ProvisionedThroughput":{"ReadCapacityUnits":0,"WriteCapacityUnits":0}}`),
		"local indexes":       many("local_secondary_indexes", `{"IndexName":"","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL","NonKeyAttributes":[]}}`),
		"non-key attributes":  many("NonKeyAttributes", `""`),
		"named attributes":    many("NonKeyAttributes", `"123456789"`),
		"vector indexes":      many("vector_indexes", `{"IndexName":"","VectorAttribute":{"AttributeName":""},"Dimensions":0,"DistanceFunction":"COSINE","IndexStatus":"","Backfilling":true,"IndexSizeBytes":0,"ItemCount":0,"IndexArn":"","Projection":{"ProjectionType":"ALL"}}`),
		"search schema":       many("SearchSchema", `{"AttributeName":"","SearchSchemaElementType":"HASH"}`),
	} {
		_, err := parseBounded(t, name, []byte(text))
		if json.Valid([]byte(text)) {
			if _, err = parseBounded(t, name+", sealed", sealedText(text)); errors.As(err, new(*ChecksumError)) && name != "long digest" {
				t.Errorf("%s: the seal is broken: %.200v", name, err)
			}
		}
		if err != nil && len(err.Error()) > 5000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

// TestManyFiles reads as many data files as a manifest has room for.
func TestManyFiles(t *testing.T) {
	m := manifestA()
	m.Files, m.SizeBytes = nil, 0
	for i := range 100_000 {
		m.Files = append(m.Files, DataFile{Key: DataFileKey(i + 1), Items: 12345, SHA256: hash64([]byte{byte(i)}), Bytes: 12345678})
		m.Table.Items += 12345
		m.SizeBytes += 12345678
	}
	doc, err := m.Seal()
	if err != nil {
		t.Fatal(err)
	}
	read, err := parseBounded(t, "many files", doc)
	if err != nil || !reflect.DeepEqual(read, m) {
		t.Error(err)
	}
}

func TestBadSyntax(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"", "not JSON at byte 0: unexpected end of JSON input"},
		{"\xef\xbb\xbf{}", "not JSON at byte 1: invalid character 'ï' looking for beginning of value"},
		{"{} {}", "not JSON at byte 4: invalid character '{' after top-level value"},
		{`{"format_version":1,}`, "not JSON at byte 21: invalid character '}' looking for beginning of object key string"},
		{`[1]`, "expected an object, found an array"},
		{` "x" `, "expected an object, found a string"},
		{`null`, "expected an object, found null"},
		{`1`, "expected an object, found a number"},
		{`false`, "expected an object, found a boolean"},
		{`{}`, "missing field `format_version`"},
		{`{"format_version":"1"}`, "format_version: expected an integer, found a string"},
		{`{"format_version":1.0}`, "format_version: expected an integer, found a fraction or an exponent"},
		{`{"format_version":99999999999999999999}`, "format_version: an integer out of range"},
		{`{"format_version":null}`, "format_version: expected an integer, found null"},
		{`{"format_version":1}`, "missing field `backup_arn`"},
		{`{"format_version":1,"format_version":2}`, "duplicate field `format_version`"},
		{`{"format_version":1,"format\u005fversion":1}`, "duplicate field `format_version`"},
		{`{"format_version":1,"backup_arn":"\ud800"}`, "backup_arn: half of a surrogate pair"},
		{`{"format_version":1,"backup_creation_date_time":1e999}`, "backup_creation_date_time: a number out of range"},
		{`{"format_version":1,"backup_creation_date_time":1.` + strings.Repeat("0", 400) + `}`, "backup_creation_date_time: a number out of range"},
		{`{"format_version":1,"data_files":[{"key":"a","item_count":0,"sha256":"","bytes":0},{"key":7}]}`, "data_files[1].key: expected a string, found a number"},
		{`{"format_version":1,"x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`, "missing field `backup_arn`"},
		{`{"format_version":1,"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, "nested deeper than 32 levels at byte 55"},
		{`{"format_version":1,"x":` + strings.Repeat(`{"[":`, 32) + `1` + strings.Repeat("}", 32) + `}`, "nested deeper than 32 levels at byte 179"},
	} {
		if _, err := ParseManifest([]byte(c.in)); !errors.Is(err, ErrManifest) || err.Error() != "invalid backup manifest: "+c.want {
			t.Errorf("%s\nwant %s\ngot  %v", c.in, c.want, err)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	for _, name := range []string{"A/extenddb-manifest.json", "B/extenddb-manifest.json", "A/variant-pretty.json", "A/variant-reordered.json", "A/variant-extra.json", "A/variant-dup.json", "A/variant-nullopt.json"} {
		f.Add(golden(f, name))
	}
	f.Add([]byte(`{"format_version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseBounded(t, "as it is", data)
		if checksum := new(ChecksumError); errors.As(err, &checksum) && len(checksum.Expected) == 64 { // get past the digest
			data = bytes.Replace(data, []byte(checksum.Expected), []byte(checksum.Computed), 1)
			m, err = parseBounded(t, "sealed", data)
		}
		if err != nil {
			return
		}
		again, err := ParseManifest(sealed(m))
		if err != nil {
			t.Fatal(err)
		}
		if again.digest() != m.digest() {
			t.Error("it changes when it is written again")
		}
		if doc, err := again.Seal(); err == nil {
			if _, err := ParseManifest(doc); err != nil {
				t.Errorf("what is sealed is refused: %v", err)
			}
		}
	})
}
