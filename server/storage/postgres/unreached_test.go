// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/servers"
)

// vacant is an address where nobody listens.
func vacant(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// TestUnreached: one line that names each host once, with what counts; never is
// what was not looked at called corrupt.
func TestUnreached(t *testing.T) {
	t.Parallel()
	s := servers.Shared(t)
	base := s.URL("postgres")
	there := strings.TrimPrefix(strings.SplitN(base, "/postgres?", 2)[0], "postgres://postgres@")
	c := mustConnect(t, base)
	mustExec(t, c, "CREATE DATABASE closed ALLOW_CONNECTIONS false")
	a, b := vacant(t), vacant(t)
	_, port, _ := strings.Cut(a, ":")
	for _, c := range []struct {
		url, want string
		kind      error
	}{
		{"postgres://u@" + a + "/d", "cannot connect to " + a + ": connection refused", nil},
		{"postgres://u@" + a + "," + b + "/d", "cannot connect to " + a + ", " + b + ": connection refused", nil},
		{"postgres://u@localhost:1/d?host=localhost&port=" + port + "&sslmode=disable", "cannot connect to 127.0.0.1:" + port + " (localhost): connection refused", nil},
		{"postgres://u@nowhere.invalid/d", "cannot connect to nowhere.invalid: no such host", nil},
		{"postgres://postgres@" + there + "/nowhere", "cannot connect to " + there + `: database "nowhere" does not exist (SQLSTATE 3D000)`, nil},
		{"postgres://postgres@" + there + "/nowhere?sslmode=allow", "cannot connect to " + there + `: database "nowhere" does not exist (SQLSTATE 3D000)`, nil},
		{"postgres://postgres@" + there + "/closed", "cannot connect to " + there + `: database "closed" is not currently accepting connections (SQLSTATE 55000)`, nil},
		{"postgres://postgres@" + there + "/postgres?sslmode=require", "cannot connect to " + there + ": the server offers no TLS", ErrNoTLS},
		{"postgres://postgres@" + there + "/postgres?sslmode=verify-full", "cannot connect to " + there + ": the server offers no TLS", ErrNoTLS},
		{"postgres://postgres@" + there + "/postgres?target_session_attrs=standby", "cannot connect to " + there + ": server is not in hot standby mode", ErrNoSuchHost},
		{"postgres://postgres@" + there + "," + a + "/postgres?target_session_attrs=read-only",
			"cannot connect to " + there + ": connection is not read only; " + a + ": connection refused", ErrNoSuchHost},
	} {
		_, open := Open(t.Context(), Options{URL: c.url})
		_, plan := Plan(t.Context(), Options{URL: c.url})
		for _, err := range []error{open, plan} {
			var e *Unreached
			if !errors.As(err, &e) || err.Error() != c.want || !errors.Is(err, storage.ErrUnavailable) || c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("%s: %v, want %s", c.url, err, c.want)
			}
		}
	}
}

// TestUnreachedInOneLine whatever a server says.
func TestUnreachedInOneLine(t *testing.T) {
	t.Parallel()
	const said = "no\n\tway,\x1b[31m sir"
	url := refusing(t, &pgproto3.ErrorResponse{Severity: "FATAL", Code: "XX000", Message: said})
	_, err := Open(t.Context(), Options{URL: url})
	if err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) || !strings.HasSuffix(err.Error(), ": no way, [31m sir (SQLSTATE XX000)") ||
		errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("%q", err)
	}
}

// TestNoPassword: where none was given, that is said.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	url := refusing(t, &pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "no"})
	for url, want := range map[string]bool{url + "&password=x": false, url + "&passfile=/dev/null": true} {
		if _, err := Open(t.Context(), Options{URL: url}); err == nil || strings.HasSuffix(err.Error(), "(no password was given)") != want {
			t.Errorf("%q", err)
		}
	}
}

// refusing is a server that answers every connection with an error.
func refusing(t *testing.T, answer *pgproto3.ErrorResponse) string {
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
			b := pgproto3.NewBackend(c, c)
			if _, err := b.ReceiveStartupMessage(); err == nil {
				b.Send(answer)
				_ = b.Flush() // who connects tells
			}
			_ = c.Close()
		}
	}()
	return "postgres://u@" + l.Addr().String() + "/d?sslmode=disable"
}

// TestNothingIsCorruptYet: a database that refuses a connection, with whatever
// code, was not looked at.
func TestNothingIsCorruptYet(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"22023", "22P02", "23505", "42601", "42704", "42P01", "54000", "58P01", "3F000", "XX001", "08P01"} {
		_, err := Open(t.Context(), Options{URL: refusing(t, &pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: "no"})})
		if err == nil || errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if err := public(&pgconn.ConnectError{Config: &pgconn.Config{}}); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
}

func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	base := servers.Database(t)
	for _, c := range []struct{ add, parameter, want string }{
		{"sslmod=require", "sslmod", `the connection string cannot be used: unrecognized configuration parameter "sslmod"`},
		{"keepalives=1", "keepalives", `unrecognized configuration parameter "keepalives"`},
		{"options=-c%20nosuch%3D1", "", `unrecognized configuration parameter "nosuch"`},
		{"timezone=Nowhere/X", "", `invalid value for parameter "TimeZone": "Nowhere/X"`},
		{"work_mem=much", "", `invalid value for parameter "work_mem"`},
		{"block_size=1", "", `parameter "block_size" cannot be changed`},
	} {
		_, err := Open(t.Context(), Options{URL: base + "&" + c.add})
		var m *Misused
		if !errors.As(err, &m) || m.Parameter != c.parameter || !strings.Contains(m.Reason, c.want) || strings.ContainsAny(m.Reason, "\n\t") {
			t.Errorf("%s: %v", c.add, err)
		}
	}
	pooler := refusing(t, &pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: sslmod"})
	_, err := Open(t.Context(), Options{URL: pooler + "&sslmod=require"})
	var m *Misused
	if !errors.As(err, &m) || m.Parameter != "sslmod" {
		t.Error(err)
	}
}

// Not parallel: the environment is the process's.
func TestVariablesAreNamed(t *testing.T) {
	base := servers.Database(t)
	for _, c := range []struct{ name, value, url, want string }{
		{"PGPORT", "abc", "postgres://h/d", `the variable PGPORT is "abc": invalid port: correct it, or unset it`},
		{"PGPORT", "1,2,3", "postgres://h/d", `the variable PGPORT is "1,2,3": could not match 3 port numbers to 1 hosts`},
		{"PGPORT", "5432", "postgres://h:99999/d", "the connection string cannot be used: invalid port"},
		{"PGSSLMODE", "maybe", "postgres://h/d", `the variable PGSSLMODE is "maybe"`},
		{"PGSSLMODE", "maybe", "host=h", `the variable PGSSLMODE is "maybe"`},
		{"PGSSLMODE", "require", "postgres://h/d?sslmode=maybe", "the connection string cannot be used: "},
		{"PGSSLROOTCERT", "/nowhere/ca.pem", "postgres://h/d?sslmode=verify-full", `the variable PGSSLROOTCERT is "/nowhere/ca.pem"`},
		{"PGCONNECT_TIMEOUT", "soon", "postgres://h/d", `the variable PGCONNECT_TIMEOUT is "soon": invalid connect_timeout`},
		{"PGTARGETSESSIONATTRS", "best", "postgres://h/d", `the variable PGTARGETSESSIONATTRS is "best": unknown target_session_attrs value: best`},
		{"PGTZ", "Nowhere/X", base, `the variable PGTZ is "Nowhere/X": invalid value for parameter "TimeZone": "Nowhere/X"`},
		{"PGOPTIONS", "-c nosuch=1", base, `the variable PGOPTIONS is "-c nosuch=1": unrecognized configuration parameter "nosuch"`},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			_, err := Open(t.Context(), Options{URL: c.url})
			var m *Misused
			if !errors.As(err, &m) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// Not parallel: the environment is the process's.
func TestResolve(t *testing.T) {
	for k, v := range map[string]string{"PGHOST": "", "PGPORT": "77", "PGUSER": "me", "PGDATABASE": ""} {
		t.Setenv(k, v)
	}
	for url, want := range map[string]Target{
		"postgres://h":                  {[]string{"h:77"}, "me", "me"},
		"postgres://u@h/d":              {[]string{"h:77"}, "d", "u"},
		"postgres://u:p@a:1,b:2/d":      {[]string{"a:1", "b:2"}, "d", "u"},
		"postgres:///d?host=%2Frun%2Fx": {[]string{"/run/x:77"}, "d", "me"},
	} {
		if got, err := Resolve(url); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v (%v)", url, got, err)
		}
	}
	if _, err := Resolve("postgres://u:" + secret + "@h:99999/d"); err == nil || strings.Contains(err.Error(), secret) {
		t.Error(err)
	}
}

// Not parallel: the environment is the process's. A password file that others
// can read is used, as pgx does, and warned about.
func TestExposedPasswordFile(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("files have no such rights here")
	}
	pass := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(pass, []byte("*:*:*:*:"+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSFILE", pass)
	for _, c := range []struct {
		mode os.FileMode
		add  string
		want bool
	}{
		{0o600, "", false}, {0o400, "", false}, {0o640, "", true}, {0o604, "", true},
		{0o644, "?password=x", false}, {0o644, "?passfile=" + pass, true}, {0o644, "?passfile=/nowhere", false},
	} {
		if err := os.Chmod(pass, c.mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if _, err := configure(&Options{URL: "postgres://u@h/d" + c.add, Log: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(log.String(), "others can read the password file"); told != c.want || strings.Contains(log.String(), secret) {
			t.Errorf("%o %s: %s", c.mode, c.add, &log)
		}
	}
}
