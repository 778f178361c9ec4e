// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cli

import "os"

// askSignal does nothing: there is no such signal here.
func askSignal(chan<- os.Signal) (stop func()) { return func() {} }
