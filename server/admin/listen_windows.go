// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// bind binds the socket in place, after removing that of a dead server. Its
// permissions are those the directory passes on.
func bind(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// privateDir is in the temporary directory, which is the user's own.
func privateDir() string { return filepath.Join(os.TempDir(), "extenddb") }

// isWritable reports whether a directory is there; its permissions say more.
func isWritable(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// checkPrivate returns nil when dir is a directory: it has the permissions of
// the user's temporary directory.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s must be a directory; remove it", dir)
	}
	return err
}

// isNobody reports whether nobody listens on what was dialled.
func isNobody(err error) bool {
	return errors.Is(err, windows.WSAECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
