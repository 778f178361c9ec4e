// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	pg "github.com/extenddb/extenddb/test/servers"
)

// suite stops the private PostgreSQL when the tests are over.
type suite struct{ *testing.M }

// Run implements testscript.TestingM.
func (s suite) Run() int {
	defer pg.Stop()
	return s.M.Run()
}

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"extenddb": func() { os.Exit(Main(os.Args[1:], Build{Version: "1.2.3", Commit: "abc", Date: "today"})) },
	})
}

// The scripts under testdata/script run the real program; "exit N args…" runs
// it and demands that exit code. script_commands_test.go has the other commands.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scripts(t, "testdata/script"))
}

// TestPostgresScripts are those that need a PostgreSQL.
func TestPostgresScripts(t *testing.T) {
	t.Parallel()
	pg.Shared(t) // here, where what is missing can be said
	testscript.Run(t, scripts(t, "testdata/postgres"))
}

func scripts(t *testing.T, dir string) testscript.Params {
	return testscript.Params{
		Dir:   dir,
		Setup: func(e *testscript.Env) error { e.Values[servers{}] = map[string]*process{}; return nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit": wantExit, "serve": startServer, "stop": stopServer, "kill-server": killServer,
			"fill": fillTable, "count": countItems, "no-table": wantNoTable,
			"edit": editFile, "backup-dir": setBackupDir, "old-file": makeOldFile,
			"database": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: database NAME")
				}
				ts.Setenv(args[0], pg.Database(t)) // dropped when all scripts are over
			},
		},
	}
}

// wantExit is "exit CODE ARGS…".
func wantExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exit CODE ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("extenddb", args[1:]...); err != nil {
		code, ok := strings.CutPrefix(err.Error(), "exit status ")
		if got, err = strconv.Atoi(code); !ok || err != nil {
			ts.Fatalf("extenddb %s: %v", strings.Join(args[1:], " "), err)
		}
	}
	if got != want {
		ts.Fatalf("extenddb %s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}
