// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/extenddb/extenddb/server/admin"
)

// TestServerEndsMeanwhile: a server that stops says so, and one that is killed
// is missed; the command never takes half the work for the whole.
func TestServerEndsMeanwhile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no interrupt on Windows")
	}
	for name, c := range map[string]struct {
		kill bool
		code int
		want string
	}{
		"stopped": {false, exitBusy, "interrupted: the server is stopping\nhint: run the command again when the server is back\n"},
		"killed":  {true, exitFailed, "the server went away before it answered\nhint: no backup was made; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, manyItems)
			end := startProcess(t, w, c.kill)
			stderr := &tripwire{phase: "data", trip: sync.OnceFunc(end)}
			var stdout bytes.Buffer
			create := []string{"backup", "create", "music", "--storage", w.db, "--store", w.store, "--progress", "json"}
			code := (&App{Stdout: &stdout, Stderr: stderr}).Run(t.Context(), create)
			if code != c.code || stdout.Len() > 0 || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("exit code %d, stdout %q, stderr:\n%s", code, stdout.String(), stderr)
			}
			if got := w.mustRun(t, "backup", "list", "--store", w.store, "--output", "json"); got != "[]\n" {
				t.Errorf("listed: %s", got)
			}
			w.mustRun(t, create...) // it is back to normal, without a server
			w.mustRun(t, "backup", "verify", "--all", "--store", w.store)
		})
	}
}

// startProcess starts a server of its own process, which end ends.
func startProcess(t *testing.T, w workshop, kill bool) (end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "extenddb", "serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--storage", w.db)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var line struct{ Msg string }
	if err := json.NewDecoder(stderr).Decode(&line); err != nil || line.Msg != "serving" {
		t.Fatalf("%+v, %v", line, err)
	}
	return func() {
		if kill {
			_ = cmd.Process.Kill()
			return
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	}
}

// TestServerGone: the hint tells what there is when a server was killed.
func TestServerGone(t *testing.T) {
	t.Parallel()
	for want, j := range map[string]job{
		"no table was made; see why": {kind: "restore", undone: "no table was made"},
		"a table shows; see why":     {kind: "restore", undone: "no table was made", left: "a table shows"},
	} {
		if e := known(j.ended(t.Context(), nil, admin.ErrGone)); e.Code != exitFailed || !strings.HasPrefix(e.Hint, want) {
			t.Errorf("exit code %d, hint %q, want %q", e.Code, e.Hint, want)
		}
	}
}
