// SPDX-License-Identifier: Apache-2.0

//go:build full

package servers

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestVersions runs the tests of the PostgreSQL engine, the drill and the short
// faults on each version that is supported.
func TestVersions(t *testing.T) {
	for _, v := range PostgreSQLVersions(t) {
		t.Run(v.Name, func(t *testing.T) {
			s, err := StartPostgreSQL(v.Bin)
			if err != nil {
				t.Fatal(err)
			}
			got := query[string](t, s.URL("postgres"), "SHOW server_version")
			if err := s.Remove(); err != nil {
				t.Error(err)
			}
			if v.Name != "system" && !strings.HasPrefix(got, v.Name+".") {
				t.Errorf("that is version %s", got)
			}
			cmd := exec.Command("go", "test", "-count=1", "-timeout=30m", "./server/storage/postgres/...", "./test/drill", "./test/faults")
			cmd.Dir = "../.."
			cmd.Env = append(os.Environ(), BinEnv+"="+v.Bin)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("PostgreSQL %s: %v", got, err)
			}
			t.Logf("PostgreSQL %s:\n%s", got, out)
		})
	}
}
