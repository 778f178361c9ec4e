// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/server/admin"
	"github.com/extenddb/extenddb/server/backup"
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
