// SPDX-License-Identifier: Apache-2.0

// Package keyenc turns key values into bytes that sort as DynamoDB sorts the
// values, with bounded length.
package keyenc
