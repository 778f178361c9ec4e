// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

// TestObey: one signal stops; what follows at once is the same one, sent to the
// process and to its group; a later one ends the program.
func TestObey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals, clk := make(chan os.Signal), clock.NewFake(time.Unix(1, 0))
		stops, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			obey(signals, clk, func() { stops++ })
		}()
		over := func() bool {
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		for range 3 {
			signals <- os.Interrupt
			clk.Advance(sameSignal / 3)
			if over() || stops != 1 {
				t.Fatalf("over after the first signal, or stopped %d times", stops)
			}
		}
		clk.Advance(time.Millisecond)
		signals <- os.Interrupt
		if !over() || stops != 1 {
			t.Errorf("not over after a second signal, or stopped %d times", stops)
		}
	})
}
