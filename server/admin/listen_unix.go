// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// bind binds the socket in a directory of mode 0700 beside its place and moves
// it there. (A umask would do, but it is the whole process's.) The directory
// has a short name, because paths of sockets are short, and a fixed one, so
// that one that a crash left behind is found and used again.
func bind(path string) (*net.UnixListener, error) {
	dir := filepath.Join(filepath.Dir(path), ".s"+tag(filepath.Base(path)))
	tmp := filepath.Join(dir, "s")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	defer func() { _ = os.Remove(dir) }() // not when another process is about to use it
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(tmp, 0o600); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// tag is a short text that depends on the name: sockets in one directory do not
// meet.
func tag(name string) string {
	h := uint16(5381)
	for _, b := range []byte(name) {
		h = h*33 + uint16(b)
	}
	return strconv.FormatUint(uint64(h), 36)
}

// privateDir is the runtime directory of users without one.
func privateDir() string {
	return filepath.Join(os.TempDir(), "extenddb-"+strconv.Itoa(os.Geteuid()))
}

// isWritable reports whether this process may make files in a directory.
func isWritable(dir string) bool {
	info, err := os.Stat(dir)
	const mayWriteAndEnter = 3 // W_OK|X_OK
	return err == nil && info.IsDir() && syscall.Access(dir, mayWriteAndEnter) == nil
}

// checkPrivate returns nil when dir is a directory of this user, closed to
// others.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s must be a directory that belongs to this user, with mode 0700; remove it", dir)
	}
	return nil
}

// isNobody reports whether nobody listens on what was dialled.
func isNobody(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
