// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/postgres"
	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/servers"
)

// Postgres is how the engine for PostgreSQL compares with statements sent by
// hand to the same server.
type Postgres struct {
	Version string `json:"version"`
	Rows    int    `json:"catalog_rows"` // of tables, which the guard looks among
	Cells   Cells  `json:"cells"`
}

// postgresSizes are those of the tables.
type postgresSizes struct {
	partitions int // of the table without index, of 100 items
	indexed    int // of tables with indexes
	large      int // of items of largeText bytes
	largeText  int
	many       int // tables
	catalog    int // rows of the catalog
}

// postgresRig is a database server and everything that is measured on it.
type postgresRig struct {
	server *servers.PostgreSQL
	pid    int
	sizes  postgresSizes
	conns  int // of a pool, ours and that of the reference
	log    *slog.Logger

	local *local // the engine in this process
	wide  *local // the same database with a connection for each of 64 clients
	bare  *pgxpool.Pool
	open  *pgxpool.Pool // likewise
	http  *proc.Server
}

// The databases.
const (
	inProcess = "in_process"
	served    = "served"
)

// hotClients is the number of clients that share hot keys.
const (
	hotClients = 64
	hotKeys    = 20
)

func newPostgresRig(ctx context.Context, o options, bin string) (*postgresRig, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r := &postgresRig{sizes: o.postgres, conns: max(4*runtime.NumCPU(), 16), log: log}
	if err := r.start(ctx, bin); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// start starts PostgreSQL as one would for production, but for what happens
// every now and then: no checkpoint and no vacuum falls into one cell and not
// into the one it is compared with.
func (r *postgresRig) start(ctx context.Context, bin string) (err error) {
	r.server, err = servers.StartPostgreSQL(servers.Programs(), "fsync=on", "shared_buffers=1GB",
		"max_wal_size=16GB", "checkpoint_timeout=1h", "autovacuum=off")
	if err != nil {
		return err
	}
	if r.pid, err = r.server.Pid(); err != nil {
		return err
	}
	for _, name := range []string{inProcess, served} {
		if err := r.exec(ctx, "postgres", "CREATE DATABASE "+name); err != nil {
			return err
		}
	}
	if r.local, err = r.engine(ctx, inProcess, r.conns); err != nil {
		return err
	}
	if r.wide, err = r.engine(ctx, inProcess, hotClients); err != nil {
		return err
	}
	if r.bare, err = r.pool(ctx, r.conns); err != nil {
		return err
	}
	if r.open, err = r.pool(ctx, hotClients); err != nil {
		return err
	}
	if err := r.fill(ctx); err != nil {
		return err
	}
	return r.serve(ctx, bin)
}

func (r *postgresRig) engine(ctx context.Context, database string, conns int) (*local, error) {
	db, err := postgres.Open(ctx, postgres.Options{URL: r.server.URL(database), MaxConns: conns, Clock: clock.Real{}, Log: r.log})
	if err != nil {
		return nil, err
	}
	l := newLocal(db, r.log)
	l.partitions = r.sizes.partitions
	return l, nil
}

// pool is what the references use: pgx as it comes.
func (r *postgresRig) pool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(r.server.URL(inProcess))
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(conns)
	return pgxpool.NewWithConfig(ctx, cfg)
}

// serve starts the server on a database of its own.
func (r *postgresRig) serve(ctx context.Context, bin string) error {
	l, err := r.engine(ctx, served, r.conns)
	if err != nil {
		return err
	}
	err = r.load(ctx, l, plainDefinition(tableName), plainText(), r.sizes.partitions)
	if err = errors.Join(err, l.db.Close(), r.exec(ctx, served, "VACUUM ANALYZE")); err != nil {
		return err
	}
	r.http, err = startIdle(ctx, bin, r.server.URL(served))
	return err
}

func (r *postgresRig) close() error {
	var err error
	if r.http != nil {
		err = r.http.Stop()
	}
	for _, p := range []*pgxpool.Pool{r.bare, r.open} {
		if p != nil {
			p.Close()
		}
	}
	for _, l := range []*local{r.local, r.wide} {
		if l != nil {
			err = errors.Join(err, l.db.Close())
		}
	}
	if r.server != nil {
		err = errors.Join(err, r.server.Remove())
	}
	return err
}

func (r *postgresRig) exec(ctx context.Context, database, sql string) error {
	c, err := pgx.Connect(ctx, r.server.URL(database))
	if err == nil {
		_, err = c.Exec(ctx, sql)
		err = errors.Join(err, c.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("%.60s: %w", sql, err)
	}
	return nil
}

// cpu is the processor time that the processes of the database server have
// used: those that live. None ends while something is measured.
func (r *postgresRig) cpu() (time.Duration, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return 0, err
		}
		// The name, in parentheses, may hold anything; state and parent follow.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(r.pid) && pid != r.pid {
			continue
		}
		used, err := proc.CPU(pid)
		if err != nil {
			continue
		}
		sum += used
	}
	return sum, nil
}

// fill makes the tables of the engine in this process. The catalog has so many
// rows that a plan that does not find the guard's by its key would show.
func (r *postgresRig) fill(ctx context.Context) error {
	if err := r.load(ctx, r.local, plainDefinition(tableName), plainText(), r.sizes.partitions); err != nil {
		return err
	}
	for _, n := range []int{2, 6, 20} {
		if err := r.load(ctx, r.local, indexedDefinition(indexedName(n), n, ddb.ProjectAll), indexedText(n, ""), r.sizes.indexed); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		name string
		text int
	}{{"small", 200}, {"large", r.sizes.largeText}} {
		text := indexedText(2, strings.Repeat("x", x.text))
		if err := r.load(ctx, r.local, indexedDefinition(x.name, 2, ddb.ProjectKeysOnly), text, r.sizes.large); err != nil {
			return err
		}
	}
	for i := range r.sizes.many {
		if err := r.load(ctx, r.local, plainDefinition(manyName(i)), plainText(), 1); err != nil {
			return err
		}
	}
	if err := r.exec(ctx, inProcess, fmt.Sprintf(`INSERT INTO extenddb.tables (id, version, status, created, uuid, account, name, definition)
		SELECT 1000000000 + i, 1, 1, now(), gen_random_uuid(), 'catalog', 'table-' || i, '{}' FROM generate_series(1, %d) i`, r.sizes.catalog)); err != nil {
		return err
	}
	if err := r.copies(ctx); err != nil {
		return err
	}
	if err := r.exec(ctx, inProcess, "VACUUM ANALYZE"); err != nil {
		return err
	}
	return r.exec(ctx, inProcess, "CHECKPOINT")
}

func manyName(i int) string { return fmt.Sprintf("many-%03d", i) }

// load makes a table of partitions of 100 items.
func (r *postgresRig) load(ctx context.Context, l *local, def ddb.TableDefinition, text string, partitions int) error {
	load, err := l.db.Load(ctx, auth.DefaultAccount, def, time.Now())
	if err != nil {
		return fmt.Errorf("load %s: %w", def.TableName, err)
	}
	defer load.Abort() // does nothing once it is finished
	item := newHoles(text, partitions)
	var rows []storage.LoadRow
	for n := range partitions * perPartition {
		item.fill(place{n / perPartition, n % perPartition, firstCount})
		it, err := ddb.ParseItem(item.text)
		if err != nil {
			return err
		}
		var row storage.LoadRow
		if row.Key, err = load.Table().KeyOf(it); err != nil {
			return err
		}
		if row.Next, err = storage.Derive(load.Table(), it); err != nil {
			return err
		}
		if rows = append(rows, row); len(rows)*len(text) < 1<<20 && n < partitions*perPartition-1 {
			continue
		}
		if err := load.Add(ctx, rows); err != nil {
			return fmt.Errorf("load %s: %w", def.TableName, err)
		}
		rows = rows[:0]
	}
	return load.Finish(ctx, nil)
}
