// SPDX-License-Identifier: Apache-2.0

// Command bench measures speed and memory of the server, as ratios against
// references in the same run; docs/performance.md says how to read the result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/servers"
)

// options say how thorough a run is.
type options struct {
	repeats    int
	clients    []int
	operations []operation
	time       time.Duration // of a cell, a repeat
	partitions int           // of 100 items
	requests   int           // counted for allocations
	starts     int
	tables     int // for CreateTable
	timed      int // of those, measured
	syncs      int
	requested  bool  // requests, starts and tables are measured
	items      []int // of tables to back up, the largest last; none: no backups
	postgres   postgresSizes
	onPostgres bool   // PostgreSQL is measured
	dir        string // for databases
	profile    string // directory for CPU profiles; "" for none
	binary     string // the server; "" to build it
}

func full() options {
	return options{repeats: 3, clients: []int{1, 8, 32, 128}, operations: operations(), time: time.Second, partitions: 100, requests: 20_000,
		starts: 5, tables: 2500, timed: 20, syncs: 200, requested: true, items: []int{10_000, 200_000},
		postgres: postgresSizes{partitions: 2000, indexed: 200, large: 10, largeText: 100_000, many: 500, catalog: 2500}, onPostgres: true}
}

func short() options {
	return options{repeats: 1, clients: []int{1, 8, 32, 128}, operations: operations(), time: 20 * time.Millisecond, partitions: 2, requests: 100,
		starts: 1, tables: 20, timed: 5, syncs: 5, requested: true, items: []int{60, 250},
		postgres: postgresSizes{partitions: 3, indexed: 2, large: 1, largeText: 10_000, many: 5, catalog: 100}, onPostgres: true}
}

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == childArg {
		err = runChild(os.Args[2:])
	} else {
		err = runBench(os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runBench(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("short", false, "only try everything once: the figures mean nothing")
	output := flags.String("output", "markdown", "markdown or json")
	repeats := flags.Int("repeats", 0, "measure each cell so often (default 3)")
	each := flags.Duration("time", 0, "how long each cell is measured (default 1s)")
	dir := flags.String("dir", "", "where the databases go: choose the disk with it (default: the system's temporary directory)")
	profile := flags.String("profile", "", "also write CPU profiles of the server into this directory")
	only := flags.String("operation", "", "measure this operation only: GetItem, PutItem, UpdateItem or Query")
	part := flags.String("only", "", "measure this part only: requests (with starts and tables), backup or postgres")
	items := flags.Int("items", 0, "items of the largest table that is backed up, at most 1000000 (default 200000)")
	binary := flags.String("binary", "", "the extenddb to measure (default: the one built from this tree)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *output != "markdown" && *output != "json" {
		return errors.New("usage: bench [flags]; -help lists them")
	}
	if runtime.GOOS != "linux" {
		return errors.New("CPU and memory of the server are read from /proc: this needs Linux")
	}
	o := full()
	if *quick {
		o = short()
	}
	// Servers run in the directories of their databases.
	for to, from := range map[*string]string{&o.dir: *dir, &o.profile: *profile, &o.binary: *binary} {
		if from == "" {
			continue
		}
		var err error
		if *to, err = filepath.Abs(from); err != nil {
			return err
		}
	}
	if err := o.choose(*part, *items); err != nil {
		return err
	}
	if *only != "" {
		o.operations = slices.DeleteFunc(o.operations, func(op operation) bool { return op.name != *only })
		if len(o.operations) == 0 {
			return fmt.Errorf("operation %q is not measured", *only)
		}
	}
	if *repeats > 0 {
		o.repeats = *repeats
	}
	if *each > 0 {
		o.time = *each
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := bench(ctx, o, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	if err != nil {
		return err
	}
	return r.write(os.Stdout, *output)
}

// choose sets what is measured: a part, or all of it, with so many items.
func (o *options) choose(part string, items int) error {
	switch {
	case items < 0 || items > maxSynthetic:
		return fmt.Errorf("-items %d is not between 1 and %d", items, maxSynthetic)
	case items > 0:
		smaller := slices.DeleteFunc(o.items[:len(o.items)-1], func(n int) bool { return n >= items })
		o.items = append(smaller, items)
	}
	switch part {
	case "":
	case "requests":
		o.items, o.onPostgres = nil, false
	case "backup":
		o.requested, o.onPostgres = false, false
	case "postgres":
		o.requested, o.items = false, nil
	default:
		return fmt.Errorf("-only %s: the parts are requests, backup and postgres", part)
	}
	return nil
}

func (r *Report) write(w io.Writer, output string) error {
	if output == "json" {
		return r.writeJSON(w)
	}
	return r.writeMarkdown(w)
}

// bench makes a run.
func bench(ctx context.Context, o options, progress func(string, ...any)) (*Report, error) {
	dir, err := os.MkdirTemp(o.dir, "extenddb-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	sync, err := syncTime(dir, o.syncs)
	if err != nil {
		return nil, err
	}
	r := &Report{Machine: thisMachine(sync)}
	progress("fsync of 4 KiB takes %v", sync)
	bin := o.binary
	if bin == "" {
		if bin, err = proc.Build(dir); err != nil {
			return nil, err
		}
	}
	if o.requested {
		if err := r.requests(ctx, o, bin, dir, progress); err != nil {
			return nil, err
		}
		r.Verdicts = verdicts(r, o.clients)
	}
	if len(o.items) > 0 {
		if err := r.backups(ctx, o, bin, dir, progress); err != nil {
			return nil, err
		}
		r.Verdicts = append(r.Verdicts, backupVerdicts(r.Backups)...)
	}
	if o.onPostgres && servers.Programs() == "" {
		r.Verdicts = append(r.Verdicts, Verdict{"PostgreSQL", "", "not judged: no PostgreSQL server (Debian package postgresql)"})
	} else if o.onPostgres {
		if r.Postgres, err = measurePostgres(ctx, o, bin, progress); err != nil {
			return nil, err
		}
		r.Verdicts = append(r.Verdicts, postgresVerdicts(r.Postgres)...)
	}
	return r, nil
}

// requests measures the part about requests, starts and tables.
func (r *Report) requests(ctx context.Context, o options, bin, dir string, progress func(string, ...any)) error {
	if err := r.rates(ctx, o, bin, dir, progress); err != nil {
		return err
	}
	if err := r.life(ctx, o, bin, dir); err != nil {
		return err
	}
	if o.profile != "" {
		return profiles(ctx, o, dir)
	}
	return nil
}

// rates measures what needs the rig.
func (r *Report) rates(ctx context.Context, o options, bin, dir string, progress func(string, ...any)) error {
	g, err := newRig(ctx, bin, dir, o.partitions)
	if err != nil {
		return err
	}
	r.Cells, err = g.measure(ctx, o, progress)
	if err == nil {
		r.Allocations, err = g.local.measureAllocations(ctx, o.requests)
	}
	return errors.Join(err, g.close())
}

// life measures starts and tables.
func (r *Report) life(ctx context.Context, o options, bin, dir string) (err error) {
	ask := func(operation, body string) func(*proc.Server) error {
		return func(srv *proc.Server) error {
			_, err := call(ctx, srv)(operation, body)
			return err
		}
	}
	get := newTemplate([]byte(operations()[0].body))
	get.fill(place{})
	many := filepath.Join(dir, "tables.db")
	if r.Tables, err = measureTables(ctx, bin, many, o.tables, o.timed); err != nil {
		return err
	}
	var fresh []string
	for i := range o.starts {
		fresh = append(fresh, filepath.Join(dir, fmt.Sprintf("new-%d.db", i)))
	}
	again := func(file string) []string { return slices.Repeat([]string{file}, o.starts) }
	for _, s := range []struct {
		content string
		files   []string
		first   func(*proc.Server) error
	}{
		{"new database", fresh, ask("ListTables", "{}")},
		{fmt.Sprintf("%d items", o.partitions*perPartition), again(filepath.Join(dir, "http.db")), ask("GetItem", string(get.text))},
		{fmt.Sprintf("%d tables", o.tables), again(many), ask("GetItem", string(get.text))},
	} {
		start, err := measureStart(bin, s.content, s.files, s.first)
		if err != nil {
			return err
		}
		r.Starts = append(r.Starts, start)
	}
	return nil
}

// profiles runs each operation with 8 clients on a server that writes a CPU
// profile.
func profiles(ctx context.Context, o options, dir string) error {
	if err := os.MkdirAll(o.profile, 0o755); err != nil {
		return err
	}
	for _, op := range o.operations {
		srv, err := child{kind: "extenddb", file: filepath.Join(dir, op.name+".db"), profile: filepath.Join(o.profile, op.name+".pprof")}.start()
		if err != nil {
			return err
		}
		err = fillTable(call(ctx, srv), o.partitions)
		if err == nil {
			var sizes map[string]int
			if sizes, err = answerSizes(call(ctx, srv)); err == nil {
				_, err = measure(ctx, &httpTarget{srv: srv, partitions: o.partitions, sizes: sizes}, op, 8, 5*o.time)
			}
		}
		if err = errors.Join(err, srv.Stop()); err != nil {
			return fmt.Errorf("profile %s: %w", op.name, err)
		}
	}
	return nil
}
