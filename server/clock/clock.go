// SPDX-License-Identifier: Apache-2.0

// Package clock is the only place that reads the time, so that tests can.
package clock

import "time"

// Clock tells the time and wakes sleepers.
type Clock interface {
	Now() time.Time
	// After sends the time on the returned channel once d has passed; stop
	// frees the timer early.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

// Real is the machine's clock.
type Real struct{}

// Now returns the current time.
func (Real) Now() time.Time { return time.Now() }

// After wraps time.NewTimer.
func (Real) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
