// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/extenddb/extenddb/backupstore"
)

// file is an open file of a directory.
type file struct {
	d    *dir
	name string
	f    *os.File
}

// create makes a new file, which must not exist.
func (d *dir) create(name string) (*file, error) {
	if err := d.before(OpCreate, name); err != nil {
		return nil, err
	}
	f, err := d.r.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	return &file{d, name, f}, nil
}

// open opens a regular file to read. What is opened is what lstat saw.
// fs.ErrNotExist when there is none.
func (d *dir) open(name string) (*file, error) {
	for range tries {
		info, err := d.lstat(name)
		switch {
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, d.symlink(name)
		case !info.Mode().IsRegular():
			return nil, fs.ErrNotExist
		}
		if err := d.before(OpOpen, name); err != nil {
			return nil, err
		}
		f, err := d.r.Open(name)
		if err != nil {
			return nil, err
		}
		opened, err := f.Stat()
		if err == nil && os.SameFile(info, opened) {
			return &file{d, name, f}, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return nil, d.changing(name)
}

// Write implements io.Writer.
func (f *file) Write(b []byte) (int, error) {
	if err := f.d.before(OpWrite, f.name); err != nil {
		n, _ := f.f.Write(b[:len(b)/2]) // as a disk does that is full
		if errors.Is(err, io.ErrShortWrite) {
			err = nil // as a file system does that forgets to say so
		}
		return n, err
	}
	return f.f.Write(b)
}

func (f *file) sync() error {
	if err := f.d.before(OpSync, f.name); err != nil {
		return err
	}
	return f.f.Sync()
}

// close closes the file in any case.
func (f *file) close() error {
	return errors.Join(f.d.before(OpClose, f.name), f.f.Close())
}

// etag identifies what a file holds: every put makes a new file, and gives it
// a later time than the one it replaces.
func etag(info fs.FileInfo) string {
	return strconv.FormatInt(info.ModTime().UnixNano(), 36) + "-" +
		strconv.FormatUint(inode(info), 36) + "-" + strconv.FormatInt(info.Size(), 36)
}

// reader is an object being read.
type reader struct {
	f   *file
	key string
	end func() error // of the context of Get
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	if err := r.end(); err != nil {
		return 0, err
	}
	if err := r.f.d.before(OpRead, r.f.name); err != nil {
		return 0, failure("read "+r.key, err)
	}
	n, err := r.f.f.Read(b)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, failure("read "+r.key, err)
}

// Close implements io.Closer.
func (r *reader) Close() error { return failure("close "+r.key, r.f.close()) }

// source is a body being put: it ends with the context, and what it fails
// with is told from the failures of the file.
type source struct {
	body io.Reader
	end  func() error
	err  error
}

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	if s.err = s.end(); s.err != nil {
		return 0, s.err
	}
	n, err := s.body.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// failure is what the store answers when an operation fails: an error of the
// store or of a context as it is, a refusal of the system as ErrPermission,
// anything else as an *IOError.
func failure(op string, err error) error {
	var unusable *backupstore.UnusableError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, backupstore.ErrPermission), errors.Is(err, backupstore.ErrExists),
		errors.Is(err, backupstore.ErrConflict), errors.As(err, &unusable),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrPermission):
		return denied(op)
	case errors.Is(err, syscall.EROFS): // nobody has the right
		return denied(op + ": " + cause(err).Error())
	}
	return &backupstore.IOError{Op: op, Err: cause(err)}
}

// cause strips what package os says about operation and path: the one is said
// better in IOError.Op, the other is a temporary name.
func cause(err error) error {
	var (
		path *fs.PathError
		link *os.LinkError
		call *os.SyscallError
	)
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	case errors.As(err, &call):
		return call.Err
	}
	return err
}
