// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"math"
	"testing"
	"time"
)

func TestIEC(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 1<<20 - 1<<9: "1023.5 KiB",
		64 << 20: "64.0 MiB", 1 << 30: "1.0 GiB", math.MaxInt64: "8.0 EiB", -2048: "-2.0 KiB", math.MinInt64: "-8.0 EiB",
	} {
		if got := iec(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 499 * time.Millisecond: "0s", 59 * time.Second: "59s", 65 * time.Second: "1m05s",
		time.Hour - time.Millisecond: "1h00m", 26*time.Hour + 5*time.Minute: "26h05m",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// TestColumnsAreHarmless: what others wrote cannot steer a terminal.
func TestColumnsAreHarmless(t *testing.T) {
	t.Parallel()
	got := columns([][]string{{"A", "B"}, {"x\x1b[2Jy", "é\n\tz"}})
	want := "A       B\nx\uFFFD[2Jy  é\uFFFD\uFFFDz\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPlural(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 items", 1: "1 item", 1234567: "1,234,567 items"} {
		if got := plural(n, "item", "items"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
