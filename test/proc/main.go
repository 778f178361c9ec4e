// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/test/servers"
)

// shared is the program that the tests of this process share.
var shared struct {
	dir  string // "": they do not
	once sync.Once
	bin  string
	err  error
}

// Main runs the tests of a package, which share one build of the program and
// one private server of each kind.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "extenddb-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared.dir = dir
	code := m.Run()
	servers.Stop()
	_ = os.RemoveAll(dir) // it is in nobody's way
	os.Exit(code)
}
