// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// syncDir does nothing: Windows has no way to flush a directory, and journals
// its entries itself.
func syncDir(*os.File) error { return nil }

// flock takes the lock of an open file; without wait it returns false when
// somebody else holds it. Closing the file, as the end of the process does,
// releases it.
func flock(f *os.File, wait bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, math.MaxUint32, math.MaxUint32, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func funlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, math.MaxUint32, math.MaxUint32, &windows.Overlapped{})
}

// inode tells apart files of the same size and time; 0 when it is unknown.
func inode(fs.FileInfo) uint64 { return 0 }
