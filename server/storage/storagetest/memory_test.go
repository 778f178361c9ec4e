// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
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
		MaxTables: maxTables,
		Snapshots: m.snapshots(),
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, func(*testing.T) Harness { return memoryHarness() })
}
