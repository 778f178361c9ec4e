// SPDX-License-Identifier: Apache-2.0

// Package need lets a test say what it needs of the machine. What is missing
// skips the test with a visible reason, and fails it where the environment
// variable EXTENDDB_TEST_REQUIRE (a comma list of names, or "all") demands it.
package need

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Tool returns the path of a program.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, "no program "+name+" on the PATH")
	}
	return path
}

// Python returns a Python interpreter that has the module.
func Python(t testing.TB, module string) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} { // Debian's modules belong to Debian's interpreter
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "-c", "import "+module).Run() == nil {
			return path
		}
	}
	Missing(t, module, "no Python 3 with module "+module)
	return ""
}

// Root skips unless the test runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root", "needs root")
	}
}

// Missing skips the test, or fails it when name is required.
func Missing(t testing.TB, name, reason string) {
	t.Helper()
	required := strings.Split(os.Getenv("EXTENDDB_TEST_REQUIRE"), ",")
	if slices.Contains(required, name) || slices.Contains(required, "all") {
		t.Fatalf("%s (required by EXTENDDB_TEST_REQUIRE)", reason)
	}
	record(t, reason)
	t.Skip(reason)
}

// record adds the skip to the file that EXTENDDB_TEST_SKIPS names, so that
// test/quick.sh can show it: go test is silent about skips in packages that pass.
func record(t testing.TB, reason string) {
	t.Helper()
	path := os.Getenv("EXTENDDB_TEST_SKIPS")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "skipped %s: %s\n", t.Name(), reason); err != nil {
		t.Fatal(err)
	}
}
