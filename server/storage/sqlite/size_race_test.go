// SPDX-License-Identifier: Apache-2.0

//go:build race

package sqlite

const killRounds = 1
