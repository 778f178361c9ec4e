// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package tui

import (
	"io"
	"strings"
	"testing"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"

	"github.com/extenddb/extenddb/server/progress"
)

// TestOnATerminal uses a real one: its width counts, and its modes stay.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	far, near, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(near, &pty.Winsize{Rows: 10, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(near.Fd())
	if err != nil {
		t.Fatal(err)
	}
	out, read := newScreen(), make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(out, far) // ends with an error when the other side is closed
	}()
	events, result := make(chan progress.Event), make(chan error, 1)
	go func() { result <- RunBar(t.Context(), near, events, BarOptions{Environ: xterm}) }()
	events <- running("a", 10)
	out.wait(t, "10.0%")
	events <- ended("a", progress.Done)
	close(events)
	if err := <-result; err != nil {
		t.Error(err)
	}
	after, err := term.GetState(near.Fd())
	if err != nil || *before != *after {
		t.Errorf("the modes were %+v and are %+v, %v", before, after, err)
	}
	if _, err := io.WriteString(near, "prompt$ "); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "prompt$ ")
	near.Close()
	<-read
	far.Close()
	text := out.String()
	tidy(t, text)
	if strings.Contains(text, strings.Repeat("░", 12)) || !strings.Contains(text, "backup  table-a  ") {
		t.Errorf("not made for 40 columns: %q", text)
	}
	end := text[strings.LastIndex(text, "done"):]
	if !strings.Contains(end[:strings.Index(end, "prompt$ ")], "\n") {
		t.Errorf("the prompt is in the last line of the bar: %q", end)
	}
}
