// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	suffix     = ".sock"
	maxPath    = 100 // bytes of the paths that SocketPath returns
	systemMax  = 103 // bytes that every system takes
	dialWindow = 5 * time.Second
)

// ErrInUse is what Listen returns when a server answers on the socket.
var ErrInUse = errors.New("another server listens there")

// SocketPath returns where the server of a database file listens:
// "<db>.sock", absolute. When that is longer than 100 bytes, it is a short name
// in the runtime directory: $XDG_RUNTIME_DIR, else a private directory of the
// user within the system's temporary one. db should be free of symbolic links,
// so that every process comes to the same name.
func SocketPath(db string) string {
	if abs, err := filepath.Abs(db); err == nil { // else there is no working directory: as it is
		db = abs
	}
	if len(db)+len(suffix) <= maxPath {
		return db + suffix
	}
	sum := sha256.Sum256([]byte(db))
	name := "extenddb-" + hex.EncodeToString(sum[:8]) + suffix
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && len(dir)+1+len(name) <= maxPath {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return filepath.Join(dir, name)
		}
	}
	return filepath.Join(privateDir(), name)
}

// RuntimeSocket returns where a server of that name listens that has no database
// file: "extenddb-<name>.sock" in $XDG_RUNTIME_DIR, else in /run/extenddb when
// this user may write there, else in a private directory of the user within the
// system's temporary one.
func RuntimeSocket(name string) string {
	name = "extenddb-" + name + suffix
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), systemDir} {
		if filepath.IsAbs(dir) && len(dir)+1+len(name) <= maxPath && isWritable(dir) {
			return filepath.Join(dir, name)
		}
	}
	return filepath.Join(privateDir(), name)
}

// systemDir is what a service manager makes for a service (systemd:
// RuntimeDirectory=extenddb).
const systemDir = "/run/extenddb"

// Listen makes a unix socket at path that only the user of this process (and
// root) can connect to, from its first moment on: it is bound within a
// directory of mode 0700 and moved to its place, which also replaces, in one
// step, the socket of a server that died. Anything else that is there is
// refused: a socket on which a server answers with ErrInUse. The directory must
// exist and keeps its permissions; whoever may write there can put another
// socket in the place of this one. Closing the listener removes the socket.
//
// On Windows the socket is bound in place, and who may connect is up to the
// permissions that the directory passes on.
func Listen(path string) (net.Listener, error) {
	if len(path) > systemMax { // also where it could be bound: clients could not connect
		return nil, fmt.Errorf("listen on %s: the path has %d bytes, that of a socket at most %d; choose a shorter one", path, len(path), systemMax)
	}
	if filepath.Dir(path) == privateDir() {
		if err := makePrivate(filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
	}
	if err := checkFree(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := bind(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // by the name it was bound to, and whatever is there
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close())
	}
	return &listener{UnixListener: l, path: path, info: info}, nil
}

// checkFree returns nil when nothing is at path, or the socket of a server that
// is dead.
func checkFree(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("a file that is no socket is in the way; move it or choose another path")
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialWindow)
	defer cancel()
	c, err := dial(ctx, path)
	switch {
	case err == nil:
		_ = c.Close()
		return ErrInUse
	case isNobody(err):
		return nil
	}
	return fmt.Errorf("find out whether a server listens: %w", err)
}

func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil //nolint:forcetypeassert // of network "unix"
}

// makePrivate makes the directory of the user, or checks that it is his.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkPrivate(dir)
}

// listener removes its socket when it is closed.
type listener struct {
	*net.UnixListener
	path string
	info fs.FileInfo
	once sync.Once
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

func (l *listener) Close() error {
	err := l.UnixListener.Close()
	l.once.Do(func() {
		// Another server's socket may be there by now.
		if info, e := os.Lstat(l.path); e == nil && os.SameFile(info, l.info) {
			err = errors.Join(err, os.Remove(l.path))
		}
	})
	return err
}
