// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tripwire is a stderr that calls trip when a progress event of a phase is
// written to it.
type tripwire struct {
	phase string
	trip  func()

	mu  sync.Mutex
	all bytes.Buffer
}

func (w *tripwire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(p)
	for line := range bytes.Lines(p) { // one of the log, or an event
		var e struct{ State, Phase string }
		if json.Unmarshal(line, &e) == nil && e.Phase == w.phase && e.State == "running" {
			w.trip()
		}
	}
	return len(p), nil
}

func (w *tripwire) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

// workshop is a database with a table, and a store.
type workshop struct {
	dir, db, store string
}

func (w workshop) file(name string) string { return filepath.Join(w.dir, name) }

func newWorkshop(t *testing.T, items int) workshop {
	t.Helper()
	dir := t.TempDir()
	w := workshop{dir: dir, db: "sqlite:" + filepath.Join(dir, "data.db"), store: fileURL(filepath.Join(dir, "backups"))}
	w.mustRun(t, "store", "init", w.store)
	r := serve(t, "--storage", w.db)
	if err := fill(t.Context(), client(r.addr), "music", items); err != nil {
		t.Fatal(err)
	}
	if code := r.stop(); code != exitOK {
		t.Fatalf("the server ended with %d:\n%s", code, r.logs())
	}
	return w
}

// run runs a command and returns its exit code, stdout and stderr.
func run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = (&App{Stdin: strings.NewReader("yes\n"), Stdout: &out, Stderr: &errs}).Run(ctx, args)
	return code, out.String(), errs.String()
}

func (w workshop) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := run(t.Context(), args...)
	if code != exitOK {
		t.Fatalf("extenddb %s: exit code %d:\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// TestInterrupted: what is stopped while it works leaves nothing half-done,
// with a server and without, says so, and ends with 130.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, served := range []bool{false, true} {
		for _, c := range []struct{ kind, phase string }{
			{"backup", "data"}, {"restore", "verify"}, {"restore", "load"}, {"restore", "index"}, {"verify", "verify"},
		} {
			if served && c.kind == "verify" {
				continue // asks no server
			}
			name := c.kind + " " + c.phase
			if served {
				name += " by a server"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for tries := 5; !interrupt(t, served, c.kind, c.phase); tries-- {
					if tries == 1 {
						t.Fatal("it was never stopped")
					}
				}
			})
		}
	}
}

const items = 2000

// interrupt reports whether the command heard of the end before it was done.
func interrupt(t *testing.T, served bool, kind, phase string) bool {
	w := newWorkshop(t, items)
	base := []string{"--store", w.store, "--progress", "json", "--progress-interval", "10ms"}
	args := append([]string{"backup", "create", "music", "--storage", w.db}, base...)
	if kind != "backup" {
		w.mustRun(t, args...)
		args = append([]string{"restore", "latest:music", "--as", "copy", "--storage", w.db}, base...)
	}
	if kind == "verify" {
		args = append([]string{"backup", "verify", "latest:music"}, base...)
	}
	var r *running
	if served {
		r = serve(t, "--storage", w.db)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stderr := &tripwire{phase: phase, trip: cancel}
	var stdout bytes.Buffer
	code := (&App{Stdout: &stdout, Stderr: stderr}).Run(ctx, args)
	want := map[string]string{
		"backup": "extenddb: backup create: interrupted: no backup was made\n", "restore": "extenddb: restore: interrupted: no table was made\n",
		"verify": "extenddb: backup verify: interrupted",
	}[kind]
	if code == exitOK { // done before it heard of the end: then whole
		switch kind {
		case "backup":
			w.mustRun(t, "backup", "verify", "latest:music", "--store", w.store)
		case "restore":
			if !served {
				r = serve(t, "--storage", w.db)
			}
			if err := countAll(t.Context(), client(r.addr), "copy", items); err != nil {
				t.Error(err)
			}
		}
		return served // which may always be too fast
	}
	if code != exitInterrupted || !strings.Contains(stderr.String(), want) {
		t.Fatalf("exit code %d, stderr:\n%s", code, stderr)
	}
	if text := stderr.String(); strings.Contains(text, "context ") || kind != "verify" && !strings.Contains(text, `"state":"cancelled"`) {
		t.Errorf("told of the end:\n%s", text)
	}
	if served { // to be stopped is no failure of the server
		log := r.logs()
		if !strings.Contains(log, kind+` cancelled","job":`) || !strings.Contains(log, `"reason":"the command ended"`) || strings.Contains(log, "ERROR") {
			t.Errorf("the server logged:\n%s", log)
		}
	}
	if kind == "backup" {
		if got := w.mustRun(t, "backup", "list", "--store", w.store, "--output", "json"); got != "[]\n" {
			t.Errorf("listed: %s", got)
		}
		if got := w.mustRun(t, "store", "check", w.store); strings.Contains(got, "unfinished") {
			t.Errorf("left in the store: %s", got)
		}
	}
	if kind == "restore" && !served { // a server removes it in the background
		r := serve(t, "--storage", w.db)
		name := "copy"
		_, err := client(r.addr).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
		var none *types.ResourceNotFoundException
		if !errors.As(err, &none) {
			t.Errorf("the target of the restore: %v, want none", err)
		}
	}
	return true
}
