// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// freeSpace is how many bytes this process may still write to the volume of a
// directory.
func freeSpace(dir string) (uint64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, fmt.Errorf("ask for free space: %w", err)
	}
	var free, total, all uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, &total, &all); err != nil {
		return 0, fmt.Errorf("ask for free space of %s: %w", dir, err)
	}
	return free, nil
}

// syncDir does nothing: the file system keeps names in order itself.
func syncDir(string) error { return nil }
