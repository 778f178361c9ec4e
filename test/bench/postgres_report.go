// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// The targets of this part.
const (
	minOfBare        = 0.70 // times the rate of the same statement by hand
	maxOverHTTP      = 40.0 // us of CPU more than in process
	minIndexed       = 0.50 // times the rate without an index
	minHot           = 0.60 // times SELECT FOR UPDATE by hand
	maxHotTail       = 3.0  // times its p99
	minLargeKeys     = 0.50 // times the rate over small items
	minCopies        = 1.60 // times the rate of copies
	minItemsOfCopies = 0.30 // their database CPU / ours
	minKeysOfCopies  = 0.75
)

// write writes this part of the report.
func (p *Postgres) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nPostgreSQL %s, fsync=on, shared_buffers=1GB, %d tables in the catalog. Requests per second:\n\n", p.Version, p.Rows)
	p.table(b, func(s Sample) string { return fmt.Sprintf("%.0f", s.Rate) })
	b.WriteString("\nCPU in microseconds per request, of the target + of PostgreSQL:\n\n")
	p.table(b, func(s Sample) string { return fmt.Sprintf("%.0f + %.0f", s.CPU, s.Database) })
	b.WriteString("\nLatency in microseconds, p50 / p99:\n\n")
	p.table(b, func(s Sample) string { return fmt.Sprintf("%.0f / %.0f", s.P50, s.P99) })
}

func (p *Postgres) table(b *strings.Builder, show func(Sample) string) {
	columns := []struct{ target, title string }{
		{targetBare, "bare pgx"}, {targetCopies, "copies by pgx"}, {targetStorage, "storage layer"},
		{targetEngine, "engine in process"}, {targetHTTP, "extenddb"},
	}
	b.WriteString("| operation | clients |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|---:|" + strings.Repeat("---:|", len(columns)) + "\n")
	last := ""
	for _, cell := range p.Cells {
		row := fmt.Sprintf("| %s | %d |", cell.Operation, cell.Clients)
		if row == last {
			continue
		}
		last = row
		b.WriteString(row)
		for _, c := range columns {
			text := ""
			if cell := p.Cells.at(cell.Operation, cell.Clients, c.target); cell != nil {
				text = show(cell.Median())
			}
			b.WriteString(" " + text + " |")
		}
		b.WriteString("\n")
	}
}

func rate(a, b Sample) float64 { return a.Rate / b.Rate }

// postgresVerdicts judges this part.
func postgresVerdicts(p *Postgres) []Verdict {
	var out []Verdict
	judgeCell := func(target string, limit float64, atMost bool, unit, op string, clients int, a, b string, f func(a, b Sample) float64) {
		if got, ok := p.Cells.compare(op, clients, a, b, f); ok {
			out = append(out, verdictOf(target, got, limit, atMost, unit))
		}
	}
	for _, op := range []string{cellGet, cellPut, cellQuery} {
		judgeCell(fmt.Sprintf("PostgreSQL, %s, %d clients: at least %.2f times bare pgx", op, many, minOfBare),
			minOfBare, false, "times", op, many, targetEngine, targetBare, rate)
	}
	for _, op := range []string{cellGet, cellPut, cellQuery} {
		judgeCell(fmt.Sprintf("PostgreSQL, %s, %d clients: over HTTP at most %.0f us of CPU more", op, many, maxOverHTTP),
			maxOverHTTP, true, "us", op, many, targetHTTP, targetEngine, func(a, b Sample) float64 { return a.CPU - b.CPU })
	}
	across := func(target string, limit float64, op, of string) {
		a, b := p.Cells.at(op, many, targetEngine), p.Cells.at(of, many, targetEngine)
		if a == nil || b == nil {
			return
		}
		both := Cells{{Operation: op, Target: "a", Samples: a.Samples}, {Operation: op, Target: "b", Samples: b.Samples}}
		if got, ok := both.compare(op, 0, "a", "b", rate); ok {
			out = append(out, verdictOf(target, got, limit, false, "times"))
		}
	}
	across(fmt.Sprintf("PostgreSQL, PutItem with 2 indexes, %d clients: at least %.2f times that without", many, minIndexed), minIndexed, cellPutIndexed(2), cellPut)
	judgeCell(fmt.Sprintf("PostgreSQL, %s, %d clients: at least %.2f times SELECT FOR UPDATE by hand", cellHot, hotClients, minHot),
		minHot, false, "times", cellHot, hotClients, targetEngine, targetBare, rate)
	judgeCell(fmt.Sprintf("PostgreSQL, %s, %d clients: p99 at most %.0f times that", cellHot, hotClients, maxHotTail),
		maxHotTail, true, "times", cellHot, hotClients, targetEngine, targetBare, func(a, b Sample) float64 { return a.P99 / b.P99 })
	across(fmt.Sprintf("PostgreSQL, %s, %d clients: at least %.2f times that over small ones", cellLarge, many, minLargeKeys), minLargeKeys, cellLarge, cellSmall)
	judgeCell(fmt.Sprintf("PostgreSQL, %s, one key changing, %d clients: at least %.1f times copies", cellIndexed, many, minCopies),
		minCopies, false, "times", cellIndexed, many, targetEngine, targetCopies, rate)
	for _, x := range []struct {
		op    string
		limit float64
	}{{cellItems, minItemsOfCopies}, {cellKeys, minKeysOfCopies}} {
		judgeCell(fmt.Sprintf("PostgreSQL, %s, %d clients: database CPU of copies at least %.2f times ours", x.op, many, x.limit),
			x.limit, false, "times", x.op, many, targetCopies, targetStorage, func(a, b Sample) float64 { return a.Database / b.Database })
	}
	return out
}

func verdictOf(target string, got, limit float64, atMost bool, unit string) Verdict {
	return Verdict{target, fmt.Sprintf("%.2f %s", got, unit), judge(atMost && got <= limit || !atMost && got >= limit)}
}
