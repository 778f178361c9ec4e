// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package postgres

import "syscall"

// dialControl has nothing to set: keep-alive probes notice a silent network.
func dialControl(_, _ string, _ syscall.RawConn) error { return nil }
