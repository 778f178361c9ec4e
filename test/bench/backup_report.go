// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// write writes the part about backups.
func (x *Backups) write(b *strings.Builder) {
	b.WriteString("\nBackups and restores, medians; memory is the most of all repeats:\n\n" +
		"| items | job | seconds | MB/s of lines | of the reference | idle, anonymous MiB | more meanwhile |\n|---:|---|---:|---:|---:|---:|---:|\n")
	for _, t := range x.Tables {
		for _, j := range t.Jobs {
			seconds := j.Median()
			speed, idle, peak := "", "", ""
			if of, ok := t.speed(j.Name); ok {
				speed = fmt.Sprintf("%.2f", of)
			}
			if m, ok := j.memory(); ok {
				idle, peak = fmt.Sprintf("%.1f", m.Idle), fmt.Sprintf("%.1f", m.Peak)
			}
			fmt.Fprintf(b, "| %s | %s | %.2f | %.1f | %s | %s | %s |\n", count(t.Items), j.Name, seconds, float64(t.Plain)/seconds/1e6, speed, idle, peak)
		}
	}
	w := x.Writers
	if w == nil {
		return
	}
	fmt.Fprintf(b, "\n%d writers of a table of %s items, alone and while a server backs it up, milliseconds:\n\n"+
		"| repeat | writes per second | p50 | p99 | max | during a backup | p50 | p99 | max |\n"+
		"|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n", w.Clients, count(w.Items))
	for i, s := range w.Samples {
		fmt.Fprintf(b, "| %d | %.0f | %.2f | %.2f | %.1f | %.0f | %.2f | %.2f | %.1f |\n", i+1,
			s.Alone.Rate, s.Alone.P50, s.Alone.P99, s.Alone.Max, s.During.Rate, s.During.P50, s.During.P99, s.During.Max)
	}
}
