// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line: one file per command, the configuration,
// and the only place that maps errors to exit codes and knows every engine.
package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

// Main runs the program and returns its exit code. The first SIGINT or SIGTERM
// stops cleanly, the second at once. A lost terminal stops a command likewise,
// unless it was started to outlive it, as nohup does.
func Main(args []string, build Build) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		obey(signals, clock.Real{}, cancel)
		os.Exit(exitInterrupted) //nolint:forbidigo // a second signal means now
	}()
	app := &App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Build: build}
	return app.Run(ctx, args)
}

// sameSignal is how close two signals are that somebody sent once: service
// managers signal a process and then its group.
const sameSignal = 500 * time.Millisecond

// obey calls stop at the first signal and returns at the second.
func obey(signals <-chan os.Signal, clk clock.Clock, stop func()) {
	<-signals
	first := clk.Now()
	stop()
	for range signals {
		if clk.Now().Sub(first) > sameSignal {
			return
		}
	}
}
