// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
)

// Members of manifest-summary.json with a fixed value in full exports.
const (
	ExportVersion = "2020-06-30"
	ExportOutput  = "DYNAMODB_JSON"

	// IncrementalExport is the ExportType of exports that cannot be restored.
	IncrementalExport = "INCREMENTAL_EXPORT"
)

// ExportSummary is manifest-summary.json of a DynamoDB export (Amazon DynamoDB
// Developer Guide, "DynamoDB table export output format"). Times have
// millisecond precision.
type ExportSummary struct {
	Version            string // "": ExportVersion
	ExportARN          string
	StartTime, EndTime time.Time
	TableARN, TableID  string
	ExportTime         time.Time // of the snapshot
	S3Bucket           string    // empty in a directory
	S3Prefix           string    // without a slash at the end
	S3SSEAlgorithm     string    // "AES256", "KMS"; "NONE" in a directory
	S3SSEKMSKeyID      *string   // nil: null
	ManifestFilesS3Key string    // relative to the bucket
	BilledSizeBytes    int64
	ItemCount          int64
	OutputFormat       string // "": ExportOutput
	ExportType         string // "" for a full export
}

// exportTime is how the service writes times: UTC, three digits of a fraction.
const exportTime = "2006-01-02T15:04:05.000Z"

// Append appends the compact document, without a newline.
func (s *ExportSummary) Append(dst []byte) []byte {
	text := func(name, value string) {
		dst = ddb.AppendString(append(dst, `,"`+name+`":`...), value)
	}
	number := func(name string, value int64) {
		dst = strconv.AppendInt(append(dst, `,"`+name+`":`...), value, 10)
	}
	dst = ddb.AppendString(append(dst, `{"version":`...), cmp.Or(s.Version, ExportVersion))
	text("exportArn", s.ExportARN)
	text("startTime", s.StartTime.UTC().Format(exportTime))
	text("endTime", s.EndTime.UTC().Format(exportTime))
	text("tableArn", s.TableARN)
	text("tableId", s.TableID)
	text("exportTime", s.ExportTime.UTC().Format(exportTime))
	text("s3Bucket", s.S3Bucket)
	text("s3Prefix", s.S3Prefix)
	text("s3SseAlgorithm", s.S3SSEAlgorithm)
	if s.S3SSEKMSKeyID == nil {
		dst = append(dst, `,"s3SseKmsKeyId":null`...)
	} else {
		text("s3SseKmsKeyId", *s.S3SSEKMSKeyID)
	}
	text("manifestFilesS3Key", s.ManifestFilesS3Key)
	number("billedSizeBytes", s.BilledSizeBytes)
	number("itemCount", s.ItemCount)
	text("outputFormat", cmp.Or(s.OutputFormat, ExportOutput))
	if s.ExportType != "" {
		text("exportType", s.ExportType)
	}
	return append(dst, '}')
}

// ParseExportSummary reads manifest-summary.json of any program. Members it does
// not know are ignored; s3Prefix, s3SseAlgorithm, s3SseKmsKeyId, billedSizeBytes
// and exportType may be absent or null.
func ParseExportSummary(data []byte) (*ExportSummary, error) {
	var in struct {
		Version            *string    `json:"version"`
		ExportARN          *string    `json:"exportArn"`
		StartTime          *time.Time `json:"startTime"`
		EndTime            *time.Time `json:"endTime"`
		TableARN           *string    `json:"tableArn"`
		TableID            *string    `json:"tableId"`
		ExportTime         *time.Time `json:"exportTime"`
		S3Bucket           *string    `json:"s3Bucket"`
		S3Prefix           string     `json:"s3Prefix"`
		S3SSEAlgorithm     string     `json:"s3SseAlgorithm"`
		S3SSEKMSKeyID      *string    `json:"s3SseKmsKeyId"`
		ManifestFilesS3Key *string    `json:"manifestFilesS3Key"`
		BilledSizeBytes    int64      `json:"billedSizeBytes"`
		ItemCount          *int64     `json:"itemCount"`
		OutputFormat       *string    `json:"outputFormat"`
		ExportType         string     `json:"exportType"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read %s: %w", SummaryName, err)
	}
	missing := func() string {
		for _, m := range []struct {
			name string
			none bool
		}{
			{"version", in.Version == nil}, {"exportArn", in.ExportARN == nil},
			{"startTime", in.StartTime == nil}, {"endTime", in.EndTime == nil},
			{"tableArn", in.TableARN == nil}, {"tableId", in.TableID == nil},
			{"exportTime", in.ExportTime == nil}, {"s3Bucket", in.S3Bucket == nil},
			{"manifestFilesS3Key", in.ManifestFilesS3Key == nil},
			{"itemCount", in.ItemCount == nil}, {"outputFormat", in.OutputFormat == nil},
		} {
			if m.none {
				return m.name
			}
		}
		return ""
	}()
	switch {
	case missing != "":
		return nil, fmt.Errorf("read %s: no member %s", SummaryName, missing)
	case *in.ItemCount < 0:
		return nil, fmt.Errorf("read %s: itemCount is %d", SummaryName, *in.ItemCount)
	case in.BilledSizeBytes < 0:
		return nil, fmt.Errorf("read %s: billedSizeBytes is %d", SummaryName, in.BilledSizeBytes)
	}
	return &ExportSummary{
		Version: *in.Version, ExportARN: *in.ExportARN,
		StartTime: in.StartTime.UTC(), EndTime: in.EndTime.UTC(),
		TableARN: *in.TableARN, TableID: *in.TableID, ExportTime: in.ExportTime.UTC(),
		S3Bucket: *in.S3Bucket, S3Prefix: in.S3Prefix,
		S3SSEAlgorithm: in.S3SSEAlgorithm, S3SSEKMSKeyID: in.S3SSEKMSKeyID,
		ManifestFilesS3Key: *in.ManifestFilesS3Key,
		BilledSizeBytes:    in.BilledSizeBytes, ItemCount: *in.ItemCount,
		OutputFormat: *in.OutputFormat, ExportType: in.ExportType,
	}, nil
}

// ExportFile is a line of manifest-files.json.
type ExportFile struct {
	Items int64
	MD5   string // of the compressed bytes, base64
	ETag  string // without quotes
	Key   string // dataFileS3Key, relative to the bucket
}

// AppendExportFile appends the line of f and its newline.
func AppendExportFile(dst []byte, f ExportFile) []byte {
	dst = strconv.AppendInt(append(dst, `{"itemCount":`...), f.Items, 10)
	dst = ddb.AppendString(append(dst, `,"md5Checksum":`...), f.MD5)
	dst = ddb.AppendString(append(dst, `,"etag":`...), f.ETag)
	dst = ddb.AppendString(append(dst, `,"dataFileS3Key":`...), f.Key)
	return append(dst, "}\n"...)
}

// DataKey is the file's key below the prefix of the export, "data/<name>". Only
// the end of Key says it: an export that was copied has another prefix.
func (f ExportFile) DataKey() (string, error) {
	dir, name := path.Split(f.Key)
	if (dir != DataDir+"/" && !strings.HasSuffix(dir, "/"+DataDir+"/")) ||
		name == "" || name == "." || name == ".." || strings.ContainsAny(name, "\\\x00") {
		return "", fmt.Errorf("invalid dataFileS3Key %q: must end in %s/ and the name of a file", f.Key, DataDir)
	}
	return DataDir + "/" + name, nil
}

// ParseExportFiles reads manifest-files.json of any program. Blank lines, a
// missing last newline and members it does not know are accepted; what DataKey
// refuses is not.
func ParseExportFiles(data []byte) ([]ExportFile, error) {
	var files []ExportFile
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		f, err := parseExportFile(line)
		if err != nil {
			return nil, fmt.Errorf("read %s, line %d: %w", FilesName, n, err)
		}
		files = append(files, f)
	}
	return files, nil
}

func parseExportFile(line []byte) (ExportFile, error) {
	var in struct {
		Items *int64  `json:"itemCount"`
		MD5   *string `json:"md5Checksum"`
		ETag  *string `json:"etag"`
		Key   *string `json:"dataFileS3Key"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return ExportFile{}, err
	}
	switch {
	case in.Items == nil:
		return ExportFile{}, errors.New("no member itemCount")
	case in.MD5 == nil:
		return ExportFile{}, errors.New("no member md5Checksum")
	case in.ETag == nil:
		return ExportFile{}, errors.New("no member etag")
	case in.Key == nil:
		return ExportFile{}, errors.New("no member dataFileS3Key")
	case *in.Items < 0:
		return ExportFile{}, fmt.Errorf("itemCount is %d", *in.Items)
	}
	if sum, err := base64.StdEncoding.Strict().DecodeString(*in.MD5); err != nil || len(sum) != md5.Size {
		return ExportFile{}, fmt.Errorf("md5Checksum %q is no MD5 in base64", *in.MD5)
	}
	f := ExportFile{Items: *in.Items, MD5: *in.MD5, ETag: *in.ETag, Key: *in.Key}
	_, err := f.DataKey()
	return f, err
}

// MD5Text is the content of the .md5 file beside a manifest: its MD5 in base64,
// without a newline.
func MD5Text(data []byte) string {
	sum := md5.Sum(data)
	return base64.StdEncoding.EncodeToString(sum[:])
}
