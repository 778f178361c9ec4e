// SPDX-License-Identifier: Apache-2.0

package format

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The objects of a backup beside its data files, relative to its prefix.
const (
	ManifestName   = "extenddb-manifest.json"
	AnnexName      = "extenddb-annex.json"
	ProtectName    = "extenddb-protect.json" // marks a backup that may not be deleted
	StartedName    = "_started"
	SummaryName    = "manifest-summary.json"
	SummaryMD5Name = "manifest-summary.md5"
	FilesName      = "manifest-files.json"
	FilesMD5Name   = "manifest-files.md5"
	DataDir        = "data"
)

// Ref names a backup within a store.
type Ref struct{ Account, Table, ID string }

// Prefix is where the backup lies: "account/table/id".
func (r Ref) Prefix() string { return r.Account + "/" + r.Table + "/" + r.ID }

// Key is the store key of an object of the backup.
func (r Ref) Key(object string) string { return r.Prefix() + "/" + object }

// ParseRef reads what Ref.Prefix returns; ok is false when no backup can lie
// there.
func ParseRef(prefix string) (ref Ref, ok bool) {
	parts := strings.Split(prefix, "/")
	if len(parts) != 3 {
		return Ref{}, false
	}
	ref = Ref{Account: parts[0], Table: parts[1], ID: parts[2]}
	if !ref.valid() {
		return Ref{}, false
	}
	return ref, true
}

// valid reports whether the components are as the grammar has them: an account
// of 12 digits, a table's name as DynamoDB allows it, and an identifier.
// Identifiers need not have the form NewBackupID gives them: other writers leave
// out the padding.
func (r Ref) valid() bool {
	return len(r.Account) == 12 && only(r.Account, digit) &&
		tableName(r.Table) &&
		len(r.ID) >= 1 && len(r.ID) <= 128 && only(r.ID, nameByte) && alphanumeric(r.ID[0]) &&
		r.ID != "changelog" // beside the backups of a table, kept free
}

// tableName reports whether s may name a table, or a backup.
func tableName(s string) bool { return len(s) >= 3 && len(s) <= 255 && only(s, nameByte) }

func digit(c byte) bool { return c >= '0' && c <= '9' }

func alphanumeric(c byte) bool {
	return digit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func nameByte(c byte) bool { return alphanumeric(c) || c == '_' || c == '.' || c == '-' }

func lowerHex(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' }

func only(s string, in func(byte) bool) bool {
	for i := range len(s) {
		if !in(s[i]) {
			return false
		}
	}
	return true
}

// NewBackupID makes the identifier of a backup that begins at at: its Unix
// milliseconds in 14 digits and 32 bits of random, as DynamoDB has them. Zero
// bits mark backups that DynamoDB makes by itself and are drawn again.
func NewBackupID(at time.Time, random io.Reader) (string, error) {
	const maxMillis = 99_999_999_999_999
	ms := at.UnixMilli()
	if ms < 1 || ms > maxMillis {
		return "", fmt.Errorf("make a backup identifier: the clock says %s", at.UTC().Format(time.RFC3339))
	}
	var bits [4]byte
	for range 8 { // that many zeros are no chance
		if _, err := io.ReadFull(random, bits[:]); err != nil {
			return "", fmt.Errorf("make a backup identifier: %w", err)
		}
		if bits != [4]byte{} {
			return fmt.Sprintf("%014d-%x", ms, bits), nil
		}
	}
	return "", errors.New("make a backup identifier: the random source yields only zeros")
}

// backupID reports whether s has the form that NewBackupID gives.
func backupID(s string) bool {
	return len(s) == 23 && only(s[:14], digit) && s[14] == '-' && only(s[15:], lowerHex)
}

// uuid reports whether s is a lower-case UUID.
func uuid(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !lowerHex(s[i]) {
				return false
			}
		}
	}
	return true
}

const (
	dataPrefix = DataDir + "/"
	dataSuffix = ".json.gz"
	maxStem    = 20 // digits
)

// DataFileKey is the key of the nth data file, from 1, relative to the prefix
// of the backup: "data/000001.json.gz".
func DataFileKey(n int) string { return fmt.Sprintf("%s%06d%s", dataPrefix, n, dataSuffix) }

// CheckDataFileKey returns an error when key cannot be that of a data file. It
// is to be called again before a key that was read is resolved.
func CheckDataFileKey(key string) error {
	if reason := badDataFileKey(key); reason != "" {
		return fmt.Errorf("invalid data file key %q: %s", cut(key), reason)
	}
	return nil
}

func badDataFileKey(key string) string {
	file, ok := strings.CutPrefix(key, dataPrefix)
	switch {
	case !ok:
		return "must start with the data/ prefix"
	case file == "":
		return "names no file under data/"
	case strings.Contains(file, "/"):
		return "must hold exactly one path segment under data/"
	case strings.Contains(file, `\`):
		return "must not contain a backslash"
	case file == "." || strings.Contains(file, ".."):
		return "must not contain a path-traversal component"
	}
	stem, ok := strings.CutSuffix(file, dataSuffix)
	switch {
	case !ok:
		return "must end with .json.gz"
	case stem == "" || !only(stem, digit):
		return "file stem must be all digits"
	case len(stem) > maxStem:
		return fmt.Sprintf("file stem must have at most %d digits", maxStem)
	}
	return ""
}
