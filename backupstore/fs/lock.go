// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// lock makes one process and one goroutine at a time change what is under a
// key, so that the condition of a put still holds when the put happens.
type lock struct {
	root *dir
	turn chan struct{} // holds a token while somebody in this process has the lock
	f    *os.File      // open once needed; whoever has the turn owns it
}

// take waits for the lock. The store stays readable without it: where only a
// copy of a store is, the first put makes the file.
func (l *lock) take(ctx context.Context) (release func() error, err error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	pass := func() { <-l.turn }
	for range tries {
		if err := l.open(); err != nil {
			pass()
			return nil, err
		}
		if err := l.flock(ctx, pass); err != nil {
			return nil, err
		}
		held, err := l.current()
		release = func() error { defer pass(); return funlock(l.f) }
		if err != nil {
			return nil, errors.Join(err, release())
		}
		if held {
			return release, nil
		}
		_ = l.f.Close() // somebody removed the file: it locks nobody out any more
		l.f = nil
	}
	pass()
	return nil, l.root.changing(lockName)
}

// flock locks the open file. When ctx ends first the wait goes on behind the
// caller's back until it can be undone; the turn is passed then. On an error
// the turn is gone.
func (l *lock) flock(ctx context.Context, pass func()) error {
	if err := l.root.before(OpLock, lockName); err != nil {
		pass()
		return err
	}
	f := l.f
	got, err := flock(f, false)
	if err != nil {
		pass()
		return err
	}
	if got {
		return nil
	}
	done := make(chan error, 1)
	go func() { _, err := flock(f, true); done <- err }()
	select {
	case err := <-done:
		if err != nil {
			pass()
		}
		return err
	case <-ctx.Done():
		go func() {
			defer pass()
			if <-done == nil {
				_ = funlock(f) // closing it does the same
			}
		}()
		return ctx.Err()
	}
}

// open opens the lock file, which must be a file of its own.
func (l *lock) open() error {
	if l.f != nil {
		return nil
	}
	for range tries {
		flag := os.O_RDWR
		info, err := l.root.lstat(lockName)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			flag |= os.O_CREATE | os.O_EXCL
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return l.root.symlink(lockName)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is not a file", lockName)
		}
		f, err := l.root.r.OpenFile(lockName, flag, fileMode)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			continue // others come and go
		} else if err != nil {
			return err
		}
		l.f = f
		if same, err := l.current(); same || err != nil {
			return err
		}
		_ = f.Close()
		l.f = nil
	}
	return l.root.changing(lockName)
}

// current reports whether the open file is the one that others will find.
func (l *lock) current() (bool, error) {
	opened, err := l.f.Stat()
	if err != nil {
		return false, err
	}
	there, err := l.root.lstat(lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, there), err
}

// close frees the lock file unless somebody holds the lock or waits for it.
// The root is closed by then: nobody opens it again.
func (l *lock) close() error {
	select {
	case l.turn <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-l.turn }()
	if l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	return f.Close()
}
