// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// askSignal sends on c each time somebody asks with SIGUSR1 how far the
// program is, until stop.
func askSignal(c chan<- os.Signal) (stop func()) {
	signal.Notify(c, syscall.SIGUSR1)
	return func() { signal.Stop(c) }
}
