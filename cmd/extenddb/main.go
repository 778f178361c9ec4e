// SPDX-License-Identifier: Apache-2.0

// Command extenddb serves the DynamoDB wire protocol and administers what it
// serves.
package main

import (
	"os"

	"github.com/extenddb/extenddb/cmd/cli"
)

// Stamped by the linker.
var version, commit, date string

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Build{Version: version, Commit: commit, Date: date}))
}
