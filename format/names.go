// SPDX-License-Identifier: Apache-2.0

package format

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
