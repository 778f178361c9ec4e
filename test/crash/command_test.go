// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/servers"
)

// machine is a directory with the program, a store and databases.
type machine struct {
	bin   string
	dir   string
	store string // directory
}

// newMachine makes one whose commands write data files of 1 MiB: then there is
// something between them to be cut off at.
func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{bin: proc.Binary(t, dir), dir: dir, store: filepath.Join(dir, "store")}
	m.configure(t, "[backup]\ndata_file_target_bytes = \"1MiB\"\n")
	m.ok(t, "store", "init", m.url())
	return m
}

// configure replaces the configuration file of commands and servers.
func (m *machine) configure(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, "extenddb.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) url() string { return "file://" + m.store }

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// backup is a command line that backs the table up.
func (m *machine) backup(db string) []string {
	return []string{"backup", "create", table, "--store", m.url(), "--storage", storageURL(db), "--output", "json"}
}

// restore is a command line that restores a backup.
func (m *machine) restore(db, backup, as string) []string {
	return []string{"restore", backup, "--as", as, "--store", m.url(), "--storage", storageURL(db), "--output", "json"}
}

// database is a new one: a file of the machine, or the URL of one elsewhere.
func (m *machine) database(t *testing.T, e proc.Engine, name string) string {
	t.Helper()
	if e.Name == "sqlite" {
		return m.path(name)
	}
	return e.Database(t)
}

// copied returns a database with what is in another, which nobody uses.
func (m *machine) copied(t *testing.T, db, name string) string {
	t.Helper()
	if !isFile(db) {
		return servers.Copy(t, db)
	}
	copyFile(t, db, m.path(name))
	return m.path(name)
}

func isFile(db string) bool { return !strings.Contains(db, "://") }

func storageURL(db string) string {
	if isFile(db) {
		return "sqlite:" + db
	}
	return db
}

// child is a command under way.
type child struct {
	cmd   *exec.Cmd
	began time.Time
	seen  chan struct{} // closed at the first event the watcher waits for, or at the end
	over  chan struct{}

	stdout, stderr bytes.Buffer // complete when over is closed
	took           time.Duration
}

// start runs a command. When watch is not nil, seen is closed once it says yes
// to an event of progress.
func (m *machine) start(t *testing.T, watch func(progress.Event) bool, args ...string) *child {
	t.Helper()
	return m.startCmd(t, exec.Command(m.bin, args...), watch)
}

func (m *machine) startCmd(t *testing.T, cmd *exec.Cmd, watch func(progress.Event) bool) *child {
	t.Helper()
	c := &child{cmd: cmd, seen: make(chan struct{}), over: make(chan struct{})}
	cmd.Dir, cmd.Env, cmd.Stdout = m.dir, []string{"PATH=" + os.Getenv("PATH")}, &c.stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.began = time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-c.over })
	go func() {
		defer close(c.over)
		c.read(stderr, watch)
		_ = cmd.Wait() // the code is looked at
		c.took = time.Since(c.began)
	}()
	return c
}

func (c *child) read(stderr io.Reader, watch func(progress.Event) bool) {
	see := sync.OnceFunc(func() { close(c.seen) })
	defer see()
	lines := bufio.NewScanner(io.TeeReader(stderr, &c.stderr))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Type string `json:"message_type"`
			progress.Event
		}
		if watch != nil && json.Unmarshal(lines.Bytes(), &e) == nil && e.Type == "progress" && watch(e.Event) {
			see()
		}
	}
}

// begun is true of the first event of a job.
func begun(progress.Event) bool { return true }

// under reports whether the work is well under way.
func under(e progress.Event) bool {
	p, ok := e.Percent()
	return ok && p >= 10 && !e.State.Final()
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// end waits for the end and returns the exit code, -1 after a signal.
func (c *child) end() int {
	<-c.over
	return c.cmd.ProcessState.ExitCode()
}

// endsWithin waits for the end, but no longer than d.
func (c *child) endsWithin(d time.Duration) bool {
	late, stop := clock.Real{}.After(d)
	defer stop()
	select {
	case <-c.over:
		return true
	case <-late:
		return false
	}
}

func (c *child) String() string {
	return fmt.Sprintf("%s: exit %d after %v\n%s%s", strings.Join(c.cmd.Args[1:], " "), c.end(), c.took, &c.stdout, &c.stderr)
}

// must waits for the end, which must be a good one.
func (c *child) must(t *testing.T) *child {
	t.Helper()
	if c.end() != 0 {
		t.Fatal(c)
	}
	return c
}

// run runs a command to its end.
func (m *machine) run(t *testing.T, args ...string) *child {
	t.Helper()
	c := m.start(t, nil, args...)
	<-c.over
	return c
}

// ok runs a command that must succeed.
func (m *machine) ok(t *testing.T, args ...string) *child {
	t.Helper()
	return m.want(t, 0, args...)
}

// want runs a command that must end with the exit code.
func (m *machine) want(t *testing.T, code int, args ...string) *child {
	t.Helper()
	c := m.run(t, args...)
	if c.end() != code {
		t.Fatalf("expected exit %d: %v", code, c)
	}
	return c
}

// decode reads the result of a command.
func decode[T any](t *testing.T, c *child) (v T) {
	t.Helper()
	if err := json.Unmarshal(c.stdout.Bytes(), &v); err != nil {
		t.Fatalf("%v: %v", err, c)
	}
	return v
}

// sometime waits until a random instant of something that lasts so long, or a
// little after.
func sometime(whole time.Duration) {
	fired, stop := clock.Real{}.After(rand.N(whole * 11 / 10))
	defer stop()
	<-fired
}

// memory is the most a process has used, in bytes.
type memory struct{ anonymous, resident int64 }

// watchMemory looks at the memory of a process until stop, which returns the
// most there was.
func watchMemory(pid int) (stop func() memory) {
	quit, result := make(chan struct{}), make(chan memory)
	go func() {
		var m memory
		for {
			if n, err := proc.Memory(pid, "RssAnon"); err == nil {
				m.anonymous = max(m.anonymous, n)
			}
			if n, err := proc.Memory(pid, "VmHWM"); err == nil {
				m.resident = max(m.resident, n)
			}
			tick, stop := clock.Real{}.After(2 * time.Millisecond)
			select {
			case <-tick:
			case <-quit:
				stop()
				result <- m
				return
			}
		}
	}()
	return func() memory { close(quit); return <-result }
}

// measured runs a command that must succeed and returns the memory it took.
func (m *machine) measured(t *testing.T, args ...string) (*child, memory) {
	t.Helper()
	c := m.start(t, nil, args...)
	stop := watchMemory(c.cmd.Process.Pid)
	<-c.over
	return c.must(t), stop()
}
