// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/test/need"
	"github.com/extenddb/extenddb/test/servers"
)

// TestShortPostgres makes a run of that part that is too short to mean
// anything.
func TestShortPostgres(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "needs /proc")
	}
	servers.Binaries(t)
	o := short()
	o.dir = t.TempDir()
	if err := o.choose("postgres", 0); err != nil {
		t.Fatal(err)
	}
	r, err := bench(t.Context(), o, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Postgres.Cells {
		if m := c.Median(); len(c.Samples) != o.repeats || m.Rate <= 0 || m.CPU <= 0 || m.P50 <= 0 || m.P99 < m.P50 {
			t.Errorf("%s with %d clients against %s: %+v", c.Operation, c.Clients, c.Target, m)
		}
	}
	if n := len(r.Verdicts); n != 13 {
		t.Errorf("%d targets are judged: %+v", n, r.Verdicts)
	}
	var text bytes.Buffer
	if err := r.write(&text, "markdown"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PostgreSQL " + r.Postgres.Version, "| GetItem | 64 |", "| " + cellHot + " | 64 |", "| PutItem with 20 indexes | 16 |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

// TestPostgresVerdicts checks both sides of the limits.
func TestPostgresVerdicts(t *testing.T) {
	t.Parallel()
	report := func(engine, http, indexed, tail, database float64) *Postgres {
		cell := func(op string, clients int, target string, s Sample) *Cell {
			return &Cell{Operation: op, Clients: clients, Target: target, Samples: []Sample{s, s, s}}
		}
		return &Postgres{Cells: Cells{
			cell(cellGet, many, targetEngine, Sample{Rate: engine, CPU: 50}), cell(cellGet, many, targetBare, Sample{Rate: 100}),
			cell(cellGet, many, targetHTTP, Sample{CPU: http}),
			cell(cellPut, many, targetEngine, Sample{Rate: 100}), cell(cellPutIndexed(2), many, targetEngine, Sample{Rate: indexed}),
			cell(cellHot, hotClients, targetEngine, Sample{Rate: 60, P99: tail}), cell(cellHot, hotClients, targetBare, Sample{Rate: 100, P99: 10}),
			cell(cellItems, many, targetCopies, Sample{Database: database}), cell(cellItems, many, targetStorage, Sample{Database: 100}),
		}}
	}
	for _, c := range []struct {
		p    *Postgres
		want string
	}{
		{report(70, 90, 50, 30, 30), "pass, pass, pass, pass, pass, pass"},
		{report(69, 91, 49, 31, 29), "fail, fail, fail, pass, fail, fail"},
	} {
		var got []string
		for _, v := range postgresVerdicts(c.p) {
			got = append(got, v.Result)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("verdicts: %s\nwant:     %s", text, c.want)
		}
	}
}

func TestHoles(t *testing.T) {
	t.Parallel()
	h := newHoles("p"+markPartition+" p"+markPartition+" s"+markRow+" v"+markCount+" q"+markIndex, 50)
	h.fill(place{12, 3, firstCount})
	if got, want := string(h.text), "p0012 p0012 s03 v1000000000 q0003"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
