// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// running is a serve command in process.
type running struct {
	addr string
	stop func() int // ends it and returns the exit code
	logs func() string
}

// serve starts "extenddb serve" with args and waits until it serves.
func serve(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	logs := &logWatch{serving: make(chan string, 1)}
	app := &App{Stdout: io.Discard, Stderr: logs}
	exit := make(chan int, 1)
	go func() {
		exit <- app.Run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...))
	}()
	r := &running{logs: logs.String, stop: sync.OnceValue(func() int { cancel(); return <-exit })}
	t.Cleanup(func() { r.stop() })
	select {
	case r.addr = <-logs.serving:
	case code := <-exit:
		exit <- code
		t.Fatalf("serve ended with %d:\n%s", code, logs)
	}
	return r
}

// logWatch collects log lines and picks the address out of the "serving" one.
type logWatch struct {
	mu      sync.Mutex
	all     bytes.Buffer
	rest    []byte // of a line that is not whole yet
	serving chan string
}

func (w *logWatch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(p)
	w.rest = append(w.rest, p...)
	for { // p may be several lines, or a part of one
		text, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		var line struct{ Msg, Addr string }
		if json.Unmarshal(text, &line) == nil && line.Msg == "serving" {
			w.serving <- line.Addr
		}
		w.rest = rest
	}
}

func TestLogWatch(t *testing.T) {
	t.Parallel()
	w := &logWatch{serving: make(chan string, 1)}
	for _, part := range []string{"no JSON\n{\"msg\":\"new database\"}\n{\"msg\":\"serv", "ing\",\"addr\":\"a:1\"}", "\n"} {
		if _, err := w.Write([]byte(part)); err != nil || len(w.serving) != 0 && part != "\n" {
			t.Errorf("%q: %v", part, err)
		}
	}
	if got := <-w.serving; got != "a:1" {
		t.Errorf("serving on %s", got)
	}
}

func (w *logWatch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestServeAnswersAndStops(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data.db")
	r := serve(t, "--storage", "sqlite:"+file, "--region", "eu-west-3")
	if code, body := get(t, "http://"+r.addr+"/"); code != 200 || body != "healthy: dynamodb.eu-west-3.amazonaws.com " {
		t.Errorf("GET / answered %d %q", code, body)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(t, "http://"+r.addr+path); code != 200 {
			t.Errorf("GET %s answered %d %q", path, code, body)
		}
	}
	if code := r.stop(); code != exitOK {
		t.Errorf("exit code %d, want 0; logs:\n%s", code, r.logs())
	}
	if !strings.Contains(r.logs(), `"msg":"stopped"`) {
		t.Errorf("no farewell in the log:\n%s", r.logs())
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("the database file is gone:", err)
	}
}

func TestServeRefusesAFileInUse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data.db")
	serve(t, "--storage", "sqlite:"+file)
	var stderr bytes.Buffer
	app := &App{Stdout: io.Discard, Stderr: &stderr}
	code := app.Run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--storage", "sqlite:" + file})
	if code != exitBusy {
		t.Errorf("exit code %d, want %d", code, exitBusy)
	}
	for _, want := range []string{"database is in use by", "hint: stop that server, or wait for that command; "} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr.String())
		}
	}
}

func TestServeNamesAnAddressInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := serve(t, "--storage", "sqlite:"+filepath.Join(dir, "a.db"))
	var stderr bytes.Buffer
	app := &App{Stdout: io.Discard, Stderr: &stderr}
	code := app.Run(t.Context(), []string{"serve", "--listen", r.addr, "--storage", "sqlite:" + filepath.Join(dir, "b.db")})
	if code != exitBusy || !strings.Contains(stderr.String(), r.addr) {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr.String())
	}
	if found, err := filepath.Glob(filepath.Join(dir, "b.db*")); err != nil || len(found) > 0 {
		t.Errorf("left %v, %v", found, err)
	}
}

// TestServeTwice: of address and database the second server names the one that
// matters: it would only lose its way with another address.
func TestServeTwice(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "data.db")
	r := serve(t, "--storage", url)
	code, _, stderr := run(t.Context(), "serve", "--listen", r.addr, "--storage", url)
	if code != exitBusy || !strings.Contains(stderr, fmt.Sprintf("database is in use by process %d on ", os.Getpid())) {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr)
	}
}

// TestServeTellsOfNewDatabase: a mistyped name shows in the log, once.
func TestServeTellsOfNewDatabase(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "data.db")
	for _, want := range []int{1, 0} {
		r := serve(t, "--storage", url)
		if code := r.stop(); code != exitOK {
			t.Fatalf("exit code %d; logs:\n%s", code, r.logs())
		}
		if n := strings.Count(r.logs(), `"level":"INFO","msg":"new database","path":"`); n != want {
			t.Errorf("told %d times, want %d:\n%s", n, want, r.logs())
		}
	}
}

func TestServeRefusesAForeignFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "notes.txt")
	text := []byte(strings.Repeat("not a database\n", 1000))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	app := &App{Stdout: io.Discard, Stderr: &stderr}
	if code := app.Run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--storage", "sqlite:" + file}); code != exitRefused {
		t.Errorf("exit code %d, want %d", code, exitRefused)
	}
	if !strings.Contains(stderr.String(), "notes.txt") {
		t.Errorf("stderr does not name the file:\n%s", stderr.String())
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, text) {
		t.Error("the file was changed")
	}
}

func TestInsecureListenWarns(t *testing.T) {
	t.Parallel()
	r := serve(t, "--storage", "sqlite::memory:", "--insecure-listen", "0.0.0.0:0")
	if !strings.Contains(r.logs(), "without authentication") {
		t.Errorf("no warning in the log:\n%s", r.logs())
	}
}

func TestListenAddr(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, insecure string
		addr             string
		open, refused    bool
	}{
		{listen: "127.0.0.1:1", addr: "127.0.0.1:1"},
		{listen: "127.8.8.8:1", addr: "127.8.8.8:1"},
		{listen: "localhost:1", addr: "localhost:1"},
		{listen: "[::1]:1", addr: "[::1]:1"},
		{listen: "[::ffff:127.0.0.1]:1", addr: "[::ffff:127.0.0.1]:1"},
		{listen: "[::]:1", refused: true},
		{listen: ":1", refused: true},
		{listen: "10.0.0.1:1", refused: true},
		{listen: "localhost.example:1", refused: true},
		{listen: "127.0.0.1:1", insecure: "10.0.0.1:2", addr: "10.0.0.1:2", open: true},
		{listen: "127.0.0.1:1", insecure: "127.0.0.1:2", addr: "127.0.0.1:2"},
	} {
		v := values{"server.listen": {Value: c.listen}, "server.insecure_listen": {Value: c.insecure}}
		addr, open, err := listenAddr(v)
		if addr != c.addr || open != c.open || (err != nil) != c.refused {
			t.Errorf("listen %q, insecure %q: %q, %v, %v", c.listen, c.insecure, addr, open, err)
		}
	}
}

func TestSqlitePath(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"sqlite:a.db":         "a.db",
		"sqlite:./a.db":       "./a.db",
		"sqlite://a.db":       "a.db",
		"sqlite:/x/a.db":      "/x/a.db",
		"sqlite:///x/a.db":    "/x/a.db",
		"sqlite::memory:":     ":memory:",
		"sqlite:a b%20.db":    "a b%20.db",
		"a.db":                "",
		"mysql://h/d":         "",
		"sqlite":              "",
		"sqlite:":             "",
		"sqlite:///x?mode=ro": "",
		"sqlite:a\x00b":       "",
	} {
		d, err := parseStorage(url)
		if got := d.path; got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", url, got, err, want)
		}
		if err == nil && d.backend != backendSQLite {
			t.Errorf("%q: engine %q", url, d.backend)
		}
	}
}

// TestServeOutlivesItsLogReader: "extenddb serve 2>&1 | head -1" must go on
// serving, and stop in order.
func TestServeOutlivesItsLogReader(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no SIGPIPE and no interrupt on Windows")
	}
	file := filepath.Join(t.TempDir(), "data.db")
	cmd := exec.CommandContext(t.Context(), "extenddb", "serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--storage", "sqlite:"+file)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var line struct{ Addr string }
	for log := json.NewDecoder(stderr); line.Addr == ""; {
		if err := log.Decode(&line); err != nil {
			t.Fatal(err)
		}
	}
	if err := stderr.Close(); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, "http://"+line.Addr+"/readyz"); code != 200 {
		t.Errorf("/readyz answered %d %q", code, body)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil { // it logs that it stops
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if _, err := os.Stat(file + "-wal"); !os.IsNotExist(err) {
		t.Errorf("it was not closed in order (%v)", err)
	}
}

// TestServeStoppedWhileItStarts is stopped as asked, not failed.
func TestServeStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stderr bytes.Buffer
	app := &App{Stdout: io.Discard, Stderr: &stderr}
	file := filepath.Join(t.TempDir(), "data.db")
	if code := app.Run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--storage", "sqlite:" + file}); code != exitOK {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr.String())
	}
	if !strings.Contains(stderr.String(), "msg=stopped") {
		t.Errorf("no farewell in the log:\n%s", stderr.String())
	}
}
