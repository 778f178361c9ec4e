// SPDX-License-Identifier: Apache-2.0

package format

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/extenddb/extenddb/format/ddb"
)

// annexVersion is the version of the annex, which is its own.
const annexVersion = 1

// Annex is what a backup says of itself beyond the manifest. It helps programs
// that know it; those that do not ignore it, and since no digest covers it,
// nothing that matters may depend on it. A backup without one, or with one that
// cannot be read, is as good.
type Annex struct {
	KeyOrdered bool // items are in the order of their keys, across files
	Files      []AnnexFile
	Writer     string // the program, for people
}

// AnnexFile is what the annex says of a data file.
type AnnexFile struct {
	Key               string
	Plain             int64    // uncompressed bytes
	MD5               string   // of the compressed bytes, base64
	FirstKey, LastKey ddb.Item // primary keys; empty in an empty file
}

// Append appends the compact document, without a newline.
func (a *Annex) Append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"annex_version":`...), annexVersion, 10)
	dst = strconv.AppendBool(append(dst, `,"key_ordered":`...), a.KeyOrdered)
	dst = append(dst, `,"files":[`...)
	for i, f := range a.Files {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = ddb.AppendString(append(dst, `{"key":`...), f.Key)
		dst = strconv.AppendInt(append(dst, `,"uncompressed_bytes":`...), f.Plain, 10)
		dst = ddb.AppendString(append(dst, `,"md5":`...), f.MD5)
		dst = ddb.AppendItem(append(dst, `,"first_key":`...), f.FirstKey)
		dst = ddb.AppendItem(append(dst, `,"last_key":`...), f.LastKey)
		dst = append(dst, '}')
	}
	dst = ddb.AppendString(append(dst, `],"writer":`...), a.Writer)
	return append(dst, '}')
}

// ParseAnnex reads an annex. A caller that gets an error goes on without one.
func ParseAnnex(data []byte) (*Annex, error) {
	var in struct {
		Version    int64 `json:"annex_version"`
		KeyOrdered bool  `json:"key_ordered"`
		Files      []struct {
			Key      string          `json:"key"`
			Plain    int64           `json:"uncompressed_bytes"`
			MD5      string          `json:"md5"`
			FirstKey json.RawMessage `json:"first_key"`
			LastKey  json.RawMessage `json:"last_key"`
		} `json:"files"`
		Writer string `json:"writer"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read %s: %w", AnnexName, err)
	}
	if in.Version != annexVersion {
		return nil, fmt.Errorf("read %s: unsupported version %d", AnnexName, in.Version)
	}
	a := &Annex{KeyOrdered: in.KeyOrdered, Writer: in.Writer}
	for i, f := range in.Files {
		first, err := ddb.ParseItem(f.FirstKey)
		if err != nil {
			return nil, fmt.Errorf("read %s: first_key of file %d: %w", AnnexName, i+1, err)
		}
		last, err := ddb.ParseItem(f.LastKey)
		if err != nil {
			return nil, fmt.Errorf("read %s: last_key of file %d: %w", AnnexName, i+1, err)
		}
		if f.Plain < 0 {
			return nil, fmt.Errorf("read %s: uncompressed_bytes of file %d is %d", AnnexName, i+1, f.Plain)
		}
		a.Files = append(a.Files, AnnexFile{Key: f.Key, Plain: f.Plain, MD5: f.MD5, FirstKey: first, LastKey: last})
	}
	return a, nil
}
