// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// short writes a count in at most four characters and a unit: 999, 1.2k, 22k,
// 1.2M. It rounds down: what is not all done never looks so.
func short(n int64) string {
	if n < 1000 {
		return fmt.Sprint(max(n, 0))
	}
	const units = "kMGTPE"
	whole, rest, unit := n, int64(0), 0
	for ; whole >= 1000; unit++ {
		whole, rest = whole/1000, whole%1000
	}
	if whole < 10 {
		return fmt.Sprintf("%d.%d%c", whole, rest/100, units[unit-1])
	}
	return fmt.Sprintf("%d%c", whole, units[unit-1])
}

// iec writes bytes in IEC units with one decimal, rounded down.
func iec(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	const units = "KMGTPE"
	whole, rest, unit := n, int64(0), 0
	for ; whole >= 1024; unit++ {
		whole, rest = whole/1024, whole%1024
	}
	return fmt.Sprintf("%d.%d %ciB", whole, rest*10/1024, units[unit-1])
}

// lasting writes a duration in its two largest units: 41s, 1m05s, 3h04m, 2d03h.
func lasting(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	m, h, days := s/60, s/3600, s/86400
	switch {
	case m == 0:
		return fmt.Sprintf("%ds", s)
	case h == 0:
		return fmt.Sprintf("%dm%02ds", m, s%60)
	case days == 0:
		return fmt.Sprintf("%dh%02dm", h, m%60)
	case days < 100:
		return fmt.Sprintf("%dd%02dh", days, h%24)
	}
	return fmt.Sprintf("%dd", days)
}

// clean makes a text from elsewhere safe for a terminal, on one line.
func (s Style) clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || !unicode.IsPrint(r) || s.ASCII && r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, text)
}

// cut shortens a text to so many columns.
func (s Style) cut(text string, width int) string {
	more := "…"
	if s.ASCII {
		more = "..."
	}
	if width <= ansi.StringWidth(more) {
		more = ""
	}
	return ansi.Truncate(text, max(width, 0), more)
}
