// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/test/proc"
)

// hostile is a store in which something is not as it was written.
type hostile struct {
	name    string
	change  func(t *testing.T, m *machine, ref format.Ref) format.Ref
	object  string // that is named
	text    string // that is said
	restore int    // exit code
	verify  int
	// late: it shows only while the table is being filled, because nobody keeps
	// all keys in memory; a verification tells that the order is wrong.
	late bool
}

const hostileItems = 6000 // three data files

func hostiles() []hostile {
	return slices.Concat(hostileTexts(), hostileLines(), hostileFiles())
}

// in edits an object.
func in(name string, edit func([]byte) []byte) func(*testing.T, *machine, format.Ref) format.Ref {
	return func(t *testing.T, m *machine, ref format.Ref) format.Ref {
		m.edit(t, ref, name, edit)
		return ref
	}
}

// hostileTexts are objects with other bytes than were written.
func hostileTexts() []hostile {
	second := format.DataFileKey(2)
	return []hostile{
		{name: "manifest, a byte of a count", object: "manifest", text: "manifest checksum mismatch", restore: 1, verify: 3,
			change: in(format.ManifestName, swap(`"item_count":6000`, `"item_count":6001`))},
		{name: "manifest, cut off", object: "manifest", restore: 1, verify: 3,
			change: in(format.ManifestName, func(b []byte) []byte { return b[:len(b)/2] })},
		{name: "manifest of a newer version", text: "unsupported backup format version 2; this build supports format version 1", restore: 13, verify: 13,
			change: in(format.ManifestName, swap(`"format_version":1`, `"format_version":2`))},
		{name: "data file, a byte in the middle", object: second, restore: 1, verify: 3, change: in(second, flip(2))},
		{name: "data file, its last byte", object: second, restore: 1, verify: 3, change: in(second, flip(1))},
		{name: "data file, a byte less", object: second, text: "bytes, the manifest says", restore: 1, verify: 3,
			change: in(second, func(b []byte) []byte { return b[:len(b)-1] })},
		{name: "list of files, a count", object: "manifest-files", restore: 1, verify: 3, change: in(format.FilesName, swap(`{"itemCount":2`, `{"itemCount":3`))},
		{name: "list of files, its sum", object: format.FilesMD5Name, restore: 1, verify: 3, change: in(format.FilesMD5Name, flip(2))},
		{name: "summary, a count", object: "manifest-summary", restore: 1, verify: 3, change: in(format.SummaryName, swap(`"itemCount":6`, `"itemCount":7`))},
		{name: "summary, its sum", object: format.SummaryMD5Name, restore: 1, verify: 3, change: in(format.SummaryMD5Name, flip(2))},
	}
}

// hostileLines are data files in which something is wrong although all digests
// are right.
func hostileLines() []hostile {
	second := format.DataFileKey(2)
	return []hostile{
		{name: "data file, truncated and sealed", object: second, restore: 1, verify: 3, change: resealed(2, func(_ *testing.T, b []byte) ([]byte, int64) {
			return b[:len(b)-20], 0
		})},
		{name: "data file, one line more than sealed", object: second, text: "item count mismatch", restore: 1, verify: 3, change: resealed(2, func(*testing.T, []byte) ([]byte, int64) {
			return nil, -1
		})},
		{name: "data file, one line less than sealed", object: second, text: "item count mismatch", restore: 1, verify: 3, change: resealed(2, func(*testing.T, []byte) ([]byte, int64) {
			return nil, 1
		})},
		{name: "data file, a key twice in a row", object: second, text: "key", restore: 1, verify: 3, change: resealed(2, relined(func(lines []string) []string {
			return append(lines[:1:1], lines...)
		}))},
		{name: "data file, a key of another file again", object: format.DataFileKey(3), text: "the item has the key of an earlier one", restore: 1, verify: 3, late: true,
			change: resealed(3, relined(func(lines []string) []string {
				return append(lines, `{"Item":`+string(itemAt(nil, 7))+"}\n")
			}))},
		{name: "data file, no item", object: second, text: "line 2", restore: 1, verify: 3, change: resealed(2, relined(func(lines []string) []string {
			return append([]string{lines[0], `{"Item":{"pk":{"S":"p"}}}` + "\n"}, lines[1:]...)
		}))},
	}
}

// hostileFiles are files that are missing, too many or something else.
func hostileFiles() []hostile {
	second := format.DataFileKey(2)
	return []hostile{
		{name: "data file, missing", object: second, text: "missing", restore: 1, verify: 3, change: func(t *testing.T, m *machine, ref format.Ref) format.Ref {
			m.remove(t, ref, second)
			return ref
		}},
		{name: "data file, a directory in its place", object: second, text: "missing", restore: 1, verify: 3, change: func(t *testing.T, m *machine, ref format.Ref) format.Ref {
			m.remove(t, ref, second)
			if err := os.Mkdir(m.object(ref, second), 0o700); err != nil {
				t.Fatal(err)
			}
			return ref
		}},
		{name: "data file, a link to another place", object: second, restore: 1, verify: 3, change: func(t *testing.T, m *machine, ref format.Ref) format.Ref {
			elsewhere := filepath.Join(t.TempDir(), "data.json.gz")
			err := os.Rename(m.object(ref, second), elsewhere)
			if err == nil {
				err = os.Symlink(elsewhere, m.object(ref, second))
			}
			if err != nil {
				t.Fatal(err)
			}
			return ref
		}},
		{name: "an object more", object: format.DataDir + "/000004.json.gz", text: "does not name", restore: 1, verify: 3, change: func(t *testing.T, m *machine, ref format.Ref) format.Ref {
			m.gzipped(t, ref, 4, squeeze(t, nil), 0, 0)
			return ref
		}},
		{name: "manifest, a directory in its place", text: "no backup", restore: 10, verify: 10, change: func(t *testing.T, m *machine, ref format.Ref) format.Ref {
			m.remove(t, ref, format.ManifestName)
			if err := os.Mkdir(m.object(ref, format.ManifestName), 0o700); err != nil {
				t.Fatal(err)
			}
			return ref
		}},
		{name: "moved to another table", object: "manifest", restore: 1, verify: 3, change: func(t *testing.T, m *machine, ref format.Ref) format.Ref {
			to := format.Ref{Account: ref.Account, Table: "other", ID: ref.ID}
			err := os.MkdirAll(filepath.Dir(m.object(to, ".")), 0o700)
			if err == nil {
				err = os.Rename(m.object(ref, "."), m.object(to, "."))
			}
			if err != nil {
				t.Fatal(err)
			}
			return to
		}},
		// Nothing depends on it, but it is not what was written. The last one:
		// now the table is there.
		{name: "annex", object: format.AnnexName, restore: 0, verify: 3, change: in(format.AnnexName, swap(`"uncompressed_bytes":1`, `"uncompressed_bytes":2`))},
	}
}

// edit rewrites an object.
func (m *machine) edit(t *testing.T, ref format.Ref, name string, edit func([]byte) []byte) {
	t.Helper()
	path := m.object(ref, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := edit(bytes.Clone(data))
	if bytes.Equal(data, changed) {
		t.Fatalf("%s is not changed", name)
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) remove(t *testing.T, ref format.Ref, name string) {
	t.Helper()
	if err := os.Remove(m.object(ref, name)); err != nil {
		t.Fatal(err)
	}
}

func swap(from, to string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
}

// flip changes a byte: the part-th of the object, from its start.
func flip(part int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[(len(b)-1)/part] ^= 1
		return b
	}
}

func squeeze(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// plainOf is what raw expands to, as far as it does.
func plainOf(raw []byte) []byte {
	var out bytes.Buffer
	if r, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
		_, _ = out.ReadFrom(r)
	}
	return out.Bytes()
}

// relined changes the lines of a data file.
func relined(change func(lines []string) []string) func(*testing.T, []byte) ([]byte, int64) {
	return func(t *testing.T, raw []byte) ([]byte, int64) {
		before := slices.Collect(strings.Lines(string(plainOf(raw))))
		after := change(before)
		return squeeze(t, []byte(strings.Join(after, ""))), int64(len(after) - len(before))
	}
}

// resealed changes a data file, nil for not at all, and how many items
// everything that is sealed says it has, so that all digests are right.
func resealed(which int, change func(t *testing.T, raw []byte) (changed []byte, more int64)) func(*testing.T, *machine, format.Ref) format.Ref {
	return func(t *testing.T, m *machine, ref format.Ref) format.Ref {
		doc, err := os.ReadFile(m.object(ref, format.ManifestName))
		if err != nil {
			t.Fatal(err)
		}
		man, err := format.ParseManifest(doc)
		if err != nil {
			t.Fatal(err)
		}
		var files []written
		for i, f := range man.Files {
			path := m.object(ref, f.Key)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			items := f.Items
			if i+1 == which {
				changed, more := change(t, raw)
				items += more
				if changed != nil {
					raw = changed
				}
			}
			files = append(files, m.gzipped(t, ref, i+1, raw, items, int64(len(plainOf(raw)))))
		}
		m.seal(t, ref, files, man.Table.SizeBytes)
		return ref
	}
}

// copyStore makes a machine whose store is a copy.
func (m *machine) copyStore(t *testing.T) *machine {
	t.Helper()
	to := *m
	to.store = filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(to.store, os.DirFS(m.store)); err != nil {
		t.Fatal(err)
	}
	return &to
}

func TestHostileStores(t *testing.T) {
	original, ref, base := target(t, proc.SQLite(), hostileItems)
	served := original.path("served.db")
	copyFile(t, base, served)
	srv := proc.Start(t, original.bin, served)
	client := srv.Client()
	for _, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) {
			m := original.copyStore(t)
			at := h.change(t, m, ref)

			c := m.run(t, "backup", "verify", at.Prefix(), "--store", m.url(), "--output", "json")
			if c.end() != h.verify {
				t.Errorf("verify: expected exit %d: %v", h.verify, c)
			}
			if h.verify == 3 {
				found := decode[struct {
					Backups []backup.Report `json:"backups"`
				}](t, c)
				if len(found.Backups) != 1 || len(found.Backups[0].Findings) == 0 {
					t.Errorf("verify finds nothing: %v", c)
				}
			}
			if !h.late {
				says(t, c, h.text)
			}
			// The directory that has no manifest is no backup.
			if all := m.run(t, "backup", "verify", "--all", "--store", m.url()).end(); (all == 3) == (h.verify == 10) {
				t.Errorf("verify --all: exit %d", all)
			}

			db := filepath.Join(t.TempDir(), "data.db")
			copyFile(t, base, db)
			for file, do := range map[string]func(){
				db: func() {
					before := tree(t, filepath.Dir(db))["data.db"]
					m.refuses(t, h, db, at)
					if after := tree(t, filepath.Dir(db))["data.db"]; h.restore != 0 && !h.late && after != before {
						t.Error("the database file was written to before the backup was refused")
					}
					if got := tablesOf(t, db); slices.Contains(got, restored) != (h.restore == 0) {
						t.Errorf("tables %v", got)
					}
				},
				served: func() {
					m.refuses(t, h, served, at)
					if h.restore != 0 && settled(t, client, restored, false) {
						t.Error("there is a table")
					}
				},
			} {
				do()
				noLoads(t, file)
			}
			sameTable(t, client, table, bystander)
		})
	}
	if err := srv.Stop(); err != nil {
		t.Errorf("%v\n%s", err, srv.Logs())
	}
	checkFile(t, served)
}

// refuses fails unless the restore ends as it should and says why.
func (m *machine) refuses(t *testing.T, h hostile, db string, ref format.Ref) {
	t.Helper()
	c := m.run(t, m.restore(db, ref.Prefix(), restored)...)
	if c.end() != h.restore {
		t.Errorf("expected exit %d: %v", h.restore, c)
	}
	if h.restore != 0 {
		says(t, c, h.object, h.text)
	}
}
