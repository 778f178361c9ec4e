// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A network that has gone silent is given up in time: the socket says when.
func TestSilentNetworkIsNoticed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg, err := configure(&Options{URL: "postgres://u@h/d"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cfg.ConnConfig.DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]struct{ level, option, want int }{
		"TCP_USER_TIMEOUT": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 30_000},
		"SO_KEEPALIVE":     {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"TCP_KEEPIDLE":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		"TCP_KEEPINTVL":    {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
		"TCP_KEEPCNT":      {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
	} {
		var got int
		var failed error
		err := raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), o.level, o.option) })
		if err != nil || failed != nil || got != o.want {
			t.Errorf("%s is %d, want %d: %v, %v", name, got, o.want, err, failed)
		}
	}
}

// Sockets of the machine itself have nothing to time out.
func TestDialSocket(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/s"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg, err := configure(&Options{URL: "host=/tmp"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cfg.ConnConfig.DialFunc(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
}
