// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/extenddb/extenddb/test/bench/load"
	"github.com/extenddb/extenddb/test/proc"
)

// Sample is one measurement of one target.
type Sample struct {
	Rate float64 `json:"requests_per_second"`
	CPU  float64 `json:"cpu_us"` // of the target, a request
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	// Database is the CPU of the processes of a database server, a request.
	Database float64 `json:"database_cpu_us,omitempty"`
}

// Cell is one operation with so many clients against one target.
type Cell struct {
	Operation string   `json:"operation"`
	Clients   int      `json:"clients"`
	Target    string   `json:"target"`
	Samples   []Sample `json:"samples"` // one a repeat
}

// Median is the median of each figure.
func (c *Cell) Median() Sample {
	of := func(f func(Sample) float64) float64 {
		var v []float64
		for _, s := range c.Samples {
			v = append(v, f(s))
		}
		return median(v)
	}
	return Sample{
		Rate: of(func(s Sample) float64 { return s.Rate }),
		CPU:  of(func(s Sample) float64 { return s.CPU }),
		P50:  of(func(s Sample) float64 { return s.P50 }),
		P99:  of(func(s Sample) float64 { return s.P99 }),

		Database: of(func(s Sample) float64 { return s.Database }),
	}
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Cells are the results of the first part.
type Cells []*Cell

// at returns a cell; nil when it was not measured.
func (cs Cells) at(op string, clients int, target string) *Cell {
	for _, c := range cs {
		if c.Operation == op && c.Clients == clients && c.Target == target {
			return c
		}
	}
	return nil
}

// compare is the median over the repeats of f of the samples of two targets,
// which were measured one after the other in each. ok is false when one of
// them was not measured.
func (cs Cells) compare(op string, clients int, a, b string, f func(a, b Sample) float64) (m float64, ok bool) {
	ca, cb := cs.at(op, clients, a), cs.at(op, clients, b)
	if ca == nil || cb == nil || len(ca.Samples) != len(cb.Samples) {
		return 0, false
	}
	var v []float64
	for i := range ca.Samples {
		v = append(v, f(ca.Samples[i], cb.Samples[i]))
	}
	return median(v), len(v) > 0
}

// rig holds everything that answers.
type rig struct {
	local   *local
	servers []*proc.Server
	targets map[string]target
}

// newRig starts the targets. bin is the server's binary.
func newRig(ctx context.Context, bin, dir string, partitions int) (*rig, error) {
	r := &rig{targets: map[string]target{}}
	if err := r.start(ctx, bin, dir, partitions); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) start(ctx context.Context, bin, dir string, partitions int) error {
	main, err := proc.TryStart(bin, filepath.Join(dir, "http.db"))
	if err != nil {
		return err
	}
	r.servers = append(r.servers, main)
	if err := fillTable(call(ctx, main), partitions); err != nil {
		return err
	}
	sizes, err := answerSizes(call(ctx, main))
	if err != nil {
		return err
	}
	single, err := child{kind: "extenddb", file: filepath.Join(dir, "single.db"), batch: 1}.start()
	if err != nil {
		return err
	}
	r.servers = append(r.servers, single)
	if err := fillTable(call(ctx, single), partitions); err != nil {
		return err
	}
	empty, err := child{kind: "empty"}.start()
	if err != nil {
		return err
	}
	r.servers = append(r.servers, empty)
	if r.local, err = openLocal(ctx, filepath.Join(dir, "local.db")); err != nil {
		return err
	}
	r.local.partitions, r.local.sizes = partitions, sizes
	if err := fillTable(r.local.call(ctx), partitions); err != nil {
		return err
	}
	r.targets = map[string]target{
		targetHTTP:   &httpTarget{srv: main, partitions: partitions, sizes: sizes},
		targetSingle: &httpTarget{srv: single, partitions: partitions, sizes: sizes},
		targetEmpty:  &httpTarget{srv: empty, partitions: partitions, sizes: sizes, empty: true},
		targetEngine: engineTarget{r.local},
		targetSQLite: storageTarget{r.local},
	}
	return nil
}

func (r *rig) close() error {
	for _, s := range r.servers {
		s.Kill()
	}
	if r.local == nil {
		return nil
	}
	return r.local.db.Close()
}

// measure fills all cells.
func (r *rig) measure(ctx context.Context, o options, progress func(string, ...any)) (Cells, error) {
	var cells Cells
	for repeat := range o.repeats {
		for _, op := range o.operations {
			for _, clients := range o.clients {
				for _, name := range []string{targetEmpty, targetHTTP, targetSingle, targetEngine, targetSQLite} {
					if name == targetSingle && op.name != "PutItem" {
						continue
					}
					s, err := measure(ctx, r.targets[name], op, clients, o.time)
					if err != nil {
						return nil, fmt.Errorf("%s, %d clients, %s: %w", op.name, clients, name, err)
					}
					c := cells.at(op.name, clients, name)
					if c == nil {
						c = &Cell{Operation: op.name, Clients: clients, Target: name}
						cells = append(cells, c)
					}
					c.Samples = append(c.Samples, s)
				}
				progress("repeat %d of %d: %s with %d clients", repeat+1, o.repeats, op.name, clients)
			}
		}
	}
	return cells, nil
}

// measure runs clients for a while, after a fifth of that to warm up.
func measure(ctx context.Context, t target, op operation, clients int, d time.Duration) (s Sample, err error) {
	var requests []func() error
	for i := range clients {
		c, err := t.client(ctx, op, i)
		if err != nil {
			return s, err
		}
		defer c.close()
		requests = append(requests, c.request)
	}
	if _, err := runFor(ctx, requests, d/5); err != nil {
		return s, err
	}
	before, dbBefore, err := cpuOf(t)
	if err != nil {
		return s, err
	}
	r, err := runFor(ctx, requests, d)
	if err != nil {
		return s, err
	}
	after, dbAfter, err := cpuOf(t)
	if err != nil {
		return s, err
	}
	return Sample{
		Rate: r.Rate(),
		CPU:  micros(after-before) / float64(len(r.Latencies)),

		Database: micros(dbAfter-dbBefore) / float64(len(r.Latencies)),

		P50: micros(r.Quantile(0.50)),
		P99: micros(r.Quantile(0.99)),
	}, nil
}

// cpuOf is the processor time that a target has used, and that its database
// server has, if it has one.
func cpuOf(t target) (own, database time.Duration, err error) {
	own, err = t.cpu()
	if d, ok := t.(interface {
		databaseCPU() (time.Duration, error)
	}); ok && err == nil {
		database, err = d.databaseCPU()
	}
	return own, database, err
}

func runFor(ctx context.Context, requests []func() error, d time.Duration) (load.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return load.Run(ctx, requests)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
