// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBackupRestsForClients, and only as long as there are any.
func TestBackupRestsForClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := int64(0)
		pause := rest(func() int64 { return requests })
		for i, c := range []struct {
			more int64
			want time.Duration
		}{{0, 0}, {1, restTime}, {0, 0}, {0, 0}, {500, restTime}, {2, restTime}, {0, 0}} {
			requests += c.more
			began := time.Now()
			if pause(); time.Since(began) != c.want {
				t.Errorf("pause %d after %d requests takes %v", i, c.more, time.Since(began))
			}
		}
	})
}
