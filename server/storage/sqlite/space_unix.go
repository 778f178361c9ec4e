// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// freeSpace is how many bytes this process may still write to the file system of
// a directory.
func freeSpace(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil //nolint:unconvert // their types depend on the platform
}

// syncDir makes the names in a directory durable, where the file system can.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
