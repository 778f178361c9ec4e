// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/bench/load"
	"github.com/extenddb/extenddb/test/need"
)

// TestBackupPart makes a whole run of the part about backups that is too short
// to mean anything.
func TestBackupPart(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "needs /proc")
	}
	need.Tool(t, "gzip")
	o := short()
	if err := o.choose("backup", 700); err != nil { // more than a transaction of bare INSERTs
		t.Fatal(err)
	}
	o.dir, o.profile, o.repeats = t.TempDir(), t.TempDir(), 2
	r, err := bench(t.Context(), o, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cells) != 0 || len(r.Starts) != 0 {
		t.Errorf("more than backups was measured: %+v", r)
	}
	for i, table := range r.Backups.Tables {
		if table.Items != o.items[i] || table.Plain < int64(table.Items)*500 {
			t.Errorf("table %d: %d items, %d bytes", i, table.Items, table.Plain)
		}
		for _, name := range []string{jobGzip, jobBackup, jobBackupServing, jobBare, jobRestore, jobRestoreServing} {
			checkJob(t, table, name, o.repeats)
		}
	}
	checkWriters(t, r.Backups.Writers, o)
	for _, name := range []string{"backup.pprof", "restore.pprof"} {
		if info, err := os.Stat(filepath.Join(o.profile, name)); err != nil || info.Size() == 0 {
			t.Errorf("no %s: %v", name, err)
		}
	}
	if want := 2*(2+len(o.items)+1) + 1; len(r.Verdicts) != want {
		t.Errorf("%d targets are judged, not %d: %v", len(r.Verdicts), want, r.Verdicts)
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var text bytes.Buffer
	if err := r.write(&text, "markdown"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"| 700 | gzip -6 |", "| 60 | restore by a server |", "\n4 writers of a table of 700 items", "| 2 |"} {
		if !strings.Contains(text.String(), row) {
			t.Errorf("no %q in\n%s", row, text.String())
		}
	}
	if strings.Contains(text.String(), "empty handler") {
		t.Errorf("requests were not measured:\n%s", text.String())
	}
}

func checkJob(t *testing.T, table *BackupTable, name string, repeats int) {
	t.Helper()
	j := table.job(name)
	if j == nil || len(j.Samples) != repeats || j.Median() <= 0 {
		t.Errorf("%s of %d items was not measured: %+v", name, table.Items, j)
		return
	}
	_, compared := table.speed(name)
	m, watched := j.memory()
	if of := reference(name) != ""; compared != of || watched != of {
		t.Errorf("%s of %d items: compared %t, memory %t", name, table.Items, compared, watched)
	}
	if strings.HasSuffix(name, "server") && (m.Idle <= 0 || m.Peak < 0) {
		t.Errorf("%s of %d items: %+v", name, table.Items, m)
	}
}

func checkWriters(t *testing.T, w *Writers, o options) {
	t.Helper()
	if w.Items != o.items[len(o.items)-1] || w.Clients != backupWriters || len(w.Samples) != o.repeats {
		t.Errorf("writers: %+v", w)
	}
	for _, s := range w.Samples {
		if s.Backup <= 0 || slices.Min([]float64{s.Alone.Rate, s.Alone.P99, s.During.Rate, s.During.P99}) <= 0 {
			t.Errorf("writers: %+v", s)
		}
	}
}

func TestSyntheticItems(t *testing.T) {
	t.Parallel()
	source := newSynthetic()
	size, last := 0, ""
	const items = 1000
	for i := range items {
		text := source.item(nil, i)
		it, err := ddb.ParseItem(text)
		if err != nil {
			t.Fatalf("item %d: %v in %s", i, err, text)
		}
		if stored := ddb.AppendItem(nil, it); !bytes.Equal(stored, text) {
			t.Fatalf("item %d is stored as\n%s\nnot\n%s", i, stored, text)
		}
		key := it["customer"].Str() + it["order"].Str()
		if key <= last {
			t.Errorf("item %d has key %q, after %q", i, key, last)
		}
		last = key
		size += it.Size()
	}
	if mean := size / items; mean < 390 || mean > 410 {
		t.Errorf("items have %d bytes", mean)
	}
	if !bytes.Equal(source.item(nil, 7), newSynthetic().item(nil, 7)) {
		t.Error("an item is not the same each time")
	}
}

func TestStrideVisitsAll(t *testing.T) {
	t.Parallel()
	for _, items := range []int{1, 2, 60, 7919, 7920, 10_000, 7919 * 3} {
		seen, step := make([]bool, items), stride(items)
		for n := range items {
			seen[n*step%items] = true
		}
		if i := slices.Index(seen, false); i >= 0 {
			t.Errorf("item %d of %d is left out by steps of %d", i, items, step)
		}
	}
}

func TestSameLines(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lines")
	size, err := writeLines(file, 3)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || int64(len(text)) != size {
		t.Fatalf("%d bytes are said to be written, not %d: %v", size, len(text), err)
	}
	for _, c := range []struct{ name, text, fails string }{
		{"same", string(text), ""},
		{"one fewer", string(text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1]), "ends at line 3"},
		{"one more", string(text) + "x\n", "ends at line 4"},
		{"other", strings.Replace(string(text), "order-00000001", "order-10000001", 1), "line 2 of the backup"},
		{"nothing", "", "ends at line 1"},
	} {
		err := sameLines(strings.NewReader(c.text), file)
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		part      string
		items     int
		requested bool
		want      []int
		fails     string
	}{
		{"", 0, true, []int{10_000, 200_000}, ""},
		{"", 1_000_000, true, []int{10_000, 1_000_000}, ""},
		{"requests", 0, true, nil, ""},
		{"backup", 0, false, []int{10_000, 200_000}, ""},
		{"backup", 10_000, false, []int{10_000}, ""},
		{"backup", 500, false, []int{500}, ""},
		{"", 1_000_001, true, nil, "-items 1000001"},
		{"", -1, true, nil, "-items -1"},
		{"restore", 0, true, nil, "-only restore"},
	} {
		o := full()
		err := o.choose(c.part, c.items)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("-only %q -items %d: %v", c.part, c.items, err)
			}
		case err != nil || o.requested != c.requested || !slices.Equal(o.items, c.want):
			t.Errorf("-only %q -items %d: %t, %v, %v", c.part, c.items, o.requested, o.items, err)
		}
	}
}

// TestBackupVerdicts checks both sides of each limit.
func TestBackupVerdicts(t *testing.T) {
	t.Parallel()
	table := func(items int, backup, restore, backupMiB, restoreMiB float64) *BackupTable {
		job := func(name string, seconds float64, m *Memory) *Job {
			return &Job{Name: name, Samples: []JobSample{{seconds, m}, {seconds, m}}}
		}
		return &BackupTable{Items: items, Plain: 1000, Jobs: []*Job{
			job(jobGzip, 9, nil), job(jobBackup, 1, &Memory{}), job(jobBackupServing, backup, &Memory{Idle: 500, Peak: backupMiB}),
			job(jobBare, 5, nil), job(jobRestore, restore, &Memory{Peak: restoreMiB}), job(jobRestoreServing, 1, &Memory{Idle: 500}),
		}}
	}
	writers := func(p99 float64) *Writers {
		return &Writers{Samples: []WriterSample{{Alone: Waits{P99: 2}, During: Waits{P99: p99}}}}
	}
	const few, million = 10_000, 1_000_000
	for _, c := range []struct {
		name string
		b    *Backups
		want string
	}{
		{"nothing", nil, ""},
		{"at the limits", &Backups{[]*BackupTable{table(few, 10, 10, 64, 128), table(million, 10, 10, 64, 128)}, writers(6)},
			"pass pass pass pass pass pass pass pass pass"},
		{"slow", &Backups{[]*BackupTable{table(few, 10, 10, 64, 128), table(million, 10.1, 10.1, 64, 128)}, writers(6)},
			"pass fail pass pass fail pass pass pass pass"},
		{"slow with few items, which is not judged", &Backups{[]*BackupTable{table(few, 90, 90, 64, 128), table(million, 10, 10, 64, 128)}, writers(6)},
			"pass pass pass pass pass pass pass pass pass"},
		{"much memory with many", &Backups{[]*BackupTable{table(few, 10, 10, 64, 128), table(million, 10, 10, 64.1, 128.1)}, writers(6)},
			"pass pass pass fail pass pass pass fail pass"},
		{"much memory with few", &Backups{[]*BackupTable{table(few, 10, 10, 64.1, 128.1), table(million, 10, 10, 64, 128)}, writers(6)},
			"pass pass fail pass pass pass fail pass pass"},
		{"slow writers", &Backups{[]*BackupTable{table(million, 10, 10, 64, 128)}, writers(6.1)},
			"pass pass pass pass pass pass fail"},
		{"fewer than a million", &Backups{[]*BackupTable{table(few, 10, 10, 64, 128)}, nil},
			"pass pass pass not pass pass pass not"},
		{"not measured", &Backups{[]*BackupTable{{Items: million}}, nil}, "not not"},
	} {
		var got []string
		for _, v := range backupVerdicts(c.b) {
			word, _, _ := strings.Cut(v.Result, " ")
			got = append(got, word)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s\nwant: %s", c.name, text, c.want)
		}
	}
}

// TestGrowthIsOfEachRepeat: what is compared was measured side by side.
func TestGrowthIsOfEachRepeat(t *testing.T) {
	t.Parallel()
	w := &Writers{}
	for _, s := range [][2]float64{{1, 2}, {10, 50}, {100, 300}} {
		w.Samples = append(w.Samples, WriterSample{Alone: Waits{P99: s[0]}, During: Waits{P99: s[1]}})
	}
	if got := w.growth(); got != 3 {
		t.Errorf("growth %v, not 3", got)
	}
	table := &BackupTable{Jobs: []*Job{
		{jobGzip, []JobSample{{Seconds: 1}, {Seconds: 10}, {Seconds: 100}}}, {jobBackup, []JobSample{{Seconds: 1}, {Seconds: 5}, {Seconds: 200}}},
		{jobBare, []JobSample{{Seconds: 1}}},
	}}
	if got, ok := table.speed(jobBackup); got != 1 || !ok {
		t.Errorf("speed %v, %t, not 1", got, ok)
	}
	if _, ok := table.speed(jobRestore); ok {
		t.Error("what was not measured has a speed")
	}
}

func TestWaitsOf(t *testing.T) {
	t.Parallel()
	var r load.Result
	for i := range 1000 {
		r.Latencies = append(r.Latencies, time.Duration(i)*time.Millisecond)
	}
	r.Elapsed = 2 * time.Second
	if got, want := waitsOf(r), (Waits{Rate: 500, P50: 500, P99: 990, Max: 999}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// TestMemoryWatch looks at this process while it grows.
func TestMemoryWatch(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "needs /proc")
	}
	w := watchMemory(os.Getpid())
	const grown = 64 << 20
	block := make([]byte, grown)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	<-time.After(3 * memoryEvery) // what is watched for
	m, err := w.end()
	runtime.KeepAlive(block)
	if err != nil || m.Idle <= 0 || m.Peak < grown>>20/2 {
		t.Errorf("memory of a process that grows by 64 MiB: %+v, %v", m, err)
	}
	none := watchMemory(-1)
	if _, err := none.end(); err == nil {
		t.Error("the memory of no process is known")
	}
}

func TestAwaitIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		used, busy := time.Duration(0), 5
		err := awaitIdle(t.Context(), func() (time.Duration, error) {
			if busy--; busy > 0 {
				used += time.Millisecond
			}
			return used, nil
		})
		if took := time.Since(begin); err != nil || took != (3+quietLooks)*quietEvery {
			t.Errorf("a server that is busy for 3 spans is idle after %v, %v", took, err)
		}
		err = awaitIdle(t.Context(), func() (time.Duration, error) { used += time.Second; return used, nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a server that is never idle: %v", err)
		}
		if err := awaitIdle(t.Context(), func() (time.Duration, error) { return 0, os.ErrNotExist }); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a server that has ended: %v", err)
		}
	})
}

func TestBackupRigReportsFailures(t *testing.T) {
	t.Parallel()
	b := &backupRig{bin: "/bin/false", dir: t.TempDir(), table: BackupTable{Items: 1}}
	if _, err := b.backup(t.Context(), nil, "store"); err == nil || !strings.Contains(err.Error(), "extenddb store init") {
		t.Errorf("a command that fails: %v", err)
	}
	b.bin = filepath.Join(b.dir, "none")
	if _, err := b.restore(t.Context(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a binary that is not there: %v", err)
	}
	for _, c := range []struct{ prints, fails string }{
		{`{"backups":[]}`, "not whole"}, {`{"backups":[{"items":0}]}`, "not whole"}, {`backed up`, "result of extenddb backup"},
	} {
		b.bin = script(t, c.prints)
		if _, err := b.backup(t.Context(), nil, "store"); err == nil || !strings.Contains(err.Error(), c.fails) {
			t.Errorf("a backup that prints %s: %v", c.prints, err)
		}
	}
	b.bin = script(t, `{"items":0}`)
	if _, err := b.restore(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "0 items are restored instead of 1") {
		t.Errorf("a restore of too few items: %v", err)
	}
}

// script is a program that prints the text, whatever it is asked.
func script(t *testing.T, text string) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		need.Missing(t, "sh", "no shell")
	}
	file := filepath.Join(t.TempDir(), "extenddb")
	if err := os.WriteFile(file, fmt.Appendf(nil, "#!/bin/sh\necho '%s'\n", text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestBareInsertsTheRows compares the reference with what is stored otherwise.
func TestBareInsertsTheRows(t *testing.T) {
	t.Parallel()
	const items = 3*bareRows/2 + 1
	bare, stored := filepath.Join(t.TempDir(), "bare.db"), filepath.Join(t.TempDir(), "stored.db")
	if took, err := insertBare(t.Context(), bare, items); err != nil || took <= 0 {
		t.Fatalf("%v, %v", took, err)
	}
	if err := fillSynthetic(t.Context(), stored, items); err != nil {
		t.Fatal(err)
	}
	got, want := everything(t, bare), everything(t, stored)
	if len(want) != 4*items {
		t.Fatalf("%d rows and entries of %d items", len(want), items)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d rows and entries are not the %d that are stored otherwise", len(got), len(want))
	}
}

// everything reads a table and its indexes.
func everything(t *testing.T, file string) (all []string) {
	t.Helper()
	l, err := openLocal(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer l.db.Close()
	table, err := l.db.Table(t.Context(), auth.DefaultAccount, syntheticTable)
	if err != nil {
		t.Fatal(err)
	}
	for _, ix := range append([]*storage.Index{{}}, table.Indexes...) {
		for row, err := range l.db.Range(t.Context(), table, storage.Range{Index: ix.ID, Want: storage.Items}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprintf("%s %x %x %d %s", ix.Name, row.Key.PK, row.Key.SK, row.Size, row.Item))
		}
	}
	return all
}
