// SPDX-License-Identifier: Apache-2.0

//go:build !race

package sqlite

// killRounds is how often a process is killed; the race detector makes each
// round many times slower.
const killRounds = 10
