// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

// TestFault: only an answer that says so leaves it open whether a write was
// carried out.
func TestFault(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{api.Validation("no"), 400, api.CodeValidation},
		{fmt.Errorf("read: %w", storage.ErrTableNotFound), 400, api.CodeResourceNotFound},
		{fmt.Errorf("write: %w", storage.ErrUnavailable), 503, api.CodeUnavailable},
		{storage.ErrInDoubt, 500, api.CodeInternal},
		{fmt.Errorf("%w: EOF: %w", storage.ErrInDoubt, storage.ErrUnavailable), 500, api.CodeInternal},
		{fmt.Errorf("%w: EOF: %w", storage.ErrInDoubt, storage.ErrConflict), 500, api.CodeInternal},
		{storage.ErrCorrupt, 500, api.CodeInternal},
		{errors.New("anything"), 500, api.CodeInternal},
	} {
		if got := Fault(tc.err); got.Status != tc.status || got.Code != tc.code {
			t.Errorf("%v: %d %s, want %d %s", tc.err, got.Status, got.Code, tc.status, tc.code)
		}
	}
}
