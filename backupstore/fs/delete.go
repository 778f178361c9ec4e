// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"
)

// DeletePrefix implements backupstore.Store. It counts the files it removes,
// temporary ones and symbolic links included, and removes the directories it
// empties, those above the prefix as well, but never the root.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) (n int, err error) {
	names, name, err := splitPrefix(prefix)
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	op := "delete " + prefix
	c, err := s.walk(names)
	if absent(err) {
		return 0, nil
	} else if err != nil {
		return 0, failure(op, err)
	}
	defer c.close()
	if name == "" {
		n, err = s.empty(ctx, s.root)
		return n, failure(op, err)
	}
	info, err := c.last().lstat(name)
	if absent(err) {
		return 0, nil
	} else if err != nil {
		return 0, failure(op, err)
	}
	if n, err = s.delete(ctx, c.last(), entry{name, info.Mode().Type()}); err == nil {
		if err = c.last().sync(); err == nil {
			s.leftover(c.last().path, c.prune(len(c.dirs)-1))
		}
	}
	return n, failure(op, err)
}

// empty removes what is in a directory, durably, and counts the files. It
// returns the first error, but goes on after it: on a disk that is full or
// failing a directory that cannot be flushed keeps nothing else.
func (s *Store) empty(ctx context.Context, d *dir) (n int, err error) {
	entries, err := d.entries()
	if absent(err) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	for _, e := range entries { // what can go goes, whatever comes first
		m, derr := s.delete(ctx, d, e)
		n, err = n+m, cmp.Or(err, derr)
	}
	if len(entries) == 0 || ctx.Err() != nil {
		return n, err
	}
	return n, cmp.Or(err, d.sync())
}

// delete removes an entry and what is below it, and counts the files.
func (s *Store) delete(ctx context.Context, d *dir, e entry) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if d.isMark(e.name) {
		return 0, nil
	}
	if e.mode.IsDir() {
		child, _, err := d.child(e.name)
		if absent(err) {
			return 0, nil
		} else if err != nil {
			return 0, err
		}
		n, err := s.empty(ctx, child)
		child.close()
		if err == nil {
			_, err = d.rmdir(e.name) // not empty: a put was quicker
		}
		return n, err
	}
	release, err := s.lock.take(ctx)
	if err != nil {
		return 0, err
	}
	err = d.remove(e.name)
	if err == nil {
		n = 1
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return n, errors.Join(err, release())
}

// Sweep removes the temporary files of puts that were cut off: those last
// written to before olderThan. It returns how many.
func (s *Store) Sweep(ctx context.Context, olderThan time.Time) (n int, err error) {
	n, err = s.sweep(ctx, s.root, olderThan)
	return n, failure("sweep the store", err)
}

func (s *Store) sweep(ctx context.Context, d *dir, olderThan time.Time) (n int, err error) {
	entries, err := d.entries()
	if absent(err) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	var failed error
	for _, e := range entries {
		var m int
		var err error
		switch {
		case ctx.Err() != nil:
			return n, ctx.Err()
		case e.mode.IsDir():
			m, err = s.sweepChild(ctx, d, e.name, olderThan)
		case e.mode.IsRegular() && isTemp(e.name):
			m, err = sweepFile(d, e.name, olderThan)
		}
		n, failed = n+m, cmp.Or(failed, err)
	}
	return n, failed
}

func (s *Store) sweepChild(ctx context.Context, d *dir, name string, olderThan time.Time) (int, error) {
	child, _, err := d.child(name)
	if absent(err) || d.isClosed(name, err) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer child.close()
	return s.sweep(ctx, child, olderThan)
}

func sweepFile(d *dir, name string, olderThan time.Time) (int, error) {
	info, err := d.lstat(name)
	if err == nil && !info.ModTime().Before(olderThan) {
		return 0, nil
	}
	if err == nil {
		err = d.remove(name)
	}
	if absent(err) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return 1, nil
}
