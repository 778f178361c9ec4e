// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/test/need"
)

// ClientPath returns a PATH on which pg_dump and its like are found that work
// with the shared server: its own, else those of the system. Where they are
// older than the server, which they refuse then, the test is skipped.
func ClientPath(t testing.TB) string {
	t.Helper()
	bin := Binaries(t)
	if err := newEnough(bin); err != nil {
		need.Missing(t, "pg_dump", err.Error())
	}
	return bin + string(os.PathListSeparator) + os.Getenv("PATH")
}

// newEnough returns why the server of a directory cannot be dumped.
func newEnough(bin string) error {
	dump := filepath.Join(bin, "pg_dump")
	if !exists(dump) {
		var err error
		if dump, err = exec.LookPath("pg_dump"); err != nil {
			return fmt.Errorf("PostgreSQL in %s has no pg_dump, and none is on the PATH", bin)
		}
	}
	server, err := majorOf(filepath.Join(bin, "postgres"))
	if err != nil {
		return err
	}
	client, err := majorOf(dump)
	if err != nil {
		return err
	}
	if client < server {
		return fmt.Errorf("PostgreSQL %d has no pg_dump of its own here, and that of version %d refuses it", server, client)
	}
	return nil
}

// majorOf asks a program for its version: "pg_dump (PostgreSQL) 15.4".
func majorOf(program string) (int, error) {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	_, version, _ := strings.Cut(string(out), "(PostgreSQL) ")
	digits := version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
	n, err := strconv.Atoi(digits) // of 19beta1, too
	if err != nil {
		return 0, fmt.Errorf("%s --version answers %q", program, out)
	}
	return n, nil
}
