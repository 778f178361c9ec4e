// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// guard runs a server and outlives the test process for as long as it takes to
// end it: whether that closes the pipe or dies, read returns. The data goes
// with the server unless "keep" was said.
const guard = `dir=$1; shift
exec 3<&0
"$@" 3<&- & pid=$!
(
	read -r order <&3
	kill -QUIT $pid 2>/dev/null
	while kill -0 $pid 2>/dev/null; do sleep 0.05; done
	[ "$order" = keep ] || rm -rf "$dir"
) &
wait $pid`

// run is one life of a server.
type run struct {
	order io.WriteCloser
	ended chan struct{} // closed when the server has ended
}

// startTime bounds how long a server may take to start, recovery included.
const startTime = time.Minute

// Start starts the server after it was stopped, on the same port.
func (s *PostgreSQL) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return errors.New("the server runs")
	}
	r, err := s.launch()
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.run = r
	if err := s.ready(r); err != nil {
		err = fmt.Errorf("start PostgreSQL: %w; its log:\n%s", err, s.Log())
		return errors.Join(err, s.stop())
	}
	return nil
}

func (s *PostgreSQL) launch() (*run, error) {
	log, err := os.OpenFile(filepath.Join(s.Dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()             // the server has its own
	hear, order, err := os.Pipe() // not the command's, which ends with the command
	if err != nil {
		return nil, err
	}
	defer hear.Close()
	cmd := exec.Command("sh", "-c", guard, "sh", s.Dir, filepath.Join(s.bin, "postgres"), "-D", s.Dir, "-p", strconv.Itoa(s.Port))
	s.user.run(cmd)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = hear, log, log
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, order.Close())
	}
	r := &run{order, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // however it ended
		close(r.ended)
	}()
	return r, nil
}

// ready waits until the server takes connections.
func (s *PostgreSQL) ready(r *run) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for {
		err := s.answers(ctx)
		if err == nil {
			return nil
		}
		tick := time.NewTimer(20 * time.Millisecond) // it gives no other sign
		select {
		case <-tick.C:
		case <-r.ended:
			return errors.New("it has ended")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		}
	}
}

// answers asks whoever listens on the port whether it is this server.
func (s *PostgreSQL) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var dir string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return err
	}
	if dir != s.Dir {
		return fmt.Errorf("port %d is that of a server of %s", s.Port, dir)
	}
	return nil
}

// logName is the file of the data directory that the server logs to.
const logName = "test.log"

// Log returns the end of what the server has logged.
func (s *PostgreSQL) Log() string {
	data, err := os.ReadFile(filepath.Join(s.Dir, logName))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-16<<10):])
}

// Pid is the process id of the server.
func (s *PostgreSQL) Pid() (int, error) { return pidOf(s.Dir) }

func pidOf(dir string) (int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strconv.Atoi(first)
}

func (s *PostgreSQL) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil
}

// Crash stops the server at once, without a checkpoint: an immediate shutdown.
// Start recovers it.
func (s *PostgreSQL) Crash() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

func (s *PostgreSQL) stop() error {
	if s.run == nil {
		return nil
	}
	r := s.run
	s.run = nil
	_, err := io.WriteString(r.order, "keep\n")
	err = errors.Join(err, r.order.Close())
	<-r.ended
	return err
}

// Remove stops the server and removes its data.
func (s *PostgreSQL) Remove() error { return errors.Join(s.Crash(), os.RemoveAll(s.Dir)) }
