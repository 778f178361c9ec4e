// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

// restore makes a table of a backup.
func (o *Operator) restore(ctx context.Context, p RestoreParams, report progress.Sink) (any, error) {
	if !p.DryRun {
		if !o.reserve(p.As) {
			return nil, failure(backup.Refused, fmt.Errorf("table %q is being restored already", p.As),
				"wait for that restore, or choose another name with --as NAME")
		}
		defer o.release(p.As)
	}
	store, closeStore, err := o.open(ctx, p.Store)
	if err != nil {
		return nil, err
	}
	defer closeStore()
	job := o.ticket(progress.Restore, p.As, report)
	var result *backup.RestoreResult
	err = o.do(ctx, job, func() error {
		defer o.o.Restoring()()
		e := o.env(store, job, p.Limits)
		ref, err := backup.Resolve(ctx, e, p.Backup)
		if err != nil {
			return err
		}
		result, err = backup.Restore(ctx, e, ref, backup.RestoreOptions{
			Target: o.o.Storage, Account: o.o.Account, As: p.As, DryRun: p.DryRun,
			Exists: func(account, table string) (bool, error) { return false, o.exists(ctx, account, table) },
		})
		return err
	})
	if err != nil {
		if !p.DryRun {
			o.o.Wake() // a target that was begun is work for the runner
		}
		return nil, err
	}
	return result, nil
}

// exists returns a *storage.TableExists when there is such a table.
func (o *Operator) exists(ctx context.Context, account, table string) error {
	t, _, err := o.o.Storage.Describe(ctx, account, table)
	switch {
	case err == nil:
		return &storage.TableExists{Table: t}
	case errors.Is(err, storage.ErrTableNotFound):
		return nil
	}
	return err
}

// reserve is false when a table of that name is being restored. Storage would
// tell as well, but only once the backup is verified.
func (o *Operator) reserve(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.targets[name] {
		return false
	}
	o.targets[name] = true
	return true
}

func (o *Operator) release(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.targets, name)
}

// SweepAbandoned does all table drops that are due, for a command that holds
// the database itself and so has no Runner: what a restore left that died is
// among them. One that fails does not stop the others. One that another server
// does, or somebody holds up, is left to that server or to the next one.
func SweepAbandoned(ctx context.Context, m storage.Maintainer, c clock.Clock, log *slog.Logger) error {
	pending, err := m.Pending(ctx, c.Now())
	if err != nil {
		return fmt.Errorf("read pending work: %w", err)
	}
	var failed []error
	for _, w := range pending {
		if w.Kind != storage.TableDrop || ctx.Err() != nil {
			continue
		}
		switch err := sweep(ctx, m, c, log, w); {
		case err == nil, errors.Is(err, storage.ErrNoWork), errors.Is(err, storage.ErrClaimed):
		case errors.Is(err, storage.ErrHeld):
			log.InfoContext(ctx, "job waits", append(named(w), "reason", err)...)
		default:
			failed = append(failed, fmt.Errorf("drop table %q: %w", w.Name, err))
		}
	}
	return errors.Join(append(failed, ctx.Err())...)
}

func sweep(ctx context.Context, m storage.Maintainer, c clock.Clock, log *slog.Logger, w storage.Work) (err error) {
	since := c.Now()
	lease, err := m.Claim(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	for {
		p, err := safeStep(ctx, lease, c.Now())
		if err != nil {
			return err
		}
		if p.Finished {
			log.InfoContext(ctx, "job finished", append(named(w), "rows", p.Done, "took", c.Now().Sub(since))...)
			return nil
		}
	}
}
