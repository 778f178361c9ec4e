// SPDX-License-Identifier: Apache-2.0

//go:build !full

package postgres

import "time"

// What the stress test does in the quick tier.
const (
	stressLength = 8 * time.Second
	stressPause  = 300 * time.Millisecond
)
