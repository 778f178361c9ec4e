// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// TestCrossChecks breaks each of them in a document whose digest is right: what
// is read is refused, and so is what is to be sealed.
func TestCrossChecks(t *testing.T) {
	t.Parallel()
	const noKey = " make no key"
	attr := func(name, typ string) []ddb.KeySchemaElement {
		return []ddb.KeySchemaElement{{AttributeName: name, KeyType: typ}}
	}
	for _, c := range []struct {
		want   string
		change func(m *Manifest)
	}{
		{`backup_arn: invalid backup ARN: arn:x`, func(m *Manifest) { m.BackupARN = "arn:x" }},
		{`backup_name "a b" is no name of 3 to 255 letters, digits, '_', '.' and '-'`, func(m *Manifest) { m.BackupName = "a b" }},
		{`backup_name "" is no name`, func(m *Manifest) { m.BackupName = "" }},
		{`backup_creation_date_time 0 is not between 1 and 1e11`, func(m *Manifest) { m.Created = 0 }},
		{`backup_creation_date_time 0.999 is not between`, func(m *Manifest) { m.Created = 0.999 }},
		{`backup_creation_date_time 1e+11 is not between 1 and 1e11`, func(m *Manifest) { m.Created = 1e11 }},
		{`source_table: table_creation_date_time -1 is not between`, func(m *Manifest) { m.Table.Created = -1 }},
		{`source_table: table_name is Other, but backup_arn names table My.Table-2`, func(m *Manifest) { m.Table.Name = "Other" }},
		{`source_table: table_arn "arn:aws:s3:::x" names no table`, func(m *Manifest) { m.Table.ARN = "arn:aws:s3:::x" }},
		{`names no table`, func(m *Manifest) { m.Table.ARN = "arn:aws:dynamodb:eu-west-1:000000000001:index/My.Table-2" }},
		{`source_table: table_arn names account 000000000002, but backup_arn names account 000000000001`,
			func(m *Manifest) { m.Table.ARN = strings.Replace(m.Table.ARN, "0001", "0002", 1) }},
		{`source_table: table_arn names table my.Table-2, but table_name is My.Table-2`,
			func(m *Manifest) { m.Table.ARN = strings.Replace(m.Table.ARN, "My", "my", 1) }},
		{`source_table: item_count -2 is negative`, func(m *Manifest) { m.Table.Items = -2 }},
		{`source_table: table_size_bytes -1 is negative`, func(m *Manifest) { m.Table.SizeBytes = -1 }},
		{`source_table: billing_mode "FREE" is none of PROVISIONED, PAY_PER_REQUEST`, func(m *Manifest) { m.Table.BillingMode = "FREE" }},
		{`source_table: table_class "" is none of STANDARD, STANDARD_INFREQUENT_ACCESS`, func(m *Manifest) { m.Table.TableClass = new("") }},
		{`source_table: sse_specification.SSEType "ROT13" is none of AES256, KMS`, func(m *Manifest) { m.Table.SSE.SSEType = "ROT13" }},
		{`source_table.on_demand_throughput: MaxReadRequestUnits -2 is negative`, func(m *Manifest) { m.Table.OnDemand.MaxReadRequestUnits = new(int64(-2)) }},
		{`source_table.on_demand_throughput: MaxWriteRequestUnits -9 is negative`, func(m *Manifest) { m.Table.OnDemand.MaxWriteRequestUnits = new(int64(-9)) }},
		{`source_table.provisioned_throughput: ReadCapacityUnits -1 is negative`, func(m *Manifest) { m.Table.Throughput.ReadCapacityUnits = -1 }},
		{`source_table.provisioned_throughput: WriteCapacityUnits -1 is negative`, func(m *Manifest) { m.Table.Throughput.WriteCapacityUnits = -1 }},

		{`source_table.attribute_definitions[1]: AttributeType "BOOL" is none of S, N, B`, func(m *Manifest) { m.Table.AttributeDefinitions[1].AttributeType = "BOOL" }},
		{`source_table.key_schema: attribute "a" is not defined`, func(m *Manifest) { m.Table.AttributeDefinitions = m.Table.AttributeDefinitions[:1] }},
		{`source_table.key_schema: KeyType "hash" is none of HASH, RANGE`, func(m *Manifest) { m.Table.KeySchema[0].KeyType = "hash" }},
		{`source_table.key_schema: HASH attribute "pk" follows a RANGE attribute`, func(m *Manifest) { k := m.Table.KeySchema; k[0], k[1] = k[1], k[0] }},
		{`source_table.key_schema: 2 HASH and 0 RANGE attributes` + noKey, func(m *Manifest) { m.Table.KeySchema[1].KeyType = ddb.Hash }},
		{`source_table.key_schema: 0 HASH and 1 RANGE attributes` + noKey, func(m *Manifest) { m.Table.KeySchema = attr("pk", ddb.Range) }},
		{`source_table.key_schema: 1 HASH and 2 RANGE attributes` + noKey, func(m *Manifest) { m.Table.KeySchema = append(m.Table.KeySchema, m.Table.KeySchema[1]) }},
		{`source_table.key_schema: attribute "pk" is in it twice`, func(m *Manifest) { m.Table.KeySchema[1].AttributeName = "pk" }},
		{`source_table.key_schema: attribute name "" has not 1 to 255 characters`, func(m *Manifest) {
			m.Table.KeySchema[0].AttributeName, m.Table.AttributeDefinitions[0].AttributeName = "", ""
		}},
		{`has not 1 to 255 characters`, func(m *Manifest) {
			long := strings.Repeat("é", 256)
			m.Table.KeySchema[0].AttributeName, m.Table.AttributeDefinitions[0].AttributeName = long, long
		}},
		{`source_table.key_schema: 0 HASH and 0 RANGE attributes` + noKey, func(m *Manifest) { m.Table.KeySchema = nil }},
		{`source_table.global_secondary_indexes[0].KeySchema: attribute "none" is not defined`, func(m *Manifest) { m.Table.GlobalIndexes[0].KeySchema = attr("none", ddb.Hash) }},
		{`source_table.global_secondary_indexes[0].KeySchema: 5 HASH and 0 RANGE attributes` + noKey, func(m *Manifest) {
			for range 4 {
				m.Table.GlobalIndexes[0].KeySchema = append(m.Table.GlobalIndexes[0].KeySchema, attr("pk", ddb.Hash)...)
			}
		}},
		{`source_table.global_secondary_indexes[0]: ProjectionType "SOME" is none of ALL, KEYS_ONLY, INCLUDE`, func(m *Manifest) { m.Table.GlobalIndexes[0].Projection.ProjectionType = "SOME" }},
		{`source_table.global_secondary_indexes[0].ProvisionedThroughput: ReadCapacityUnits -3 is negative`, func(m *Manifest) { m.Table.GlobalIndexes[0].Throughput.ReadCapacityUnits = -3 }},
		{`source_table.local_secondary_indexes[0].KeySchema: 0 HASH and 0 RANGE attributes` + noKey, func(m *Manifest) { m.Table.LocalIndexes[0].KeySchema = nil }},
		{`source_table.local_secondary_indexes[0].KeySchema: 2 HASH`, func(m *Manifest) { m.Table.LocalIndexes[0].KeySchema[1].KeyType = ddb.Hash }},
		{`source_table.vector_indexes[0]: Dimensions -1 is negative`, func(m *Manifest) { m.Table.VectorIndexes[0].Dimensions = -1 }},
		{`source_table.vector_indexes[0].Dimensions: 4294967296 is out of range`, func(m *Manifest) { m.Table.VectorIndexes[0].Dimensions = 1 << 32 }},
		{`source_table.vector_indexes[0]: IndexSizeBytes -1 is negative`, func(m *Manifest) { m.Table.VectorIndexes[0].SizeBytes = -1 }},
		{`source_table.vector_indexes[0]: ItemCount -1 is negative`, func(m *Manifest) { m.Table.VectorIndexes[0].Items = -1 }},
		{`source_table.vector_indexes[0]: DistanceFunction "FAR" is none of COSINE, EUCLIDEAN, DOT_PRODUCT`, func(m *Manifest) { m.Table.VectorIndexes[0].Distance = "FAR" }},
		{`source_table.vector_indexes[0]: SearchSchemaElementType "RANGE" is none of HASH, INLINE_FILTER`, func(m *Manifest) { m.Table.VectorIndexes[0].SearchSchema[0].ElementType = "RANGE" }},
		{`source_table.vector_indexes[0]: ProjectionType "" is none of`, func(m *Manifest) { m.Table.VectorIndexes[0].Projection.ProjectionType = "" }},

		{`data_files hold 3 items, but item_count is 2`, func(m *Manifest) { m.Files[0].Items = 3 }},
		{`data_files hold 2 items, but item_count is 1`, func(m *Manifest) { m.Table.Items = 1 }},
		{`data_files hold 207 bytes, but backup_size_bytes is 208`, func(m *Manifest) { m.SizeBytes = 208 }},
		{`data_files hold 207 bytes, but backup_size_bytes is -1`, func(m *Manifest) { m.SizeBytes = -1 }},
		{`data_files hold 206 bytes, but backup_size_bytes is 207`, func(m *Manifest) { m.Files[0].Bytes = 206 }},
		{`data_files hold 0 items, but item_count is 2`, func(m *Manifest) { m.Files = nil }},
		{`data_files[0]: item_count -1 is negative`, func(m *Manifest) { m.Files[0].Items = -1 }},
		{`data_files[0]: bytes -1 is negative`, func(m *Manifest) { m.Files[0].Bytes = -1 }},
		{`data_files[0]: sha256 "` + strings.Repeat("A", 64) + `" is not 64 lower-case hexadecimal digits`, func(m *Manifest) { m.Files[0].SHA256 = strings.Repeat("A", 64) }},
		{`data_files[0]: sha256 "" is not`, func(m *Manifest) { m.Files[0].SHA256 = "" }},
		{`data_files[0]: invalid data file key "../x": must start with the data/ prefix`, func(m *Manifest) { m.Files[0].Key = "../x" }},
		{`data_files lists data/000001.json.gz twice`, func(m *Manifest) {
			m.Files = []DataFile{m.Files[0], {Key: "data/2.json.gz", SHA256: m.Files[0].SHA256}, {Key: m.Files[0].Key, SHA256: m.Files[0].SHA256}}
		}},
		{`data_files: the sums of items or bytes are out of range`, func(m *Manifest) {
			m.Files = append(m.Files, DataFile{Key: "data/2.json.gz", SHA256: m.Files[0].SHA256, Items: math.MaxInt64})
		}},
		{`data_files: the sums of items or bytes are out of range`, func(m *Manifest) {
			m.Files = append(m.Files, DataFile{Key: "data/2.json.gz", SHA256: m.Files[0].SHA256, Bytes: math.MaxInt64})
		}},
	} {
		m := manifestB()
		c.change(m)
		_, err := ParseManifest(sealed(m))
		if !errors.Is(err, ErrManifest) || !strings.HasPrefix(err.Error(), "invalid backup manifest: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %s\ngot  %v", c.want, err)
		}
		m.SHA256 = "as it was"
		if _, sealing := m.Seal(); !errors.Is(sealing, ErrManifest) || sealing.Error() != err.Error() || m.SHA256 != "as it was" {
			t.Errorf("sealing: %v\nreading: %v", sealing, err)
		}
	}
}

func TestTooManyDataFiles(t *testing.T) {
	t.Parallel()
	m := manifestA()
	m.Files = make([]DataFile, MaxDataFiles+1)
	if err := m.check(); err == nil || err.Error() != "data_files lists 1000001 files, more than 1000000" {
		t.Error(err)
	}
}

// TestReadOnly has what others may write, and Seal does not.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want   string
		change func(m *Manifest)
	}{
		{"backup_arn is of partition aws-cn, which other readers refuse", func(m *Manifest) { m.BackupARN = strings.Replace(m.BackupARN, ":aws:", ":aws-cn:", 1) }},
		{"backup_arn: identifier 1757500000123-73d8d5bc is not 14 digits, '-' and 8 hexadecimal digits", func(m *Manifest) { m.BackupARN = strings.Replace(m.BackupARN, "01757", "1757", 1) }},
		{`source_table.table_id "T" is no lower-case UUID`, func(m *Manifest) { m.Table.ID = "T" }},
		{"is no lower-case UUID", func(m *Manifest) { m.Table.ID = strings.ToUpper(m.Table.ID) }},
		{"is no lower-case UUID", func(m *Manifest) { m.Table.ID = strings.Replace(m.Table.ID, "-", "a", 1) }},
		{"backup_creation_date_time 1.7575000005583227e+09 is not on a millisecond", func(m *Manifest) { m.Created = 1757500000.5583227 }},
		{"source_table.table_creation_date_time 1.0001 is not on a millisecond", func(m *Manifest) { m.Table.Created = 1.0001 }},
		{"data_files is empty", func(m *Manifest) { m.Files, m.SizeBytes = nil, 0 }},
	} {
		m := manifestA()
		c.change(m)
		if _, err := ParseManifest(sealed(m)); err != nil {
			t.Errorf("reading, %s: %v", c.want, err)
		}
		if _, err := m.Seal(); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %s\ngot  %v", c.want, err)
		}
	}
}

// TestSealRefusesInvalidUTF8 puts it into every string that may hold anything.
func TestSealRefusesInvalidUTF8(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb"
	for name, change := range map[string]func(m *Manifest){
		"source_backend":          func(m *Manifest) { m.SourceBackend = bad },
		"source_extenddb_version": func(m *Manifest) { m.SourceVersion = bad },
		"kind":                    func(m *Manifest) { m.Snapshot.Kind = bad },
		"marker":                  func(m *Manifest) { m.Snapshot.Marker = bad },
		"Status":                  func(m *Manifest) { m.Table.SSE.Status = bad },
		"KMSMasterKeyArn":         func(m *Manifest) { m.Table.SSE.KMSMasterKeyArn = bad },
		"IndexName":               func(m *Manifest) { m.Table.LocalIndexes[0].IndexName = bad },
		"NonKeyAttributes":        func(m *Manifest) { m.Table.GlobalIndexes[0].Projection.NonKeyAttributes[1] = bad },
		"IndexArn":                func(m *Manifest) { m.Table.VectorIndexes[0].ARN = bad },
		"IndexStatus":             func(m *Manifest) { m.Table.VectorIndexes[0].Status = bad },
		"AttributeName": func(m *Manifest) {
			m.Table.KeySchema[0].AttributeName, m.Table.AttributeDefinitions[0].AttributeName = bad, bad
			m.Table.LocalIndexes = nil
		},
	} {
		m := manifestB()
		change(m)
		_, err := m.Seal()
		if !errors.Is(err, ErrManifest) || err.Error() != "invalid backup manifest: "+name+" is not valid UTF-8" || m.SHA256 != "" {
			t.Errorf("%s: %v", name, err)
		}
		doc := bytes.Replace(golden(t, "B/"+ManifestName), []byte("0.1.11"), []byte(bad), 1)
		if _, err := ParseManifest(doc); err == nil || err.Error() != "invalid backup manifest: not valid UTF-8" {
			t.Errorf("reading: %v", err)
		}
	}
}

func TestSealRefusesWhatNobodyReads(t *testing.T) {
	t.Parallel()
	m := manifestA()
	m.Snapshot.Marker = strings.Repeat("x", DefaultMaxManifest)
	if _, err := m.Seal(); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), "1 data files make it larger than 67108864 bytes") {
		t.Error(err)
	}
}

func TestCheckPlace(t *testing.T) {
	t.Parallel()
	m := goldenManifest(t, "A")
	ref := Ref{Account: "123456789012", Table: "Music", ID: "01757500000123-73d8d5bc"}
	if err := m.Check(ref); err != nil {
		t.Error(err)
	}
	for want, r := range map[string]Ref{
		"backup_arn names account 123456789012, but it was found below 123456789013":                     {Account: "123456789013", Table: ref.Table, ID: ref.ID},
		"backup_arn names table Music, but it was found below music":                                     {Account: ref.Account, Table: "music", ID: ref.ID},
		"backup_arn names backup 01757500000123-73d8d5bc, but it was found below 1757500000123-73d8d5bc": {Account: ref.Account, Table: ref.Table, ID: ref.ID[1:]},
	} {
		if err := m.Check(r); !errors.Is(err, ErrManifest) || err.Error() != "invalid backup manifest: "+want {
			t.Errorf("want %s\ngot  %v", want, err)
		}
	}
	m.BackupARN = "x"
	if err := m.Check(ref); !errors.Is(err, ErrManifest) || err.Error() != "invalid backup manifest: invalid backup ARN: x" {
		t.Error(err)
	}
}

// TestMembers takes every member out, gives it twice, and gives it each other
// JSON type: all that is required is required, and nothing is converted.
func TestMembers(t *testing.T) {
	t.Parallel()
	optional := []string{
		"provisioned_throughput", "on_demand_throughput", "table_class", "sse_specification", "global_secondary_indexes",
		"local_secondary_indexes", "vector_indexes", "MaxReadRequestUnits", "MaxWriteRequestUnits", "SSEType", "KMSMasterKeyArn",
		"NonKeyAttributes", "ProvisionedThroughput", "SearchSchema", "Backfilling",
	}
	m := manifestB()
	m.Table.VectorIndexes[0].Backfilling = new(true)
	doc := sealed(m)
	found := 0
	eachMember(doc, 0, func(from, to int, name, value string) {
		found++
		isOptional := slices.Contains(optional, name) || name == "Projection" && from > bytes.Index(doc, []byte("vector_indexes"))
		without := string(doc[:from]) + `"":0` + string(doc[to:])
		_, err := ParseManifest([]byte(without))
		switch {
		case isOptional && !errors.As(err, new(*ChecksumError)) && err != nil:
			t.Errorf("without %s: %v", name, err)
		case !isOptional && (!errors.Is(err, ErrManifest) || !strings.HasSuffix(err.Error(), "missing field `"+name+"`")):
			t.Errorf("without %s: %v", name, err)
		}
		twice := string(doc[:to]) + "," + string(doc[from:to]) + string(doc[to:])
		_, err = ParseManifest([]byte(twice))
		if !errors.Is(err, ErrManifest) || !strings.HasSuffix(err.Error(), "duplicate field `"+name+"`") {
			t.Errorf("%s twice: %v", name, err)
		}
		for _, other := range []string{`null`, `true`, `1`, `1.5`, `"x"`, `[]`, `{}`, `[0]`} {
			if fits(name, value, other) || other == "null" && isOptional {
				continue
			}
			in := string(doc[:to-len(value)]) + other + string(doc[to:])
			_, err := ParseManifest([]byte(in))
			if !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "expected a") && !strings.Contains(err.Error(), "missing field") {
				t.Errorf("%s: %s: %v", name, other, err)
			}
		}
	})
	if found != 83 {
		t.Errorf("%d members", found)
	}
}

// fits reports whether other may stand in the place of value.
func fits(name, value, other string) bool {
	switch other {
	case "{}":
		return name == "on_demand_throughput" // both of its members are optional
	case "[0]":
		return false
	case "1":
		return digit(value[0]) || value == "null" // a maximum
	case "1.5":
		return strings.Contains(value, ".") && digit(value[0])
	}
	return value[0] == other[0]
}

// eachMember calls f for every member of the objects in raw, which begins at
// base of the document, with where it is.
func eachMember(raw []byte, base int, f func(from, to int, name, value string)) {
	object := raw[0] == '{'
	for c := inside(raw); ; {
		part := c.next()
		if part == nil {
			return
		}
		from, value := base+c.pos-len(part), part
		if object {
			value = c.next()
			f(from, base+c.pos, string(part[1:len(part)-1]), string(value))
		}
		if value[0] == '{' || value[0] == '[' {
			eachMember(value, base+c.pos-len(value), f)
		}
	}
}
