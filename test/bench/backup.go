// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/extenddb/extenddb/test/proc"
)

// What is measured with a table: two references, and what is compared with
// each, once as a command that opens the database itself and once as a job of
// a server that has it open.
const (
	jobGzip           = "gzip -6"
	jobBackup         = "backup"
	jobBackupServing  = "backup by a server"
	jobBare           = "bare INSERT"
	jobRestore        = "restore"
	jobRestoreServing = "restore by a server"
)

// reference returns what a job is compared with; "" for a reference.
func reference(job string) string {
	switch job {
	case jobBackup, jobBackupServing:
		return jobGzip
	case jobRestore, jobRestoreServing:
		return jobBare
	}
	return ""
}

// JobSample is one run of a job.
type JobSample struct {
	Seconds float64 `json:"seconds"`
	Memory  *Memory `json:"memory,omitempty"` // of the process that does the work; not of references, nor of one that ended at once
}

// Job is what was measured of a job, one sample a repeat.
type Job struct {
	Name    string      `json:"name"`
	Samples []JobSample `json:"samples"`
}

// Median is the median of the seconds.
func (j *Job) Median() float64 {
	var v []float64
	for _, s := range j.Samples {
		v = append(v, s.Seconds)
	}
	return median(v)
}

// memory is the most that any run held: idle, and more than that.
func (j *Job) memory() (m Memory, ok bool) {
	for _, s := range j.Samples {
		if s.Memory != nil {
			m, ok = Memory{Idle: max(m.Idle, s.Memory.Idle), Peak: max(m.Peak, s.Memory.Peak)}, true
		}
	}
	return m, ok
}

// BackupTable is what was measured with a table of so many items.
type BackupTable struct {
	Items int    `json:"items"`
	Plain int64  `json:"plain_bytes"` // of its lines
	Jobs  []*Job `json:"jobs"`
}

// job returns a job; nil when it was not measured.
func (t *BackupTable) job(name string) *Job {
	for _, j := range t.Jobs {
		if j.Name == name {
			return j
		}
	}
	return nil
}

// speed is the median over the repeats of how fast a job is, as a share of its
// reference. ok is false when one of them was not measured.
func (t *BackupTable) speed(name string) (m float64, ok bool) {
	j, ref := t.job(name), t.job(reference(name))
	if j == nil || ref == nil || len(j.Samples) != len(ref.Samples) {
		return 0, false
	}
	var v []float64
	for i := range j.Samples {
		v = append(v, ref.Samples[i].Seconds/j.Samples[i].Seconds)
	}
	return median(v), len(v) > 0
}

// Backups are the results of the part about backups.
type Backups struct {
	Tables  []*BackupTable `json:"tables"`  // by size
	Writers *Writers       `json:"writers"` // of the largest
}

// backups measures backups and restores.
func (r *Report) backups(ctx context.Context, o options, bin, dir string, progress func(string, ...any)) error {
	if _, err := exec.LookPath("gzip"); err != nil {
		return fmt.Errorf("backups are compared with gzip: %w", err)
	}
	r.Backups = &Backups{}
	for i, items := range o.items {
		b := &backupRig{bin: bin, dir: filepath.Join(dir, fmt.Sprintf("backups-%d", i)), table: BackupTable{Items: items}}
		if err := b.prepare(ctx); err != nil {
			return fmt.Errorf("make a table of %d items: %w", items, err)
		}
		progress("made a table of %d items, %d bytes of lines", items, b.table.Plain)
		for repeat := range o.repeats {
			if err := b.measure(ctx); err != nil {
				return fmt.Errorf("%d items: %w", items, err)
			}
			progress("repeat %d of %d: backups and restores of %d items", repeat+1, o.repeats, items)
		}
		r.Backups.Tables = append(r.Backups.Tables, &b.table)
		if i == len(o.items)-1 {
			if err := r.largest(ctx, o, b); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(b.dir); err != nil {
			return err
		}
	}
	return nil
}

// largest measures what is measured with the largest table only. It leaves the
// table changed.
func (r *Report) largest(ctx context.Context, o options, b *backupRig) (err error) {
	if o.profile != "" {
		if err := b.profile(ctx, o.profile); err != nil {
			return fmt.Errorf("profile backup and restore: %w", err)
		}
	}
	if r.Backups.Writers, err = b.measureWriters(ctx, o); err != nil {
		return fmt.Errorf("writers during a backup: %w", err)
	}
	return nil
}

// backupRig is a database with the table, its lines, and whatever a job needs.
type backupRig struct {
	bin, dir string
	table    BackupTable
}

func (b *backupRig) path(name string) string { return filepath.Join(b.dir, name) }

func (b *backupRig) prepare(ctx context.Context) (err error) {
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return err
	}
	if b.table.Plain, err = writeLines(b.path("lines"), b.table.Items); err != nil {
		return err
	}
	if err := fillSynthetic(ctx, b.path("source.db"), b.table.Items); err != nil {
		return err
	}
	srv, err := startIdle(ctx, b.bin, b.path("source.db")) // which counts the table, once
	if err != nil {
		return err
	}
	return srv.Stop()
}

// measure runs every job once. Each starts with nothing left to be written to
// the disk by the one before, and removes what it made, but for the backup that
// is restored.
func (b *backupRig) measure(ctx context.Context) error {
	first := len(b.table.Jobs) == 0
	for _, j := range []struct {
		name string
		run  func(context.Context) (JobSample, error)
	}{
		{jobGzip, b.gzip},
		{jobBackup, func(ctx context.Context) (JobSample, error) { return b.backup(ctx, nil, "store") }},
		{jobBackupServing, b.backupServing},
		{jobBare, b.bare},
		{jobRestore, b.restoreAlone},
		{jobRestoreServing, b.restoreServing},
	} {
		if err := exec.CommandContext(ctx, "sync").Run(); err != nil {
			return fmt.Errorf("sync: %w", err)
		}
		s, err := j.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		if first && j.name == jobBackup {
			if err := b.checkLines(); err != nil {
				return err
			}
		}
		job := b.table.job(j.name)
		if job == nil {
			job = &Job{Name: j.name}
			b.table.Jobs = append(b.table.Jobs, job)
		}
		job.Samples = append(job.Samples, s)
	}
	return os.RemoveAll(b.path("store"))
}

func (b *backupRig) gzip(ctx context.Context) (s JobSample, err error) {
	out, err := os.Create(b.path("lines.gz"))
	if err != nil {
		return s, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.CommandContext(ctx, "gzip", "-6", "-c", b.path("lines"))
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	begin := time.Now()
	err = cmd.Run()
	return JobSample{Seconds: time.Since(begin).Seconds()}, err
}

// backup makes a backup in a new store; srv, when not nil, does it.
func (b *backupRig) backup(ctx context.Context, srv *proc.Server, store string) (s JobSample, err error) {
	if err := b.call(ctx, nil, "store", "init", "file://"+b.path(store)); err != nil {
		return s, err
	}
	var made struct {
		Backups []struct{ Items int }
	}
	s, err = b.run(ctx, srv, &made, "backup", "create", syntheticTable, "--storage", "sqlite:"+b.path("source.db"), "--store", "file://"+b.path(store))
	if err == nil && (len(made.Backups) != 1 || made.Backups[0].Items < b.table.Items) {
		err = fmt.Errorf("the backup is not whole: %+v", made)
	}
	return s, err
}

func (b *backupRig) backupServing(ctx context.Context) (s JobSample, err error) {
	srv, err := startIdle(ctx, b.bin, b.path("source.db"))
	if err != nil {
		return s, err
	}
	s, err = b.backup(ctx, srv, "store-2")
	return s, errors.Join(err, srv.Stop(), os.RemoveAll(b.path("store-2")))
}

// checkLines makes sure that a backup holds the very lines that gzip is given.
func (b *backupRig) checkLines() error {
	var files []io.Reader
	err := filepath.WalkDir(b.path("store"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".json.gz") {
			return err
		}
		data, err := os.ReadFile(path)
		files = append(files, bytes.NewReader(data))
		return err
	})
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(io.MultiReader(files...))
	if err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	return sameLines(z, b.path("lines"))
}

func (b *backupRig) bare(ctx context.Context) (s JobSample, err error) {
	took, err := measureBare(ctx, b.path("bare.db"), b.table.Items)
	return JobSample{Seconds: took.Seconds()}, errors.Join(err, removeDatabase(b.path("bare.db")))
}

// restore restores the backup into another database.
func (b *backupRig) restore(ctx context.Context, srv *proc.Server) (s JobSample, err error) {
	var made struct{ Items int }
	s, err = b.run(ctx, srv, &made, "restore", "latest:"+syntheticTable, "--as", "restored",
		"--storage", "sqlite:"+b.path("target.db"), "--store", "file://"+b.path("store"))
	if err == nil && made.Items != b.table.Items {
		err = fmt.Errorf("%d items are restored instead of %d", made.Items, b.table.Items)
	}
	return s, err
}

func (b *backupRig) restoreAlone(ctx context.Context) (s JobSample, err error) {
	s, err = b.restore(ctx, nil)
	return s, errors.Join(err, removeDatabase(b.path("target.db")))
}

func (b *backupRig) restoreServing(ctx context.Context) (s JobSample, err error) {
	srv, err := startIdle(ctx, b.bin, b.path("target.db"))
	if err != nil {
		return s, err
	}
	s, err = b.restore(ctx, srv)
	return s, errors.Join(err, srv.Stop(), removeDatabase(b.path("target.db")))
}

func removeDatabase(file string) error {
	files, err := filepath.Glob(file + "*")
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// run measures a command that does work itself or, when srv is not nil, has
// that server do it.
func (b *backupRig) run(ctx context.Context, srv *proc.Server, result any, args ...string) (s JobSample, err error) {
	var watch *memoryWatch
	began := func(pid int) {
		if srv == nil {
			watch = watchMemory(pid)
		}
	}
	if srv != nil {
		watch = watchMemory(srv.Pid())
	}
	begin := time.Now()
	err = b.command(ctx, result, began, args...)
	s.Seconds = time.Since(begin).Seconds()
	if watch == nil { // it did not start
		return s, err
	}
	if memory, merr := watch.end(); merr == nil { // else it ended before anybody looked
		s.Memory = &memory
	}
	return s, err
}

// call runs a command that is not measured.
func (b *backupRig) call(ctx context.Context, result any, args ...string) error {
	return b.command(ctx, result, func(int) {}, args...)
}

// command runs the binary and decodes its result; began is told its process.
func (b *backupRig) command(ctx context.Context, result any, began func(pid int), args ...string) error {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, b.bin, append(args, "--output", "json", "--quiet")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	began(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("extenddb %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(stdout.Bytes(), result); err != nil {
		return fmt.Errorf("result of extenddb %s: %w: %q", args[0], err, stdout.Bytes())
	}
	return nil
}
