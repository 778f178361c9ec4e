// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/server/admin"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// TestExitCodesOfErrors: a class means the same code whether the work was done
// here or at the other end of a socket, however wrapped.
func TestExitCodesOfErrors(t *testing.T) {
	t.Parallel()
	for class, want := range map[backup.Code]int{
		backup.Failed: 1, backup.Invalid: 2, backup.NotFound: 10, backup.Busy: 11, backup.Denied: 12,
		backup.Refused: 13, backup.Incomplete: 3, backup.Interrupted: 130, "of a newer version": 1,
	} {
		here := &backup.Error{Code: class, Err: errors.New("x"), Hint: "do y"}
		there := &admin.JobError{Code: string(class), Message: "x", Hint: "do y"}
		for _, err := range []error{here, there} {
			e := known(fmt.Errorf("wrapped: %w", err))
			text := "wrapped: x"
			if want == exitInterrupted {
				text = "interrupted: wrapped: x"
			}
			if e.Code != want || e.Hint != "do y" || e.Error() != text {
				t.Errorf("%T %s: code %d, hint %q, text %q; want code %d", err, class, e.Code, e.Hint, e.Error(), want)
			}
		}
	}
	for err, want := range map[error]int{
		context.Canceled:          130,
		backupstore.ErrUnusable:   10,
		backupstore.ErrPermission: 12,
		backupstore.ErrNotFound:   1,
		usagef("x"):               2,
	} {
		if e := known(fmt.Errorf("wrapped: %w", err)); e.Code != want {
			t.Errorf("%v: code %d, want %d", err, e.Code, want)
		}
	}
}

// TestOpenErrors: each refusal of a file has its exit code and says what to do.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
		hint string
	}{
		{sqlite.ErrForeign, exitRefused, "choose another file"},
		{sqlite.ErrLinked, exitRefused, "one name"},
		{sqlite.ErrKept, exitRefused, "copy it under another name"},
		{sqlite.ErrNoSpace, exitRefused, "run: extenddb migrate --yes --no-copy --storage 'sqlite:my data.db'"},
		{storage.ErrLocked, exitFailed, ""},
		{&storage.Locked{Holder: "x"}, exitBusy, "stop that server"},
		{storage.ErrCorrupt, exitFailed, "keep the file"},
	} {
		e := known(openError("my data.db", fmt.Errorf("open: %w", c.err)))
		if e.Code != c.code || !strings.Contains(strings.ReplaceAll(e.Hint, `"`, "'"), c.hint) {
			t.Errorf("%v: exit code %d, hint %q; want %d, %q", c.err, e.Code, e.Hint, c.code, c.hint)
		}
	}
}
