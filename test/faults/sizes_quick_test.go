// SPDX-License-Identifier: Apache-2.0

//go:build !full

package faults

import "time"

const (
	kills   = 1
	crashes = 1
	cuts    = 1
	long    = 4 * time.Second

	silences = 1
	silence  = 3 * time.Second
)
