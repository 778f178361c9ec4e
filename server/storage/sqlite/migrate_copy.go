// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/extenddb/extenddb/server/storage/migrate"
)

const (
	copySuffix    = "-backup"
	unfinishedEnd = copySuffix + ".tmp"
)

// kept is the copy of a database before it is migrated.
type kept struct {
	tmp  string // its name until it is kept; "": there is no copy
	base string // "data.db.v1-backup"
	name string // of the copy that is kept
}

// refuseKept refuses to migrate such a copy: it is the way back, and the older
// program that it is kept for could not read it any more.
func refuseKept(path string, p migrate.Plan) error {
	name, _ := strings.CutSuffix(filepath.Base(path), copySuffix)
	if i := strings.LastIndex(name, copySuffix+"-"); i >= 0 { // "data.db.v1-backup-2"
		if _, err := strconv.Atoi(name[i+len(copySuffix)+1:]); err == nil {
			name = name[:i]
		}
	}
	kept := name != filepath.Base(path) && strings.HasSuffix(name, fmt.Sprintf(".v%d", p.From))
	if !kept || len(p.Steps) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrKept, &migrate.Pending{Plan: p})
}

// copyBefore makes a complete copy of the database, on disk, unless m says not
// to. It is beside the database; a *NoSpace when that has no room.
func (db *DB) copyBefore(c *conn, p migrate.Plan, m migrate.Options) (*kept, error) {
	if err := removeUnfinished(db.path); err != nil {
		return nil, err
	}
	k := new(kept)
	if m.NoCopy {
		return k, nil
	}
	if err := db.checkSpace(p); err != nil {
		return nil, err
	}
	k.base = fmt.Sprintf("%s.v%d%s", db.path, p.From, copySuffix)
	k.tmp = fmt.Sprintf("%s.v%d%s", db.path, p.From, unfinishedEnd)
	if err := k.write(c); err != nil {
		return nil, errors.Join(fmt.Errorf("copy the database before it is migrated: %w", err), k.discard())
	}
	db.at("copied")
	return k, nil
}

// write makes the file before SQLite would, for its owner's eyes only.
func (k *kept) write(c *conn) error {
	f, err := os.OpenFile(k.tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := c.exec("VACUUM INTO '" + strings.ReplaceAll(k.tmp, "'", "''") + "'"); err != nil {
		return err
	}
	return syncFile(k.tmp)
}

// keep gives the copy a name that was not there.
func (k *kept) keep() error {
	if k.tmp == "" {
		return nil
	}
	name := k.base
	for i := 2; ; i++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return fmt.Errorf("name the copy: %w", err)
		}
		name = fmt.Sprintf("%s-%d", k.base, i)
	}
	if err := os.Rename(k.tmp, name); err != nil {
		return fmt.Errorf("name the copy: %w", err)
	}
	k.tmp, k.name = "", name
	if err := syncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("name the copy: %w", err)
	}
	return nil
}

// discard removes a copy that was not kept.
func (k *kept) discard() error {
	if k.tmp == "" {
		return nil
	}
	if err := os.Remove(k.tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the copy: %w", err)
	}
	return nil
}

// removeUnfinished removes copies that were being made when the process died.
func removeUnfinished(path string) error {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for unfinished copies: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), base+".v")
		if !ok || !strings.HasSuffix(name, unfinishedEnd) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove an unfinished copy: %w", err)
		}
	}
	return nil
}

// checkSpace wants room for the copy, and as much again for what the steps
// write. Where nobody knows how much there is, the copy is tried.
func (db *DB) checkSpace(p migrate.Plan) error {
	free := freeSpace
	if db.o.hooks.free != nil {
		free = db.o.hooks.free
	}
	dir := filepath.Dir(db.path)
	have, err := free(dir)
	if err != nil {
		db.o.Log.Debug("the free space is not known", "dir", dir, "err", err)
		return nil
	}
	need := uint64(0)
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(db.path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("measure the database: %w", err)
		}
		need += 2 * uint64(info.Size())
	}
	if have < need {
		return &NoSpace{Pending: &migrate.Pending{Plan: p}, Dir: dir, Need: need, Free: have}
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
