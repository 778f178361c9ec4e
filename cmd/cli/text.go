// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
)

// iec is a number of bytes for people: "512 B", "1.5 MiB".
func iec(n int64) string {
	if n < 1<<10 && n > -1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n), 0
	for f >= 1023.95 || f <= -1023.95 { // else 1024.0 would be shown
		f /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, " KMGTPE"[unit])
}

// count is a number for people: "1,234".
func count(n int64) string { return humanize.Comma(n) }

// plural is a number with its noun: "1 item", "2 items", "3 indexes".
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// short is a duration to the second: "5s", "1m05s", "2h00m".
func short(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

// instant is a time for people and programs.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// printable makes text that others wrote harmless for a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// lines is printable for text that may have several lines.
func lines(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// columns lays out rows of cells, the first of them a header.
func columns(rows [][]string) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		for i, c := range cells {
			cells[i] = printable(c)
		}
		fmt.Fprintf(w, "%s\n", strings.Join(cells, "\t"))
	}
	_ = w.Flush() // to memory
	return text.String()
}
