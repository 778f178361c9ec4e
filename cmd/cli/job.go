// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/extenddb/extenddb/server/admin"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/jobs"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

// job is long work on a database and a store.
type job struct {
	kind   string // of package jobs
	params any
	create bool   // makes the database when it is not there
	undone string // what there is when it was interrupted: "no table was made"
	left   string // what there may be when its server was killed, if that is something else
}

// A server that begins or ends holds the lock without listening: that passes.
const (
	submitTries = 10
	submitPause = 300 * time.Millisecond
)

// work carries a job out: by the server that holds the database, or else in
// this process, which then holds it. The result may come with an error: what
// was done before.
func (a *App) work(ctx context.Context, v values, j job) (json.RawMessage, error) {
	d, err := a.usable(ctx, v, j.create)
	if err != nil {
		return nil, err
	}
	report, stop, err := a.follow(ctx, v)
	if err != nil {
		return nil, err
	}
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // who reads the progress may go; the work goes on
	log := a.commandLog(v)
	if d.backend == backendPostgres {
		return a.workShared(ctx, v, j, log, report)
	}
	_, absent := os.Stat(d.path)
	for try := 1; ; try++ {
		db, err := a.openStorage(ctx, v, log, "")
		if err == nil {
			if errors.Is(absent, fs.ErrNotExist) { // is that what was meant?
				a.warn("new database "+v.storage(), false)
			}
			result, err := a.workHere(ctx, v, db, j, log, report)
			return result, j.ended(ctx, result, err)
		}
		var locked *storage.Locked
		if !errors.As(err, &locked) {
			return nil, err
		}
		socket, err := socketOf(v, d)
		if err != nil {
			return nil, err
		}
		result, submitted, err := submit(ctx, socket, j, report)
		if submitted {
			return result, j.ended(ctx, result, err)
		}
		if try == submitTries {
			return nil, (&Error{Code: exitBusy, Err: locked}).
				hint("another command may be at work there: try again later; a server takes jobs over its socket, and its log tells when it has none")
		}
		if err := pause(ctx, clock.Real{}, submitPause); err != nil {
			return nil, err
		}
	}
}

// workShared carries a job out on a database that several processes may have
// open: here, or by the server whose socket is named.
func (a *App) workShared(ctx context.Context, v values, j job, log *slog.Logger, report progress.Sink) (json.RawMessage, error) {
	if j.kind == jobs.KindRestore {
		j.left = "a table that was begun shows as CREATING until it is removed, by other servers of the database within half a minute, or else by the next start"
	}
	if socket := v.text("server.admin_socket"); socket != "" {
		result, submitted, err := submit(ctx, socket, j, report)
		if submitted {
			return result, j.ended(ctx, result, err)
		}
		return nil, (&Error{Code: exitBusy, Err: fmt.Errorf("no server listens on %s", socket)}).
			hint("start it; or leave the socket out (--admin-socket \"\"): this command then does the work itself")
	}
	db, err := a.openStorage(ctx, v, log, "")
	if err != nil {
		return nil, err
	}
	if db.isNew { // is that what was meant?
		a.warn("new database "+v.storage(), false)
	}
	result, err := a.workHere(ctx, v, db, j, log, report)
	return result, j.ended(ctx, result, err)
}

// socketOf is where the process is administered that holds a database file.
func socketOf(v values, d database) (string, error) {
	if socket := v.text("server.admin_socket"); socket != "" {
		return socket, nil
	}
	return sqlite.AdminSocket(d.path)
}

// ended words how a job ended that did not come to its end by itself.
func (j job) ended(ctx context.Context, result json.RawMessage, err error) error {
	var c classified
	switch {
	case errors.As(err, &c) && c.JobCode() != string(backup.Interrupted):
	case errors.As(err, &c) && ctx.Err() == nil: // not by us: the server stops
		return &Error{Code: exitBusy, Err: err, Hint: c.JobHint()}
	case errors.As(err, &c) && result == nil: // it is known that nothing is left
		return &Error{Code: exitInterrupted, Err: errors.New("interrupted: " + j.undone)}
	case errors.Is(err, admin.ErrGone) && ctx.Err() == nil:
		return (&Error{Code: exitFailed, Err: err}).hint("%s; see why the server ended, and run the command again", cmp.Or(j.left, j.undone))
	case errors.Is(err, fs.ErrPermission):
		return (&Error{Code: exitDenied, Err: err}).hint("run the command as the user of the server")
	}
	return err
}

// usable returns the database that a job works on; without create it must be
// there already.
func (a *App) usable(ctx context.Context, v values, create bool) (database, error) {
	d, err := v.database()
	switch {
	case err != nil:
		return d, err
	case d.memory():
		return d, usagef("--storage %s: a database in memory belongs to the one server that made it", v.text("storage.url")).
			hint("name a file with --storage sqlite:FILE")
	case create || d.backend == backendPostgres && v.text("server.admin_socket") != "":
		return d, nil
	case d.backend == backendPostgres:
		return d, a.initialised(ctx, v, d)
	}
	return d, thereIs(d.path)
}

// thereIs returns an error unless there is a database file.
func thereIs(path string) error {
	missing := func(what string) error {
		return (&Error{Code: exitNotFound, Err: fmt.Errorf("database %s %s", path, what)}).
			hint("name one with --storage sqlite:FILE")
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return missing("does not exist")
	case err == nil && info.Mode().IsRegular() && info.Size() == 0: // opening it would make one
		return missing("is an empty file")
	case err == nil && info.IsDir():
		return missing("is a directory")
	}
	return nil
}

// submit hands a job to the process that listens on a socket; submitted is false
// when none does.
func submit(ctx context.Context, socket string, j job, report progress.Sink) (result json.RawMessage, submitted bool, err error) {
	if socket == "" {
		return nil, false, nil
	}
	client := admin.NewClient(socket)
	defer client.Close()
	result, err = client.Run(ctx, j.kind, j.params, report)
	return result, !errors.Is(err, admin.ErrNoServer), err
}

// workHere carries a job out in this process, and closes db.
func (a *App) workHere(ctx context.Context, v values, db opened, j job, log *slog.Logger, report progress.Sink) (raw json.RawMessage, err error) {
	defer func() {
		if cerr := db.Close(); cerr != nil && err == nil {
			err = fmt.Errorf("close the database: %w", cerr)
		}
	}()
	params, err := json.Marshal(j.params)
	if err != nil {
		return nil, fmt.Errorf("encode the job: %w", err)
	}
	sweep(ctx, db, log) // what a restore left that died; its name may be wanted
	operator := jobs.NewOperator(jobs.OperatorOptions{
		Storage: db, OpenStore: storeOpener(log), Clock: db.clock, Log: log,
		Region: v.text("server.region"), Account: auth.DefaultAccount,
		Backend: db.backend, Version: a.Build.complete().Version,
		Board: progress.NewBoard(db.clock, 0), Wake: func() {},
	})
	result, err := operator.Run(ctx, j.kind, params, report)
	if err != nil { // what this one left, also when it was interrupted
		sweep(context.WithoutCancel(ctx), db, log)
	}
	if result == nil {
		return nil, err
	}
	raw, merr := json.Marshal(result)
	if merr != nil {
		return nil, errors.Join(err, fmt.Errorf("encode the result: %w", merr))
	}
	return raw, err
}

// sweep removes what is left of tables that were deleted or not finished. That
// it cannot is no obstacle to other work.
func sweep(ctx context.Context, db opened, log *slog.Logger) {
	if err := jobs.SweepAbandoned(ctx, db, db.clock, log); err != nil && ctx.Err() == nil {
		log.WarnContext(ctx, "removing what is left of tables failed; the next start tries again", "err", err)
	}
}

// commandLog is the log of a command: what it reports itself is not logged
// once more.
func (a *App) commandLog(v values) *slog.Logger {
	level := slog.LevelWarn
	if v.quiet() {
		level = slog.LevelError
	}
	if a.output == "json" {
		return slog.New(untold{a.newLog(level, true).Handler()})
	}
	return slog.New(untold{plainLog{w: a.Stderr, level: level}})
}

// untold leaves out of a log what the command reports itself: how it ended.
type untold struct{ slog.Handler }

// Handle implements slog.Handler.
func (h untold) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "backup failed", "backup cancelled", "restore failed", "restore cancelled":
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h untold) WithAttrs(attrs []slog.Attr) slog.Handler { return untold{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h untold) WithGroup(name string) slog.Handler { return untold{h.Handler.WithGroup(name)} }

// pause waits.
func pause(ctx context.Context, c clock.Clock, d time.Duration) error {
	over, stop := c.After(d)
	defer stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
