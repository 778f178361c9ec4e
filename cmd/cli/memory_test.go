// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"testing"
)

// TestCollectorWhileRestoring: from the first restore to the end of the last.
func TestCollectorWhileRestoring(t *testing.T) {
	t.Parallel()
	var set []int
	c := &collector{set: func(percent int) { set = append(set, percent) }}
	for range 2 {
		first := c.restoring()
		second := c.restoring()
		first()
		first() // counts once
		third := c.restoring()
		second()
		if want := []int{restorePercent}; !slices.Equal(set, want) {
			t.Errorf("while one restores: %v, want %v", set, want)
		}
		third()
		if want := []int{restorePercent, servePercent}; !slices.Equal(set, want) {
			t.Errorf("at the end: %v, want %v", set, want)
		}
		set = nil
	}
}

// TestCollectorIsLeftToTheOperator who set GOGC.
func TestCollectorIsLeftToTheOperator(t *testing.T) {
	t.Parallel()
	a := &App{Environ: []string{"GOGC=77", "GOMEMLIMIT=9GiB"}}
	if a.tuneServer(1) != nil {
		t.Error("restores change it")
	}
	if !a.environ("GOMEMLIMIT") || a.environ("GOMEM") {
		t.Error("variables are mistaken")
	}
}
