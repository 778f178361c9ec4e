// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

// tablesPage is how many names are read from the catalog at a time.
const tablesPage = 100

// backup backs up one table after the other. One that fails does not stop the
// others. Of a single table there is a result only when it succeeds: the error
// says it all.
func (o *Operator) backup(ctx context.Context, p BackupParams, report progress.Sink) (any, error) {
	store, closeStore, err := o.open(ctx, p.Store)
	if err != nil {
		return nil, err
	}
	defer closeStore()
	defer func() {
		if s, ok := store.(Sweeper); ok && ctx.Err() == nil {
			SweepStore(ctx, s, o.o.Clock, o.o.Log.With("store", p.Store))
		}
	}()
	names := p.Tables
	if p.All {
		names, err = o.allTables(ctx)
	} else {
		err = o.checkTables(ctx, names)
	}
	if err != nil {
		return nil, err
	}
	r := &BackupResult{Backups: []backup.Summary{}, Failed: []TableFailure{}}
	started := o.o.Clock.Now()
	var first error
	for _, name := range names {
		sum, err := o.backupTable(ctx, store, name, p, report)
		switch {
		case err != nil:
			e := o.classify(ctx, err)
			r.Failed = append(r.Failed, TableFailure{Table: name, Code: e.Code, Error: e.Error(), Hint: e.Hint})
			if first == nil {
				first = e
			}
		case sum != nil: // else it has gone meanwhile
			r.Backups = append(r.Backups, *sum)
		}
		if ctx.Err() != nil {
			break
		}
	}
	r.Seconds = o.o.Clock.Now().Sub(started).Seconds()
	if first != nil && len(names) == 1 {
		return nil, first
	}
	return r, r.err(ctx, len(names), first)
}

// staleAfter is the age at which the temporary file of a put belongs to one
// that died.
const staleAfter = 24 * time.Hour

// Sweeper is a store in which dead processes leave files.
type Sweeper interface {
	// Sweep removes those last written before the instant, and counts them.
	Sweep(ctx context.Context, olderThan time.Time) (n int, err error)
}

// SweepStore removes what puts left in a store that died a day ago. That it
// cannot is logged: other work can go on.
func SweepStore(ctx context.Context, s Sweeper, clk clock.Clock, log *slog.Logger) {
	switch n, err := s.Sweep(ctx, clk.Now().Add(-staleAfter)); {
	case err != nil && ctx.Err() == nil:
		log.WarnContext(ctx, "removing stale files from the backup store failed", "err", err)
	case n > 0:
		log.InfoContext(ctx, "removed stale files from the backup store", "files", n)
	}
}

// err is what the result of several tables comes with.
func (r *BackupResult) err(ctx context.Context, tables int, first error) error {
	switch {
	case ctx.Err() != nil && len(r.Backups) < tables:
		return failure(backup.Interrupted, fmt.Errorf("interrupted: %d of %d tables were backed up", len(r.Backups), tables), "")
	case first == nil:
		return nil
	}
	var e *backup.Error
	errors.As(first, &e)
	cause := fmt.Errorf("the first: table %q: %w", r.Failed[0].Table, first)
	if len(r.Backups) == 0 {
		return failure(e.Code, fmt.Errorf("all %d backups failed; %w", len(r.Failed), cause), e.Hint)
	}
	return failure(backup.Incomplete, fmt.Errorf("%d of %d backups failed; %w", len(r.Failed), tables, cause), e.Hint)
}

// backupTable backs up one table; nil, nil when it was found in passing but is
// no longer there.
func (o *Operator) backupTable(ctx context.Context, store backupstore.Store, name string, p BackupParams, report progress.Sink) (sum *backup.Summary, err error) {
	t, stats, err := o.o.Storage.Describe(ctx, o.o.Account, name)
	if p.All && (errors.Is(err, storage.ErrTableNotFound) || err == nil && t.Status != storage.Active) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for table %q: %w", name, err)
	}
	job := o.ticket(progress.Backup, name, report)
	err = o.do(ctx, job, func() (err error) {
		sum, err = backup.Create(ctx, o.env(store, job, p.Limits), backup.CreateOptions{
			Source: &patient{o.o.Storage, job}, Backend: o.o.Backend, Version: o.o.Version, Region: o.o.Region,
			Account: o.o.Account, Table: name, Name: p.Name, Items: stats.Items,
		})
		return err
	})
	return sum, err
}

// allTables lists the ACTIVE tables in the order of their names.
func (o *Operator) allTables(ctx context.Context) ([]string, error) {
	var active []string
	after := ""
	for {
		names, more, err := o.o.Storage.Tables(ctx, o.o.Account, after, tablesPage)
		if err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		for _, name := range names {
			t, err := o.o.Storage.Table(ctx, o.o.Account, name)
			switch {
			case errors.Is(err, storage.ErrTableNotFound):
			case err != nil:
				return nil, fmt.Errorf("look for table %q: %w", name, err)
			case t.Status == storage.Active:
				active = append(active, name)
			}
			after = name
		}
		if !more {
			return active, nil
		}
	}
}

// checkTables returns an error unless all tables can be backed up: a slip of
// the pen is told before anything is written.
func (o *Operator) checkTables(ctx context.Context, names []string) error {
	var unknown []string
	for _, name := range names {
		t, err := o.o.Storage.Table(ctx, o.o.Account, name)
		switch {
		case errors.Is(err, storage.ErrTableNotFound) || err == nil && t.Status == storage.Deleting:
			unknown = append(unknown, fmt.Sprintf("%q", name))
		case err != nil:
			return fmt.Errorf("look for table %q: %w", name, err)
		case t.Status != storage.Active:
			return failure(backup.Busy, fmt.Errorf("table %q is %s", name, t.Status), "try again when the table is ACTIVE")
		}
	}
	const hint = "check the name: case matters"
	switch len(unknown) {
	case 0:
		return nil
	case 1:
		return failure(backup.NotFound, fmt.Errorf("table %s does not exist", unknown[0]), hint)
	}
	return failure(backup.NotFound, fmt.Errorf("tables %s do not exist", strings.Join(unknown, ", ")), hint)
}
