// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/server"
	"github.com/extenddb/extenddb/server/admin"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

func (a *App) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the DynamoDB wire protocol",
		Long: "serve answers any AWS SDK, CLI or tool that is pointed at its address. It keeps\n" +
			"its data in the file that --storage names, and creates it when it is not there, or\n" +
			"in a PostgreSQL database, which may be served by several at once. Commands have\n" +
			"backups and restores done by it, over a socket. A file of an older version is\n" +
			"migrated, after a copy of it was put beside it; PostgreSQL is by extenddb migrate.\n" +
			"SIGINT or SIGTERM stops it cleanly: running requests may finish within --drain.\n" +
			"SIGHUP ends it at once." +
			exitStatus("0    stopped as asked", "1    failed", "2    wrong usage or configuration",
				"10   the store of the settings, or the PostgreSQL database, does not exist",
				"11   database or address are in use by others, or PostgreSQL cannot be reached; try later",
				"12   permission denied: the database, or the store",
				"13   refused: open to others without authentication, or a database that is not fit for it",
				"130  stopped by a second signal"),
		Example: "  extenddb serve\n  extenddb serve --storage sqlite:///var/lib/extenddb/data.db --listen 127.0.0.1:8001\n" +
			"  extenddb serve --storage postgres://extenddb@db.example/extenddb",
		Args: noArgs,
		RunE: a.serve,
	}
	addFlags(cmd, serveFlags()...)
	return cmd
}

func (a *App) serve(cmd *cobra.Command, _ []string) error {
	v, err := a.resolve(cmd)
	if err != nil {
		return err
	}
	addr, open, err := listenAddr(v)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // who reads the log may go; the server stays
	signal.Reset(syscall.SIGHUP)   // a lost terminal is no wish to drain: as ever, it ends the process
	log := a.logger(v)
	ctx := cmd.Context()
	restoring := a.tuneServer(v.bytes("server.memory_budget"))
	starting := context.WithoutCancel(ctx) // to be stopped meanwhile is no failure: it ends in order
	tidied, err := prepareStoreOf(ctx, v, log)
	if err != nil {
		return err
	}
	defer tidied()
	// The address first: a start that fails for it leaves no database behind.
	l, err := listen(starting, addr, v)
	if err != nil {
		return cmp.Or(alreadyServed(v), err)
	}
	db, jobs, err := a.openServed(starting, v, l.Addr(), log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if open {
		log.Warn("serving without authentication on an address that others can reach: everybody who can connect can read and destroy all data",
			"addr", l.Addr().String())
	}
	log.Info("serving", "addr", l.Addr().String(), "storage", v.storage(), "version", a.Build.complete().Version)
	err = server.New(server.Options{
		Storage:   db,
		Clock:     clock.Real{},
		Instants:  db.clock,
		Log:       log,
		Region:    v.text("server.region"),
		Budget:    v.bytes("server.memory_budget"),
		Drain:     v.duration("server.drain"),
		Admin:     jobs,
		OpenStore: storeOpener(log),
		Restoring: restoring,
		Backend:   db.backend,
		Version:   a.Build.complete().Version,
		MaxJobs:   v.integer("backup.max_concurrent_jobs"),
	}).Serve(ctx, l)
	if cerr := db.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close the database: %w", cerr))
	}
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// alreadyServed returns an error while another process holds the database: of
// two servers of one file that is what matters, not that they share an address.
func alreadyServed(v values) error {
	d, err := v.database()
	if err != nil || d.backend != backendSQLite || d.memory() {
		return err
	}
	if holder := sqlite.InUse(d.path); holder != nil {
		return openError(d.path, fmt.Errorf("open %s: %w", d.path, holder))
	}
	return nil
}

// openServed opens the database and the socket where commands have backups and
// restores done. Without the socket, as on file systems that have none, the
// database is served all the same.
func (a *App) openServed(ctx context.Context, v values, served net.Addr, log *slog.Logger) (opened, net.Listener, error) {
	socket, isNew, err := adminSocket(v, served)
	if err != nil {
		return opened{}, nil, err
	}
	db, err := a.openStorage(ctx, v, log, socket)
	if err == nil && (isNew || db.isNew) { // which nobody may have wanted
		log.Info("new database", "path", v.storage())
	}
	if err != nil || socket == "" {
		return db, nil, err
	}
	l, err := admin.Listen(socket)
	if err != nil {
		log.Warn("no admin socket: this server takes no backups and restores from commands", "socket", socket, "err", err)
		return db, nil, nil
	}
	if db.backend != backendSQLite { // no lock file tells
		log.Info("admin socket", "socket", socket)
	}
	return db, l, nil
}

// adminSocket is where a server of the settings is administered; "" nowhere.
// isNew: its database file is not there yet.
func adminSocket(v values, served net.Addr) (socket string, isNew bool, err error) {
	d, err := v.database()
	if err != nil {
		return "", false, err
	}
	socket = v.text("server.admin_socket")
	switch {
	case d.memory(): // which no command could name
		return "", false, nil
	case d.backend == backendPostgres:
		_, port, _ := net.SplitHostPort(served.String())
		return cmp.Or(socket, admin.RuntimeSocket(port)), false, nil
	}
	real, err := sqlite.Resolve(d.path)
	if err != nil {
		return "", false, openError(d.path, err)
	}
	if socket == "" {
		socket = admin.SocketPath(real)
	} else if socket, err = filepath.Abs(socket); err != nil { // the lock file tells it to others
		return "", false, fmt.Errorf("find the admin socket: %w", err)
	}
	_, err = os.Stat(real)
	return socket, errors.Is(err, fs.ErrNotExist), nil
}

// wsaAddrInUse is EADDRINUSE as Windows has it.
const wsaAddrInUse = syscall.Errno(10048)

// listen opens the address. An IPv4 address stays one: "tcp" would make
// 0.0.0.0 stand for IPv6 as well.
func listen(ctx context.Context, addr string, v values) (net.Listener, error) {
	network, flag := "tcp", "--listen"
	if host, _, _ := splitAddr(addr); net.ParseIP(host).To4() != nil && !strings.Contains(host, ":") {
		network = "tcp4"
	}
	if v.text("server.insecure_listen") != "" {
		flag = "--insecure-listen"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, addr)
	if err != nil {
		e := &Error{Code: exitFailed, Err: err}
		switch {
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, wsaAddrInUse):
			e.Code = exitBusy
			return nil, e.hint("end whoever has that address, or choose another with %s HOST:PORT", flag)
		case errors.Is(err, fs.ErrPermission):
			e.Code = exitDenied
		}
		return nil, e.hint("choose another address with %s HOST:PORT", flag)
	}
	return l, nil
}

// listenAddr is the address to serve on; open says that it was asked for by
// --insecure-listen and is not loopback.
func listenAddr(v values) (addr string, open bool, err error) {
	if addr = v.text("server.insecure_listen"); addr != "" {
		host, _, err := splitAddr(addr)
		return addr, !isLoopback(host), err
	}
	addr = v.text("server.listen")
	host, _, err := splitAddr(addr)
	if err != nil {
		return "", false, err
	}
	if !isLoopback(host) {
		return "", false, (&Error{Code: exitRefused, Err: fmt.Errorf("%s is not a loopback address, and there is no authentication", addr)}).
			hint("--insecure-listen %s serves there all the same, to everybody who can connect", shown(addr, "ADDR"))
	}
	return addr, false, nil
}

func (a *App) logger(v values) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(v.text("log.level"))) // checked by the setting
	return a.newLog(level, v.text("log.format") == "json")
}

func (a *App) newLog(level slog.Level, asJSON bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		if at.Value.Kind() == slog.KindDuration { // JSON would have bare nanoseconds
			at.Value = slog.StringValue(at.Value.Duration().String())
		}
		return at
	}}
	if asJSON {
		return slog.New(slog.NewJSONHandler(a.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, o))
}
