// SPDX-License-Identifier: Apache-2.0

// Package servers starts private servers for tests: a PostgreSQL of the
// system's binaries, on a free port, as an unprivileged user. What it starts
// ends with the test process, however that ends.
package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/test/need"
)

// PostgreSQL is a running server, with fsync off unless it was asked for.
type PostgreSQL struct {
	Dir  string // of its data
	Port int
	bin  string // directory of the programs
	user *account

	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.Closer // its end stops the server
	out *bytes.Buffer
}

// Superuser is the role that owns everything.
const Superuser = "postgres"

var (
	shared struct {
		once   sync.Once
		server *PostgreSQL
		err    error
	}
	databases atomic.Int64
)

// Database returns the URL of a new, empty database on the server that the
// tests of this process share. It is dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	bin := binaries(t)
	shared.once.Do(func() { shared.server, shared.err = StartPostgreSQL(bin) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server.Database(t)
}

// Stop ends the shared server; for TestMain, so that its directory is removed.
func Stop() {
	if shared.server != nil {
		_ = shared.server.Remove() // only a directory stays behind
	}
}

// Main runs the tests of a package and stops the shared server.
func Main(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

// Database returns the URL of a new, empty database, which is dropped when the
// test ends.
func (s *PostgreSQL) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	s.exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { s.exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return s.URL(name)
}

// URL is the connection string of a database of the server, as its superuser.
func (s *PostgreSQL) URL(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", Superuser, s.Port, database)
}

func (s *PostgreSQL) exec(t testing.TB, sql string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // that of a test that ends is cancelled
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err == nil {
		_, err = conn.Exec(ctx, sql)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// binaries returns where the programs of the newest PostgreSQL are.
func binaries(t testing.TB) string {
	t.Helper()
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	if path, err := exec.LookPath("postgres"); err == nil && len(dirs) == 0 {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = []string{filepath.Dir(path)}
		}
	}
	if len(dirs) == 0 {
		need.Missing(t, "postgres", "no PostgreSQL server (Debian package postgresql)")
	}
	return slices.MaxFunc(dirs, func(a, b string) int { return version(a) - version(b) })
}

func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))) // 0: not one of Debian's
	return n
}

// StartPostgreSQL makes a cluster with the programs of a directory and starts
// it; settings are further ones, as in "fsync=on".
func StartPostgreSQL(bin string, settings ...string) (*PostgreSQL, error) {
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "extenddb-postgres-")
	if err != nil {
		return nil, err
	}
	s := &PostgreSQL{Dir: dir, bin: bin, user: user}
	if err := s.create(settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *PostgreSQL) create(settings []string) error {
	if err := s.user.own(s.Dir); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.Dir, "-A", "trust", "-U", Superuser,
		"--locale=C.UTF-8", "-E", "UTF8", "--no-sync", "--no-instructions")
	s.user.run(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	conf := "fsync=off\nmax_connections=500\nshared_buffers=128MB\nlisten_addresses='127.0.0.1'\n" +
		"unix_socket_directories=''\nlogging_collector=off\n" + strings.Join(settings, "\n") + "\n"
	f, err := os.OpenFile(filepath.Join(s.Dir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(conf)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if s.Port, err = freePort(); err != nil {
		return err
	}
	return s.Start()
}

// freePort returns a port that nobody listens on at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Start starts the server after it was stopped, on the same port.
func (s *PostgreSQL) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The shell outlives this process for as long as it takes to end the server.
	s.cmd = exec.Command("sh", "-c", `"$0" "$@" & pid=$!; cat >/dev/null; kill -QUIT $pid; wait $pid`,
		filepath.Join(s.bin, "postgres"), "-D", s.Dir, "-p", strconv.Itoa(s.Port))
	s.user.run(s.cmd)
	s.out = new(bytes.Buffer)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.in = in
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s.ready()
}

// ready waits until the server takes connections.
func (s *PostgreSQL) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		tick := time.NewTimer(20 * time.Millisecond) // it has no other sign
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		}
	}
}

// Pid is the process id of the server.
func (s *PostgreSQL) Pid() (int, error) {
	data, err := os.ReadFile(filepath.Join(s.Dir, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strconv.Atoi(first)
}

// Crash stops the server at once, without a checkpoint: an immediate shutdown.
func (s *PostgreSQL) Crash() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	err := s.in.Close()
	_ = s.cmd.Wait() // it ends with a signal
	s.cmd = nil
	return err
}

// Remove stops the server and removes its data.
func (s *PostgreSQL) Remove() error { return errors.Join(s.Crash(), os.RemoveAll(s.Dir)) }
