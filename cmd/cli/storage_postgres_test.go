// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/server/storage/postgres"
	pg "github.com/extenddb/extenddb/test/servers"
)

func TestPostgresURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres:":                               "postgres://",
		"postgres://":                             "postgres://",
		"postgres:///d":                           "postgres:///d",
		"postgresql://u@h:1/d?sslmode=require":    "postgresql://u@h:1/d?sslmode=require",
		"postgres://u:p%40@h1:1,h2:2/d?a=b&c=d":   "postgres://u:p%40@h1:1,h2:2/d?a=b&c=d",
		"postgres://u@%2Ftmp%2Fdir:5432/db":       "postgres://u@%2Ftmp%2Fdir:5432/db",
		"postgres://u:p%40@[::1]:5432,h/d":        "postgres://u:p%40@[::1]:5432,h/d",
		"postgres://u:p?#x@h/d":                   "postgres://u:p?#x@h/d", // as libpq
		"postgres://u:a@geheim@h/d":               "",
		"postgres://u:a/geheim@h/d":               "",
		"postgres://u:1/geheim@h/d":               "",
		"postgres://u:geheim/d":                   "",
		"postgres://u:x@h/a b":                    "",
		"postgres://[::1/d":                       "",
		"postgres://[::1]x/d":                     "",
		"sqlite:postgres://u:geheim@h/d":          "",
		"sqlite://postgres://u:geheim@h/d":        "",
		"u:geheim@h/d":                            "",
		"postgres:geheim@h/d":                     "",
		"postgres:d":                              "",
		"postgres:/d":                             "",
		"postgres://u:p%@h/d":                     "",
		"postgres://u:p\x00@h/d":                  "",
		"postgresql":                              "",
		"host=h password=geheim":                  "",
		"host=h password=geheim options=-c\\ a:b": "",
	} {
		d, err := parseStorage(url)
		if d.url != want && err == nil || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", url, d.url, err, want)
		}
		if err == nil && d.backend != backendPostgres {
			t.Errorf("%q: engine %q", url, d.backend)
		}
		if err != nil && strings.Contains(maskPassword(url)+err.Error(), "geheim") {
			t.Errorf("%q: shown as %s in %v", url, maskPassword(url), err)
		}
	}
}

func TestMaskPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"sqlite:a.db":                                "sqlite:a.db",
		"sqlite:///a@b:c":                            "sqlite:///a@b:c",
		"file:///a@b:c":                              "file:///a@b:c",
		"filesystem":                                 "filesystem",
		"":                                           "",
		"postgres:":                                  "postgres:",
		"postgres://u:secret@h/d":                    "postgres://u:***@h/d",
		"postgres://u:se@cret@h:5432/d?x":            "postgres://u:***@h:5432/d?x",
		"postgres://u:se/cret@h/d":                   "postgres://u:***@h/d",
		"postgres://u:se?cret@h/d":                   "postgres://u:***@h/d",
		"postgres://u:se#c:ret@h/d":                  "postgres://u:***@h/d",
		"postgres://u@h/d":                           "postgres://u@h/d",
		"postgres://u:secret@h":                      "postgres://u:***@h",
		"postgres://u@h/d?x=a@b:c":                   "postgres://u@h/d?x=a@b:c",
		"postgres://h/d?password=secret&x=y":         "postgres://h/d?password=***&x=y",
		"postgres://h/d?x=y&sslPassword=secret":      "postgres://h/d?x=y&sslPassword=***",
		"postgres:u:secret@h":                        "postgres:u:***@h",
		"postgres:secret@h":                          "postgres:***@h",
		"postgres://u:secret/d":                      "postgres://u:***/d",
		"postgres://u:secret":                        "postgres://u:***",
		"postgres://h:1,i:2/d?x=y:z":                 "postgres://h:1,i:2/d?x=y:z",
		"postgres://[::1]:1/d":                       "postgres://[::1]:1/d",
		"u:secret@h/d":                               "u:***@h/d",
		"sqlite:postgres://u:secret@h/d":             "sqlite:postgres://u:***@h/d",
		"sqlite:///postgresql://u:secret@h/d":        "sqlite:///postgresql://u:***@h/d",
		"postgres://h/d?passwor%64=secret&x=y":       "postgres://h/d?passwor%64=***&x=y",
		"postgres://h/d?x=%25&%50ASSWORD=se%20cret":  "postgres://h/d?x=%25&%50ASSWORD=***",
		"host=h password=secret dbname=d":            "host=h password=*** dbname=d",
		"host=h password = secret dbname=d":          "host=h password=*** dbname=d",
		"host=h password='a secret' dbname=d":        "host=h password=***",
		"postgres://h/d?passfile=/x&password=secret": "postgres://h/d?passfile=/x&password=***",
		"postgres://h/\u0130\u0130?Password=secret":  "postgres://h/\u0130\u0130?Password=***", // longer in lower case
		"postgres://h/\u212a\u212a?password=secret":  "postgres://h/\u212a\u212a?password=***", // shorter
	} {
		if got := maskPassword(url); got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}

// TestPostgresErrors: each failure has its exit code and says what to do.
func TestPostgresErrors(t *testing.T) {
	t.Parallel()
	open := values{"storage.url": {Value: "postgres://u@h/d", Origin: "flag"}}
	for _, c := range []struct {
		err  error
		code int
		hint string
	}{
		{&storage.Locked{Holder: "x"}, exitBusy, "--lock-wait"},
		{storage.ErrConflict, exitBusy, "pg_blocking_pids"},
		{&migrate.Pending{}, exitRefused, "run: extenddb migrate --yes --storage postgres://u@h/d"},
		{&migrate.Newer{}, exitRefused, "use the version of extenddb"},
		{migrate.ErrEdited, exitRefused, "other migrations"},
		{postgres.ErrForeign, exitRefused, "another database"},
		{storage.ErrCorrupt, exitFailed, "into a new database"},
		{&postgres.Refused{Reason: "a pooler is in the way", Remedy: "set it to session mode"}, exitRefused, "set it to session mode"},
		{&postgres.Misused{Refused: &postgres.Refused{Reason: "x", Remedy: "correct it"}}, exitUsage, "correct it"},
		{&postgres.Misused{Refused: &postgres.Refused{}, Parameter: "sslmod"}, exitUsage, "leave out the parameter sslmod (did you mean sslmode?)"},
		{context.Canceled, exitInterrupted, ""},
		{errors.New("else"), exitFailed, ""},
	} {
		e := known(postgresError(open, c.err))
		if e.Code != c.code || !strings.Contains(e.Hint, c.hint) || (c.hint == "") != (e.Hint == "") {
			t.Errorf("%v: exit code %d, hint %q; want %d, %q", c.err, e.Code, e.Hint, c.code, c.hint)
		}
	}
}

// TestRefusedBy: what a database server says has its exit code and remedy.
func TestRefusedBy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sqlstate string
		code     int
		hint     string
	}{
		{"28P01", exitDenied, "PGPASSWORD"},
		{"28000", exitDenied, "pg_hba.conf"},
		{"42501", exitDenied, `GRANT CONNECT ON DATABASE "d" TO "u ""x"`},
		{"3D000", exitNotFound, "check the name; docs/postgresql.md"},
		{"53300", exitBusy, "raise max_connections, or the CONNECTION LIMIT"},
		{"55000", exitDenied, `ALTER DATABASE "d" ALLOW_CONNECTIONS true`},
		{"57P03", exitBusy, "try again"},
		{"57P01", exitBusy, "try again"},
		{"XX000", exitFailed, ""},
	} {
		e := &Error{Code: exitFailed}
		known := refusedBy(e, &pgconn.PgError{Code: c.sqlstate}, postgres.Target{Database: "d", User: `u "x`})
		if known != (c.hint != "") || e.Code != c.code || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: exit code %d, hint %q; want %d, %q", c.sqlstate, e.Code, e.Hint, c.code, c.hint)
		}
	}
}

// TestPostgresRefusesConnections: as a user meets it.
func TestPostgresRefusesConnections(t *testing.T) {
	t.Parallel()
	url := pg.Database(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, url  string
		code       int
		says, hint string
	}{
		{"nobody listens", "postgres://u:geheim@" + nobody + "/d?sslmode=disable", exitBusy, "open postgres://u:***@" + nobody + "/d?sslmode=disable: cannot connect to " + nobody + ": connection refused", "is PostgreSQL running there"},
		{"no such database", strings.Replace(url, "/test_", "/absent_", 1), exitNotFound, "does not exist", "check the name; docs/postgresql.md tells how to make a database"},
		{"no such role", strings.Replace(url, "postgres@", "who:geheim@", 1), exitDenied, `role \"who\" does not exist`, "check user and password"},
		{"no TLS", strings.Replace(url, "sslmode=disable", "sslmode=verify-full", 1), exitRefused, "the server offers no TLS", "sslmode=disable"},
		{"a standby is wanted", url + "&target_session_attrs=standby", exitBusy, "server is not in hot standby mode", "target_session_attrs"},
		{"unknown parameter", url + "&sslmod=require", exitUsage, `unrecognized configuration parameter \"sslmod\"`, "leave out the parameter sslmod (did you mean sslmode?)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := fileURL(t.TempDir())
			for _, args := range [][]string{
				{"serve", "--listen", "127.0.0.1:0"}, {"migrate", "--dry-run"}, {"migrate", "--yes"}, {"backup", "create", "x", "--store", store},
			} {
				if args[0] == "backup" {
					if code, _, stderr := run(t.Context(), "store", "init", store); code != exitOK && !strings.Contains(stderr, "exists") {
						t.Fatal(stderr)
					}
				}
				code, _, stderr := run(t.Context(), append(args, "--output", "json", "--storage", c.url)...)
				var told struct{ Message, Hint string }
				lines := strings.Split(strings.TrimSpace(stderr), "\n")
				if err := json.Unmarshal([]byte(lines[len(lines)-1]), &told); err != nil {
					t.Fatalf("%v: %s", err, stderr)
				}
				if code != c.code || !strings.Contains(lines[len(lines)-1], c.says) || !strings.Contains(told.Hint, c.hint) || strings.Contains(stderr, "geheim") {
					t.Errorf("%q: exit code %d\n%s", args, code, stderr)
				}
			}
		})
	}
}

// TestConfigShowMasks the password of the database wherever it comes from.
func TestConfigShowMasks(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"text", "json"} {
		code, stdout, stderr := run(t.Context(), "config", "show", "--output", form, "--storage", "postgres://u:geheim@h/d?sslpassword=geheim")
		if code != exitOK || strings.Contains(stdout+stderr, "geheim") || !strings.Contains(stdout, "postgres://u:***@h/d?sslpassword=***") {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
	}
}

// TestServeSharesPostgres: two servers have one database open; each takes jobs
// where it says, and each goes on when the other has stopped.
func TestServeSharesPostgres(t *testing.T) {
	t.Parallel()
	url := pg.Database(t)
	dir := t.TempDir()
	one := serve(t, "--storage", url, "--admin-socket", filepath.Join(dir, "one.sock"))
	two := serve(t, "--storage", url, "--admin-socket", filepath.Join(dir, "two.sock"), "--postgres-pool", "5")
	for _, r := range []*running{one, two} {
		if code, _ := get(t, "http://"+r.addr+"/readyz"); code != 200 {
			t.Errorf("/readyz answers %d", code)
		}
		for _, want := range []string{`"msg":"database opened"`, `"engine":"postgres"`, `"msg":"admin socket"`, `"storage":"` + url} {
			if !strings.Contains(r.logs(), want) {
				t.Errorf("no %s in\n%s", want, r.logs())
			}
		}
	}
	if a, b := one.logs(), two.logs(); strings.Count(a+b, `"msg":"new database","path":"`+url+`"`) != 1 || !strings.Contains(a, "new database") {
		t.Errorf("of the new database is told in\n%s\nand\n%s", a, b)
	}
	if !strings.Contains(two.logs(), `"pool":5`) {
		t.Errorf("pool in\n%s", two.logs())
	}
	code, _, stderr := run(t.Context(), "migrate", "--storage", url, "--dry-run")
	if code != exitOK {
		t.Errorf("migrate --dry-run: %d, %s", code, stderr)
	}
	if code := one.stop(); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, one.logs())
	}
	if code, _ := get(t, "http://"+two.addr+"/readyz"); code != 200 {
		t.Errorf("/readyz answers %d", code)
	}
}

// TestServeRefusesAnotherVersion of the catalog.
func TestServeRefusesAnotherVersion(t *testing.T) {
	t.Parallel()
	url := pg.Database(t)
	if code, _, stderr := run(t.Context(), "migrate", "--storage", url, "--yes"); code != exitOK {
		t.Fatal(stderr)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_, err = conn.Exec(t.Context(), "INSERT INTO extenddb.migrations VALUES (99, 'later', 'x')")
		err = errors.Join(err, conn.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"migrate", "--dry-run"}, {"migrate", "--yes"}} {
		code, _, stderr := run(t.Context(), append(args, "--storage", url)...)
		if code != exitRefused || !strings.Contains(stderr, "its catalog has version 99, this program knows 1") ||
			!strings.Contains(stderr, "hint: use the version of extenddb") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}

// TestMigrateNamesWhoMigrates: of two at once one works, the other says who.
func TestMigrateNamesWhoMigrates(t *testing.T) {
	t.Parallel()
	url := pg.Database(t)
	conn, err := pgx.Connect(t.Context(), url+"&application_name=extenddb%20migrate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	const lock = 0x45787444_00000001
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", int64(lock)); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []string{"0s", "1ms"} {
		code, _, stderr := run(t.Context(), "migrate", "--storage", url, "--yes", "--lock-wait", wait)
		if code != exitBusy || !strings.Contains(stderr, "database is in use by database process ") || !strings.Contains(stderr, "(extenddb migrate) of 127.0.0.1 since ") ||
			strings.Contains(stderr, "migrate: waiting for database process") != (wait != "0s") {
			t.Errorf("exit code %d:\n%s", code, stderr)
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", int64(lock)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t.Context(), "migrate", "--storage", url, "--yes", "--lock-wait", "0s"); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
}

// TestMigrateStopped while it waits: nothing is done, and it is no failure of its
// own.
func TestMigrateStopped(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 1)
	serve(t, "--storage", w.db)
	ctx, stop := context.WithCancel(t.Context())
	var stderr watched
	stderr.at, stderr.do = "waiting for", stop
	code := (&App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &stderr}).
		Run(ctx, []string{"migrate", "--storage", w.db, "--yes", "--lock-wait", "1h"})
	if code != exitInterrupted {
		t.Errorf("exit code %d:\n%s", code, stderr.String())
	}
}

// watched does something when a text is written.
type watched struct {
	bytes.Buffer
	at string
	do func()
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.at) {
		w.do()
	}
	return n, err
}
