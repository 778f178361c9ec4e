// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestARN(t *testing.T) {
	t.Parallel()
	const prefix = "arn:aws:dynamodb:us-east-1:123456789012:"
	for in, want := range map[string]ARN{
		prefix + "table/Music/backup/01489602797149-73d8d5bc":                       {"aws", "us-east-1", "123456789012", "Music", "01489602797149-73d8d5bc"},
		"arn:aws:dynamodb:eu-west-1:000000000001:table/My.Table-2/backup/0123-abcd": {"aws", "eu-west-1", "000000000001", "My.Table-2", "0123-abcd"},
		prefix + "table/.../backup/1757500000123-73d8d5bc":                          {"aws", "us-east-1", "123456789012", "...", "1757500000123-73d8d5bc"},
		"arn:aws-cn:dynamodb:cn-north-1:000000000001:table/abc/backup/x":            {"aws-cn", "cn-north-1", "000000000001", "abc", "x"},
		"arn:aws-us-gov:dynamodb:us-gov-east-1:000000000001:table/abc/backup/x..y_": {"aws-us-gov", "us-gov-east-1", "000000000001", "abc", "x..y_"},
		prefix + "table/backup/backup/backup":                                       {"aws", "us-east-1", "123456789012", "backup", "backup"},
	} {
		got, err := ParseARN(in)
		if err != nil || got != want || got.String() != in {
			t.Errorf("%s: %v, %+v, %s", in, err, got, got)
		}
	}
	if got := (ARN{Region: "r", Account: "a", Table: "t", ID: "i"}).String(); got != "arn:aws:dynamodb:r:a:table/t/backup/i" {
		t.Error(got)
	}
	for _, in := range []string{
		"", "arn:aws:dynamodb", "arn:aws:dynamodb:us-east-1", prefix[:len(prefix)-1], prefix + "table/Music",
		"arn:aws:dynamodb:us-east-1::table/Music/backup/1", "arn:aws:dynamodb::123456789012:table/Music/backup/1",
		prefix + "table//backup/1", prefix + "table/Music/backup/", prefix + "index/Music/backup/1", prefix + "table/Music/backup/a/b",
		"arn:aws:s3:us-east-1:123456789012:table/Music/backup/1",
		"arn:aws:dynamodb:us/east:123456789012:table/Music/backup/1", "arn:aws-iso:dynamodb:r:123456789012:table/Music/backup/1",
		"arn:aws:dynamodb:us-east-1:12345678901:table/Music/backup/1", "arn:aws:dynamodb:us-east-1:12345678901x:table/Music/backup/1",
		"arn:aws:dynamodb:us-east-1:１23456789012:table/Music/backup/1", "xarn:aws:dynamodb:us-east-1:123456789012:table/Music/backup/1",
		prefix + "table/ab/backup/1", prefix + "table/a b/backup/1", prefix + "table/" + strings.Repeat("a", 256) + "/backup/1",
		prefix + "table/Music/backup/.", prefix + "table/Music/backup/..", prefix + "table/Music/backup/-a", prefix + "table/Music/backup/a:b",
		prefix + `table/Music/backup/a\b`, prefix + "table/Music/backup/a\n", prefix + "table/Music/backup/changelog",
		prefix + "table/Music/backup/" + strings.Repeat("a", 129), prefix + "table/a:b/backup/1", prefix + "table/a/b/backup/1",
		"ARN:aws:dynamodb:us-east-1:123456789012:table/Music/backup/1", prefix + "table/Music/backup/1 ",
	} {
		if got, err := ParseARN(in); err == nil || err.Error() != "invalid backup ARN: "+in || got != (ARN{}) {
			t.Errorf("%q: %v, %+v", in, err, got)
		}
	}
	if _, err := ParseARN(strings.Repeat("é", 1<<20)); err == nil || len(err.Error()) > 1100 {
		t.Error("a long one is quoted in full")
	}
}

func FuzzParseARN(f *testing.F) {
	f.Add("arn:aws:dynamodb:us-east-1:123456789012:table/Music/backup/01489602797149-73d8d5bc")
	f.Add("arn:aws-cn:dynamodb:eu-west-1:000000000001:table/My.Table-2/backup/0123-abcd")
	f.Fuzz(func(t *testing.T, in string) {
		a, err := ParseARN(in)
		if err != nil {
			return
		}
		if a.String() != in {
			t.Errorf("%q becomes %q", in, a)
		}
		if ref, ok := ParseRef(a.Ref().Prefix()); !ok || ref != a.Ref() {
			t.Errorf("%q lies at %q, which is read as %+v", in, a.Ref().Prefix(), ref)
		}
	})
}

func TestRef(t *testing.T) {
	t.Parallel()
	want := Ref{Account: "123456789012", Table: "My_Table.2", ID: "1757500000123-73d8d5bc"}
	const prefix = "123456789012/My_Table.2/1757500000123-73d8d5bc"
	if got, ok := ParseRef(prefix); !ok || got != want || got.Prefix() != prefix || got.Key(ManifestName) != prefix+"/extenddb-manifest.json" {
		t.Errorf("%+v", got)
	}
	for _, in := range []string{
		"", "/", "//", prefix + "/", "/" + prefix, prefix + "/data", "123456789012/My_Table.2", "123456789012/My_Table.2/",
		"_leases/123456789012/Music.json", "123456789012/Music/changelog", "123456789012/../x", "../../x", "123456789012/Mu\x00sic/x",
	} {
		if got, ok := ParseRef(in); ok || got != (Ref{}) {
			t.Errorf("%q: %+v", in, got)
		}
	}
}

func TestNewBackupID(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1489602797149)
	random := bytes.NewReader([]byte{0, 0, 0, 0, 0x73, 0xd8, 0xd5, 0xbc, 0, 0, 0, 1})
	for _, want := range []string{"01489602797149-73d8d5bc", "01489602797149-00000001"} {
		if id, err := NewBackupID(at, iotest.OneByteReader(random)); err != nil || id != want || !backupID(id) {
			t.Errorf("%s, %v, want %s", id, err, want)
		}
	}
	if _, err := NewBackupID(at, random); !errors.Is(err, io.EOF) || err.Error() != "make a backup identifier: EOF" {
		t.Error(err)
	}
	if _, err := NewBackupID(at, bytes.NewReader(make([]byte, 64))); err == nil || !strings.Contains(err.Error(), "yields only zeros") {
		t.Error(err)
	}
	for _, at := range []time.Time{{}, time.UnixMilli(0), time.UnixMilli(1e14)} {
		if id, err := NewBackupID(at, bytes.NewReader([]byte("rand"))); err == nil || !strings.Contains(err.Error(), "the clock says ") {
			t.Errorf("%v: %s, %v", at, id, err)
		}
	}
	if id, err := NewBackupID(time.UnixMilli(1), bytes.NewReader([]byte("rand"))); err != nil || id != "00000000000001-72616e64" {
		t.Error(id, err)
	}
}

func TestDataFileKeys(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "data/000001.json.gz", 999_999: "data/999999.json.gz", 1_000_000: "data/1000000.json.gz"} {
		if got := DataFileKey(n); got != want || CheckDataFileKey(got) != nil {
			t.Errorf("%d: %s, %v", n, got, CheckDataFileKey(got))
		}
	}
	for _, key := range []string{"data/000001.json.gz", "data/42.json.gz", "data/1000000.json.gz", "data/12345678901234567890.json.gz"} {
		if err := CheckDataFileKey(key); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct{ key, reason string }{
		{"", "must start with the data/ prefix"},
		{"../x", "must start with the data/ prefix"},
		{"/etc/passwd", "must start with the data/ prefix"},
		{"other/f.json.gz", "must start with the data/ prefix"},
		{`data\000001.json.gz`, "must start with the data/ prefix"},
		{"Data/000001.json.gz", "must start with the data/ prefix"},
		{"data/", "names no file under data/"},
		{"data/../secret.json.gz", "must hold exactly one path segment under data/"},
		{"data/sub/000001.json.gz", "must hold exactly one path segment under data/"},
		{"data//000001.json.gz", "must hold exactly one path segment under data/"},
		{`data/..\1.json.gz`, "must not contain a backslash"},
		{"data/.", "must not contain a path-traversal component"},
		{"data/..", "must not contain a path-traversal component"},
		{"data/1..json.gz", "must not contain a path-traversal component"},
		{"data/000001.json", "must end with .json.gz"},
		{"data/000001.txt.gz", "must end with .json.gz"},
		{"data/000001.json.gz.evil", "must end with .json.gz"},
		{"data/000001.json.GZ", "must end with .json.gz"},
		{"data/abc.json.gz", "file stem must be all digits"},
		{"data/.json.gz", "file stem must be all digits"},
		{"data/-1.json.gz", "file stem must be all digits"},
		{"data/１.json.gz", "file stem must be all digits"},
		{"data/1\x00.json.gz", "file stem must be all digits"},
		{"data/123456789012345678901.json.gz", "file stem must have at most 20 digits"},
	} {
		err := CheckDataFileKey(c.key)
		if err == nil || !strings.HasPrefix(err.Error(), "invalid data file key \"") || !strings.HasSuffix(err.Error(), "\": "+c.reason) {
			t.Errorf("%q: %v, want %s", c.key, err, c.reason)
		}
	}
	if err := CheckDataFileKey(`data\1.json.gz`); err.Error() != `invalid data file key "data\\1.json.gz": must start with the data/ prefix` {
		t.Error(err)
	}
}
