// SPDX-License-Identifier: Apache-2.0

//go:build unix

package postgres

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// cameUnasked reports whether a connection has something to read, or its end. It
// reads nothing and does not wait.
func cameUnasked(raw syscall.RawConn) bool {
	var came error
	err := raw.Control(func(fd uintptr) {
		_, _, came = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err != nil || !errors.Is(came, unix.EAGAIN)
}
