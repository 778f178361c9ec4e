// SPDX-License-Identifier: Apache-2.0

// Package migrate knows the steps that bring a catalog to the version of this
// program, and which of them a database still needs. Carrying a step out is
// the engine's: it runs the step and notes it in one transaction.
//
// The libraries for this keep no digest of what they ran, so that an edited
// step goes unnoticed, and reach neither of our drivers below database/sql.
package migrate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Step is one migration: the file NNNN_name.sql.
type Step struct {
	Version int // 1, 2, ...
	Name    string
	SQL     string
	Digest  [sha256.Size]byte // of SQL
}

// Applied is a step as a database remembers it.
type Applied struct {
	Version int
	Digest  []byte
	At      time.Time
}

// Plan is what a database needs.
type Plan struct {
	From, To int // catalog versions; From is 0 for an empty database
	Steps    []Step
}

// The errors of Compare.
var (
	ErrNewer  = errors.New("database is of a newer version") // see *Newer
	ErrEdited = errors.New("a migration is not the one that was applied")
	// ErrPending: the database is of an older version; see *Pending.
	ErrPending = errors.New("database is of an older version")
)

// Newer is an ErrNewer that names both versions.
type Newer struct{ Database, Program int }

func (e *Newer) Error() string {
	return fmt.Sprintf("database is of a newer version: its catalog has version %d, this program knows %d", e.Database, e.Program)
}

// Unwrap returns ErrNewer.
func (e *Newer) Unwrap() error { return ErrNewer }

// Pending is an ErrPending with what is to be done.
type Pending struct{ Plan Plan }

func (e *Pending) Error() string {
	return fmt.Sprintf("database is of an older version: its catalog has version %d, this program needs %d", e.Plan.From, e.Plan.To)
}

// Unwrap returns ErrPending.
func (e *Pending) Unwrap() error { return ErrPending }

// Load reads the steps of a directory. Their numbers must run from 1.
func Load(fsys fs.FS, dir string) ([]Step, error) {
	files, err := fs.Glob(fsys, path.Join(dir, "*.sql")) // sorted
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	steps := make([]Step, len(files))
	for i, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s is not number %d", file, i+1)
		}
		steps[i] = Step{Version: i + 1, Name: name, SQL: string(text), Digest: sha256.Sum256(text)}
	}
	return steps, nil
}

// Compare tells what a database needs that had these steps applied, in order.
// *Newer, or ErrEdited when one of them is not the step of that number.
func Compare(steps []Step, applied []Applied) (Plan, error) {
	if n := len(applied); n > 0 && applied[n-1].Version > len(steps) {
		return Plan{}, &Newer{Database: applied[n-1].Version, Program: len(steps)}
	}
	for i, a := range applied {
		switch {
		case a.Version != i+1:
			return Plan{}, fmt.Errorf("%w: step %d is missing before step %d", ErrEdited, i+1, a.Version)
		case string(a.Digest) != string(steps[i].Digest[:]):
			return Plan{}, fmt.Errorf("%w: step %d (%s)", ErrEdited, a.Version, steps[i].Name)
		}
	}
	return Plan{From: len(applied), To: len(steps), Steps: steps[len(applied):]}, nil
}

// Options say how a migration is carried out.
type Options struct {
	// LockWait is how long to wait for another migration, or for whoever else
	// has the database, to end; 0: not at all.
	LockWait time.Duration
	// NoCopy: no copy of the database is kept; for engines that keep one.
	NoCopy bool
	// Waiting is told, at most once for each, whom the migration waits for; may
	// be nil.
	Waiting func(holder string)
	// Report is told before step i of n, from 1; may be nil.
	Report func(s Step, i, n int)
}

// Done is what a migration did.
type Done struct {
	Plan Plan
	Copy string // where the database is kept as it was; "": nowhere
}

// Begin reports step i of n, from 1.
func (o Options) Begin(s Step, i, n int) {
	if o.Report != nil {
		o.Report(s, i, n)
	}
}

// Wait reports whom the migration waits for.
func (o Options) Wait(holder string) {
	if o.Waiting != nil {
		o.Waiting(holder)
	}
}
