// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/test/need"
)

// childEnv makes this test binary a process that starts a server and hangs.
const childEnv = "EXTENDDB_TEST_SERVERS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	Main(m)
}

// child names its server's directory and process, and waits to be killed.
func child() {
	s, err := StartPostgreSQL(os.Getenv(childEnv))
	if err != nil {
		panic(err)
	}
	pid, err := s.Pid()
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Dir, pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func query[T any](t *testing.T, url, sql string) (v T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	const many = 8
	urls := make([]string, many)
	var all sync.WaitGroup
	for i := range urls {
		all.Go(func() { urls[i] = Database(t) })
	}
	all.Wait()
	seen := map[string]bool{}
	for _, url := range urls {
		if url == "" || seen[url] {
			t.Fatalf("databases %q", urls)
		}
		seen[url] = true
		if n := query[int](t, url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); n != 0 {
			t.Errorf("%d tables in a new database", n)
		}
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	url := Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS n")
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	two := Copy(t, url)
	if two == url {
		t.Fatal("the same database")
	}
	if n := query[int](t, two, "SELECT n FROM kept"); n != 42 {
		t.Errorf("the copy has %d", n)
	}
}

func TestDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("use", func(t *testing.T) {
		url = Database(t)
		conn, err := pgx.Connect(t.Context(), url) // left open
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
	})
	name := url[strings.LastIndex(url, "/")+1 : strings.LastIndex(url, "?")]
	if query[bool](t, Database(t), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = '"+name+"')") {
		t.Errorf("database %s is still there", name)
	}
}

func TestCrashKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := Private(t, "fsync=on")
	url := s.Database(t)
	if got := query[string](t, url, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s", got)
	}
	query[int](t, url, "WITH made AS (SELECT 1 AS n) SELECT n FROM made")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil {
		t.Error("started twice")
	}
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := s.Crash(); err != nil {
		t.Errorf("crashed twice: %v", err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection survives the server")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, url, "SELECT n FROM kept"); n != 42 {
		t.Errorf("%d came back", n)
	}
	if !strings.Contains(s.Log(), "not properly shut down") {
		t.Errorf("that was no crash:\n%s", s.Log())
	}
}

// TestEndedByItself: the data outlives a server that somebody killed.
func TestEndedByItself(t *testing.T) {
	t.Parallel()
	s := Private(t)
	pid, err := s.Pid()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("kill", "-QUIT", fmt.Sprint(pid)).Run(); err != nil {
		t.Fatal(err)
	}
	<-s.run.ended
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

// TestPortTaken: somebody else is faster to the port that was free.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := Private(t)
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	asked := 0
	if err := s.choosePort(func() (int, error) {
		if asked++; asked < 3 {
			return l.Addr().(*net.TCPAddr).Port, nil
		}
		return freePort()
	}); err != nil || asked != 3 {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	query[int](t, s.URL("postgres"), "SELECT 1")
}

func TestRefusedSettingShowsTheLog(t *testing.T) {
	t.Parallel()
	s, err := StartPostgreSQL(Binaries(t), "no_such_setting=1")
	if err == nil {
		_ = s.Remove()
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), `"no_such_setting"`) {
		t.Errorf("no log in %v", err)
	}
}

func TestNoPrograms(t *testing.T) {
	t.Parallel()
	s, err := StartPostgreSQL(t.TempDir())
	if err == nil {
		_ = s.Remove()
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), "initdb") {
		t.Error(err)
	}
}

// TestKilled: a test process that is killed leaves neither server nor data.
func TestKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+Binaries(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	var pid int
	if _, err := fmt.Sscan(line, &dir, &pid); err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatalf("no process %d", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for began := time.Now(); ; {
		_, err := os.Lstat(dir)
		if os.IsNotExist(err) && !alive(pid) {
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("after half a minute: process alive %v, directory %v", alive(pid), err)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	user, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	old := time.Now().Add(-25 * time.Hour)
	dir := func(name, pid string, at time.Time) string {
		path := filepath.Join(parent, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if pid != "" {
			if err := os.WriteFile(filepath.Join(path, "postmaster.pid"), []byte(pid+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := user.own(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gone := []string{dir(prefix+"old", "", old), dir(prefix+"dead", "999999999", old)}
	kept := []string{dir(prefix+"young", "", time.Now()), dir(prefix+"alive", fmt.Sprint(os.Getpid()), old), dir("postgres-other", "", old)}
	if os.Geteuid() == 0 {
		foreign := dir(prefix+"foreign", "", old)
		if err := os.Chown(foreign, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, foreign)
	}
	link := filepath.Join(parent, prefix+"link")
	if err := os.Symlink(kept[2], link); err != nil {
		t.Fatal(err)
	}
	sweep(parent, user)
	for _, path := range gone {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for _, path := range append(kept, link) {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestBinEnv: the environment chooses the programs.
func TestBinEnv(t *testing.T) {
	t.Setenv(BinEnv, "/chosen")
	if got := Binaries(t); got != "/chosen" {
		t.Errorf("programs of %s", got)
	}
}

// TestNoBuild: what cannot be had leaves nothing behind.
func TestNoBuild(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "builds are for Linux")
	}
	const tag = "0.0.0-test"
	if _, err := build("false", tag); err == nil || !strings.Contains(err.Error(), "get PostgreSQL "+tag+": false pack") {
		t.Errorf("got %v", err)
	}
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(cache, tag)); !os.IsNotExist(err) {
		t.Errorf("there is a build of it: %v", err)
	}
}
