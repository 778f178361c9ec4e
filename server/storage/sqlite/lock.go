// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
)

// lockSuffix names the lock file beside the database. SQLite itself would let
// a second process write, behind the back of the catalog in memory.
const lockSuffix = ".lock"

// lockText is what a lock file begins with, if anything.
const lockText = "process "

// socketText is what its second line begins with.
const socketText = "socket "

// checkLock refuses a lock file that another program put there for a purpose
// of its own.
func checkLock(db string) error {
	path := db + lockSuffix
	if text, err := os.ReadFile(path); err == nil && len(text) > 0 && !strings.HasPrefix(string(text), lockText) {
		return fmt.Errorf("%w: %s is in the way, some other program's file", ErrForeign, path)
	}
	return nil
}

// takeLock makes this process the owner of the database file. The first line
// of the lock file tells who holds it, the second where it is administered.
// The file stays when the lock is released: removing it would race with the
// next owner.
func takeLock(db, socket string, since time.Time) (*flock.Flock, error) {
	path := db + lockSuffix
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock database: %w", err)
	}
	if !ok {
		return nil, &storage.Locked{Path: path, Holder: holder(path)}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	text := fmt.Sprintf(lockText+"%d on %s since %s\n"+socketText+"%s\n",
		os.Getpid(), host, since.UTC().Format(time.RFC3339), socket)
	// Where locks are mandatory the text may not be written; it only informs.
	_ = os.WriteFile(path, []byte(text), 0o600)
	return l, nil
}

// lookLock is takeLock that writes and makes nothing: where there is no lock
// file, nobody ever had the database.
func lookLock(db string) (*flock.Flock, error) {
	l := flock.New(db+lockSuffix, flock.SetFlag(os.O_RDWR))
	ok, err := l.TryLock()
	switch {
	case err == nil && !ok:
		return nil, &storage.Locked{Path: l.Path(), Holder: holder(l.Path())}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("lock database: %w", err)
	}
	return l, nil
}

// lockPause is how often a lock that others hold is tried again.
const lockPause = 100 * time.Millisecond

// awaitLock takes a lock, and waits for it as long as m says.
func awaitLock(ctx context.Context, clk clock.Clock, m migrate.Options, take func() (*flock.Flock, error)) (*flock.Flock, error) {
	until, told := clk.Now().Add(m.LockWait), ""
	for {
		l, err := take()
		var locked *storage.Locked
		if !errors.As(err, &locked) || !clk.Now().Before(until) {
			return l, err
		}
		if locked.Holder != told {
			told = locked.Holder
			m.Wait(told)
		}
		again, stop := clk.After(lockPause)
		select {
		case <-again:
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		}
	}
}

// InUse tells which other process holds the database of that path; nil when
// none is known to. It makes nothing.
func InUse(path string) *storage.Locked {
	real, err := resolve(path)
	if err != nil || checkLock(real) != nil {
		return nil //nolint:nilerr // to open it tells better
	}
	l := flock.New(real+lockSuffix, flock.SetFlag(os.O_RDWR))
	switch ok, err := l.TryLock(); {
	case err != nil: // there is no such file, perhaps
		return nil //nolint:nilerr // as when nobody has it
	case ok:
		_ = l.Close() // nothing was written
		return nil
	}
	return &storage.Locked{Path: l.Path(), Holder: holder(l.Path())}
}

func holder(path string) string {
	b, err := os.ReadFile(path)
	line, _, _ := strings.Cut(string(b), "\n")
	if err != nil || line == "" {
		return "another process"
	}
	return line
}
