// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

func text(e Event) string {
	total := "?"
	if e.Total != nil {
		total = fmt.Sprint(*e.Total)
	}
	s := fmt.Sprintf("%s %s %d/%s %d items %d bytes", e.State, e.Phase, e.Done, total, e.Items, e.Bytes)
	for _, more := range []string{e.WaitingFor, e.Backup, e.Error} {
		if more != "" {
			s += ", " + more
		}
	}
	return s
}

// trace is a sink that tests read.
type trace struct {
	t    *testing.T
	seen []string
	last Event
}

func (tr *trace) sink(e Event) {
	tr.seen = append(tr.seen, text(e))
	tr.last = e
}

func (tr *trace) want(events ...string) {
	tr.t.Helper()
	if !slices.Equal(tr.seen, events) {
		tr.t.Errorf("published %q, want %q", tr.seen, events)
	}
	tr.seen = nil
}

func TestMeter(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(start)
	tr := &trace{t: t}
	m := NewMeter(c, tr.sink, Event{Job: "j", Kind: Backup, Table: "films"}, 100*time.Millisecond)
	tr.want()
	m.Wait("a slot")
	m.Wait("")
	m.SetTotal(10)
	m.SetBackup("arn")
	m.Phase("data")
	tr.want("waiting  0/? 0 items 0 bytes, a slot", "running  0/? 0 items 0 bytes", "running  0/10 0 items 0 bytes",
		"running  0/10 0 items 0 bytes, arn", "running data 0/10 0 items 0 bytes, arn")

	m.Add(1, 1, 7) // too soon
	c.Advance(100*time.Millisecond - 1)
	m.Add(1, 1, 7)
	tr.want()
	c.Advance(1)
	m.Add(1, 1, 7)
	m.Add(-5, -5, -5)
	tr.want("running data 3/10 3 items 21 bytes, arn")
	c.Advance(time.Second)
	m.Add(20, 1, 0) // beyond the total
	tr.want("running data 10/10 4 items 21 bytes, arn")
	first := tr.last

	m.Wait("nothing in particular")
	m.Phase("manifest") // ends the wait, and counts its own
	m.SetTotal(5)       // never below what is done
	m.SetTotal(-1)
	tr.want("waiting data 10/10 4 items 21 bytes, nothing in particular, arn", "running manifest 10/10 0 items 0 bytes, arn",
		"running manifest 10/10 0 items 0 bytes, arn", "running manifest 23/? 0 items 0 bytes, arn")
	m.Finish(Done, nil)
	tr.want("done manifest 23/23 0 items 0 bytes, arn")
	if e := tr.last; e.Job != "j" || e.Kind != Backup || e.Table != "films" || !e.Started.Equal(start) || !e.At.Equal(c.Now()) {
		t.Errorf("the last event is %+v", e)
	}
	if *first.Total != 10 {
		t.Errorf("a published total became %d", *first.Total)
	}

	c.Advance(time.Hour)
	m.Add(1, 1, 1)
	m.Phase("later")
	m.Finish(Failed, errors.New("late"))
	tr.want()
}

func TestMeterEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state State
		err   error
		want  string
	}{
		{Done, nil, "done data 4/4 4 items 0 bytes"}, // 10 was an estimate
		{Failed, errors.New("disk full"), "failed data 4/10 4 items 0 bytes, disk full"},
		{Cancelled, errors.New("stopped"), "cancelled data 4/10 4 items 0 bytes, stopped"},
		{Running, nil, "failed data 4/10 4 items 0 bytes"},
	} {
		tr := &trace{t: t}
		m := NewMeter(clock.NewFake(start), tr.sink, Event{}, time.Hour)
		m.SetTotal(10)
		m.Phase("data")
		m.Add(4, 4, 0)
		m.Finish(c.state, c.err)
		if got := text(tr.last); got != c.want {
			t.Errorf("the end is %q, want %q", got, c.want)
		}
	}
}

func TestMeterKeepsItsBase(t *testing.T) {
	t.Parallel()
	tr := &trace{t: t}
	before := start.Add(-time.Hour)
	NewMeter(clock.NewFake(start), tr.sink, Event{State: Waiting, Started: before}, 0).SetBackup("arn")
	if tr.last.State != Waiting || !tr.last.Started.Equal(before) {
		t.Errorf("got %+v", tr.last)
	}
	NewMeter(clock.NewFake(start), nil, Event{}, 0).Add(1, 1, 1) // nobody listens
}

func TestMeterConcurrently(t *testing.T) {
	t.Parallel()
	const workers, steps = 8, 2000
	c := clock.NewFake(start)
	var last Event // the meter's lock guards it
	m := NewMeter(c, func(e Event) {
		if e.Done < last.Done || e.Total != nil && e.Done > *e.Total || e.At.Before(last.At) {
			t.Errorf("%s at %v after %s at %v", text(e), e.At, text(last), last.At)
		}
		last = e
	}, Event{}, time.Millisecond)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range steps {
				m.Add(1, 1, 2)
				c.Advance(100 * time.Microsecond)
				if i%500 == 0 {
					m.SetTotal(int64(w * i))
				}
			}
		})
	}
	wg.Wait()
	m.Finish(Done, nil)
	if got, want := text(last), fmt.Sprintf("done  %d/%[1]d %[1]d items %d bytes", workers*steps, 2*workers*steps); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e  Event
		is float64
		ok bool
	}{
		{Event{State: Running, Done: 5}, 0, false},
		{Event{State: Running, Total: new(int64(0))}, 0, true},
		{Event{State: Running, Done: 1, Total: new(int64(8))}, 12.5, true},
		{Event{State: Running, Done: 8, Total: new(int64(8))}, 99.9, true},
		{Event{State: Failed, Done: 8, Total: new(int64(8))}, 99.9, true},
		{Event{State: Done}, 100, true},
	} {
		if is, ok := c.e.Percent(); is != c.is || ok != c.ok {
			t.Errorf("%s is at %v, %v, want %v, %v", text(c.e), is, ok, c.is, c.ok)
		}
	}
}

func BenchmarkMeterAdd(b *testing.B) {
	m := NewMeter(clock.Real{}, Nothing, Event{}, 100*time.Millisecond)
	b.ReportAllocs()
	for b.Loop() {
		m.Add(1, 1, 400)
	}
}
