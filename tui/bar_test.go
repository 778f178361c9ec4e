// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/extenddb/extenddb/server/progress"
)

var update = flag.Bool("update", false, "write testdata/bars.golden anew")

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// steady is the pace of a job that has done so many units a second for 8 s.
func steady(phase string, perSecond int64) *Pace {
	p := new(Pace)
	for i := range int64(9) {
		p.Add(progress.Event{State: progress.Running, Phase: phase, Done: i * perSecond, At: start.Add(time.Duration(i) * time.Second)})
	}
	return p
}

// scene is a job as it may be seen.
type scene struct {
	name string
	e    progress.Event
	pace *Pace
}

func scenes() []scene {
	long := strings.Repeat("a-very-long-name.", 15)
	at := start.Add(65 * time.Second)
	return []scene{
		{"backup", progress.Event{Kind: progress.Backup, State: progress.Running, Table: "orders", Phase: "data", Done: 1_224_000, Total: new(int64(2_100_000)), Bytes: 43 << 20, Started: start, At: at}, steady("data", 22_000)},
		{"restore", progress.Event{Kind: progress.Restore, State: progress.Running, Table: "orders-copy", Phase: "verify", Done: 512, Total: new(int64(6_300_000)), Started: start, At: at}, steady("verify", 64)},
		{"beginning", progress.Event{Kind: progress.Backup, State: progress.Running, Table: "orders", Phase: "snapshot", Total: new(int64(900)), Started: start, At: start}, nil},
		{"nearly", progress.Event{Kind: progress.Restore, State: progress.Running, Table: "orders", Phase: "index", Done: 999_999, Total: new(int64(1_000_000)), Started: start, At: at}, steady("index", 100)},
		{"all but done", progress.Event{Kind: progress.Backup, State: progress.Running, Table: "orders", Phase: "manifest", Done: 900, Total: new(int64(900)), Started: start, At: at}, nil},
		{"no total", progress.Event{Kind: progress.Backup, State: progress.Running, Table: "orders", Phase: "data", Done: 1_224_000, Items: 1_224_000, Bytes: 43 << 20, Started: start, At: at}, steady("data", 22_000)},
		{"empty", progress.Event{Kind: progress.Restore, State: progress.Running, Table: "orders", Phase: "load", Total: new(int64(0)), Started: start, At: at}, nil},
		{"long name", progress.Event{Kind: progress.Backup, State: progress.Running, Table: long, Phase: "data", Done: 7, Total: new(int64(50)), Started: start, At: at}, nil},
		{"waiting", progress.Event{Kind: progress.Backup, State: progress.Waiting, Table: "orders", WaitingFor: "a job slot (2 of 2 used)", Started: start, At: at}, nil},
		{"done", progress.Event{Kind: progress.Backup, State: progress.Done, Table: "orders", Done: 5, Total: new(int64(5)), Started: start, At: at}, nil},
		{"failed", progress.Event{Kind: progress.Restore, State: progress.Failed, Table: "orders", Error: "write data/000001.json.gz:\n\x1b[2Jno space left on device", Started: start, At: at}, nil},
		{"cancelled", progress.Event{Kind: progress.Backup, State: progress.Cancelled, Table: "orders", Done: 172, Total: new(int64(1000)), Started: start, At: at}, nil},
		{"nothing", progress.Event{}, nil},
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, sc := range scenes() {
		for _, ascii := range []bool{false, true} {
			fmt.Fprintf(&b, "== %s%s\n", sc.name, map[bool]string{true: ", ASCII"}[ascii])
			for _, width := range []int{20, 40, 60, 80, 120, 200} {
				fmt.Fprintf(&b, "%3d |%s\n", width, Bar(sc.e, sc.pace, Style{Width: width, ASCII: ascii}))
			}
		}
	}
	golden := filepath.Join("testdata", "bars.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	if len(got) != len(wanted) {
		t.Fatalf("there are %d lines, want %d; see -update", len(got), len(wanted))
	}
	for i := range got {
		if got[i] != wanted[i] {
			t.Errorf("line %d is\n%s\nwant\n%s", i+1, got[i], wanted[i])
		}
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	for _, sc := range scenes() {
		for _, width := range []int{5, 30, 80} {
			plain := Bar(sc.e, sc.pace, Style{Width: width})
			colored := Bar(sc.e, sc.pace, Style{Width: width, Color: true})
			if strings.Contains(plain, "\x1b") || ansi.Strip(colored) != plain {
				t.Errorf("%s at %d: %q in colour, %q without", sc.name, width, colored, plain)
			}
		}
	}
	for state, code := range map[progress.State]string{progress.Waiting: yellow, progress.Done: green, progress.Failed: red, progress.Cancelled: yellow} {
		if line := Bar(progress.Event{State: state}, nil, Style{Width: 80, Color: true}); !strings.Contains(line, "\x1b["+code+"m"+string(state)+"\x1b[m") {
			t.Errorf("%s is shown as %q", state, line)
		}
	}
}

// TestBarFits tries everything that an event may hold, at all widths.
func TestBarFits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	numbers := []int64{-1, 0, 1, 999, 1000, 123_456, 999_999, math.MaxInt64}
	texts := []string{"", "x", "orders", strings.Repeat("long", 100), "日本語のテーブル", "a\nb\x1b[31m\u202e", "\xff\xfe", "é👩‍👩‍👧"}
	pick := func() int64 { return numbers[r.IntN(len(numbers))] }
	text := func() string { return texts[r.IntN(len(texts))] }
	states := []progress.State{"", "odd", progress.Waiting, progress.Running, progress.Running, progress.Running, progress.Done, progress.Failed, progress.Cancelled}
	for range 3000 {
		e := progress.Event{
			Kind: progress.Kind(text()), State: states[r.IntN(len(states))], Table: text(), Phase: text(), WaitingFor: text(),
			Error: text(), Done: pick(), Items: pick(), Bytes: pick(), Started: start, At: start.Add(time.Duration(pick())),
		}
		if r.IntN(3) > 0 {
			e.Total = new(pick())
		}
		p := new(Pace)
		for i := range r.IntN(20) {
			p.Add(progress.Event{State: progress.Running, Phase: e.Phase, Done: pick(), At: start.Add(time.Duration(i) * time.Second)})
		}
		s := Style{Width: r.IntN(301), ASCII: r.IntN(2) == 0, Color: r.IntN(2) == 0}
		line := Bar(e, p, s)
		plain := ansi.Strip(line)
		if w := ansi.StringWidth(line); w > s.Width {
			t.Fatalf("%d columns for a width of %d: %q of %+v", w, s.Width, line, e)
		}
		for _, c := range plain {
			if unicode.IsControl(c) || s.ASCII && c > unicode.MaxASCII {
				t.Fatalf("%q holds %q", line, c)
			}
		}
		if strings.Contains(plain, "100.0%") {
			t.Fatalf("%q is not done", line)
		}
	}
	for width := -1; width <= 300; width++ {
		for _, sc := range scenes() {
			if w := ansi.StringWidth(Bar(sc.e, sc.pace, Style{Width: width})); w > max(width, 0) {
				t.Errorf("%s: %d columns for a width of %d", sc.name, w, width)
			}
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	type ev struct {
		at   float64 // seconds
		done int64
		more progress.Event // Phase, State
	}
	run := func(from, to, per int64) (evs []ev) {
		for i := from; i <= to; i++ {
			evs = append(evs, ev{at: float64(i), done: i * per})
		}
		return evs
	}
	for _, c := range []struct {
		name string
		evs  []ev
		rate float64
		left time.Duration // of 1000 units
		ok   bool
	}{
		{name: "nothing"},
		{name: "one", evs: run(0, 0, 10)},
		{name: "too short for a rate", evs: []ev{{at: 0}, {at: 0.9, done: 100}}},
		{name: "too short to foretell", evs: run(0, 4, 10), rate: 10},
		{name: "stable", evs: run(0, 5, 10), rate: 10, left: 100 * time.Second, ok: true},
		{name: "the last ten seconds", evs: append(run(0, 10, 1), run(11, 30, 100)...), rate: 100, left: 10 * time.Second, ok: true},
		{name: "unstable", evs: append(run(0, 4, 1), run(5, 8, 100)...), rate: 100},
		{name: "stuck", evs: append(run(0, 4, 10), ev{at: 9, done: 40}), rate: 40. / 9},
		{name: "silent at first", evs: []ev{{at: 0}, {at: 5, done: 10}, {at: 6, done: 20}}, rate: 20. / 6},
		{name: "two events", evs: []ev{{at: 0}, {at: 6, done: 60}}, rate: 10},
		{name: "no work", evs: run(0, 8, 0)},
		{name: "out of order", evs: append(run(0, 5, 10), ev{at: 3, done: 10}, ev{at: 5, done: 70}), rate: 10, left: 100 * time.Second, ok: true},
		{name: "another phase", evs: append(run(0, 8, 10), ev{at: 9, done: 90, more: progress.Event{Phase: "load"}})},
		{name: "waits", evs: append(run(0, 8, 10), ev{at: 9, done: 90, more: progress.Event{State: progress.Waiting}})},
		{name: "news too rare", evs: []ev{{at: 0}, {at: 1e7, done: 1}, {at: 2e7, done: 2}}, rate: 1e-7},
	} {
		p := new(Pace)
		for _, v := range c.evs {
			e := v.more
			if e.State == "" {
				e.State = progress.Running
			}
			e.Done, e.At = v.done, start.Add(time.Duration(v.at*float64(time.Second)))
			p.Add(e)
		}
		left, ok := p.Left(1000)
		if got := p.Rate(); math.Abs(got-c.rate) > 1e-9 || left != c.left || ok != c.ok {
			t.Errorf("%s: %v a second, %v left, %v; want %v, %v, %v", c.name, got, left, ok, c.rate, c.left, c.ok)
		}
		if len(p.samples) > 100 {
			t.Errorf("%s: %d samples are kept", c.name, len(p.samples))
		}
	}
}

func TestFarEnd(t *testing.T) {
	t.Parallel()
	if left, ok := steady("data", 1).Left(math.MaxInt64); left != maxLeft || !ok || lasting(left) != "999d" {
		t.Errorf("got %v, %v", left, ok)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		-5: "0", 0: "0", 999: "999", 1000: "1.0k", 1999: "1.9k", 9999: "9.9k", 10_000: "10k", 22_400: "22k", 999_999: "999k",
		1_200_000: "1.2M", 2_199_999: "2.1M", 3_000_000_000: "3.0G", math.MaxInt64: "9.2E",
	} {
		if got := short(n); got != want {
			t.Errorf("short(%d) is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1535: "1.4 KiB", 1 << 20: "1.0 MiB", 43<<20 + 1<<19: "43.5 MiB", math.MaxInt64: "7.9 EiB",
	} {
		if got := iec(n); got != want {
			t.Errorf("iec(%d) is %s, want %s", n, got, want)
		}
	}
	for seconds, want := range map[int64]string{
		-1: "0s", 0: "0s", 41: "41s", 59: "59s", 60: "1m00s", 65: "1m05s", 3599: "59m59s", 3600: "1h00m", 11_045: "3h04m",
		86_399: "23h59m", 86_400: "1d00h", 183_600: "2d03h", 100 * 86_400: "100d",
	} {
		if got := lasting(time.Duration(seconds) * time.Second); got != want {
			t.Errorf("%d s are %s, want %s", seconds, got, want)
		}
	}
}
