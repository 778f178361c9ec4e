// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/test/proc"
)

const (
	bombPlain  = 10 << 30
	bombBlock  = 64 << 20 // one gzip member
	bombMemory = 128 << 20
	bombTime   = 2 * time.Minute
)

// bomb writes a backup whose one data file expands to 10 GiB of the line, in
// which everything that is sealed is right.
func (m *machine) bomb(t *testing.T, line []byte) format.Ref {
	t.Helper()
	ref := newRef(t, table)
	per := bombBlock / len(line)
	var member bytes.Buffer
	w, err := gzip.NewWriterLevel(&member, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(bytes.Repeat(line, per)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	members := bombPlain / (per * len(line))
	f := m.create(t, ref, format.DataFileKey(1))
	for range members {
		if _, err := f.Write(member.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	items := int64(1)
	if bytes.HasSuffix(line, []byte("\n")) {
		items = int64(per) * int64(members)
	}
	file := describe(t, f.Name(), format.DataFileKey(1), items, int64(members)*int64(per)*int64(len(line)))
	m.seal(t, ref, []written{file}, 100*items)
	t.Logf("%d KiB hold %d MiB, %d lines", file.Bytes>>10, file.plain>>20, items)
	return ref
}

// defused fails unless a command refuses a bomb in little memory and time.
func (m *machine) defused(t *testing.T, code int, idle int64, text string, args ...string) {
	t.Helper()
	c := m.start(t, nil, args...)
	stop := watchMemory(c.cmd.Process.Pid)
	if !c.endsWithin(bombTime) {
		t.Errorf("it goes on after %v", bombTime)
		_ = c.cmd.Process.Kill()
	}
	<-c.over
	used := stop()
	if c.end() != code {
		t.Errorf("expected exit %d: %v", code, c)
	}
	says(t, c, format.DataFileKey(1), text)
	if used.resident > idle+bombMemory {
		t.Errorf("%d MiB were resident, idle %d MiB: %v", used.resident>>20, idle>>20, c)
	}
	t.Logf("%v ended after %v with at most %d MiB resident, idle %d MiB", args[:2], c.took, used.resident>>20, idle>>20)
}

// TestBombs: what expands to 10 GiB is refused, in little memory and time.
func TestBombs(t *testing.T) {
	m, ref, db := target(t, proc.SQLite(), 10)
	idle := int64(0)
	for _, args := range [][]string{m.restore(m.path("idle.db"), ref.ID, restored), {"backup", "verify", ref.ID, "--store", m.url()}} {
		_, used := m.measured(t, args...)
		idle = max(idle, used.resident)
	}
	item := append(append([]byte(`{"Item":`), itemAt(nil, 0)...), "}\n"...)
	for name, b := range map[string]struct {
		line   []byte
		text   string
		config string
	}{
		"zeros":       {line: []byte{0}, text: "refusing to decompress further"},
		"same items":  {line: item, text: "key"},
		"blank lines": {line: []byte("\n"), text: "blank line"},
		// A verification reads on after findings, up to a limit that leaves
		// room for many such lines.
		"short lines": {line: []byte("{}\n"), text: "line 1", config: "[backup]\nmax_data_file_uncompressed_bytes = \"64MiB\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			m := *m
			m.store = filepath.Join(t.TempDir(), "store")
			m.configure(t, b.config)
			m.ok(t, "store", "init", m.url())
			ref := m.bomb(t, b.line)
			m.defused(t, 1, idle, b.text, m.restore(db, ref.ID, restored)...)
			m.defused(t, 3, idle, b.text, "backup", "verify", ref.ID, "--store", m.url(), "--output", "json")
		})
	}
	if got := tablesOf(t, db); !slices.Equal(got, []string{table}) {
		t.Errorf("tables %v", got)
	}
	checkFile(t, db)
}
