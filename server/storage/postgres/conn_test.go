// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/test/servers"
)

func TestConfigure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o     Options
		wrong func(*pgxpool.Config) bool
	}{
		"pool of the options": {Options{URL: "postgres://h/d?pool_max_conns=7", MaxConns: 9},
			func(c *pgxpool.Config) bool { return c.MaxConns != 9 }},
		"pool of the URL": {Options{URL: "postgres://h/d?pool_max_conns=7"},
			func(c *pgxpool.Config) bool { return c.MaxConns != 7 }},
		"pool by default": {Options{URL: "host=h"},
			func(c *pgxpool.Config) bool { return c.MaxConns < 16 }},
		"keywords": {Options{URL: "host=h port=99 dbname=d user=u application_name=mine connect_timeout=3"},
			func(c *pgxpool.Config) bool {
				k := c.ConnConfig
				return k.Host != "h" || k.Port != 99 || k.Database != "d" || k.User != "u" ||
					k.RuntimeParams["application_name"] != "mine" || k.ConnectTimeout != 3*time.Second
			}},
		"defaults": {Options{URL: "postgres://u@h/d"},
			func(c *pgxpool.Config) bool {
				k := c.ConnConfig
				return k.ConnectTimeout != connectTimeout || k.RuntimeParams["application_name"] != "extenddb" ||
					c.PingTimeout != pingTimeout || c.MaxConnLifetimeJitter == 0 || k.StatementCacheCapacity != 512 || len(k.RuntimeParams) != 1
			}},
		"statement cache": {Options{URL: "postgres://u@h/d?statement_cache_capacity=5", StatementCache: 64},
			func(c *pgxpool.Config) bool { return c.ConnConfig.StatementCacheCapacity != 64 }},
		"statement cache of the URL": {Options{URL: "postgres://u@h/d?statement_cache_capacity=5"},
			func(c *pgxpool.Config) bool { return c.ConnConfig.StatementCacheCapacity != 5 }},
		"TLS": {Options{URL: "postgres://u@h/d?sslmode=verify-full"},
			func(c *pgxpool.Config) bool {
				return c.ConnConfig.TLSConfig == nil || c.ConnConfig.TLSConfig.ServerName != "h" || len(c.ConnConfig.Fallbacks) > 0
			}},
		"hosts": {Options{URL: "postgres://u@h1,h2/d?target_session_attrs=read-write&sslmode=disable"},
			func(c *pgxpool.Config) bool {
				return len(c.ConnConfig.Fallbacks) != 1 || c.ConnConfig.ValidateConnect == nil
			}},
	} {
		cfg, err := configure(&c.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.wrong(cfg) {
			t.Errorf("%s: %+v", name, cfg.ConnConfig)
		}
	}
}

// Not parallel: the environment is the process's.
func TestConfigureFromEnvironment(t *testing.T) {
	dir := t.TempDir()
	pass, services := filepath.Join(dir, "pass"), filepath.Join(dir, "services")
	if err := errors.Join(
		os.WriteFile(pass, []byte("h:99:d:u:from-file\n"), 0o600),
		os.WriteFile(services, []byte("[prod]\nhost=sh\nport=77\ndbname=sd\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"PGHOST": "h", "PGPORT": "99", "PGDATABASE": "d", "PGUSER": "u", "PGPASSFILE": pass, "PGSERVICEFILE": services, "PGCONNECT_TIMEOUT": "4",
	} {
		t.Setenv(k, v)
	}
	cfg, err := configure(&Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := cfg.ConnConfig; c.Host != "h" || c.Port != 99 || c.Database != "d" || c.User != "u" || c.Password != "from-file" || c.ConnectTimeout != 4*time.Second {
		t.Errorf("host %q, port %d, database %q, user %q", c.Host, c.Port, c.Database, c.User)
	}
	if cfg, err = configure(&Options{URL: "service=prod"}); err != nil {
		t.Fatal(err)
	}
	if c := cfg.ConnConfig; c.Host != "sh" || c.Port != 77 || c.Database != "sd" {
		t.Errorf("host %q, port %d, database %q", c.Host, c.Port, c.Database)
	}
}

const secret = "Tr0ub4dor"

func TestConfigureRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, want string }{
		{"postgres://u:" + secret + "@h:99999/d", "invalid port"},
		{"postgres://u:" + secret + "/" + secret + "@h/d", "invalid port"},
		{"postgres://u:pw?" + secret + "@h:1/d", ""},
		{"postgres://u:%zz" + secret + "@h/d", "failed to parse as URL"},
		{"host=h password='" + secret, "failed to parse as keyword/value"},
		{"mysql://u:" + secret + "@h/d", "failed to parse as keyword/value"},
		{"postgres://u:" + secret + "@h/d?sslmode=perhaps", "sslmode is invalid"},
		{"postgres://u:" + secret + "@h/d?sslrootcert=/nowhere/ca.pem&sslmode=verify-full", "/nowhere/ca.pem"},
		{"postgres://u:" + secret + "@h/d?pool_max_conns=many", "pool_max_conns"},
		{"postgres://u:" + secret + "@h/d?pool_max_conns=1", "a pool of 1 connections is too small"},
		{"postgres://u:" + secret + "@h/d?connect_timeout=soon", "connect_timeout"},
		{"service=nowhere servicefile=/nowhere/services password=" + secret, "service"},
	} {
		_, err := Open(t.Context(), Options{URL: c.url})
		if err == nil || !errors.Is(err, storage.ErrUnsupported) && c.want != "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.url, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the password is shown: %v", err)
		}
	}
}

// Whatever the role or the database sets, connections are as they must be.
func TestConnectionsAreSetUp(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	c := mustConnect(t, url)
	for _, set := range []string{
		"default_transaction_isolation = serializable", "default_transaction_read_only = on", "synchronous_commit = off",
		"statement_timeout = '5s'", "lock_timeout = '5s'", "idle_in_transaction_session_timeout = '5s'", "idle_session_timeout = '5s'",
		"search_path = nowhere", "client_encoding = 'LATIN1'", "jit = on",
	} {
		mustExec(t, c, fmt.Sprintf("ALTER DATABASE %s SET %s", c.Config().Database, set))
	}
	db := mustOpen(t, Options{URL: url})
	want := map[string]string{
		"transaction_isolation": "read committed", "transaction_read_only": "off", "synchronous_commit": "on", "statement_timeout": "0",
		"lock_timeout": "2s", "idle_in_transaction_session_timeout": "10s", "idle_session_timeout": "0", "search_path": "pg_catalog",
		"client_encoding": "UTF8", "jit": "off", "application_name": "extenddb", "tcp_user_timeout": "30000", "tcp_keepalives_idle": "15",
	}
	err := db.withConn(t.Context(), func(c *pgxpool.Conn) error {
		for name, value := range want {
			var got string
			if err := c.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil {
				return err
			}
			if got != value {
				t.Errorf("%s is %q", name, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSynchronousCommitOfReplicasStays(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"remote_write", "remote_apply", "local"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			url := servers.Database(t)
			c := mustConnect(t, url)
			mustExec(t, c, fmt.Sprintf("ALTER DATABASE %s SET synchronous_commit = %s", c.Config().Database, level))
			err := mustOpen(t, Options{URL: url}).withConn(t.Context(), func(c *pgxpool.Conn) error {
				var got string
				err := c.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got)
				if got != level {
					t.Errorf("it is %s", got)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// imposter answers as a database that ignores what it is told.
func imposter(t testing.TB, version string, proof ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go impose(c, version, proof)
		}
	}()
	return "postgres://u@" + l.Addr().String() + "/d?sslmode=disable"
}

func impose(c net.Conn, version string, proof []string) {
	defer c.Close()
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: version})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		if q, ok := m.(*pgproto3.Query); ok {
			if q.String == proveSetUp {
				row := &pgproto3.DataRow{}
				for range proof {
					row.Values = append(row.Values, nil)
				}
				fields := make([]pgproto3.FieldDescription, len(proof))
				for i, v := range proof {
					fields[i] = pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1}
					row.Values[i] = []byte(v)
				}
				b.Send(&pgproto3.RowDescription{Fields: fields})
				b.Send(row)
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SET")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}

func TestConnectionsThatCannotBeSetUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version string
		proof   []string
		want    string
	}{
		"old":          {"13.14 (Debian)", nil, "PostgreSQL 13.14 (Debian): version 14 or newer is needed"},
		"very old":     {"9.6", nil, "version 14 or newer is needed"},
		"serializable": {"15.1", []string{"serializable", "off", "on", "f"}, `isolation level "serializable" and cannot be set to read committed`},
		"read-only":    {"15.1", []string{"read committed", "on", "on", "f"}, "read-only and cannot be set"},
		"asynchronous": {"15.1", []string{"read committed", "off", "off", "f"}, "synchronous_commit off and cannot be set"},
		"standby":      {"15.1", []string{"read committed", "off", "on", "t"}, "is a standby"},
		"no answer":    {"15.1", nil, "does not answer as PostgreSQL does"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{URL: imposter(t, c.version, c.proof...)}
			_, open := Open(t.Context(), o)
			_, plan := Plan(t.Context(), o)
			_, migration := Migrate(t.Context(), o, migrate.Options{})
			for _, err := range []error{open, plan, migration} {
				var refused *Refused
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || !errors.Is(err, storage.ErrUnsupported) {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
		})
	}
}

func TestStandbyIsRefused(t *testing.T) {
	t.Parallel()
	s := servers.Private(t)
	url := s.URL("postgres")
	db := mustOpen(t, Options{URL: url})
	if err := errors.Join(s.Crash(), os.WriteFile(filepath.Join(s.Dir, "standby.signal"), nil, 0o644), s.Start()); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{URL: url})
	if want := standby(); err == nil || err.Error() != want.Error() {
		t.Errorf("%v, want %v", err, want)
	}
	// A server that was open before answers that it cannot do it now.
	for range 3 {
		if err := db.Ping(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
}

func TestEncodingIsRefused(t *testing.T) {
	t.Parallel()
	c := mustConnect(t, servers.Shared(t).URL("postgres"))
	mustExec(t, c, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	_, err := Open(t.Context(), Options{URL: servers.Shared(t).URL("latin")})
	if err == nil || !strings.Contains(err.Error(), "encoding LATIN1") || !strings.Contains(err.Error(), "ENCODING 'UTF8'") {
		t.Error(err)
	}
}

func TestOpenTells(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	url := strings.Replace(servers.Database(t), "postgres@", "postgres:"+secret+"@", 1)
	db := mustOpen(t, Options{URL: url, MaxConns: 5, Log: slog.New(slog.NewTextHandler(&log, nil))})
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	i := db.Info()
	if !strings.HasPrefix(i.Version, "1") || i.Database != cfg.Database || i.User != "postgres" || i.TLS || i.MaxConns != 5 ||
		i.Host != fmt.Sprintf("127.0.0.1:%d", cfg.Port) {
		t.Errorf("%+v", i)
	}
	for _, want := range []string{"database=" + i.Database, "user=postgres", "host=" + i.Host, "tls=false", "pool=5", "fsync is off"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in %s", want, &log)
		}
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("the password is in %s", &log)
	}
}

func TestOpenFailsClearly(t *testing.T) {
	t.Parallel()
	port, err := net.Listen("tcp", "127.0.0.1:0") // nobody is there any more
	if err != nil {
		t.Fatal(err)
	}
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	base := servers.Shared(t).URL("nowhere")
	for url, want := range map[string]string{
		"postgres://u:" + secret + "@" + port.Addr().String() + "/d":   "refused",
		strings.Replace(base, "postgres@", "postgres:"+secret+"@", 1):  `database "nowhere" does not exist`,
		strings.Replace(base, "postgres@", "nobody1:"+secret+"@", 1):   `role "nobody1" does not exist`,
		strings.Replace(base, "sslmode=disable", "sslmode=require", 1): "TLS",
	} {
		_, err := Open(t.Context(), Options{URL: url})
		if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestPoolIsExhausted(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{MaxConns: 2})
	for range 2 {
		c, err := db.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
	}
	db.o.AcquireTimeout = 10 * time.Millisecond
	_, _, err := db.Describe(t.Context(), "a", "T")
	if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "no connection became free within 10ms (the pool has 2)") {
		t.Error(err)
	}
}

// TestConnectionLostWhileSetUp: that storage is unavailable is said once.
func TestConnectionLostWhileSetUp(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{})
	cfg := db.pool.Config()
	cfg.AfterConnect = func(context.Context, *pgx.Conn) error {
		return fmt.Errorf("%w: set up the connection: %w", storage.ErrUnavailable, io.ErrUnexpectedEOF)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	defer pool.Close()
	_, err = (&DB{o: db.o, pool: pool}).acquire(t.Context())
	if !errors.Is(err, storage.ErrUnavailable) || err.Error() != "storage is unavailable: set up the connection: unexpected EOF" {
		t.Error(err)
	}
}
