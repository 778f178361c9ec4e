// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/storetest"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// Whatever byte of whatever object changes, a verification says so, and a
// restore names the object before anything is written. The annex alone holds
// nothing that matters.
func TestTamperedByte(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rich(8)
	r.env.Limits.Workers = 1
	s := r.create("source")
	for _, key := range r.keys() {
		object := strings.TrimPrefix(key, s.ref().Prefix()+"/")
		if object == format.AnnexName {
			continue
		}
		body, err := readObject(t.Context(), r.env.withDefaults(), key)
		if err != nil {
			t.Fatal(err)
		}
		for i := range body {
			restored := slices.Clone(body)
			r.memory.Tamper(key, func(b []byte) []byte { b[i] ^= 1 << (i % 8); return b })
			// A digest in one object is that of another: each may be blamed.
			blamed := []string{object, strings.TrimSuffix(object, ".json") + ".md5", strings.TrimSuffix(object, ".md5") + ".json"}
			report, err := Verify(t.Context(), r.env, s.ref())
			var e *Error
			switch {
			case errors.As(err, &e) && e.Code == Refused && object == format.ManifestName: // its version
			case err != nil:
				t.Errorf("%s, byte %d: %v", object, i, err)
			case !slices.ContainsFunc(report.Findings, func(f Finding) bool { return slices.Contains(blamed, f.Object) }):
				t.Errorf("%s, byte %d: findings %+v", object, i, report.Findings)
			}
			if i%16 != 0 { // a restore verifies in the same way
				r.memory.Tamper(key, func([]byte) []byte { return restored })
				continue
			}
			_, err = Restore(t.Context(), r.env, s.ref(), r.target("copy"))
			if !errors.As(err, &e) || e.Code != Failed && e.Code != Refused ||
				object != format.ManifestName && !slices.ContainsFunc(blamed, func(b string) bool { return strings.Contains(err.Error(), b) }) {
				t.Errorf("%s, byte %d: restore: %v", object, i, err)
			}
			r.memory.Tamper(key, func([]byte) []byte { return restored })
		}
	}
	if n := r.engine.Calls("Load"); n != 0 {
		t.Errorf("%d tables were begun", n)
	}
	r.verifies(s.ref())
}

// Objects that are missing, surplus, cut short or exchanged.
func TestWrongObjects(t *testing.T) {
	t.Parallel()
	const first, second = "data/000001.json.gz", "data/000002.json.gz"
	for name, c := range map[string]struct {
		change   func(r *rig, ref format.Ref)
		object   string
		text     string
		harmless bool // to a restore
		once     bool // one finding says it all
	}{
		"missing data file":   {once: true, change: func(r *rig, ref format.Ref) { r.remove(ref.Key(second)) }, object: second, text: "object is missing"},
		"surplus data file":   {change: func(r *rig, ref format.Ref) { r.put(ref.Key("data/999999.json.gz"), "x") }, object: "data/999999.json.gz", text: "does not name this object"},
		"surplus in a folder": {change: func(r *rig, ref format.Ref) { r.put(ref.Key("data/a/b"), "") }, object: "data/a/b", text: "does not name this object"},
		"truncated": {once: true, change: func(r *rig, ref format.Ref) {
			r.memory.Tamper(ref.Key(second), func(b []byte) []byte { return b[:len(b)-1] })
		}, object: second, text: "the manifest says"},
		"empty": {once: true, change: func(r *rig, ref format.Ref) { r.memory.Tamper(ref.Key(second), func([]byte) []byte { return nil }) }, object: second, text: "has 0 bytes"},
		"exchanged": {change: func(r *rig, ref format.Ref) {
			var a []byte
			r.memory.Tamper(ref.Key(first), func(b []byte) []byte { a = b; return b })
			r.memory.Tamper(ref.Key(second), func([]byte) []byte { return a })
		}, object: second, text: "the object has"},
		"longer": {once: true, change: func(r *rig, ref format.Ref) {
			r.memory.Tamper(ref.Key(first), func(b []byte) []byte { return append(b, 0) })
		}, object: first, text: "the manifest says"},
		"export manifest without a file": {change: func(r *rig, ref format.Ref) {
			r.rewrite(ref, format.FilesName, func(b []byte) []byte { _, rest, _ := strings.Cut(string(b), "\n"); return []byte(rest) })
		}, object: format.FilesName, text: "it does not name " + first},
		"export manifest with a file twice": {change: func(r *rig, ref format.Ref) {
			r.rewrite(ref, format.FilesName, func(b []byte) []byte { line, _, _ := strings.Cut(string(b), "\n"); return append(b, line...) })
		}, object: format.FilesName, text: "or names it twice"},
		"export manifest with another count": {change: func(r *rig, ref format.Ref) {
			r.rewrite(ref, format.FilesName, func(b []byte) []byte { return []byte(strings.Replace(string(b), `"itemCount":`, `"itemCount":1`, 1)) })
		}, object: format.FilesName, text: "itemCount of " + first},
		"export manifest with another digest": {change: func(r *rig, ref format.Ref) {
			r.rewrite(ref, format.FilesName, func(b []byte) []byte {
				i := strings.Index(string(b), `"md5Checksum":"`) + len(`"md5Checksum":"`)
				return slices.Concat(b[:i], []byte("AAAAAAAAAAAAAAAAAAAAAA=="), b[i+24:])
			})
		}, object: format.FilesName, text: "md5Checksum of " + first},
		"export summary of another table": {change: func(r *rig, ref format.Ref) {
			r.rewrite(ref, format.SummaryName, func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "table/source", "table/other")) })
		}, object: format.SummaryName, text: "tableArn is"},
		"export manifest that is none": {change: func(r *rig, ref format.Ref) {
			r.rewrite(ref, format.SummaryName, func([]byte) []byte { return []byte("{") })
		}, object: format.SummaryName, text: "read manifest-summary.json"},
		"export manifest too large": {change: func(r *rig, ref format.Ref) {
			r.env.Limits.MaxManifest = 50_000
			r.rewrite(ref, format.SummaryName, func([]byte) []byte { return make([]byte, 50_001) })
		}, object: format.SummaryName, text: "more than 50000 bytes"},

		"no export manifest":       {change: func(r *rig, ref format.Ref) { r.remove(ref.Key(format.FilesName)) }, object: format.FilesName, text: "object is missing", harmless: true},
		"no digest of it":          {change: func(r *rig, ref format.Ref) { r.remove(ref.Key(format.SummaryMD5Name)) }, object: format.SummaryMD5Name, text: "object is missing", harmless: true},
		"something in _started":    {change: func(r *rig, ref format.Ref) { r.put(ref.Key(format.StartedName), "x") }, object: format.StartedName, text: "not empty", harmless: true},
		"annex that is none":       {change: func(r *rig, ref format.Ref) { r.put(ref.Key(format.AnnexName), "[]") }, object: format.AnnexName, text: "read extenddb-annex.json", harmless: true},
		"annex of other files":     {change: func(r *rig, ref format.Ref) { r.annex(ref, func(a *format.Annex) { a.Files = a.Files[1:] }) }, object: format.AnnexName, text: "does not name the data files", harmless: true},
		"annex with other sizes":   {change: func(r *rig, ref format.Ref) { r.annex(ref, func(a *format.Annex) { a.Files[1].Plain++ }) }, object: format.AnnexName, text: "uncompressed_bytes of " + second, harmless: true},
		"annex with other digests": {change: func(r *rig, ref format.Ref) { r.annex(ref, func(a *format.Annex) { a.Files[1].MD5 = a.Files[0].MD5 }) }, object: format.AnnexName, text: "md5 of " + second, harmless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.rich(60)
			s := r.create("source")
			c.change(r, s.ref())
			report, err := Verify(t.Context(), r.env, s.ref())
			if err != nil || !foundAt(report, c.object, c.text) {
				t.Errorf("report %+v, %v", report, err)
			}
			if c.once && len(report.Findings) != 1 {
				t.Errorf("findings %+v", report.Findings)
			}
			_, err = Restore(t.Context(), r.env, s.ref(), r.target("copy"))
			if c.harmless {
				if err != nil {
					t.Errorf("restore: %v", err)
				}
				r.same("source", "copy")
				return
			}
			wantError(t, err, Failed, "damaged", c.object, c.text)
			if n := r.engine.Calls("Load"); n != 0 {
				t.Errorf("%d tables were begun", n)
			}
		})
	}
}

func (r *rig) remove(key string) {
	r.Helper()
	if n, err := r.store.DeletePrefix(r.Context(), key); n != 1 || err != nil {
		r.Fatalf("removed %d of %s: %v", n, key, err)
	}
}

// rewrite changes an export manifest, and its .md5 with it.
func (r *rig) rewrite(ref format.Ref, name string, change func([]byte) []byte) {
	r.Helper()
	var body []byte
	if !r.memory.Tamper(ref.Key(name), func(b []byte) []byte { body = change(b); return body }) {
		r.Fatalf("no %s", name)
	}
	r.put(ref.Key(strings.TrimSuffix(name, ".json")+".md5"), format.MD5Text(body))
}

func (r *rig) annex(ref format.Ref, change func(*format.Annex)) {
	r.Helper()
	r.memory.Tamper(ref.Key(format.AnnexName), func(b []byte) []byte {
		a, err := format.ParseAnnex(b)
		if err != nil {
			r.Fatal(err)
		}
		change(a)
		return a.Append(nil)
	})
}

// A store that fails while a backup is verified says nothing about the backup.
func TestVerifyStoreFaults(t *testing.T) {
	t.Parallel()
	var calls int
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rich(30)
		s := r.create("source")
		r.verifies(s.ref())
		calls = r.store.Calls("Get")
	})
	for skip := range calls {
		for _, after := range []int{0, 1, 20} {
			inBubble(t, fmt.Sprint("Get ", skip, " after ", after), func(r *rig) {
				r.rich(30)
				s := r.create("source")
				r.store.Inject(storetest.Fault{Method: "Get", Skip: skip, After: after, Err: errFault})
				report, err := Verify(r.Context(), r.env, s.ref())
				wantError(r.T, err, Failed, "read 123456789012/source/", "injected fault")
				if report != nil || r.store.Open() != 0 {
					r.Errorf("report %+v, %d objects open", report, r.store.Open())
				}
			})
		}
	}
}

// A long list of findings is cut, and the rest counted.
func TestManyFindings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHandmade(strings.Repeat("{}\n", 150), lineA+strings.Repeat(lineB, 30))
	ref := h.store(r, nil)
	report, err := Verify(t.Context(), r.env, ref)
	if err != nil || len(report.Findings) != 100 || report.Omitted != 79 || report.Checked != 181 {
		t.Errorf("%d findings, %d omitted, %d checked, %v", len(report.Findings), report.Omitted, report.Checked, err)
	}
	ref = newHandmade(strings.Repeat("{}\n", maxFaults+chunkLines), strings.Repeat("{}\n", 10*chunkLines)).store(r, nil)
	report, err = Verify(t.Context(), r.env, ref)
	if err != nil || !report.Stopped || report.Checked > maxFaults+chunkLines || report.Omitted == 0 {
		t.Errorf("stopped %v after %d items, %d omitted, %v", report.Stopped, report.Checked, report.Omitted, err)
	}
}

// A store that changes between verification and load: the load sees it, and no
// table stays.
func TestChangedAfterVerification(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault storetest.Fault
		code  Code
		text  string
	}{
		"flipped":    {storetest.Fault{Flip: true, After: 30}, Failed, "data/000002.json.gz"},
		"in footer":  {storetest.Fault{Flip: true, After: -1}, Failed, "data/000002.json.gz"},
		"truncated":  {storetest.Fault{Truncate: true, After: 100}, Failed, "data/000002.json.gz"},
		"gone":       {storetest.Fault{Err: backupstore.ErrNotFound}, Failed, "data/000002.json.gz: object is missing"},
		"unreadable": {storetest.Fault{Err: &backupstore.IOError{Op: "read", Err: errFault}, After: 50}, Failed, "injected fault"},
		"denied":     {storetest.Fault{Err: backupstore.ErrPermission}, Denied, "data/000002.json.gz"},
	} {
		inBubble(t, name, func(r *rig) {
			r.rich(60)
			s := r.create("source")
			f := c.fault
			f.Method, f.Key, f.Skip = "Get", "data/000002", 1
			if f.After < 0 {
				o, err := r.store.Head(r.Context(), s.ref().Key("data/000002.json.gz"))
				if err != nil {
					r.Fatal(err)
				}
				f.After = int(o.Size) - 2
			}
			r.store.Inject(f)
			_, err := Restore(r.Context(), r.env, s.ref(), r.target("copy"))
			wantError(r.T, err, c.code, c.text)
			if left := r.store.Unused(); len(left) > 0 {
				r.Fatalf("not met: %q", left)
			}
			r.noCopy()
		})
	}
}

// noCopy fails the test unless the restore left nothing but work to be done.
func (r *rig) noCopy() {
	r.Helper()
	if r.exists("copy") {
		r.Error("a table is left")
	}
	if n := r.store.Open(); n != 0 {
		r.Errorf("%d objects are still open", n)
	}
	if last := r.events[len(r.events)-1]; !last.State.Final() || last.State == progress.Done {
		r.Errorf("last event %+v", last)
	}
}

// Every call of the store may fail during a restore, at once and in the middle.
func TestRestoreStoreFaults(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Get", "List", "Head"} {
		var calls int
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rich(30)
			s := r.create("source")
			before := r.store.Calls(method)
			if _, err := Restore(t.Context(), r.env, s.ref(), r.target("copy")); err != nil {
				t.Fatal(err)
			}
			calls = r.store.Calls(method) - before
		})
		if calls == 0 && method != "Head" {
			t.Fatalf("no call of %s", method)
		}
		for skip := range calls {
			for _, after := range []int{0, 1, 40} {
				inBubble(t, fmt.Sprint(method, " ", skip, " after ", after), func(r *rig) {
					r.rich(30)
					s := r.create("source")
					r.store.Inject(storetest.Fault{Method: method, Skip: skip, After: after, Err: errFault})
					_, err := Restore(r.Context(), r.env, s.ref(), r.target("copy"))
					if method == "List" && after == 40 && err == nil { // there are fewer objects
						return
					}
					wantError(r.T, err, Failed, "injected fault")
					r.noCopy()
				})
			}
		}
	}
}

func TestRestoreEngineFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults []storagetest.Fault
		code   Code
		text   string
	}{
		"begin":              {[]storagetest.Fault{{Method: "Load", Err: storage.ErrUnavailable}}, Failed, `create table "copy": storage is unavailable`},
		"too many":           {[]storagetest.Fault{{Method: "Load", Err: storage.ErrTooManyTables}}, Refused, "too many tables"},
		"first rows":         {[]storagetest.Fault{{Method: "Add", Err: storage.ErrUnavailable}}, Failed, `load table "copy": storage is unavailable`},
		"last rows":          {[]storagetest.Fault{{Method: "Add", Skip: 2, Err: storage.ErrCorrupt}}, Failed, "storage is corrupt"},
		"dropped meanwhile":  {[]storagetest.Fault{{Method: "Add", Skip: 1, Err: storage.ErrTableNotFound}}, Failed, "into copy did not complete: the table was deleted while it was being restored"},
		"dropped at the end": {[]storagetest.Fault{{Method: "Finish", Err: storage.ErrTableNotFound}}, Failed, "did not complete: the table was deleted"},
		"indexes":            {[]storagetest.Fault{{Method: "Finish", Err: storage.ErrUnavailable}}, Failed, `build the indexes of table "copy"`},
		"abort, too": {[]storagetest.Fault{{Method: "Finish", Err: storage.ErrUnavailable}, {Method: "Abort", After: 1, Err: errFault}}, Failed,
			"storage is unavailable; table \"copy\" is left behind and could not be marked for removal: injected fault"},
	} {
		inBubble(t, name, func(r *rig) {
			r.rich(60)
			s := r.create("source")
			r.engine.Inject(c.faults...)
			_, err := Restore(r.Context(), r.env, s.ref(), r.target("copy"))
			wantError(r.T, err, c.code, c.text)
			if left := r.engine.Unused(); len(left) > 0 {
				r.Fatalf("not met: %q", left)
			}
			r.noCopy()
		})
	}
}

// Cancelling in any call of the store or the engine ends in order.
func TestRestoreCancelled(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Get", "Add", "Finish"} {
		for skip := range map[string]int{"Get": 20, "Add": 5, "Finish": 1}[method] {
			inBubble(t, fmt.Sprint(method, " ", skip), func(r *rig) {
				r.rich(60)
				s := r.create("source")
				ctx, cancel := context.WithCancel(r.Context())
				r.store.Inject(storetest.Fault{Method: method, Skip: skip, Before: cancel})
				r.engine.Inject(storagetest.Fault{Method: method, Skip: skip, Before: cancel})
				_, err := Restore(ctx, r.env, s.ref(), r.target("copy"))
				wantError(r.T, err, Interrupted)
				r.checkState(progress.Cancelled)
				r.noCopy()
			})
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	exists := func(answer bool, err error) func(string, string) (bool, error) {
		return func(acc, table string) (bool, error) {
			if acc != account || table != "copy" {
				return false, fmt.Errorf("asked for %s/%s", acc, table)
			}
			return answer, err
		}
	}
	for name, c := range map[string]struct {
		change func(o *RestoreOptions, ref *format.Ref)
		code   Code
		text   string
	}{
		"bad name":  {func(o *RestoreOptions, _ *format.Ref) { o.As = "a b" }, Invalid, `table name "a b" is not valid`},
		"no name":   {func(o *RestoreOptions, _ *format.Ref) { o.As = "" }, Invalid, `table name "" is not valid`},
		"exists":    {func(o *RestoreOptions, _ *format.Ref) { o.As = "source" }, Refused, `table "source" exists`},
		"taken":     {func(o *RestoreOptions, _ *format.Ref) { o.Exists = exists(true, nil) }, Refused, `table "copy" exists`},
		"unknown":   {func(o *RestoreOptions, _ *format.Ref) { o.Exists = exists(false, storage.ErrUnavailable) }, Failed, "storage is unavailable"},
		"no backup": {func(_ *RestoreOptions, ref *format.Ref) { ref.ID = "1" }, NotFound, `no backup "123456789012/source/1" in the store`},
		"being deleted": {func(o *RestoreOptions, _ *format.Ref) {
			o.Exists = exists(false, &storage.TableExists{Table: &storage.Table{Status: storage.Deleting}})
		}, Busy, "it is DELETING"},
		"being made": {func(o *RestoreOptions, _ *format.Ref) { // it stays: there is nothing to wait for
			o.Exists = exists(false, &storage.TableExists{Table: &storage.Table{Status: storage.Creating}})
		}, Refused, `table "copy" exists`},
	} {
		for _, dry := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", dry ", dry), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.rich(30)
				s := r.create("source")
				o, ref := r.target("copy"), s.ref()
				o.DryRun = dry
				c.change(&o, &ref)
				if dry && o.As == "source" {
					o.Exists = func(string, string) (bool, error) { return true, nil }
				}
				_, err := Restore(t.Context(), r.env, ref, o)
				wantError(t, err, c.code, c.text)
				r.noCopy()
			})
		}
	}
}

// A target that is on its way out, found only when the load begins.
func TestRestoreIntoDeleting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rich(3)
	s := r.create("source")
	r.table(onDemand("copy", "pk", "pk:S"), 0, nil)
	if _, err := r.engine.DropTable(t.Context(), account, "copy", func(*storage.Table) error { return nil }); err != nil {
		t.Fatal(err)
	}
	_, err := Restore(t.Context(), r.env, s.ref(), r.target("copy"))
	wantError(t, err, Busy, `table "copy" exists: it is DELETING`)
}

// Manifests that this program understands and cannot, or will not, restore.
func TestRestoreUnsupported(t *testing.T) {
	t.Parallel()
	t.Run("newer version", func(t *testing.T) {
		t.Parallel()
		const text = "unsupported backup format version 2; this build supports format version 1"
		r := newRig(t)
		ref := newHandmade(lineA).store(r, func(m *format.Manifest) { m.FormatVersion = 2 })
		_, err := Restore(t.Context(), r.env, ref, r.target("copy"))
		wantError(t, err, Refused, text)
		_, err = Verify(t.Context(), r.env, ref)
		wantError(t, err, Refused, text)
		_, _, err = Show(t.Context(), r.env, ref)
		wantError(t, err, Refused, text)
		_, problems, err := List(t.Context(), r.env, Filter{})
		if err != nil || len(problems) != 1 || problems[0] != (Finding{ref.Key(format.ManifestName), text, true}) {
			t.Errorf("problems %+v, %v", problems, err)
		}
	})
	t.Run("vector index", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ref := newHandmade(lineA).store(r, func(m *format.Manifest) {
			m.Table.VectorIndexes = []format.VectorIndexInfo{{IndexName: "emb", VectorAttribute: "v", Dimensions: 4,
				Distance: "COSINE", Status: "ACTIVE", ARN: m.Table.ARN + "/index/emb"}}
		})
		_, err := Restore(t.Context(), r.env, ref, r.target("copy"))
		wantError(t, err, Refused, "backup arn:aws:dynamodb:us-east-1:123456789012:table/Music/backup/1757500000123-73d8d5bc has 1 vector index(es); "+
			"restoring a table with vector indexes is not supported by this storage backend")
		r.verifies(ref)
	})
	t.Run("multi-part key", func(t *testing.T) {
		t.Parallel()
		m := newHandmade().m
		m.Table.KeySchema = schema("pk sk / c d")
		_, err := Definition(m, "copy")
		wantError(t, err, Refused, "backup "+m.BackupARN+" is of a table with a multi-part key (2 HASH, 2 RANGE attributes); restoring it is not supported")
	})
	t.Run("bad definitions", func(t *testing.T) {
		t.Parallel()
		all := ddb.Projection{ProjectionType: ddb.ProjectAll}
		for text, change := range map[string]func(s *format.SourceTable){
			`billing mode ""`:                                func(s *format.SourceTable) { s.BillingMode = "" },
			`attribute "pk" is defined twice`:                func(s *format.SourceTable) { s.AttributeDefinitions = attrs("pk:S sk:N pk:N") },
			`table "copy": key attribute "pk" has no scalar`: func(s *format.SourceTable) { s.AttributeDefinitions = attrs("sk:N") },
			`index name "a b" is not valid`:                  func(s *format.SourceTable) { s.GlobalIndexes = []format.IndexInfo{{IndexName: "a b"}} },
			`index "one" has attribute "pk" twi`: func(s *format.SourceTable) {
				s.GlobalIndexes = []format.IndexInfo{{IndexName: "one", KeySchema: schema("pk pk"), Projection: all}}
			},
			`index "one" has 0 HASH and 0 RANG`: func(s *format.SourceTable) { s.GlobalIndexes = []format.IndexInfo{{IndexName: "one", Projection: all}} },
			`index "one" has 5 HASH`: func(s *format.SourceTable) {
				s.GlobalIndexes = []format.IndexInfo{{IndexName: "one", KeySchema: schema("a b c d e"), Projection: all}}
			},
			`index "one" has a key schema out`: func(s *format.SourceTable) {
				s.GlobalIndexes = []format.IndexInfo{{IndexName: "one", KeySchema: []ddb.KeySchemaElement{{AttributeName: "pk", KeyType: "X"}}, Projection: all}}
			},
			`index "one" has projection type ""`: func(s *format.SourceTable) {
				s.GlobalIndexes = []format.IndexInfo{{IndexName: "one", KeySchema: schema("sk")}}
			},
			`local index "one" does not have`: func(s *format.SourceTable) {
				s.LocalIndexes = []format.IndexInfo{{IndexName: "one", KeySchema: schema("sk / pk"), Projection: all}}
			},
		} {
			m := newHandmade().m
			change(&m.Table)
			_, err := Definition(m, "copy")
			wantError(t, err, Failed, "invalid backup manifest: source table: "+text)
		}
	})
}
