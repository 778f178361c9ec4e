// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	prefixB = "extenddb/000000000001/My.Table-2/01757500000456-0000abcd"
	tableB  = "arn:aws:dynamodb:eu-west-1:000000000001:table/My.Table-2"
)

// summaryB is manifest-summary.json of the golden backup B.
func summaryB() *ExportSummary {
	return &ExportSummary{
		ExportARN: tableB + "/export/01757500000456-0000abcd",
		StartTime: time.UnixMilli(1757500000500), EndTime: time.UnixMilli(1757500001250),
		TableARN: tableB, TableID: "0f0e0d0c-0b0a-4908-8706-050403020100",
		ExportTime: time.UnixMilli(1757500000500).In(time.FixedZone("", 7200)),
		S3Bucket:   "my-extenddb-backups", S3Prefix: prefixB, S3SSEAlgorithm: "AES256",
		ManifestFilesS3Key: prefixB + "/manifest-files.json",
		BilledSizeBytes:    73, ItemCount: 2,
	}
}

func TestExportSummary(t *testing.T) {
	t.Parallel()
	want := string(golden(t, "B/manifest-summary.json"))
	got := summaryB().Append([]byte("x"))
	if string(got) != "x"+want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if MD5Text([]byte(want)) != string(golden(t, "B/manifest-summary.md5")) || MD5Text([]byte(want)) != "bwqTpH2/InFEaL3ASxC7zA==" {
		t.Error(MD5Text([]byte(want)))
	}
	back, err := ParseExportSummary([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if again := back.Append(nil); string(again) != want || back.Version != ExportVersion || back.OutputFormat != ExportOutput {
		t.Errorf("reads back as %s", again)
	}

	key := "arn:aws:kms:eu-west-1:000000000001:key/abcd"
	s := summaryB()
	s.S3SSEKMSKeyID, s.S3SSEAlgorithm, s.ExportType, s.S3Prefix = &key, "KMS", IncrementalExport, "a\"\u2028"
	text := string(s.Append(nil))
	for _, part := range []string{`"s3SseAlgorithm":"KMS","s3SseKmsKeyId":"` + key + `","manifest`, `"DYNAMODB_JSON","exportType":"INCREMENTAL_EXPORT"}`, `"a\"` + "\u2028" + `"`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s\nlacks %s", text, part)
		}
	}
	if back, err := ParseExportSummary([]byte(text)); err != nil || *back.S3SSEKMSKeyID != key || back.ExportType != IncrementalExport {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestForeignSummary(t *testing.T) {
	t.Parallel()
	full := string(golden(t, "B/manifest-summary.json"))
	want, err := ParseExportSummary([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	optional := []string{`"s3Prefix":"` + prefixB + `"`, `"s3SseAlgorithm":"AES256"`, `"billedSizeBytes":73`}
	for _, how := range []string{"null", "absent"} {
		text := full
		for _, m := range optional {
			name, _, _ := strings.Cut(m, ":")
			if how == "null" {
				text = strings.Replace(text, m, name+":null", 1)
			} else {
				text = strings.Replace(text, m+",", "", 1)
			}
		}
		bare := *want
		bare.S3Prefix, bare.S3SSEAlgorithm, bare.BilledSizeBytes = "", "", 0
		if got, err := ParseExportSummary([]byte(text)); err != nil || !reflect.DeepEqual(got, &bare) {
			t.Errorf("%s: %+v, %v", how, got, err)
		}
	}
	more := strings.Replace(full, `{"version"`, `{"outputView":{"x":[1]},"version"`, 1) + "\n"
	if got, err := ParseExportSummary([]byte(more)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRefusedSummary(t *testing.T) {
	t.Parallel()
	full := string(golden(t, "B/manifest-summary.json"))
	for _, name := range []string{
		"version", "exportArn", "startTime", "endTime", "tableArn", "tableId", "exportTime",
		"s3Bucket", "manifestFilesS3Key", "itemCount", "outputFormat",
	} {
		_, err := ParseExportSummary([]byte(strings.Replace(full, `"`+name+`"`, `"other"`, 1)))
		if err == nil || err.Error() != "read manifest-summary.json: no member "+name {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for old, changed := range map[string]string{
		`"itemCount":2`:        `"itemCount":-1`,
		`"billedSizeBytes":73`: `"billedSizeBytes":-1`,
		`"itemCount":2,`:       `"itemCount":2.5,`,
		`"version":"`:          `"version":1,"x":"`,
		`T10:26:41.250Z`:       ` 10:26`,
		`"DYNAMODB_JSON"}`:     `"DYNAMODB_JSON"`,
		`"DYNAMODB_JSON"} `:    `"DYNAMODB_JSON"}{`,
	} {
		text := strings.Replace(full+" ", old, changed, 1)
		if _, err := ParseExportSummary([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "read manifest-summary.json: ") {
			t.Errorf("%s: %v", changed, err)
		}
	}
}

const foreignLine = `{"itemCount":3,"md5Checksum":"1jUj2wzOC+iuxJN+LKy6Aw==","etag":"d63523db0cce0be8aec4937e2cacba03","dataFileS3Key":"AWSDynamoDB/01693685827463-2d8752fd/data/ka2sswm5ha4uejfqcmnjcbg6ru.json.gz"}` + "\n"

func TestExportFiles(t *testing.T) {
	t.Parallel()
	_, want := goldenB(t)
	sum, err := base64.StdEncoding.DecodeString(want.MD5)
	if err != nil {
		t.Fatal(err)
	}
	line := AppendExportFile(nil, ExportFile{Items: want.Items, MD5: want.MD5, ETag: hex.EncodeToString(sum), Key: prefixB + "/data/000001.json.gz"})
	if string(line) != string(golden(t, "B/manifest-files.json")) || len(line) != 194 {
		t.Errorf("%s", line)
	}
	if MD5Text(line) != string(golden(t, "B/manifest-files.md5")) || MD5Text(line) != "G2EdaOAf0D37LryxNbI1ug==" {
		t.Error(MD5Text(line))
	}

	text := "\n" + foreignLine + " \r\n" + strings.TrimSuffix(string(line), "\n")
	files, err := ParseExportFiles([]byte(text))
	if err != nil || len(files) != 2 {
		t.Fatalf("%+v, %v", files, err)
	}
	if len(foreignLine) != 193 || string(AppendExportFile(nil, files[0])) != foreignLine || !bytes.Equal(AppendExportFile(nil, files[1]), line) {
		t.Errorf("%+v", files)
	}
	var keys []string
	for _, f := range files {
		key, err := f.DataKey()
		if err != nil {
			t.Error(err)
		}
		keys = append(keys, key)
	}
	if !slices.Equal(keys, []string{"data/ka2sswm5ha4uejfqcmnjcbg6ru.json.gz", "data/000001.json.gz"}) {
		t.Error(keys)
	}
	if files, err := ParseExportFiles(nil); err != nil || len(files) != 0 {
		t.Errorf("no lines: %v, %v", files, err)
	}
	if _, err := ParseExportFiles([]byte(strings.Replace(foreignLine, `{`, `{"later":[{}],`, 1))); err != nil {
		t.Errorf("unknown member: %v", err)
	}
}

func TestRefusedExportFiles(t *testing.T) {
	t.Parallel()
	for old, changed := range map[string]string{
		`"itemCount":3`:                       `"itemCount":-3`,
		`"itemCount":3,`:                      ``,
		`:3`:                                  `:"3"`,
		`"md5Checksum"`:                       `"md5"`,
		`"etag"`:                              `"e"`,
		`"dataFileS3Key"`:                     `"key"`,
		`1jUj2wzOC+iuxJN+LKy6Aw==`:            `1jUj2wzOC+iuxJN+LKy6`,
		`LKy6Aw==`:                            `LKy6Aw`,
		`N+LKy6Aw==`:                          `N+LKy6!w==`,
		`}` + "\n":                            "",
		`/data/`:                              `/other/`,
		`fd/data/`:                            `fd/nodata/`,
		`ka2sswm5ha4uejfqcmnjcbg6ru.json.gz`:  `..`,
		`ka2sswm5ha4uejfqcmnjcbg6ru.json.gz"`: `"`,
		`ru.json.gz`:                          `ru\\json.gz`,
		`data/ka2`:                            `data/x/ka2`,
	} {
		text := strings.Replace(foreignLine, old, changed, 1)
		if text == foreignLine {
			t.Fatalf("%s is not in the line", old)
		}
		_, err := ParseExportFiles([]byte(foreignLine + "\n" + text))
		if err == nil || !strings.HasPrefix(err.Error(), "read manifest-files.json, line 3: ") {
			t.Errorf("%s: %v", changed, err)
		}
	}
}

func TestDataKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"data/1.json.gz":             "data/1.json.gz",
		"a/b/data/1.json.gz":         "data/1.json.gz",
		"data/data/1.json.gz":        "data/1.json.gz",
		"/data/x":                    "data/x",
		"AWSDynamoDB/data/x.json.gz": "data/x.json.gz",
		"../../data/x.json.gz":       "data/x.json.gz", // only the end counts
		"":                           "", "data": "", "data/": "", "data/.": "", "data/..": "", "x": "", "xdata/y": "", "a/Data/x": "", "data/a\\b": "", "data/a\x00": "",
	} {
		got, err := ExportFile{Key: key}.DataKey()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", key, got, err)
		}
	}
}
