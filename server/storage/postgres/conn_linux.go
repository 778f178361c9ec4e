// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dialControl bounds how long sent data may stay unacknowledged: keep-alive
// probes are not sent while some is.
func dialControl(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lostAfter.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
