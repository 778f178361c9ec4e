// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Report is everything a run found out.
type Report struct {
	Machine     Machine       `json:"machine"`
	Cells       Cells         `json:"cells"`
	Allocations []Allocations `json:"allocations"`
	Starts      []Start       `json:"starts"`
	Tables      Tables        `json:"tables"`
	Backups     *Backups      `json:"backups,omitempty"`
	Postgres    *Postgres     `json:"postgres,omitempty"`
	Verdicts    []Verdict     `json:"verdicts"`
}

// Machine is where the run was made.
type Machine struct {
	Date string  `json:"date"`
	CPU  string  `json:"cpu"`
	CPUs int     `json:"cpus"`
	Go   string  `json:"go"`
	OS   string  `json:"os"`
	Sync float64 `json:"fsync_us"` // of 4 KiB on the disk of the databases, median
	Load string  `json:"load"`     // averages at start: other work makes figures noisy
}

func thisMachine(sync time.Duration) Machine {
	m := Machine{
		Date: time.Now().UTC().Format(time.DateTime + " UTC"), CPU: "unknown", CPUs: runtime.NumCPU(), Go: runtime.Version(),
		OS: runtime.GOOS + "/" + runtime.GOARCH, Sync: micros(sync),
	}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(data))[:3], " ")
	}
	return m
}

// writeJSON writes the report for programs.
func (r *Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeMarkdown writes the report for people.
func (r *Report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s, %s, %d CPUs (%s), %s; fsync of 4 KiB: %.0f us; load average at the start: %s\n", m.Date, m.OS, m.CPUs, m.CPU, m.Go, m.Sync, m.Load)
	if len(r.Cells) > 0 {
		r.writeRequests(&b)
	}
	if r.Backups != nil {
		r.Backups.write(&b)
	}
	if r.Postgres != nil {
		r.Postgres.write(&b)
	}
	b.WriteString("\nTargets:\n\n| target | measured | result |\n|---|---|---|\n")
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.Target, v.Measured, v.Result)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRequests writes the part about requests, starts and tables.
func (r *Report) writeRequests(b *strings.Builder) {
	b.WriteString("\nRequests per second; times the empty handler:\n\n")
	r.cellTable(b, func(s Sample) string { return fmt.Sprintf("%.0f", s.Rate) }, func(s, empty Sample) string {
		return fmt.Sprintf(" (%.2f)", s.Rate/empty.Rate)
	})
	b.WriteString("\nCPU of the target in microseconds per request; more than the empty handler:\n\n")
	r.cellTable(b, func(s Sample) string { return fmt.Sprintf("%.1f", s.CPU) }, func(s, empty Sample) string {
		return fmt.Sprintf(" (%+.1f)", s.CPU-empty.CPU)
	})
	b.WriteString("\nLatency in microseconds, p50 / p99:\n\n")
	r.cellTable(b, func(s Sample) string { return fmt.Sprintf("%.0f / %.0f", s.P50, s.P99) }, nil)
	r.rest(b)
}

// cellTable writes a table with a row for each operation and number of
// clients, and a column for each target. against adds what compares a server
// with the empty handler.
func (r *Report) cellTable(b *strings.Builder, show func(Sample) string, against func(s, empty Sample) string) {
	columns := []struct{ target, title string }{
		{targetEmpty, "empty handler"}, {targetHTTP, "extenddb"}, {targetSingle, "one transaction each"},
		{targetEngine, "engine in process"}, {targetSQLite, "bare SQLite layer"},
	}
	b.WriteString("| operation | clients |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|---:|" + strings.Repeat("---:|", len(columns)) + "\n")
	for _, row := range r.Cells {
		if row.Target != targetEmpty {
			continue
		}
		fmt.Fprintf(b, "| %s | %d |", row.Operation, row.Clients)
		empty := row.Median()
		for _, c := range columns {
			text := ""
			if cell := r.Cells.at(row.Operation, row.Clients, c.target); cell != nil {
				text = show(cell.Median())
				if against != nil && c.target == targetHTTP {
					text += against(cell.Median(), empty)
				}
			}
			b.WriteString(" " + text + " |")
		}
		b.WriteString("\n")
	}
}

// rest writes all of that but the cells.
func (r *Report) rest(b *strings.Builder) {
	b.WriteString("\nAllocations per request (handler, engine and storage; without net/http):\n\n| operation | objects | bytes |\n|---|---:|---:|\n")
	for _, a := range r.Allocations {
		fmt.Fprintf(b, "| %s | %.1f | %.0f |\n", a.Operation, a.Objects, a.Bytes)
	}
	b.WriteString("\nStart of the server:\n\n| database | first answer, ms | idle, anonymous MiB |\n|---|---:|---:|\n")
	for _, s := range r.Starts {
		fmt.Fprintf(b, "| %s | %.1f | %.1f |\n", s.File, s.FirstAnswer, s.Idle)
	}
	t := r.Tables
	fmt.Fprintf(b, "\nCreateTable up to %d tables, %d writers at work, milliseconds:\n\n"+
		"| CreateTable p50 | max | writers p99 | max | writers' max without CreateTable |\n|---:|---:|---:|---:|---:|\n"+
		"| %.1f | %.1f | %.1f | %.1f | %.1f |\n", t.Present, tableWriters, t.Median, t.Max, t.WriterP99, t.WriterMax, t.WriterRest)
}
