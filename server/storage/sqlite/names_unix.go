// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"
)

// names is how many hard links a file has.
func names(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // its type depends on the platform
	}
	return 1
}
