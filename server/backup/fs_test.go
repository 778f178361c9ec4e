// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/fs"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// full is a directory whose file system fails once, at the nth operation that
// changes something, and then, when for ever is set, in all that need space.
type full struct {
	at      int64
	forever bool
	armed   atomic.Bool
	n       atomic.Int64
}

func (f *full) hook(op fs.Op, _ string) error {
	space := slices.Contains([]fs.Op{fs.OpMkdir, fs.OpCreate, fs.OpWrite, fs.OpSync, fs.OpRename, fs.OpLink, fs.OpSyncDir, fs.OpClose}, op)
	if !space || !f.armed.Load() {
		return nil
	}
	if n := f.n.Add(1); n == f.at || f.forever && n > f.at {
		return &os.PathError{Op: string(op), Path: "x", Err: syscall.ENOSPC}
	}
	return nil
}

func directory(t *testing.T, f *full) (*rig, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "store")
	if err := fs.Init(root); err != nil {
		t.Fatal(err)
	}
	store, err := fs.Open(fs.Options{Root: root, Hook: f.hook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r := rigOn(t, storagetest.NewMemory(10), store)
	r.rich(12)
	return r, root
}

// A disk that is full, at whatever operation it shows: there is a complete
// backup, or nothing is listed and nothing but empty space is left.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	count := &full{}
	r, _ := directory(t, count)
	count.armed.Store(true)
	r.create("source")
	total := count.n.Load()
	if total < 50 {
		t.Fatalf("only %d operations", total)
	}
	for at := int64(1); at <= total; at++ {
		for _, forever := range []bool{false, true} {
			t.Run(fmt.Sprint("operation ", at, ", for ever ", forever), func(t *testing.T) {
				t.Parallel()
				f := &full{at: at, forever: forever}
				r, root := directory(t, f)
				f.armed.Store(true)
				s, err := Create(t.Context(), r.env, r.options("source"))
				f.armed.Store(false)
				if err != nil {
					wantError(t, err, Failed, "no space left on device")
				}
				r.settled(s, err)
				if left := dataLeft(t, root); err != nil && len(left) > 0 {
					t.Errorf("left %q", left)
				}
			})
		}
	}
}

// dataLeft lists the files of backups, temporary ones too.
func dataLeft(t *testing.T, root string) (left []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, account), func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// The golden backups, in a directory as a store has them.
func TestGoldenBackups(t *testing.T) {
	t.Parallel()
	golden := func(t *testing.T, name, manifest string, ref format.Ref) *rig {
		t.Helper()
		r := newRig(t)
		dir := filepath.Join("..", "..", "format", "testdata", "golden", name)
		objects := map[string]string{format.ManifestName: manifest, "data/000001.json.gz": "data/000001.json.gz"}
		if name == "B" {
			for _, o := range []string{format.FilesName, format.FilesMD5Name, format.SummaryName, format.SummaryMD5Name} {
				objects[o] = o
			}
		}
		for object, file := range objects {
			body, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			r.put(ref.Key(object), string(body))
		}
		return r
	}
	a := format.Ref{Account: account, Table: "Music", ID: "01757500000123-73d8d5bc"}
	for _, manifest := range []string{"extenddb-manifest.json", "variant-pretty.json", "variant-reordered.json", "variant-intts.json", "variant-extra.json", "variant-nullopt.json"} {
		r := golden(t, "A", manifest, a)
		r.verifies(a)
		if _, err := Restore(t.Context(), r.env, a, r.target("Music")); err != nil {
			t.Errorf("%s: %v", manifest, err)
		}
		r.table(onDemand("expected", "pk", "pk:S"), 0, nil)
		r.same("expected", "Music")
	}
	for _, manifest := range []string{"variant-tamper.json", "variant-dup.json"} {
		r := golden(t, "A", manifest, a)
		_, err := Restore(t.Context(), r.env, a, r.target("Music"))
		wantError(t, err, Failed, "manifest")
	}
	b := format.Ref{Account: "000000000001", Table: "My.Table-2", ID: "01757500000456-0000abcd"}
	r := golden(t, "B", "extenddb-manifest.json", b)
	if report := r.verifies(b); report.Checked != 2 || !report.Ordered {
		t.Errorf("report %+v", report)
	}
	_, err := Restore(t.Context(), r.env, b, r.target("copy"))
	wantError(t, err, Refused, "has 1 vector index(es)")
}

// A store that is not there, and one that may not be entered.
func TestStoreUnusable(t *testing.T) {
	t.Parallel()
	_, err := fs.Open(fs.Options{Root: filepath.Join(t.TempDir(), "none")})
	if e := Classify(t.Context(), err); e.Code != NotFound || !strings.Contains(e.Hint, "mounted") {
		t.Errorf("%+v", e)
	}
	closed := &backupstore.UnusableError{Text: "backup root /x is not usable", Err: syscall.EACCES}
	if e := Classify(t.Context(), closed); e.Code != Denied || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}
