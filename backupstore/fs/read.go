// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/backupstore"
)

// Get implements backupstore.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	var f *file
	found, err := s.lookup(ctx, key, "open", func(d *dir, name string) (err error) {
		f, err = d.open(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%w: %s", backupstore.ErrNotFound, key)
	}
	return &reader{f: f, key: key, end: ctx.Err}, nil
}

// Head implements backupstore.Store.
func (s *Store) Head(ctx context.Context, key string) (*backupstore.ObjectMeta, error) {
	var meta *backupstore.ObjectMeta
	_, err := s.lookup(ctx, key, "look up", func(d *dir, name string) error {
		info, err := d.lstat(name)
		switch {
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return d.symlink(name)
		case info.Mode().IsRegular():
			meta = metaOf(key, info)
		}
		return nil
	})
	return meta, err
}

func metaOf(key string, info fs.FileInfo) *backupstore.ObjectMeta {
	return &backupstore.ObjectMeta{Key: key, ETag: etag(info), Size: info.Size(), LastModified: info.ModTime()}
}

// lookup calls do with the directory of a key; false when there is nothing.
func (s *Store) lookup(ctx context.Context, key, op string, do func(d *dir, name string) error) (bool, error) {
	names, name, err := splitKey(key)
	if err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c, err := s.walk(names)
	if err == nil {
		defer c.close()
		err = do(c.last(), name)
	}
	if absent(err) {
		return false, nil
	}
	return err == nil, failure(op+" "+key, err)
}

// List implements backupstore.Store. It holds the names of one directory per
// level, never the whole listing.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backupstore.ObjectMeta, error] {
	return func(yield func(backupstore.ObjectMeta, error) bool) {
		l := lister{s: s, yield: func(m *backupstore.ObjectMeta) bool { return yield(*m, nil) }}
		err := l.prefix(ctx, prefix)
		if err != nil && !errors.Is(err, errStopped) {
			yield(backupstore.ObjectMeta{}, err)
		}
	}
}

// errStopped ends a listing whose caller wants no more.
var errStopped = errors.New("listing stopped")

type lister struct {
	s     *Store
	yield func(*backupstore.ObjectMeta) bool
}

func (l *lister) prefix(ctx context.Context, prefix string) error {
	names, name, err := splitPrefix(prefix)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	op := "list " + prefix
	c, err := l.s.walk(names)
	if absent(err) {
		return nil
	} else if err != nil {
		return failure(op, err)
	}
	defer c.close()
	if name == "" {
		return l.dir(ctx, c.last())
	}
	info, err := c.last().lstat(name)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return failure(op, err)
	}
	return l.entry(ctx, c.last(), entry{name, info.Mode().Type()})
}

// dir yields what is in a directory and below.
func (l *lister) dir(ctx context.Context, d *dir) error {
	entries, err := d.entries()
	if absent(err) {
		return nil
	} else if err != nil {
		return failure("list "+d.path, err)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	for _, e := range entries {
		if err := l.entry(ctx, d, e); err != nil {
			return err
		}
	}
	return nil
}

// sortKey makes a directory sort as the keys below it do: "a/" after "a-b".
func (e entry) sortKey() string {
	if e.mode.IsDir() {
		return e.name + "/"
	}
	return e.name
}

// entry yields an object or what is below a directory, and nothing for what is
// neither.
func (l *lister) entry(ctx context.Context, d *dir, e entry) error {
	key := d.at(e.name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case e.mode&fs.ModeSymlink != 0: // somebody may miss what it leads to
		l.s.log.WarnContext(ctx, "symbolic link in the backup store skipped: none is ever followed", "path", key)
		return nil
	case !e.mode.IsDir() && (!e.mode.IsRegular() || isTemp(e.name) || d.isMark(e.name)):
		return nil
	}
	if err := backupstore.CheckKey(key); err != nil {
		l.s.log.WarnContext(ctx, "file in the backup store skipped: its name is no key", "path", key, "err", err)
		return nil
	}
	if e.mode.IsDir() {
		child, _, err := d.child(e.name)
		if absent(err) || d.isClosed(e.name, err) {
			return nil
		} else if err != nil {
			return failure("list "+key, err)
		}
		defer child.close()
		return l.dir(ctx, child)
	}
	info, err := d.lstat(e.name)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return failure("list "+key, err)
	case !info.Mode().IsRegular():
		return nil
	}
	if !l.yield(metaOf(key, info)) {
		return errStopped
	}
	return nil
}
