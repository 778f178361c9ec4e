// SPDX-License-Identifier: Apache-2.0

// Package proc runs the real binary for tests: build, serve, kill, measure.
package proc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Binary puts extenddb into dir and returns its path. Under Main it is built
// once.
func Binary(t testing.TB, dir string) string {
	t.Helper()
	if shared.dir != "" {
		shared.once.Do(func() { shared.bin, shared.err = Build(shared.dir) })
		if shared.err != nil {
			t.Fatal(shared.err)
		}
		if bin := filepath.Join(dir, filepath.Base(shared.bin)); os.Link(shared.bin, bin) == nil {
			return bin
		}
	}
	bin, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Build is Binary outside tests.
func Build(dir string) (string, error) {
	bin := filepath.Join(dir, "extenddb")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/extenddb/extenddb/cmd/extenddb")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build extenddb: %w\n%s", err, out)
	}
	return bin, nil
}

// Server is a running "extenddb serve".
type Server struct {
	Addr  string        // host:port
	Ready time.Duration // from start of the process to the first log line that names the address
	cmd   *exec.Cmd
	logs  *logs
	exit  chan error
}

type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.WriteString(line + "\n")
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Start serves a database, a storage URL or an SQLite file, on a free port and
// waits until it answers. The server is killed when the test ends. It runs in
// the directory of the file, or else of the program.
func Start(t testing.TB, bin, database string, args ...string) *Server {
	t.Helper()
	s, err := TryStart(bin, database, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// TryStart is Start for servers that may refuse.
func TryStart(bin, database string, args ...string) (*Server, error) {
	url, dir := database, filepath.Dir(bin)
	if !isPostgres(database) {
		file := strings.TrimPrefix(database, "sqlite:")
		url, dir = "sqlite:"+file, filepath.Dir(file)
	}
	cmd := exec.Command(bin, append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--storage", url}, args...)...)
	cmd.Dir = dir
	return Run(cmd)
}

// Run starts a command that logs, as JSON, where it is "serving".
func Run(cmd *exec.Cmd) (*Server, error) {
	s := &Server{cmd: cmd, logs: &logs{}, exit: make(chan error, 1)}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	serving := make(chan string, 1)
	go func() {
		s.watch(stderr, serving)
		s.exit <- s.cmd.Wait()
		close(s.exit)
	}()
	addr, ok := <-serving
	if !ok {
		return nil, fmt.Errorf("serve ended: %w\n%s", <-s.exit, s.logs)
	}
	s.Addr, s.Ready = addr, time.Since(began)
	return s, nil
}

// watch copies the log and reports the address; it closes serving when the
// process ends its output.
func (s *Server) watch(stderr io.Reader, serving chan<- string) {
	defer close(serving)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	sent := false
	for lines.Scan() {
		s.logs.add(lines.Text())
		var line struct{ Msg, Addr string }
		if !sent && json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			serving <- line.Addr
			sent = true
		}
	}
}

// Logs returns what the server has logged.
func (s *Server) Logs() string { return s.logs.String() }

// Pid is the server's process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Kill ends the server with SIGKILL and waits for its end.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.exit
}

// Stop asks the server to stop and returns how it ended.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return <-s.exit
}

// Endpoint is the URL of the server.
func (s *Server) Endpoint() string { return "http://" + s.Addr }

// Client returns an SDK client of the server that does not retry.
func (s *Server) Client() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint:     aws.String(s.Endpoint()),
		Region:           "us-east-1",
		Credentials:      credentials.NewStaticCredentialsProvider("key", "secret", ""),
		RetryMaxAttempts: 1,
		HTTPClient:       &http.Client{Transport: wholeBodies{&http.Transport{MaxIdleConnsPerHost: 256}}},
	})
}

// wholeBodies hands request bodies to the transport in memory. The SDK closes
// its own body when the response is there; a server on the same machine answers
// before the transport has looked for the body's end, which it then takes for a
// failed request. The SDK's retries hide that, and this client has none.
type wholeBodies struct{ next http.RoundTripper }

func (t wholeBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err = errors.Join(err, req.Body.Close()); err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	return t.next.RoundTrip(req)
}

// AnonymousRSS returns the bytes of memory of the process that no file backs
// (Linux).
func (s *Server) AnonymousRSS() (int64, error) { return Memory(s.Pid(), "RssAnon") }

// Memory returns a field of a process's status, such as RssAnon or VmHWM, in
// bytes (Linux).
func Memory(pid int, field string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in the status of process %d", field, pid)
}

// CPU returns the processor time the threads of the process have used (Linux).
func (s *Server) CPU() (time.Duration, error) { return CPU(s.Pid()) }

// CPU returns the processor time the threads of a process have used (Linux).
func CPU(pid int) (time.Duration, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, task := range tasks {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}
