// SPDX-License-Identifier: Apache-2.0

// Package servers starts private servers for tests: a PostgreSQL of the
// system's binaries, on a free port, as an unprivileged user. What it starts,
// and its directory, end with the test process, however that ends.
package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/test/need"
)

// PostgreSQL is a running server, with fsync off unless it was asked for.
type PostgreSQL struct {
	Dir  string // of its data; Log in it
	Port int
	bin  string // directory of the programs
	user *account

	mu  sync.Mutex
	run *run // nil when it is stopped
}

// Superuser is the role that owns everything.
const Superuser = "postgres"

// BinEnv names the environment variable that chooses the programs: a directory
// with initdb and postgres in it.
const BinEnv = "EXTENDDB_TEST_POSTGRES_BIN"

var (
	shared struct {
		once   sync.Once
		server *PostgreSQL
		err    error
	}
	databases atomic.Int64
)

// Shared returns the server that the tests of this process share.
func Shared(t testing.TB) *PostgreSQL {
	t.Helper()
	bin := Binaries(t)
	shared.once.Do(func() { shared.server, shared.err = StartPostgreSQL(bin) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Database returns the URL of a new, empty database on the shared server. It is
// dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	return Shared(t).Database(t)
}

// Private starts a server for this test alone, to be crashed and restarted.
func Private(t testing.TB, settings ...string) *PostgreSQL {
	t.Helper()
	s, err := StartPostgreSQL(Binaries(t), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Stop ends the shared server. Without it that ends a moment after this
// process.
func Stop() {
	if shared.server != nil {
		_ = shared.server.Remove() // it ends with this process
	}
}

// Main runs the tests of a package and stops the shared server.
func Main(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

// Database returns the URL of a new, empty database, which is dropped when the
// test ends, if the server runs then.
func (s *PostgreSQL) Database(t testing.TB) string {
	t.Helper()
	return s.database(t, "template0") // others may be connected to template1
}

func (s *PostgreSQL) database(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	// For some seconds it waits for those to leave who use the template.
	if err := s.exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // cancelled before clean-up
		if err := s.exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil && s.running() {
			t.Error(err)
		}
	})
	return s.URL(name)
}

// Copy returns the URL of a new database on the shared server with what is in
// another of it, which nobody uses. It is dropped when the test ends.
func Copy(t testing.TB, url string) string {
	t.Helper()
	return Shared(t).database(t, url[strings.LastIndex(url, "/")+1:strings.LastIndex(url, "?")])
}

// URL is the connection string of a database of the server, as its superuser.
func (s *PostgreSQL) URL(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", Superuser, s.Port, database)
}

func (s *PostgreSQL) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect for %s: %w", sql, err)
	}
	_, err = conn.Exec(ctx, sql)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// Binaries returns the directory of the programs; where there are none, the
// test is skipped.
func Binaries(t testing.TB) string {
	t.Helper()
	dir := Programs()
	if dir == "" {
		need.Missing(t, "postgres", "no PostgreSQL server (Debian package postgresql)")
	}
	return dir
}

// Programs returns the directory of the programs: that of BinEnv, else of the
// newest PostgreSQL there is; "" when there is none.
func Programs() string {
	if dir := os.Getenv(BinEnv); dir != "" {
		return dir
	}
	if dir := debian(); dir != "" {
		return dir
	}
	path, err := exec.LookPath("postgres")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

// debian is where the newest of Debian's PostgreSQLs keeps its programs, "" when
// there is none.
func debian() string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")  // the pattern is well formed
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { // a package that is only clients
		_, err := os.Stat(filepath.Join(dir, "initdb"))
		return err != nil
	})
	if len(dirs) == 0 {
		return ""
	}
	return slices.MaxFunc(dirs, func(a, b string) int { return major(a) - major(b) })
}

func major(bin string) int {
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
	sweep(os.TempDir(), user)
	dir, err := os.MkdirTemp("", prefix)
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
		return fmt.Errorf("initdb in %s (TMPDIR must be open to the user that runs it): %w\n%s", s.Dir, err, out)
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
	return s.choosePort(freePort)
}

// choosePort starts the server on a port that is free when it gets there.
func (s *PostgreSQL) choosePort(propose func() (int, error)) error {
	var err error
	for range 5 {
		if s.Port, err = propose(); err != nil {
			return err
		}
		if err = s.Start(); err == nil || !strings.Contains(s.Log(), "could not bind") {
			return err
		}
	}
	return err
}

// freePort returns a port that nobody listens on at the moment, below those
// that systems give to whoever asks for any: it stays free while the server is
// down.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
