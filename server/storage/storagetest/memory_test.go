// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/extenddb/extenddb/server/storage"
)

// memoryHarness is the reference engine as the suite wants it.
func memoryHarness() Harness {
	const maxTables = 20
	m := NewMemory(maxTables)
	return Harness{
		Engine: m,
		Reopen: func() storage.Engine {
			m = m.Reopen()
			return m
		},
		Second:    func() storage.Engine { return m.Second() },
		MaxTables: maxTables,
		Snapshots: m.snapshots(),
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, func(*testing.T) Harness { return memoryHarness() })
}

// TestDropsThatWait: an engine whose drops wait for snapshots is as good.
func TestDropsThatWait(t *testing.T) {
	t.Parallel()
	for _, c := range checks() {
		if !strings.Contains(c.name, "drop") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := memoryHarness()
			m := h.Engine.(*Memory)
			m.disk.dropWaits = true
			h.Snapshots = m.snapshots()
			c.do(t, h)
		})
	}
}

// TestConflicts: they may happen where several write at once, nowhere else.
func TestConflicts(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	met := func() error {
		if n.Add(1)%3 == 0 {
			return nil
		}
		return fmt.Errorf("%w: as made up", storage.ErrConflict)
	}
	harness := func() Harness {
		x := mutant{damage: func(s *Stub, m *Memory) {
			written(s, func(ctx context.Context, w storage.Write) (storage.Result, error) {
				if err := met(); err != nil {
					return storage.Result{Table: w.Table, Err: err}, err
				}
				return m.Write(ctx, w)
			})
			s.OnWriteAll = func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
				if err := met(); err != nil {
					return nil, err
				}
				return m.WriteAll(ctx, ws, token)
			}
		}}
		return x.harness()
	}
	for name, passes := range map[string]bool{"rows/counter": true, "many/write each": false, "many/write all": false, "rows/put get delete": false} {
		for _, c := range checks() {
			if c.name == name {
				if fs := record(t, c, harness()); (len(fs) == 0) != passes {
					t.Errorf("%s with conflicts: %q", name, fs)
				}
			}
		}
	}
}
