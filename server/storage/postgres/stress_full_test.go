// SPDX-License-Identifier: Apache-2.0

//go:build full

package postgres

import "time"

// What the stress test does in the full tier.
const (
	stressLength = 75 * time.Second
	stressPause  = 2500 * time.Millisecond
)
