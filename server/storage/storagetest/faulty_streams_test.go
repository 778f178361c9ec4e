// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"errors"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// TestFaultyStreams: each call fails as told, once, and counts.
func TestFaultyStreams(t *testing.T) {
	t.Parallel()
	f := NewFaulty(NewMemory(5))
	f.Inject(Fault{Method: "Horizon", Err: storage.ErrUnavailable}, Fault{Method: "Records", Err: storage.ErrUnavailable})
	for i := range 2 {
		_, herr := f.Horizon(t.Context())
		_, rerr := f.Records(t.Context(), 1, 0, 0, 1, 0)
		if i == 0 != errors.Is(herr, storage.ErrUnavailable) || i == 0 != errors.Is(rerr, storage.ErrUnavailable) {
			t.Errorf("call %d: %v, %v", i, herr, rerr)
		}
	}
	f.OnWork(func() {})
	if f.Calls("Horizon") != 2 || f.Calls("Records") != 2 || f.Calls("OnWork") != 1 || len(f.Unused()) > 0 {
		t.Errorf("calls %d, %d, %d, unused %v", f.Calls("Horizon"), f.Calls("Records"), f.Calls("OnWork"), f.Unused())
	}
}
