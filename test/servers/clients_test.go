// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClients: the server's own pg_dump wins, and one that is older than the
// server is none.
func TestClients(t *testing.T) {
	put := func(dir, program, version string) {
		if version == "" {
			return
		}
		if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const server = "postgres (PostgreSQL) 18.4"
	for name, c := range map[string]struct{ server, own, system, want string }{
		"own":         {server, "pg_dump (PostgreSQL) 18.4", "pg_dump (PostgreSQL) 15.4", ""},
		"same":        {server, "", "pg_dump (PostgreSQL) 18.1 (Debian 18.1-1)", ""},
		"newer":       {server, "", "pg_dump (PostgreSQL) 19beta1", ""},
		"older":       {server, "", "pg_dump (PostgreSQL) 15.4", "PostgreSQL 18 has no pg_dump of its own here, and that of version 15 refuses it"},
		"none":        {server, "", "", "no pg_dump"},
		"no version":  {"what?", "", "pg_dump (PostgreSQL) 15.4", `"what?\n"`},
		"no client's": {server, "what?", "", `"what?\n"`},
		"no server":   {"", "", "pg_dump (PostgreSQL) 15.4", "ask "},
	} {
		t.Run(name, func(t *testing.T) {
			bin, path := t.TempDir(), t.TempDir()
			put(bin, "postgres", c.server)
			put(bin, "pg_dump", c.own)
			put(path, "pg_dump", c.system)
			t.Setenv("PATH", path)
			t.Setenv(BinEnv, bin)
			err := newEnough(bin)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err == nil {
				if got := ClientPath(t); got != bin+string(os.PathListSeparator)+path {
					t.Errorf("the PATH is %s", got)
				}
			}
		})
	}
}
