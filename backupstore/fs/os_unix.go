//go:build !windows

// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// syncDir makes the entries of an open directory durable. A file system that
// cannot do so for a directory says EINVAL or that it is unsupported; there is
// nothing more one could do on it.
func syncDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// flock takes the lock of an open file; without wait it returns false when
// somebody else holds it. Closing the file, as the end of the process does,
// releases it.
func flock(f *os.File, wait bool) (bool, error) {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

func funlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// inode tells apart files of the same size and time; 0 when it is unknown.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
