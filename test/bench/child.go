// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"syscall"

	"github.com/extenddb/extenddb/server"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage/sqlite"
	"github.com/extenddb/extenddb/test/proc"
)

// childArg is the first argument of this program when it is a reference of a
// measurement.
const childArg = "serve-reference"

// child is the configuration of a reference process.
type child struct {
	kind    string // "empty": a handler that does nothing; "extenddb": the real thing; "bare": no server, see insertBare
	file    string // of the database
	batch   int    // requests a transaction of the writer takes; 0: as many as it does
	profile string // file for a CPU profile
	items   int    // to insert
}

// start starts a reference server in a process of its own.
func (c child) start() (*proc.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return proc.Run(exec.Command(self, childArg, "-kind", c.kind, "-file", c.file,
		"-batch", strconv.Itoa(c.batch), "-profile", c.profile))
}

// runChild is the main function of a reference process.
func runChild(args []string) error {
	var c child
	flags := flag.NewFlagSet(childArg, flag.ContinueOnError)
	flags.StringVar(&c.kind, "kind", "", "")
	flags.StringVar(&c.file, "file", "", "")
	flags.IntVar(&c.batch, "batch", 0, "")
	flags.StringVar(&c.profile, "profile", "", "")
	flags.IntVar(&c.items, "items", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.kind == "bare" {
		took, err := insertBare(ctx, c.file, c.items)
		fmt.Println(took)
		return err
	}
	if c.profile != "" {
		f, err := os.Create(c.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	log.Info("serving", "addr", l.Addr().String())
	if c.kind == "empty" {
		return serveEmpty(ctx, l)
	}
	return c.serve(ctx, l, log)
}

// serve runs the real server.
func (c child) serve(ctx context.Context, l net.Listener, log *slog.Logger) error {
	db, err := sqlite.Open(ctx, sqlite.Options{Path: c.file, Batch: c.batch, Clock: clock.Real{}, Log: log})
	if err != nil {
		return err
	}
	err = server.New(server.Options{Storage: db, Log: log}).Serve(ctx, l)
	return errors.Join(err, db.Close())
}

// serveEmpty answers every request with as many bytes as its path says.
func serveEmpty(ctx context.Context, l net.Listener) error {
	const most = 1 << 20
	blank := make([]byte, most)
	srv := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || n < 0 || n > most {
			http.NotFound(w, r)
			return
		}
		w.Header()["Content-Length"] = []string{r.URL.Path[1:]}
		_, _ = w.Write(blank[:n]) // the client may have left
	})}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
