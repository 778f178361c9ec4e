// SPDX-License-Identifier: Apache-2.0

//go:build full

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// suite is a package's tests that each version must pass: what could differ
// from version to version. The rest runs on the system's.
type suite struct {
	pkg   string
	tests []string
}

func suites() []suite {
	return []suite{
		{"server/storage/postgres", []string{
			"TestConformance", "TestManual", "TestRoleWithoutRights", "TestOpenTells", "TestPoolerRefused", "TestEveryCatalogIsMigrated", "TestMigrate",
		}},
		{"cmd/cli", []string{"TestPostgresRefusesConnections", "TestServeSharesPostgres", "TestMigrateNamesWhoMigrates"}},
		{"test/faults", []string{"TestKillServer", "TestTerminateBackends"}},
	}
}

// TestVersions runs the suites on each version that is supported.
func TestVersions(t *testing.T) {
	versions := PostgreSQLVersions(t)
	dir := t.TempDir()
	for _, s := range suites() {
		cmd := exec.Command("go", "test", "-c", "-o", s.program(dir), "./"+s.pkg)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the tests of %s: %v\n%s", s.pkg, err, out)
		}
	}
	for _, v := range versions {
		t.Run(strconv.Itoa(v.Major), func(t *testing.T) {
			if got, err := majorOf(filepath.Join(v.Bin, "postgres")); err != nil || v.Major != got {
				t.Fatalf("it is version %d: %v", got, err)
			}
			for _, s := range suites() {
				s.run(t, dir, v)
			}
		})
	}
}

const root = "../.." // of the module

func (s suite) program(dir string) string { return filepath.Join(dir, filepath.Base(s.pkg)+".test") }

// run runs the suite's tests, each of which must be there and pass.
func (s suite) run(t *testing.T, dir string, v Version) {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), s.program(dir), "-test.v", "-test.timeout=10m", "-test.run=^("+strings.Join(s.tests, "|")+")$")
	cmd.Dir = filepath.Join(root, s.pkg)
	cmd.Env = append(os.Environ(), BinEnv+"="+v.Bin)
	out, err := cmd.CombinedOutput()
	t.Logf("%s: %v", s.pkg, time.Since(began).Round(time.Second))
	for _, name := range s.tests {
		if err == nil && !strings.Contains(string(out), "\n--- PASS: "+name+" (") {
			t.Errorf("%s: %s has not run", s.pkg, name)
		}
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", s.pkg, err, out)
	}
}
