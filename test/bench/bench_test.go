// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/test/need"
)

// TestMain lets the test binary be the reference server that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		if err := runChild(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestShort makes a whole run that is too short to mean anything.
func TestShort(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "needs /proc")
	}
	o := short()
	o.dir, o.profile, o.onPostgres = t.TempDir(), t.TempDir(), false
	r, err := bench(t.Context(), o, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range operations() {
		for _, clients := range o.clients {
			for _, target := range []string{targetEmpty, targetHTTP, targetEngine, targetSQLite} {
				c := r.Cells.at(op.name, clients, target)
				if c == nil || len(c.Samples) != o.repeats {
					t.Fatalf("%s with %d clients against %s was not measured", op.name, clients, target)
				}
				if m := c.Median(); m.Rate <= 0 || m.CPU <= 0 || m.P50 <= 0 || m.P99 < m.P50 {
					t.Errorf("%s with %d clients against %s: %+v", op.name, clients, target, m)
				}
			}
		}
		if info, err := os.Stat(filepath.Join(o.profile, op.name+".pprof")); err != nil || info.Size() == 0 {
			t.Errorf("no profile of %s: %v", op.name, err)
		}
	}
	if want := len(o.clients) + 2 + 2 + 2*3 + 2*(2+len(o.items)+1) + 1; len(r.Verdicts) != want {
		t.Errorf("%d targets are judged, not %d: %v", len(r.Verdicts), want, r.Verdicts)
	}
	for _, a := range r.Allocations {
		if a.Objects <= 0 || a.Bytes <= 0 {
			t.Errorf("allocations: %+v", a)
		}
	}
	for _, s := range r.Starts {
		if s.FirstAnswer <= 0 || s.Idle <= 0 {
			t.Errorf("start: %+v", s)
		}
	}
	checkOutputs(t, r)
}

// checkOutputs looks for everything in both forms of the report.
func checkOutputs(t *testing.T, r *Report) {
	t.Helper()
	var text, data bytes.Buffer
	if err := r.write(&text, "markdown"); err != nil {
		t.Fatal(err)
	}
	for _, op := range operations() {
		if n := strings.Count(text.String(), "| "+op.name+" |"); n != 3*4+1 {
			t.Errorf("%d rows of %s in\n%s", n, op.name, text.String())
		}
	}
	if n := strings.Count(text.String(), " | pass |") + strings.Count(text.String(), " | fail |") + strings.Count(text.String(), "not judged: "); n != len(r.Verdicts) {
		t.Errorf("%d verdicts of %d in\n%s", n, len(r.Verdicts), text.String())
	}
	if err := r.write(&data, "json"); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(data.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Cells) != len(r.Cells) || len(back.Verdicts) != len(r.Verdicts) || back.Machine != r.Machine {
		t.Errorf("JSON does not hold the report: %s", data.String())
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{7, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	text := newTemplate([]byte("p" + markPartition + " s" + markRow + " " + markCount))
	text.fill(place{12, 7, 1_234_567_890})
	if got, want := string(text.text), "p0012 s07 1234567890"; got != want {
		t.Errorf("template: %q, want %q", got, want)
	}
	none := newTemplate([]byte("nothing"))
	none.fill(place{1, 2, 3})
	if got := string(none.text); got != "nothing" {
		t.Errorf("template without holes: %q", got)
	}
}

// TestVerdicts checks both sides of the limits.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	report := func(http, single, sync float64) *Report {
		cell := func(op string, clients int, target string, s Sample) *Cell {
			return &Cell{Operation: op, Clients: clients, Target: target, Samples: []Sample{s, s, s}}
		}
		return &Report{
			Machine: Machine{Sync: sync},
			Cells: Cells{
				cell("GetItem", 8, targetEmpty, Sample{CPU: 20}), cell("GetItem", 8, targetHTTP, Sample{CPU: http}),
				cell("PutItem", 32, targetHTTP, Sample{Rate: 300}), cell("PutItem", 32, targetSingle, Sample{Rate: single}),
			},
			Starts: []Start{{File: "file", FirstAnswer: 49, Idle: 41}},
			Tables: Tables{Present: 2500, Max: 99, WriterMax: 101},
		}
	}
	for _, c := range []struct {
		r    *Report
		want string
	}{
		{report(55, 100, 500), "pass, pass, pass, fail, pass, fail"},
		{report(56, 101, 500), "fail, fail, pass, fail, pass, fail"},
		{report(55, 101, 499), "pass, not judged: fsync takes 499 us, less than 500, pass, fail, pass, fail"},
	} {
		var got []string
		for _, v := range verdicts(c.r, []int{8}) {
			got = append(got, v.Result)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("verdicts: %s\nwant:     %s", text, c.want)
		}
	}
}

func TestRefusesArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-output", "xml"}, {"extra"}, {"-no-such-flag"}, {"-operation", "ListTables"}, {"-only", "restore"}, {"-items", "1000001"}} {
		if err := runBench(args); err == nil {
			t.Errorf("bench %v is accepted", args)
		}
	}
}

func TestFillTableReportsRefusals(t *testing.T) {
	t.Parallel()
	err := fillTable(func(op, _ string) ([]byte, error) {
		if op == "CreateTable" {
			return nil, nil
		}
		return []byte(`{"UnprocessedItems":{"bench":[]}}`), nil
	}, 1)
	if err == nil {
		t.Error("unprocessed items are no failure")
	}
}
