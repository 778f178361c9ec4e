// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/extenddb/extenddb/server/backup"
)

// The kinds of jobs an Operator does, as requests name them.
const (
	KindBackup  = "backup-create" // BackupParams -> *BackupResult
	KindRestore = "restore"       // RestoreParams -> *backup.RestoreResult
)

// BackupParams say what to back up, and where to.
type BackupParams struct {
	Store  string        `json:"store"`            // URL, absolute
	Tables []string      `json:"tables,omitempty"` // names
	All    bool          `json:"all,omitempty"`    // every ACTIVE table, instead of names
	Name   string        `json:"name,omitempty"`   // of each backup; "": the table's and the time
	Limits backup.Limits `json:"limits,omitzero"`
}

// RestoreParams say what to restore, and as what.
type RestoreParams struct {
	Store  string        `json:"store"`  // URL, absolute
	Backup string        `json:"backup"` // whatever backup.Resolve takes
	As     string        `json:"as"`     // name of the new table
	DryRun bool          `json:"dry_run,omitempty"`
	Limits backup.Limits `json:"limits,omitzero"`
}

// BackupResult is what became of each table. Its JSON is a documented
// contract.
type BackupResult struct {
	Backups []backup.Summary `json:"backups"` // never nil
	Failed  []TableFailure   `json:"failed"`  // never nil
	Seconds float64          `json:"seconds"` // that all of it took, with the waiting
}

// TableFailure is a table that was not backed up.
type TableFailure struct {
	Table string      `json:"table"`
	Code  backup.Code `json:"code"`
	Error string      `json:"error"`
	Hint  string      `json:"hint"`
}

// Bounds of what a request may ask for.
const (
	maxTarget  = 1 << 30 // bytes of a data file
	maxWorkers = 256
)

// decode reads parameters, and refuses members it does not know: they would be
// wishes of a newer client that are not heard.
func decode[T any](params json.RawMessage) (p T, err error) {
	dec := json.NewDecoder(bytes.NewReader(params))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&p); err == nil {
		if _, rest := dec.Token(); !errors.Is(rest, io.EOF) {
			err = errors.New("something follows the object")
		}
	} else if errors.Is(err, io.EOF) {
		err = errors.New("there are none")
	}
	if err != nil {
		return p, failure(backup.Invalid, fmt.Errorf("invalid parameters: %w", err), "")
	}
	return p, nil
}

func (p *BackupParams) check() error {
	switch {
	case p.Store == "":
		return missing("store")
	case p.All && len(p.Tables) > 0:
		return failure(backup.Invalid, errors.New("either all tables or some by name"), "")
	case !p.All && len(p.Tables) == 0:
		return missing("tables")
	}
	sorted := slices.Sorted(slices.Values(p.Tables))
	for i := range len(sorted) - 1 {
		if sorted[i] == sorted[i+1] {
			return failure(backup.Invalid, fmt.Errorf("table %q is named twice", sorted[i]), "")
		}
	}
	return checkLimits(p.Limits)
}

func (p *RestoreParams) check() error {
	switch {
	case p.Store == "":
		return missing("store")
	case p.Backup == "":
		return missing("backup")
	case p.As == "":
		return missing("as")
	}
	return checkLimits(p.Limits)
}

func missing(member string) error {
	return failure(backup.Invalid, fmt.Errorf("invalid parameters: member %q is missing", member), "")
}

func checkLimits(l backup.Limits) error {
	if min(l.MaxManifest, l.Read.MaxLine, l.Read.MaxPlain, l.TargetBytes, int64(l.Workers)) < 0 {
		return failure(backup.Invalid, errors.New("limits must not be negative"), "")
	}
	if l.TargetBytes > maxTarget {
		return failure(backup.Invalid, fmt.Errorf("data files of %d bytes are too large; at most %d", l.TargetBytes, maxTarget), "")
	}
	if l.Workers > maxWorkers {
		return failure(backup.Invalid, fmt.Errorf("%d workers are too many; at most %d", l.Workers, maxWorkers), "")
	}
	return nil
}

func failure(code backup.Code, err error, hint string) *backup.Error {
	return &backup.Error{Code: code, Err: err, Hint: hint}
}
