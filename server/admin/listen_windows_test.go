// SPDX-License-Identifier: Apache-2.0

package admin

const privateByDirectory = true
