// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/extenddb/extenddb/test/need"
)

// PgBouncer starts a pooler in front of a database of this process's server,
// in a pool mode ("session", "transaction", "statement"), and returns the URL
// of the database through it. settings are further lines of its configuration.
// It ends with the test.
func PgBouncer(t testing.TB, url, mode, settings string) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path = "/usr/sbin/pgbouncer"; !exists(path) { // not on everybody's PATH
			need.Missing(t, "pgbouncer", "no program pgbouncer (Debian package pgbouncer)")
		}
	}
	user, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	target, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "extenddb-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the guard does so too
	conf := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
%[1]s = host=%[2]s port=%[3]d dbname=%[1]s user=%[4]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[5]d
unix_socket_dir =
auth_type = any
pool_mode = %[6]s
%[7]s
`, target.Database, target.Host, target.Port, target.User, port, mode, settings)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := user.own(dir); err != nil {
		t.Fatal(err)
	}
	quit := strings.Replace(guard, "-QUIT", "-TERM", 1) // it takes no notice of the former
	cmd := exec.Command("sh", "-c", quit, "sh", dir, path, "-q", conf)
	user.run(cmd)
	order, err := cmd.StdinPipe() // its end ends the pooler
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = order.Close()
		_ = cmd.Wait() // it ends with a signal
	})
	through := fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", target.User, port, target.Database)
	answers(t, through)
	return through
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// answers waits until somebody takes connections.
func answers(t testing.TB, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		tick := time.NewTimer(20 * time.Millisecond) // it gives no other sign
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the pooler does not answer: %v", err)
		}
	}
}
