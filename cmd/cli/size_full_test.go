// SPDX-License-Identifier: Apache-2.0

//go:build !race

package cli

const manyItems = 20_000 // a job that can be stopped in its middle
