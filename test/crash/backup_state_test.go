// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/need"
	"github.com/extenddb/extenddb/test/stored"
)

// reader is the independent reader of backups; known are those it has read. It
// is slow: nil reads nothing.
type reader struct {
	python, script string
	known          map[string]bool
}

func newReader(t *testing.T) *reader {
	t.Helper()
	script, err := filepath.Abs("../reader/read_backup.py")
	if err != nil {
		t.Fatal(err)
	}
	return &reader{need.Python(t, "gzip"), script, map[string]bool{}}
}

func (r *reader) read(t *testing.T, dir string) {
	t.Helper()
	if r == nil || r.known[dir] {
		return
	}
	if out, err := exec.Command(r.python, r.script, dir).CombinedOutput(); err != nil {
		t.Fatalf("the independent reader refuses a backup: %v\n%s", err, out)
	}
	r.known[dir] = true
}

// prefixes lists the directories of backups in the store, complete or not, and
// the temporary files anywhere in it.
func (m *machine) prefixes(t *testing.T) (complete, unfinished, temps []string) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(m.store, "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		switch info, err := os.Stat(filepath.Join(dir, format.ManifestName)); {
		case err == nil && info.Mode().IsRegular():
			complete = append(complete, dir)
		default:
			unfinished = append(unfinished, dir)
		}
	}
	return complete, unfinished, m.temps(t)
}

func (m *machine) temps(t *testing.T) (temps []string) {
	t.Helper()
	err := filepath.WalkDir(m.store, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // swept meanwhile
			return nil
		}
		if err == nil && strings.HasPrefix(d.Name(), ".put-") {
			temps = append(temps, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return temps
}

// list is what "backup list" lists: no problem may be reported.
func (m *machine) list(t *testing.T) []backup.Summary {
	t.Helper()
	return decode[[]backup.Summary](t, m.ok(t, "backup", "list", "--store", m.url(), "--output", "json"))
}

// sound fails unless the store lists exactly the backups that are complete,
// and each of them verifies and has so many items.
func (m *machine) sound(t *testing.T, r *reader, items int) (listed []backup.Summary, unfinished []string) {
	t.Helper()
	listed = m.list(t)
	complete, unfinished, _ := m.prefixes(t)
	if len(listed) != len(complete) {
		t.Fatalf("%d backups are listed, %d have a manifest: %v", len(listed), len(complete), complete)
	}
	for _, b := range listed {
		if b.Items != int64(items) {
			t.Fatalf("backup %s has %d items of %d", b.ID, b.Items, items)
		}
	}
	m.ok(t, "backup", "verify", "--all", "--store", m.url(), "--output", "json")
	for _, dir := range complete {
		r.read(t, dir)
	}
	return listed, unfinished
}

// forget deletes the backups, so that later looks at the store are quick.
func (m *machine) forget(t *testing.T, list []backup.Summary) {
	t.Helper()
	args := []string{"backup", "delete", "--yes", "--store", m.url()}
	for _, b := range list {
		args = append(args, b.Table+"/"+b.ID)
	}
	if len(list) > 0 {
		m.ok(t, args...)
	}
}

// aged makes files look as old as leftovers are that nobody writes any more.
func aged(t *testing.T, files []string) {
	t.Helper()
	old := time.Now().Add(-25 * time.Hour)
	for _, f := range files {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
}

// soon calls done until it says yes, for as long as d.
func soon(t *testing.T, d time.Duration, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for !done() {
		if ctx.Err() != nil {
			t.Fatalf("%s: not after %v", what, d)
		}
	}
}

// status is the status of a table, "" when there is none.
func status(t *testing.T, db *dynamodb.Client, name string) types.TableStatus {
	t.Helper()
	d, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)})
	var none *types.ResourceNotFoundException
	switch {
	case errors.As(err, &none):
		return ""
	case err != nil:
		t.Fatal(err)
	}
	return d.Table.TableStatus
}

// settled waits until a table that was being restored is gone or ACTIVE; when
// the restorer is dead it must not be CREATING meanwhile.
func settled(t *testing.T, db *dynamodb.Client, name string, dead bool) (there bool) {
	t.Helper()
	soon(t, time.Minute, "table "+name+" is gone or complete", func() bool {
		st := status(t, db, name)
		if st == types.TableStatusCreating && dead {
			t.Fatalf("table %s is CREATING, and nobody is at work on it", name)
		}
		there = st == types.TableStatusActive
		return there || st == ""
	})
	return there
}

// tablesOf lists the tables in a database nobody serves, whatever their status.
func tablesOf(t *testing.T, database string) (names []string) {
	t.Helper()
	stored.With(t, storageURL(database), func(db storage.Engine) {
		var err error
		if names, _, err = db.Tables(t.Context(), auth.DefaultAccount, "", 1000); err != nil {
			t.Fatal(err)
		}
	})
	return names
}

// noLoads fails when files of a load lie beside the database.
func noLoads(t *testing.T, file string) {
	t.Helper()
	if left, _ := filepath.Glob(file + ".load-*"); len(left) > 0 {
		t.Errorf("files of a load are left: %v", left)
	}
}

// copyFile copies a database nobody holds.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"-wal", "-shm", ".lock"} {
		if err := os.Remove(to + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func keysOf(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
