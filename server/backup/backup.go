// SPDX-License-Identifier: Apache-2.0

// Package backup creates, lists, verifies, deletes and restores backups of
// tables: snapshot -> format -> store, and back. Everything is a plain function
// of what it is given; nothing here knows of processes, sockets or commands.
package backup

import (
	"cmp"
	"crypto/rand"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

// Env is what the functions of this package work with. Log and Clock may be nil.
type Env struct {
	Store  backupstore.Store
	Clock  clock.Clock
	Log    *slog.Logger
	Random io.Reader     // of backup ids; nil: crypto/rand
	Report progress.Sink // nil: none
	Job    string        // Event.Job of what is reported
	Rest   func()        // called again and again by a backup, which leaves its core to others meanwhile; nil: runtime.Gosched
	Limits Limits
}

// Limits bound what is read and written; zeros are the defaults. One of the
// workers of a backup reads rows, and compresses them too when it is alone. Those
// of a verification and a restore decode, all but one, at least one of them.
type Limits struct {
	MaxManifest int64             `json:"max_manifest_bytes,omitempty"` // 64 MiB
	Read        format.ReadLimits `json:"read,omitzero"`
	TargetBytes int64             `json:"target_bytes,omitempty"` // plain bytes of a data file; 64 MiB
	Workers     int               `json:"workers,omitempty"`      // goroutines at work at a time; 0: one per CPU
}

// withDefaults returns e with nothing left out.
func (e Env) withDefaults() Env {
	if e.Clock == nil {
		e.Clock = clock.Real{}
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.Random == nil {
		e.Random = rand.Reader
	}
	if e.Report == nil {
		e.Report = progress.Nothing
	}
	if e.Rest == nil {
		e.Rest = runtime.Gosched
	}
	l := &e.Limits
	l.MaxManifest = cmp.Or(l.MaxManifest, format.DefaultMaxManifest)
	l.TargetBytes = cmp.Or(l.TargetBytes, format.DefaultTarget)
	l.Workers = cmp.Or(l.Workers, runtime.GOMAXPROCS(0))
	return e
}

// CreateOptions say what to back up.
type CreateOptions struct {
	Source  storage.Snapshotter
	Backend string // "sqlite"
	Version string // of this program
	Region  string // of ARNs
	Account string
	Table   string
	Name    string // of the backup; "": the table's name and the time
	Items   int64  // estimate of the rows, for progress; 0 unknown
}

// Summary describes a complete backup. Its JSON is a documented contract.
type Summary struct {
	ARN       string    `json:"arn"`
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Account   string    `json:"account"`
	Table     string    `json:"table"`
	Created   time.Time `json:"created"`
	Items     int64     `json:"items"`
	TableSize int64     `json:"table_size_bytes"` // as DynamoDB counts items
	Size      int64     `json:"size_bytes"`       // compressed bytes of the data files
	Files     int       `json:"files"`
	Protected bool      `json:"protected"`
}

// RestoreOptions say what to restore, and as what.
type RestoreOptions struct {
	Target  storage.Loader
	Account string
	As      string // name of the new table
	DryRun  bool   // verify everything, check the target, write nothing
	// Exists reports whether the target name is taken; the dry run and the
	// check before the verification use it. It may answer with a
	// *storage.TableExists instead, which also says what state the table is in.
	Exists func(account, table string) (bool, error)
}

// RestoreResult is what a restore did, or would do. Its JSON is a documented
// contract.
type RestoreResult struct {
	Backup  string `json:"backup"` // ARN
	Table   string `json:"table"`  // of the target
	Items   int64  `json:"items"`
	Size    int64  `json:"table_size_bytes"`
	Indexes int    `json:"indexes"`
	DryRun  bool   `json:"dry_run"`

	Name     string  `json:"name"`      // of the backup
	BackupID string  `json:"backup_id"` // of the backup
	Seconds  float64 `json:"seconds"`   // that it took
	// PassedOver are newer backups that cannot be used; whoever looked for the
	// newest fills it in. Never nil.
	PassedOver []Finding `json:"passed_over"`
}

// Finding is something wrong with a backup.
type Finding struct {
	Object  string `json:"object"` // key within the backup
	Message string `json:"message"`
	Newer   bool   `json:"-"` // a manifest of a format that a newer version writes: not damaged
}

// Report is the result of Verify.
type Report struct {
	Backup   Summary   `json:"backup"`
	Checked  int64     `json:"checked_items"`
	Ordered  bool      `json:"key_ordered"` // found to be: then it has no duplicate keys
	Findings []Finding `json:"findings"`    // never nil, the first hundred
	Omitted  int64     `json:"omitted_findings"`
	Stopped  bool      `json:"stopped"` // at so many findings that the rest was not read
}
