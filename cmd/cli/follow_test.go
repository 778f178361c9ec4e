// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestProgressForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how, quiet, output, want string
	}{
		{"auto", "false", "text", "lines"}, // a buffer is no terminal
		{"auto", "false", "json", "json"},
		{"auto", "true", "text", "none"},
		{"auto", "true", "json", "none"},
		{"lines", "false", "json", "lines"},
		{"json", "false", "text", "json"},
		{"none", "false", "text", "none"},
		{"lines", "true", "text", "none"},
		{"bar", "true", "text", "none"},
		{"bar", "false", "text", ""},
	} {
		a := &App{Stderr: &bytes.Buffer{}, output: c.output}
		got, err := a.progressForm(values{"output.progress": {Value: c.how}, "output.quiet": {Value: c.quiet}})
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestIsUTF8(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ []string
		want    bool
	}{
		{nil, false},
		{[]string{"LANG=C"}, false},
		{[]string{"LANG=de_DE.UTF-8"}, true},
		{[]string{"LANG=de_DE.UTF-8", "LC_ALL=C"}, false},
		{[]string{"LANG=C", "LC_CTYPE=en_US.utf8", "LC_ALL="}, true},
	} {
		if got := isUTF8(c.environ); got != c.want {
			t.Errorf("%q: %v", c.environ, got)
		}
	}
}

// TestProgressIsNoFlood: however small the interval, the lines of a moment can
// be read.
func TestProgressIsNoFlood(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 100)
	code, _, stderr := run(t.Context(), "backup", "create", "music", "--storage", w.db, "--store", w.store,
		"--progress", "lines", "--progress-interval", "1ns")
	if n := strings.Count(stderr, "\n"); code != exitOK || n > 500 {
		t.Errorf("exit code %d, %d lines:\n%.500s", code, n, stderr)
	}
}
