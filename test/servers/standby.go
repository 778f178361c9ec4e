// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// standbyName is the name that a standby has in synchronous_standby_names.
const standbyName = "standby"

// Standby starts a server that follows this one, which it restarts for that: a
// standby of its data as it is, on a port of its own. It is removed when the
// test ends.
func (s *PostgreSQL) Standby(t testing.TB) *PostgreSQL {
	t.Helper()
	b, err := s.follow()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Remove(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (s *PostgreSQL) follow() (*PostgreSQL, error) {
	if err := s.Crash(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	b := &PostgreSQL{Dir: dir, bin: s.bin, user: s.user}
	if err := b.copyOf(s); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return b, nil
}

func (s *PostgreSQL) copyOf(primary *PostgreSQL) error {
	if out, err := exec.Command("cp", "-a", primary.Dir+"/.", s.Dir).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the data: %w\n%s", err, out)
	}
	if err := os.Remove(filepath.Join(s.Dir, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := primary.Start(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "primary_conninfo='host=127.0.0.1 port=%d user=%s application_name=%s sslmode=disable'\n", primary.Port, Superuser, standbyName)
	if err = errors.Join(err, f.Close(), os.WriteFile(filepath.Join(s.Dir, "standby.signal"), nil, 0o644)); err != nil {
		return err
	}
	return s.choosePort(freePort)
}

// Synchronous makes the server wait for its standby before it acknowledges
// what is committed, for as long as the test runs, and waits until that holds.
func (s *PostgreSQL) Synchronous(t testing.TB) {
	t.Helper()
	s.set(t.Context(), t, "synchronous_standby_names", standbyName)
	s.Await(t, "SELECT sync_state = 'sync' FROM pg_stat_replication")
	t.Cleanup(func() { // or what ends the test would wait for a standby that has ended
		if s.running() {
			s.set(context.WithoutCancel(t.Context()), t, "synchronous_standby_names", "")
		}
	})
}

// Unfollow makes a standby receive nothing more of its primary, once it has
// what there is.
func (s *PostgreSQL) Unfollow(t testing.TB, primary *PostgreSQL) {
	t.Helper()
	var lsn string
	if err := primary.one(t.Context(), "SELECT pg_current_wal_flush_lsn()::text", &lsn); err != nil {
		t.Fatal(err)
	}
	s.Await(t, "SELECT pg_last_wal_replay_lsn() >= '"+lsn+"'::pg_lsn")
	s.set(t.Context(), t, "primary_conninfo", "")
	primary.Await(t, "SELECT count(*) = 0 FROM pg_stat_replication")
}

// Promote makes a standby a primary.
func (s *PostgreSQL) Promote(t testing.TB) {
	t.Helper()
	s.Await(t, "SELECT pg_promote()")
}

func (s *PostgreSQL) set(ctx context.Context, t testing.TB, name, value string) {
	t.Helper()
	for _, sql := range []string{fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value), "SELECT pg_reload_conf()"} {
		if err := s.exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
}

// Await waits until a query, run as the superuser, answers true.
func (s *PostgreSQL) Await(t testing.TB, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for {
		var yes bool
		if err := s.one(ctx, sql, &yes); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("%s: %v", sql, err)
		}
		if yes {
			return
		}
		tick := time.NewTimer(20 * time.Millisecond) // it gives no other sign
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not become true", sql)
		}
	}
}

func (s *PostgreSQL) one(ctx context.Context, sql string, into any) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	err = conn.QueryRow(ctx, sql).Scan(into)
	return errors.Join(err, conn.Close(ctx))
}
