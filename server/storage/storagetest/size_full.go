// SPDX-License-Identifier: Apache-2.0

//go:build !race

package storagetest

// Sizes of the suite. Under the race detector everything is about ten times
// slower, so there is less of it.
const (
	workers    = 8   // goroutines that do the same thing
	repeats    = 50  // of each
	manyRows   = 600 // rows of a table that is to be large
	modelSteps = 400
	modelRuns  = 6
)
