// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"syscall"
)

func noHardLinks(op Op, _ string) error {
	if op == OpLink {
		return syscall.EPERM
	}
	return nil
}
