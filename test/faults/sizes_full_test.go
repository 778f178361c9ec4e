// SPDX-License-Identifier: Apache-2.0

//go:build full

package faults

import "time"

const (
	kills   = 20
	crashes = 10
	cuts    = 10
	long    = time.Minute

	silences = 2
	silence  = 75 * time.Second // longer than any call may take
)
