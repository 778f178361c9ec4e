// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

// put is one object on its way into the store.
type put struct {
	s    *Store
	key  string
	o    backupstore.PutOptions
	dirs *chain
	name string // of the object in the last directory
	temp *file
}

// Put implements backupstore.Store.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, o backupstore.PutOptions) (_ backupstore.PutResult, err error) {
	names, name, err := splitKey(key)
	if err != nil {
		return backupstore.PutResult{}, err
	}
	if err := errors.Join(o.Check(), ctx.Err()); err != nil {
		return backupstore.PutResult{}, err
	}
	p := &put{s: s, key: key, o: o, name: name}
	if err := p.begin(names); err != nil {
		return backupstore.PutResult{}, err
	}
	done := false
	defer func() { // also when the body panics
		if !done {
			p.abort()
		}
		p.dirs.close()
	}()
	if err := p.fill(ctx, body); err != nil {
		return backupstore.PutResult{}, err
	}
	res, err := p.commit(ctx)
	done = err == nil
	return res, err
}

func (p *put) dir() *dir { return p.dirs.last() }

func (p *put) fail(op string, err error) error { return failure(op+" "+p.key, err) }

// begin makes the directories and the temporary file. A directory that another
// put gives up, or a deletion empties, may vanish in between: it starts again.
func (p *put) begin(names []string) (err error) {
	for range tries {
		if p.dirs, err = p.s.makeDirs(names); err == nil {
			if err = p.reserve(); err == nil {
				return nil
			}
			p.s.undo(p.dirs)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return p.fail("create", err)
}

// reserve refuses early what commit would refuse, and creates the file.
func (p *put) reserve() error {
	if _, err := p.target(); err != nil {
		return err
	}
	temp, err := p.dir().create(tempName())
	p.temp = temp
	return err
}

// target returns the object that is there, nil if none, after checking that
// the put may go on.
func (p *put) target() (fs.FileInfo, error) {
	info, err := p.dir().lstat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		if p.o.IfMatch != "" {
			return nil, fmt.Errorf("%w: %s is gone", backupstore.ErrConflict, p.key)
		}
		return nil, nil
	}
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, p.dir().symlink(p.name)
	case info.IsDir():
		return nil, fmt.Errorf("objects exist below the key: %w", syscall.EISDIR)
	case !info.Mode().IsRegular():
		return nil, errors.New("something that is no file is in its place")
	case p.o.IfAbsent:
		return nil, fmt.Errorf("%w: %s", backupstore.ErrExists, p.key)
	case p.o.IfMatch != "" && p.o.IfMatch != etag(info):
		return nil, fmt.Errorf("%w: %s", backupstore.ErrConflict, p.key)
	}
	return info, nil
}

// copyBuffer is how much of a body is in memory.
const copyBuffer = 128 << 10

// fill writes the body to the temporary file, durably.
func (p *put) fill(ctx context.Context, body io.Reader) error {
	src := &source{body: body, end: ctx.Err}
	_, err := io.CopyBuffer(p.temp, src, make([]byte, copyBuffer))
	op := "write"
	if err == nil {
		op, err = "sync", p.temp.sync()
	}
	if closed := p.temp.close(); err == nil {
		op, err = "close", closed
	}
	if src.err != nil {
		return fmt.Errorf("put %s: read body: %w", p.key, src.err)
	}
	return p.fail(op, err)
}

// abort removes the temporary file and the directories that were made for it.
func (p *put) abort() {
	_ = p.temp.f.Close() // closed already unless the body panicked
	p.s.leftover(p.dir().at(p.temp.name), p.dir().remove(p.temp.name))
	p.s.leftover(p.dir().path, p.dirs.prune(p.dirs.made))
}

// commit gives the temporary file its name, under the lock.
func (p *put) commit(ctx context.Context) (res backupstore.PutResult, err error) {
	if err := p.s.inPlace(); err != nil {
		return res, err
	}
	release, err := p.s.lock.take(ctx)
	if err != nil {
		return res, p.fail("lock the store for", err)
	}
	defer func() {
		if err := release(); err != nil {
			p.s.log.Error("releasing the lock of the backup store failed", "path", p.s.path, "err", err)
		}
	}()
	if err := ctx.Err(); err != nil {
		return res, err
	}
	old, err := p.target()
	if err != nil {
		return res, p.fail("write", err)
	}
	now, err := p.stamp(old)
	if err != nil {
		return res, err
	}
	if err := p.place(old); err != nil {
		return res, err
	}
	return backupstore.PutResult{ETag: etag(now), Size: now.Size()}, nil
}

// stamp makes the file later than the one it replaces, whatever the clock and
// its resolution, so that their ETags differ.
func (p *put) stamp(old fs.FileInfo) (fs.FileInfo, error) {
	now, err := p.dir().lstat(p.temp.name)
	if err == nil && old != nil && !now.ModTime().After(old.ModTime()) {
		if err = p.dir().touch(p.temp.name, old.ModTime().Add(time.Microsecond)); err == nil {
			now, err = p.dir().lstat(p.temp.name)
		}
	}
	return now, p.fail("stamp", err)
}

// place moves the file to its name and makes that durable. What was there is
// kept under a second name until then, and put back when it cannot be done.
func (p *put) place(old fs.FileInfo) error {
	d, keep := p.dir(), ""
	if old != nil {
		keep = tempName()
		if err := d.link(p.name, keep); noLinks(err) {
			keep = ""
		} else if err != nil {
			return p.fail("keep the old", err)
		}
	}
	linked, err := p.move()
	if err == nil {
		if err = p.fail("sync the directory of", d.sync()); err != nil {
			p.undoMove(old != nil, keep)
			return err
		}
	}
	if keep != "" {
		p.s.leftover(d.at(keep), d.remove(keep))
	}
	if linked {
		p.s.leftover(d.at(p.temp.name), d.remove(p.temp.name))
	}
	return err
}

// move gives the file its name; linked says that it has the temporary one as
// well. Without links a put that must not replace anything relies on the lock,
// which every put of this program takes.
func (p *put) move() (linked bool, err error) {
	if p.o.IfAbsent {
		err := p.dir().link(p.temp.name, p.name)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, fs.ErrExist):
			return false, fmt.Errorf("%w: %s", backupstore.ErrExists, p.key)
		case !noLinks(err):
			return false, p.fail("link", err)
		}
	}
	return false, p.fail("rename", p.dir().rename(p.temp.name, p.name))
}

// undoMove takes the file away from its name again. Where the old object could
// not be kept the new one stays: better than none.
func (p *put) undoMove(replaced bool, keep string) {
	d := p.dir()
	var err error
	switch {
	case keep != "":
		err = d.rename(keep, p.name)
	case !replaced:
		err = d.remove(p.name)
	}
	p.s.leftover(d.at(p.name), err)
}
