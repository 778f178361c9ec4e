// SPDX-License-Identifier: Apache-2.0

//go:build race

package storagetest

// Sizes of the suite under the race detector: see size_full.go.
const (
	workers    = 6
	repeats    = 12
	manyRows   = 200
	modelSteps = 100
	modelRuns  = 2
)
