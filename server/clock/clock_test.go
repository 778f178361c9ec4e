// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestRealTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := Real{}.Now()
		c, stop := Real{}.After(time.Hour)
		defer stop()
		if at := <-c; at.Sub(before) != time.Hour || (Real{}).Now().Sub(before) != time.Hour {
			t.Errorf("woke after %v", at.Sub(before))
		}
	})
}

func TestRealTimerStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, stop := Real{}.After(time.Minute)
		stop()
		stop() // harmless
		late, stopLate := Real{}.After(time.Hour)
		defer stopLate()
		select {
		case <-c:
			t.Error("a stopped timer fired")
		case <-late:
		}
	})
}

func TestFakeStandsStill(t *testing.T) {
	t.Parallel()
	start := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	f := NewFake(start)
	if !f.Now().Equal(start) {
		t.Errorf("stands at %v", f.Now())
	}
	f.Advance(time.Minute)
	if !f.Now().Equal(start.Add(time.Minute)) {
		t.Errorf("stands at %v", f.Now())
	}
}

func TestFakeFiresWhatIsDue(t *testing.T) {
	t.Parallel()
	f := NewFake(time.Unix(100, 0))
	soon, _ := f.After(time.Second)
	late, _ := f.After(time.Minute)
	stopped, stop := f.After(time.Second)
	stop()
	now, stopNow := f.After(0)
	stopNow()
	if at := <-now; at.Unix() != 100 {
		t.Errorf("fired at %v", at)
	}
	f.Advance(time.Second - 1)
	select {
	case <-soon:
		t.Error("fired too early")
	default:
	}
	f.Advance(1)
	if at := <-soon; at.Unix() != 101 {
		t.Errorf("fired at %v", at)
	}
	f.Advance(time.Hour)
	<-late
	select {
	case <-stopped:
		t.Error("a stopped timer fired")
	default:
	}
}

func TestFakeWaitTimers(t *testing.T) {
	t.Parallel()
	f := NewFake(time.Unix(0, 0))
	f.WaitTimers(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.WaitTimers(2)
	}()
	f.After(time.Second)
	select {
	case <-done:
		t.Fatal("one sleeper counted as two")
	default:
	}
	f.After(time.Second)
	<-done
}
