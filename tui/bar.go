// SPDX-License-Identifier: Apache-2.0

// Package tui shows what jobs do on a terminal. What is shown is made by pure
// functions of events and a width; the programs around them only print it.
package tui

import (
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/extenddb/extenddb/server/progress"
)

// Style is how a terminal is written to.
type Style struct {
	Width int  // columns
	ASCII bool // nothing beyond ASCII
	Color bool // the 16 colours of every terminal
}

const (
	minBar = 6
	maxBar = 40
)

// Bar is the one line that tells how far a job is; p has its events, or is nil. It is
// never wider than the style says. What there is no room for is left out, the
// least important first.
func Bar(e progress.Event, p *Pace, s Style) string {
	l := line{s: s, left: s.Width}
	if e.State != progress.Running {
		l.still(e)
		return l.String()
	}
	if p == nil {
		p = new(Pace)
	}
	percent, known := e.Percent()
	total := int64(0)
	if e.Total != nil {
		total = *e.Total
	}
	table := s.cut(s.clean(e.Table), max(s.Width/3, 8))
	kind := s.clean(string(e.Kind))
	// In the order of their importance; their place is another matter.
	if known {
		l.add(placePercent, fmt.Sprintf("%6s", exact(percent)))
	} else {
		l.add(placePercent, "running")
	}
	l.add(placeTable, table)
	l.add(placeKind, kind)
	if known {
		l.reserve(minBar)
		l.add(placeCount, fmt.Sprintf("%*s", 2*len(short(total))+1, short(e.Done)+"/"+short(total)))
	} else {
		l.add(placeCount, short(e.Items)+" items")
	}
	if left, ok := p.Left(total - e.Done); ok && known {
		l.add(placeLeft, "eta "+lasting(left))
	}
	if r := p.Rate(); r > 0 {
		l.add(placeRate, fmt.Sprintf("%6s", short(int64(min(r, math.MaxInt64/2)))+"/s"))
	}
	l.add(placePhase, s.clean(e.Phase))
	if !known && e.Bytes > 0 {
		l.add(placeBytes, iec(e.Bytes))
	}
	if known {
		l.fill(percent)
	}
	return l.String()
}

// still is the line of a job that does not move: it waits, or is over.
func (l *line) still(e progress.Event) {
	s := l.s
	word, more, color := s.clean(string(e.State)), "", ""
	switch e.State {
	case progress.Waiting:
		if more = "for " + s.clean(e.WaitingFor); e.WaitingFor == "" {
			more = ""
		}
		color = yellow
	case progress.Failed:
		more, color = s.clean(e.Error), red
	case progress.Done:
		more, color = "in "+lasting(e.At.Sub(e.Started)), green
	case progress.Cancelled:
		color = yellow
		if percent, ok := e.Percent(); ok {
			more = "at " + exact(percent)
		}
	case progress.Running: // moves
	}
	l.paint[placeState] = color
	l.add(placeState, word)
	l.add(placeTable, s.cut(s.clean(e.Table), max(s.Width/3, 8)))
	l.add(placeKind, s.clean(string(e.Kind)))
	if l.left >= minBar { // else two letters would tell nothing
		l.add(placeMore, s.cut(more, l.left-gap))
	}
}

// exact is a percentage with one decimal, rounded down.
func exact(percent float64) string {
	return fmt.Sprintf("%.1f%%", math.Floor(max(percent, 0)*10)/10)
}

// The places of a line, from left to right.
const (
	placeKind = iota
	placeTable
	placePhase
	placeState
	placeMore
	placeBar
	placePercent
	placeCount
	placeBytes
	placeRate
	placeLeft
	places
)

const gap = 2 // columns between two places

// Colours of the terminal's own palette.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

// line is a line being composed.
type line struct {
	s     Style
	left  int // columns
	bar   int // columns reserved for the bar
	parts [places]string
	paint [places]string // colour of a part; "": none
	any   bool
}

// add puts a text in its place if there is room.
func (l *line) add(place int, text string) {
	need := ansi.StringWidth(text)
	if need == 0 {
		return
	}
	if l.any {
		need += gap
	}
	if need > l.left {
		if l.any || l.left <= 0 {
			return
		}
		text, need = l.s.cut(text, l.left), l.left
	}
	l.parts[place], l.any = text, true
	l.left -= need
}

// reserve keeps columns for the bar, if there is room.
func (l *line) reserve(columns int) {
	if l.left >= columns+gap {
		l.bar = columns
		l.left -= columns + gap
	}
}

// fill draws the bar in what was reserved and what is left.
func (l *line) fill(percent float64) {
	if l.bar == 0 {
		return
	}
	columns := min(l.bar+l.left, maxBar)
	full, empty := "█", "░"
	if l.s.ASCII {
		full, empty = "#", "-"
	}
	n := int(max(percent, 0) / 100 * float64(columns))
	l.parts[placeBar] = l.color(green, strings.Repeat(full, n)) + strings.Repeat(empty, columns-n)
}

func (l *line) color(code, text string) string {
	if !l.s.Color || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[m"
}

func (l *line) String() string {
	var b strings.Builder
	for place, text := range l.parts {
		if text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		b.WriteString(l.color(l.paint[place], text))
	}
	return b.String()
}
