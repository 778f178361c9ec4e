// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"math"
	"time"

	"github.com/extenddb/extenddb/server/progress"
)

const (
	paceWindow = 10 * time.Second // what the rate is the mean of
	paceStable = 5 * time.Second  // of steady work before the end is foretold
	paceLeast  = time.Second      // before there is a rate at all
)

// Pace is how fast one job goes. The zero value is ready; it takes the job's
// events in order. Phases differ in speed, so each is measured by itself.
type Pace struct {
	phase   string
	samples []sample // of the last paceWindow, and one older
}

type sample struct {
	at   time.Time
	done int64
}

// Add takes an event.
func (p *Pace) Add(e progress.Event) {
	if e.State != progress.Running || e.Phase != p.phase {
		p.phase, p.samples = e.Phase, nil
	}
	if e.State != progress.Running || len(p.samples) > 0 && !e.At.After(p.last().at) {
		return
	}
	p.samples = append(p.samples, sample{e.At, e.Done})
	for len(p.samples) > 2 && e.At.Sub(p.samples[1].at) >= paceWindow {
		p.samples = p.samples[1:]
	}
}

func (p *Pace) last() sample { return p.samples[len(p.samples)-1] }

// Rate is the work units per second; 0 while unknown.
func (p *Pace) Rate() float64 {
	if len(p.samples) < 2 || p.last().at.Sub(p.samples[0].at) < paceLeast {
		return 0
	}
	return rate(p.samples[0], p.last())
}

func rate(a, b sample) float64 { return float64(b.done-a.done) / b.at.Sub(a.at).Seconds() }

// Left is how long so many units take; ok is false unless the rate has been
// stable for 5 seconds: its two halves differ by less than a factor of two.
func (p *Pace) Left(units int64) (left time.Duration, ok bool) {
	if len(p.samples) < 3 {
		return 0, false
	}
	first, last := p.samples[0], p.last()
	span := last.at.Sub(first.at)
	if span < paceStable {
		return 0, false
	}
	middle := first
	for _, s := range p.samples {
		if s.at.Sub(first.at) <= span/2 {
			middle = s
		}
	}
	if middle == first { // nothing was heard for half the time
		return 0, false
	}
	early, late := rate(first, middle), rate(middle, last)
	if early <= 0 || late <= 0 || early > 2*late || late > 2*early {
		return 0, false
	}
	seconds := float64(units) / rate(first, last)
	if seconds > float64(maxLeft/time.Second) {
		return maxLeft, true
	}
	return time.Duration(math.Ceil(seconds)) * time.Second, true
}

// maxLeft is the longest time foretold; it is shown as 999d.
const maxLeft = 999 * 24 * time.Hour
