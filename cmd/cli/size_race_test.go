// SPDX-License-Identifier: Apache-2.0

//go:build race

package cli

const manyItems = 2_000
