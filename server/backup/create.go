// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	idAttempts   = 10               // backup ids tried
	cleanUpLimit = 30 * time.Second // to remove an unfinished backup
)

// Create backs up one table. The backup shows everything acknowledged before
// its creation time and is one instant of the table. It is complete when
// Create returns it; otherwise nothing of it is listed, and what was written
// is removed, or named in the error.
func Create(ctx context.Context, e Env, o CreateOptions) (sum *Summary, err error) {
	e = e.withDefaults()
	c := &creation{e: e, o: o, meter: e.meter(progress.Backup, o.Table), started: e.Clock.Now()}
	log := e.Log.With("account", o.Account, "table", o.Table)
	log.InfoContext(ctx, "backup started")
	defer func() {
		finish(ctx, c.meter, err)
		if err != nil {
			LogEnd(ctx, log, progress.Backup, err)
			return
		}
		log.InfoContext(ctx, "backup finished", "backup", sum.ARN, "items", sum.Items, "bytes", sum.Size,
			"files", sum.Files, "duration", e.Clock.Now().Sub(c.started))
	}()
	if sum, err = c.run(ctx); err != nil {
		return nil, Classify(ctx, err)
	}
	return sum, nil
}

// creation is one backup being made.
type creation struct {
	e       Env
	o       CreateOptions
	meter   *progress.Meter
	started time.Time // to the millisecond it is the creation time
	ref     format.Ref
	table   *storage.Table
	kind    string // of the snapshot
	marker  string
	ordered bool
	files   []*dataFile
	size    int64 // of the items, as DynamoDB counts them
}

func (c *creation) run(ctx context.Context) (*Summary, error) {
	if err := c.checkOptions(); err != nil {
		return nil, err
	}
	c.meter.Phase("snapshot")
	if c.o.Items > 0 {
		c.meter.SetTotal(c.o.Items)
	}
	snap, err := c.o.Source.Snapshot(ctx, c.o.Account, c.o.Table)
	if err != nil {
		return nil, fmt.Errorf("open snapshot of table %q: %w", c.o.Table, err)
	}
	defer c.close(ctx, snap)
	// A call of the store may hang, and not hear of the end of ctx.
	stop := context.AfterFunc(ctx, func() { c.close(ctx, snap) })
	defer stop()
	c.table, c.ordered = snap.Table(), snap.KeyOrdered()
	c.kind, c.marker = snap.Marker()
	if err := c.claim(ctx); err != nil {
		return nil, err
	}
	c.meter.SetBackup(c.arn())
	c.meter.Phase("data")
	err = c.data(ctx, snap)
	c.close(ctx, snap) // what follows takes its time
	if err != nil {
		return nil, c.discard(ctx, err)
	}
	return c.commit(ctx)
}

// checkOptions refuses what could not be named in a store.
func (c *creation) checkOptions() error {
	if c.o.Name == "" {
		c.o.Name = defaultName(c.o.Table, c.started)
	}
	if err := checkName("table name", c.o.Table); err != nil {
		return err
	}
	if err := checkName("backup name", c.o.Name); err != nil {
		return err
	}
	if c.o.Region == "" || strings.ContainsAny(c.o.Region, ":/") {
		return errorf(Invalid, "region %q is not valid", c.o.Region)
	}
	return nil
}

// close ends the snapshot, early or again.
func (c *creation) close(ctx context.Context, snap storage.Snapshot) {
	if err := snap.Close(); err != nil {
		c.e.Log.WarnContext(ctx, "cannot close snapshot", "table", c.o.Table, "err", err)
	}
}

func (c *creation) arn() string {
	return format.ARN{Region: c.o.Region, Account: c.ref.Account, Table: c.ref.Table, ID: c.ref.ID}.String()
}

// claim chooses an id that nobody uses and writes _started, which proves that
// the store can be written.
func (c *creation) claim(ctx context.Context) error {
	for range idAttempts {
		id, err := format.NewBackupID(c.started, c.e.Random)
		if err != nil {
			return fmt.Errorf("choose a backup id: %w", err)
		}
		c.ref = format.Ref{Account: c.o.Account, Table: c.o.Table, ID: id}
		if _, ok := format.ParseRef(c.ref.Prefix()); !ok {
			return errorf(Invalid, "account %q and table %q cannot name a backup", c.o.Account, c.o.Table).
				hint("an account has 12 digits")
		}
		taken, err := c.taken(ctx)
		if err != nil {
			return fmt.Errorf("look for backups at %s: %w", c.ref.Prefix(), err)
		}
		if taken {
			continue
		}
		err = c.put(ctx, format.StartedName, nil, true)
		switch {
		case errors.Is(err, backupstore.ErrExists): // somebody else's, this very moment
		case err != nil:
			return c.discard(ctx, err)
		default:
			return nil
		}
	}
	return errorf(Failed, "%d backup ids in a row are taken", idAttempts).hint("check the clock and the source of random numbers")
}

// taken reports whether there is anything at the prefix.
func (c *creation) taken(ctx context.Context) (bool, error) {
	for _, err := range c.e.Store.List(ctx, c.ref.Prefix()) {
		return err == nil, err
	}
	return false, nil
}

// put stores a small object of the backup.
func (c *creation) put(ctx context.Context, object string, data []byte, ifAbsent bool) error {
	_, err := c.e.Store.Put(ctx, c.ref.Key(object), bytes.NewReader(data),
		backupstore.PutOptions{IfAbsent: ifAbsent, Size: int64(len(data))})
	if err != nil {
		return about("write", c.ref.Key(object), err)
	}
	return nil
}

// discard removes the unfinished backup, also when ctx is over, and returns
// err with what could not be removed. The manifest goes first: what remains
// must never look like a backup.
func (c *creation) discard(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	_, derr := c.e.Store.DeletePrefix(ctx, c.ref.Key(format.ManifestName))
	if derr == nil {
		_, derr = c.e.Store.DeletePrefix(ctx, c.ref.Prefix())
	}
	if derr == nil {
		return err
	}
	c.e.Log.ErrorContext(ctx, "cannot remove an unfinished backup", "backup", c.arn(), "err", derr)
	return fmt.Errorf("%w; what was written at %s could not be removed: %w", err, c.ref.Prefix(), derr)
}

// restBytes of items are half a millisecond of work. A goroutine that is always
// busy would give its core up only every ten.
const restBytes = 16 << 10

// data writes the rows of the snapshot into data files.
func (c *creation) data(ctx context.Context, snap storage.Snapshot) (err error) {
	w := newDataWriter(ctx, c)
	defer func() { err = w.end(err) }()
	var line []byte
	rows, known, busy := int64(0), c.o.Items > 0, 0
	for row, err := range snap.Rows(w.ctx) {
		if err != nil {
			return fmt.Errorf("read snapshot of table %q: %w", c.o.Table, err)
		}
		item := row.Item
		if row.Flags&storage.FlagLongNumber != 0 {
			if line, err = format.BackupItem(line[:0], item); err != nil {
				return fmt.Errorf("read snapshot of table %q: %w", c.o.Table, err)
			}
			item = line
		}
		if err := w.write(row, item); err != nil {
			return err
		}
		c.size += int64(row.Size)
		if rows++; known && rows > c.o.Items { // the estimate was too low
			known = false
			c.meter.SetTotal(-1)
		}
		c.meter.Add(1, 1, 0)
		if busy += len(item); busy >= restBytes {
			busy = 0
			c.e.Rest()
		}
	}
	return nil
}

// keysOf returns the key attributes of a row.
func (c *creation) keysOf(row *storage.Row) (ddb.Item, error) {
	keys, err := c.table.KeysOf(nil, row)
	if err != nil {
		return nil, fmt.Errorf("read snapshot of table %q: %w", c.o.Table, err)
	}
	return keys, nil
}
