// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

// Restore makes a new table of a backup. Everything is verified before the
// table exists, and everything is checked again while it is loaded, because a
// store may change between. The table becomes ACTIVE when it is complete; on
// every other path it is gone, or DELETING, which the job runner ends.
func Restore(ctx context.Context, e Env, ref format.Ref, o RestoreOptions) (result *RestoreResult, err error) {
	e = e.withDefaults()
	r := &restore{e: e, ref: ref, o: o, meter: e.meter(progress.Restore, o.As)}
	started := e.Clock.Now()
	log := e.Log.With("account", o.Account, "table", o.As, "dry_run", o.DryRun)
	defer func() {
		finish(ctx, r.meter, err)
		if err != nil {
			LogEnd(ctx, log, progress.Restore, err)
			return
		}
		log.InfoContext(ctx, "restore finished", "items", result.Items, "bytes", result.Size,
			"duration", e.Clock.Now().Sub(started))
	}()
	if err := r.prepare(ctx); err != nil {
		log = log.With("prefix", ref.Prefix()) // the ARN may not be known
		return nil, Classify(ctx, err)
	}
	log = log.With("backup", r.m.BackupARN)
	log.InfoContext(ctx, "restore started")
	if err := r.verify(ctx); err != nil {
		return nil, Classify(ctx, err)
	}
	size := r.m.Table.SizeBytes
	if !o.DryRun {
		if size, err = r.load(ctx); err != nil {
			return nil, Classify(ctx, err)
		}
	}
	return &RestoreResult{
		Backup: r.m.BackupARN, Table: o.As, Items: r.m.Table.Items, Size: size,
		Indexes: r.indexes(), DryRun: o.DryRun,
		Name: r.m.BackupName, BackupID: ref.ID, Seconds: e.Clock.Now().Sub(started).Seconds(), PassedOver: []Finding{},
	}, nil
}

// restore is one restore.
type restore struct {
	e     Env
	ref   format.Ref
	o     RestoreOptions
	meter *progress.Meter
	m     *format.Manifest
	def   ddb.TableDefinition
}

func (r *restore) indexes() int {
	return len(r.def.GlobalSecondaryIndexes) + len(r.def.LocalSecondaryIndexes)
}

// prepare checks the request and the manifest, and sets the work to do: every
// item is verified, loaded and then entered into each index.
func (r *restore) prepare(ctx context.Context) error {
	if err := checkName("table name", r.o.As); err != nil {
		return err
	}
	if r.o.Exists != nil {
		taken, err := r.o.Exists(r.o.Account, r.o.As)
		if err == nil && taken {
			err = storage.ErrTableExists
		}
		if err != nil {
			return r.taken(fmt.Errorf("look for table %q: %w", r.o.As, err))
		}
	}
	m, err := readManifest(ctx, r.e, r.ref)
	if err == nil {
		r.m = m
		r.meter.SetBackup(m.BackupARN)
		r.def, err = Definition(m, r.o.As)
	}
	var version *format.VersionError
	switch {
	case errors.As(err, &version):
		return err
	case invalidManifest(err):
		return damaged(r.ref, format.ManifestName, err.Error())
	case err != nil:
		return notFound(r.ref, err)
	}
	units := int64(1)
	if !r.o.DryRun {
		units += int64(1 + r.indexes())
	}
	r.meter.SetTotal(units * m.Table.Items)
	return nil
}

// taken words the error of a target that exists.
func (r *restore) taken(err error) error {
	var exists *storage.TableExists
	switch {
	case !errors.Is(err, storage.ErrTableExists):
		return err
	case errors.As(err, &exists) && exists.Table != nil && exists.Table.Status == storage.Deleting:
		return errorf(Busy, "table %q exists: it is %s", r.o.As, exists.Table.Status).
			hint("try again when it is gone, or restore under another name: --as NAME")
	}
	return errorf(Refused, "table %q exists", r.o.As).
		hint("a restore never overwrites: choose another name with --as NAME")
}

// verify proves that the backup is whole. The first finding ends it.
func (r *restore) verify(ctx context.Context) error {
	v, err := newVerifier(r.e, r.ref, r.m, r.meter)
	if err != nil {
		return err
	}
	return v.run(ctx)
}

// load fills the new table and returns its size as DynamoDB counts it.
func (r *restore) load(ctx context.Context) (size int64, err error) {
	now := r.e.Clock.Now()
	if r.def.BillingMode == ddb.PayPerRequest {
		r.def.PayPerRequestSince = format.Seconds(now)
	}
	r.meter.Phase("load")
	target, err := r.o.Target.Load(ctx, r.o.Account, r.def, now)
	if err != nil {
		return 0, r.taken(fmt.Errorf("create table %q: %w", r.o.As, err))
	}
	defer func() { // after Finish it does nothing
		if aerr := target.Abort(); aerr != nil {
			r.e.Log.ErrorContext(ctx, "cannot give up the target of a restore", "table", r.o.As, "err", aerr)
			if err != nil {
				err = fmt.Errorf("%w; table %q is left behind and could not be marked for removal: %w", err, r.o.As, aerr)
			}
		}
	}()
	t := target.Table()
	in := reading[loadLines]{
		e: r.e, ref: r.ref, m: r.m,
		decode: func(lines [][]byte) loadLines { return deriveLines(t, lines) },
		each: func(c *chunk[loadLines]) error {
			size += c.out.size
			return r.add(ctx, target, c)
		},
		count: func(n int) { r.meter.Add(0, 0, int64(n)) },
	}
	if err := in.run(ctx); err != nil {
		return 0, err
	}
	if err := r.finish(ctx, target); err != nil {
		return 0, err
	}
	return size, nil
}

// loadLines are rows made of a run of lines, up to the first that is none.
type loadLines struct {
	rows []storage.LoadRow
	size int64
	err  error // of line len(rows)
}

func deriveLines(t *storage.Table, lines [][]byte) loadLines {
	out := loadLines{rows: make([]storage.LoadRow, 0, len(lines))}
	for _, line := range lines {
		it, err := format.ParseLine(line)
		if err != nil {
			out.err = err
			return out
		}
		key, err := t.KeyOf(it)
		if err != nil {
			out.err = err
			return out
		}
		next, err := storage.Derive(t, it)
		if err != nil {
			out.err = err
			return out
		}
		out.size += int64(next.Size)
		out.rows = append(out.rows, storage.LoadRow{Key: key, Next: next})
	}
	return out
}

// add loads a chunk. What the verification passed can only be wrong here when
// the store has changed, or when a key is there twice.
func (r *restore) add(ctx context.Context, target storage.Loading, c *chunk[loadLines]) error {
	key := r.m.Files[c.file].Key
	if c.out.err != nil {
		return damaged(r.ref, key, fmt.Sprintf("line %d: %v", c.first+int64(len(c.out.rows)), c.out.err))
	}
	if n := int64(len(c.out.rows)); n > 0 {
		err := target.Add(ctx, c.out.rows)
		var twice *storage.DuplicateKey
		switch {
		case errors.As(err, &twice):
			return damaged(r.ref, key, fmt.Sprintf("line %d: the item has the key of an earlier one", c.first+int64(twice.Row)))
		case err != nil:
			return r.vanished(fmt.Errorf("load table %q: %w", r.o.As, err))
		}
		r.meter.Add(n, n, 0)
	}
	if c.end != nil && c.end.err != nil {
		return damaged(r.ref, key, withoutKey(c.end.err))
	}
	return nil
}

// vanished words the error of a target that somebody has deleted.
func (r *restore) vanished(err error) error {
	if errors.Is(err, storage.ErrTableNotFound) {
		return errorf(Failed, "restore of %s into %s did not complete: the table was deleted while it was being restored",
			r.m.BackupARN, r.o.As)
	}
	return err
}

// finish builds the indexes and makes the table ACTIVE. Entries are told in
// items per index, whatever the engine counts.
func (r *restore) finish(ctx context.Context, target storage.Loading) error {
	r.meter.Phase("index")
	units, told := r.m.Table.Items*int64(r.indexes()), int64(0)
	err := target.Finish(ctx, func(done, total int64) {
		if total <= 0 {
			return
		}
		now := int64(float64(units) * min(float64(done)/float64(total), 1))
		r.meter.Add(now-told, now-told, 0)
		told = max(told, now)
	})
	if err != nil {
		return r.vanished(fmt.Errorf("build the indexes of table %q: %w", r.o.As, err))
	}
	r.meter.Add(units-told, units-told, 0)
	return nil
}
