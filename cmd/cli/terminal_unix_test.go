// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// onTerminal runs the program with its stderr on a terminal, and returns what
// it wrote there, and to stdout.
func onTerminal(t *testing.T, environ []string, args ...string) (code int, stdout, screen string) {
	t.Helper()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if err := pty.Setsize(theirs, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "extenddb", args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stderr = theirs
	var out, seen bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	_, _ = io.Copy(&seen, ours) // ends with an error when nobody writes any more
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), out.String(), seen.String()
}

// TestBarOnTerminal: progress is a bar on a terminal, whose cursor is back at
// the end; stdout has the result alone.
func TestBarOnTerminal(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 500)
	create := []string{"backup", "create", "music", "--storage", w.db, "--store", w.store}
	code, stdout, screen := onTerminal(t, []string{"TERM=xterm-256color", "LC_ALL=C.UTF-8"}, create...)
	if code != exitOK || !strings.HasPrefix(stdout, "backed up music: 500 items") {
		t.Fatalf("exit code %d, stdout %q, screen %q", code, stdout, screen)
	}
	if !strings.Contains(screen, "\x1b[") || !strings.Contains(screen, "done") || !strings.Contains(screen, "music") {
		t.Errorf("no bar: %q", screen)
	}
	hidden, shown := strings.LastIndex(screen, "\x1b[?25l"), strings.LastIndex(screen, "\x1b[?25h")
	if hidden > shown {
		t.Errorf("the cursor stays hidden: %q", screen)
	}
	if strings.Contains(screen, "\x1b[?1049h") {
		t.Errorf("it takes the whole screen: %q", screen)
	}
	for name, c := range map[string]struct {
		environ []string
		flag    string
		want    string
	}{
		"dumb":  {[]string{"TERM=dumb"}, "--quiet=false", "backup music: done"},
		"quiet": {[]string{"TERM=xterm"}, "--quiet", ""},
		"json":  {[]string{"TERM=xterm"}, "--output=json", `{"message_type":"progress"`},
	} {
		code, _, screen := onTerminal(t, c.environ, append(create, c.flag)...)
		if code != exitOK || strings.Contains(screen, "\x1b") || !strings.Contains(screen, c.want) || c.want == "" && screen != "" {
			t.Errorf("%s: exit code %d, screen %q", name, code, screen)
		}
	}
}

// TestErrorAfterBar: an error comes on a line of its own, after the bar.
func TestErrorAfterBar(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 5)
	code, _, screen := onTerminal(t, []string{"TERM=xterm-256color"}, "backup", "create", "absent", "--storage", w.db, "--store", w.store)
	before, _, found := strings.Cut(screen, "extenddb: backup create: table \"absent\" does not exist\r\nhint: ")
	if code != exitNotFound || !found || before != "" && !strings.HasSuffix(before, "\x1b[?25h") && !strings.HasSuffix(before, "\r\n") {
		t.Errorf("exit code %d, screen %q", code, screen)
	}
}

// TestSignals: SIGUSR1 has the program tell how far it is, also when it was to
// be quiet; SIGTERM, and the end of its terminal, stop it with nothing half-done.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(end.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(end) {
				t.Skip("this test was started to outlive its terminal")
			}
			askAndStop(t, end)
		})
	}
}

func askAndStop(t *testing.T, end syscall.Signal) {
	w := newWorkshop(t, manyItems)
	cmd := exec.CommandContext(t.Context(), "extenddb", "backup", "create", "music", "--storage", w.db, "--store", w.store,
		"--progress", "json", "--progress-interval", "1h")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var last string
	asked, stopped := false, false
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		last = lines.Text()
		var e struct {
			Phase string
			State string
		}
		if json.Unmarshal([]byte(last), &e) != nil || e.Phase != "data" {
			continue
		}
		switch {
		case !asked: // what is told next would else come with the next tenth
			asked = true
			err = cmd.Process.Signal(syscall.SIGUSR1)
		case !stopped:
			stopped = true
			err = cmd.Process.Signal(end)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); !stopped || code != exitInterrupted || !strings.HasSuffix(last, "interrupted: no backup was made") {
		t.Errorf("asked %v, stopped %v, exit code %d, last line %q", asked, stopped, code, last)
	}
	if got := w.mustRun(t, "backup", "list", "--store", w.store, "--output", "json"); got != "[]\n" {
		t.Errorf("listed: %s", got)
	}
}

// TestNohup: a command that was started to outlive its terminal does, and a
// server does not take the end of its terminal for a wish to stop in order.
func TestNohup(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, manyItems)
	hup := func(script string, args ...string) (*exec.Cmd, string) {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "extenddb"}, args...)...)
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			if all.Len() == 0 {
				if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
			}
			all.WriteString(lines.Text() + "\n")
		}
		_ = cmd.Wait()
		return cmd, all.String()
	}
	cmd, log := hup(`trap "" HUP; exec "$0" "$@"`, "backup", "create", "music", "--storage", w.db, "--store", w.store, "--progress", "json")
	if code := cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("a command without a terminal ended with %d:\n%s", code, log)
	}
	if signal.Ignored(syscall.SIGHUP) {
		return // so would the server
	}
	cmd, log = hup(`exec "$0" "$@"`, "serve", "--listen", "127.0.0.1:0", "--storage", w.db)
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGHUP {
		t.Errorf("a server ended with %v:\n%s", cmd.ProcessState, log)
	}
}
