// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/extenddb/extenddb/test/need"
)

// nobody runs the program as a user who may not override permissions, in dir,
// which everybody can reach and write.
type nobody struct{ dir, bin string }

const nobodyID = 65534

func newNobody(t *testing.T) nobody {
	t.Helper()
	n := nobody{dir: t.TempDir()}
	n.bin = filepath.Join(n.dir, "extenddb")
	for _, dir := range []string{filepath.Dir(n.dir), n.dir} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.bin, text, 0o755); err != nil {
		t.Fatal(err)
	}
	n.own(t, n.dir)
	return n
}

// own gives a file to nobody.
func (n nobody) own(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(path, nobodyID, nobodyID); err != nil {
		t.Fatal(err)
	}
}

// mkdir makes a directory below dir that is nobody's, of that mode.
func (n nobody) mkdir(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	n.own(t, path)
	n.chmod(t, name, mode)
}

func (n nobody) initStore(t *testing.T, name string) {
	t.Helper()
	if code, output := n.run(t, "store", "init", "file:"+name); code != 0 {
		t.Fatalf("store init: exit code %d:\n%s", code, output)
	}
}

func (n nobody) chmod(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(filepath.Join(n.dir, name), mode); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(n.dir, name), 0o700) }) // to be removed
}

func (n nobody) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), n.bin, args...)
	cmd.Dir = n.dir
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	}
	return cmd
}

func (n nobody) run(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	cmd := n.command(t, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// TestPermissions: a right that is missing is exit code 12, says what to do,
// and leaves everything as it was.
func TestPermissions(t *testing.T) {
	t.Parallel()
	n := newNobody(t)
	n.mkdir(t, "bare", 0o500)
	for name, mode := range map[string]os.FileMode{"readonly": 0o500, "closed": 0o000} {
		n.initStore(t, name)
		n.chmod(t, name, mode)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"store check file:readonly", "put            permission denied", 12},
		{"store check file:readonly --output json", `"missing": "to write objects"`, 12},
		{"store check file:closed", "permission denied\nhint: run the command as a user who may enter and read the directory\n", 12},
		{"store check file:closed/below", "hint: run the command as a user", 12},
		{"store init file:bare/new", "hint: make it as a user who may write there", 12},
		{"store init file:bare", "permission denied", 12},
		{"store init file:readonly", "is ready", 0},
		{"backup list --store file:closed", "hint: run the command as a user", 12},
		{"backup list --store file:readonly", "CREATED", 0},
		{"serve --listen 127.0.0.1:0 --store file:readonly", `hint: this tells what is possible there: extenddb store check file://`, 12},
	} {
		code, output := n.run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(output, c.want) {
			t.Errorf("extenddb %s: exit code %d, want %d with %q:\n%s", c.args, code, c.code, c.want, output)
		}
	}
	if _, err := os.Stat(filepath.Join(n.dir, "extenddb.db")); !os.IsNotExist(err) {
		t.Errorf("a server that did not start left its database: %v", err)
	}
}

// TestStoreBecomesReadOnly: a backup that cannot be written is told, and
// nothing is listed; one that cannot be deleted is named.
func TestStoreBecomesReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 10)
	n := newNobody(t)
	for from, to := range map[string]string{w.file("data.db"): "data.db"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(n.dir, to)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		n.own(t, path)
	}
	n.initStore(t, "backups")
	base := []string{"--store", "file:backups"}
	create := append([]string{"backup", "create", "music", "--storage", "sqlite:data.db"}, base...)
	if code, output := n.run(t, create...); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	n.chmod(t, "backups", 0o500)
	n.chmod(t, "backups/000000000000/music", 0o500)
	if code, output := n.run(t, create...); code != exitDenied || !strings.Contains(output, "extenddb store check") {
		t.Errorf("backup create: exit code %d:\n%s", code, output)
	}
	restore := append([]string{"restore", "latest:music", "--as", "copy", "--storage", "sqlite:new.db"}, base...)
	if code, output := n.run(t, restore...); code != 0 { // which only reads
		t.Errorf("restore: exit code %d:\n%s", code, output)
	}
	dirs, err := filepath.Glob(filepath.Join(n.dir, "backups/000000000000/music/*/data"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, %v", dirs, err)
	}
	if err := os.Chmod(dirs[0], 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dirs[0], 0o700) })
	code, output := n.run(t, append([]string{"backup", "delete", "latest:music", "--yes"}, base...)...)
	if code != exitIncomplete || !strings.Contains(output, "data/000001.json.gz could not be removed") {
		t.Errorf("backup delete: exit code %d:\n%s", code, output)
	}
	if code, output := n.run(t, append([]string{"backup", "list", "--output", "json"}, base...)...); code != 0 || output != "[]\n" {
		t.Errorf("backup list: exit code %d:\n%s", code, output)
	}
}

// TestServerLacksRight: where the server's user may not use a store that the
// command's may, it is said whose right is missing.
func TestServerLacksRight(t *testing.T) {
	t.Parallel()
	need.Root(t)
	w := newWorkshop(t, 10)
	n := newNobody(t)
	text, err := os.ReadFile(w.file("data.db"))
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(n.dir, "data.db")
	if err := os.WriteFile(db, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n.own(t, db)
	n.initStore(t, "closed")
	n.initStore(t, "readonly")
	flags := func(store string, args ...string) []string {
		return append(args, "--storage", "sqlite:"+db, "--store", fileURL(filepath.Join(n.dir, store)))
	}
	w.mustRun(t, flags("closed", "backup", "create", "music")...)
	n.own(t, db+".lock")
	n.chmod(t, "closed", 0o000)
	n.chmod(t, "readonly", 0o500)
	server := n.command(t, "serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--storage", "sqlite:data.db")
	log := &logWatch{serving: make(chan string, 1)}
	server.Stderr = log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- server.Wait() }()
	t.Cleanup(func() { _ = server.Process.Kill(); <-over })
	select {
	case <-log.serving:
	case err := <-over:
		over <- err
		t.Fatalf("the server ended: %v\n%s", err, log)
	}
	who := fmt.Sprintf("the server (process %d, user nobody) may not do it: ", server.Process.Pid)
	for _, c := range []struct {
		args []string
		want string
	}{
		{flags("closed", "backup", "create", "music"), "closed is not usable: permission denied"},
		{flags("readonly", "backup", "create", "music"), "permission denied: create 000000000000/music/"},
		{flags("readonly", "backup", "create", "--all"), "permission denied: create 000000000000/music/"},
		{flags("closed", "restore", "latest:music", "--as", "copy"), "closed is not usable: permission denied"},
	} {
		code, _, stderr := run(t.Context(), c.args...)
		if code != exitDenied || strings.Count(stderr, who) != 1 || !strings.Contains(stderr, c.want) ||
			!strings.Contains(stderr, "\nhint: give that user the rights: ") {
			t.Errorf("%v: exit code %d, want %q and %q in:\n%s", c.args, code, who, c.want, stderr)
		}
	}
}
