// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"compress/gzip"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

func provisionedTable() ddb.TableDefinition {
	def := richTable("source")
	def.BillingMode, def.BillingModeReported, def.PayPerRequestSince = ddb.Provisioned, false, 0
	def.Throughput = ddb.Throughput{ReadCapacityUnits: 7, WriteCapacityUnits: 9}
	for i := range def.GlobalSecondaryIndexes {
		def.GlobalSecondaryIndexes[i].Throughput = &ddb.Throughput{ReadCapacityUnits: int64(i + 1), WriteCapacityUnits: 4}
	}
	def.TableClass = ddb.ClassInfrequentAccess
	def.SSE = &ddb.SSEDescription{Status: "ENABLED", SSEType: "KMS", KMSMasterKeyArn: "arn:aws:kms:eu-west-1:123456789012:key/k"}
	return def
}

func cappedTable() ddb.TableDefinition {
	def := onDemand("source", "pk", "pk:B")
	def.OnDemandThroughput = &ddb.OnDemandThroughput{MaxWriteRequestUnits: new(int64(100))}
	return def
}

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	long := func(i int) ddb.Item { // hash keys that are shortened, in an order of their own
		return ddb.Item{"pk": ddb.Binary([]byte(strings.Repeat("k", 280+i%3*20) + fmt.Sprint(i)))}
	}
	for name, c := range map[string]struct {
		def    ddb.TableDefinition
		items  int
		item   func(int) ddb.Item
		target int64
		files  int // at least
	}{
		"every index, several files": {richTable("source"), 300, richItem, 2000, 20},
		"provisioned, one file":      {provisionedTable(), 100, richItem, 1 << 20, 1},
		"a file per item":            {richTable("source"), 30, richItem, 1, 30},
		"long hash keys":             {cappedTable(), 60, long, 2000, 5},
		"empty":                      {richTable("source"), 0, nil, 2000, 1},
		"one item, hash key only": {onDemand("source", "pk", "pk:N"), 1, func(int) ddb.Item {
			return ddb.Item{"pk": number("-1E-130")}
		}, 2000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(r *rig) {
				r.env.Limits.TargetBytes = c.target
				source := r.table(c.def, c.items, c.item)
				s := r.create("source")
				r.checkEvents(progress.Done, "snapshot", "data", "manifest")
				if s.Items != int64(c.items) || s.Files < c.files || c.items == 0 && s.Files != 1 {
					r.Errorf("summary %+v", s)
				}
				size := int64(0)
				for _, item := range r.rows(source) {
					it, err := ddb.ParseItem([]byte(item))
					if err != nil {
						r.Fatal(err)
					}
					size += int64(it.Size())
				}
				if s.TableSize != size {
					r.Errorf("table_size_bytes %d, want %d", s.TableSize, size)
				}
				report := r.verifies(s.ref())
				r.checkEvents(progress.Done, "verify")
				if report.Checked != s.Items || !report.Ordered || report.Backup != *s {
					r.Errorf("report %+v", report)
				}
				res, err := Restore(r.Context(), r.env, s.ref(), r.target("copy"))
				if err != nil {
					r.Fatal(err)
				}
				r.checkEvents(progress.Done, "verify", "load", "index")
				want := &RestoreResult{Backup: s.ARN, Table: "copy", Items: s.Items, Size: size, Indexes: len(source.Indexes),
					Name: s.Name, BackupID: s.ID, PassedOver: []Finding{}}
				if !reflect.DeepEqual(res, want) {
					r.Errorf("result %+v, want %+v", res, want)
				}
				r.same("source", "copy")
				if n := r.store.Open(); n != 0 {
					r.Errorf("%d objects are still open", n)
				}
			})
		})
	}
}

// What lies in the store, by name and content.
func TestCreateLayout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rich(40)
	o := r.options("source")
	o.Name, o.Items = "nightly", 1_000_000
	s, err := Create(t.Context(), r.env, o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"_started"}
	for i := range s.Files {
		want = append(want, format.DataFileKey(i+1))
	}
	want = append(want, "extenddb-annex.json", "extenddb-manifest.json", "manifest-files.json", "manifest-files.md5", "manifest-summary.json", "manifest-summary.md5")
	for i := range want {
		want[i] = s.ref().Key(want[i])
	}
	if got := r.keys(); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if !strings.HasPrefix(s.ID, "01773500966535-") || s.Name != "nightly" || !s.Created.Equal(time.UnixMilli(1773500966535)) {
		t.Errorf("summary %+v", s)
	}
	got, m, err := Show(t.Context(), r.env, s.ref())
	if err != nil || *got != *s {
		t.Errorf("show %+v, want %+v, %v", got, s, err)
	}
	if m.SourceBackend != "sqlite" || m.SourceVersion != "1.2.3" || m.Snapshot.Kind == "" || m.Table.ARN != "arn:aws:dynamodb:eu-west-1:123456789012:table/source" {
		t.Errorf("manifest %+v", m)
	}
	read := func(name string) []byte {
		data, err := readObject(t.Context(), r.env.withDefaults(), s.ref().Key(name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	summary, err := format.ParseExportSummary(read(format.SummaryName))
	if err != nil || summary.S3Bucket != "" || summary.S3SSEAlgorithm != "NONE" || summary.S3Prefix != s.ref().Prefix() ||
		summary.ManifestFilesS3Key != s.ref().Key(format.FilesName) || summary.ItemCount != 40 || summary.BilledSizeBytes != s.TableSize ||
		summary.ExportARN != m.Table.ARN+"/export/"+s.ID || !summary.ExportTime.Equal(s.Created) {
		t.Errorf("summary %+v, %v", summary, err)
	}
	files, err := format.ParseExportFiles(read(format.FilesName))
	if err != nil || len(files) != s.Files || files[0].Key != s.ref().Key("data/000001.json.gz") || !isS3ETag(files[0].ETag) {
		t.Errorf("files %+v, %v", files, err)
	}
	annex, err := format.ParseAnnex(read(format.AnnexName))
	if err != nil || !annex.KeyOrdered || annex.Writer != "extenddb 1.2.3" || len(annex.Files) != s.Files {
		t.Fatalf("annex %+v, %v", annex, err)
	}
	if f := annex.Files[0]; len(f.FirstKey) != 2 || f.FirstKey["pk"].Str() != "p0" || !annex.Files[1].FirstKey["sk"].Equal(f.LastKey["sk"]) && len(f.LastKey) != 2 {
		t.Errorf("annex of the first file %+v", f)
	}
	for _, e := range r.events[:len(r.events)-1] {
		if p, ok := e.Percent(); e.Total != nil && *e.Total == 1_000_000 && (!ok || p > 1) {
			t.Errorf("event %+v has %f percent", e, p)
		}
	}
}

// An estimate of the items that is too low makes the total unknown, never
// smaller than what is done.
func TestCreateEstimateTooLow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rich(40)
	o := r.options("source")
	o.Items = 3
	if _, err := Create(t.Context(), r.env, o); err != nil {
		t.Fatal(err)
	}
	unknown := slices.ContainsFunc(r.events, func(e progress.Event) bool { return e.Phase == "data" && e.Total == nil })
	if last := r.events[len(r.events)-1]; !unknown || *last.Total != 40 || last.Done != 40 {
		t.Errorf("unknown %v, last %+v", unknown, last)
	}
	r.checkEvents(progress.Done, "snapshot", "data", "manifest")
}

// A restore knows its whole work from the beginning.
func TestRestoreTotal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rich(50)
	s := r.create("source")
	for _, dry := range []bool{true, false} {
		r.events = nil
		o := r.target("copy")
		o.DryRun = dry
		res, err := Restore(t.Context(), r.env, s.ref(), o)
		if err != nil || res.DryRun != dry || res.Items != 50 || res.Indexes != 4 || res.Size != s.TableSize {
			t.Fatalf("%+v, %v", res, err)
		}
		want, phases := int64(50*(2+4)), []string{"verify", "load", "index"}
		if dry {
			want, phases = 50, phases[:1]
		}
		if e := r.events[len(r.events)-1]; *e.Total != want || e.Done != want || e.Backup != s.ARN || e.Table != "copy" || e.Job != "job" {
			t.Errorf("last event %+v, total %d, want %d", e, *e.Total, want)
		}
		r.checkEvents(progress.Done, phases...)
		if r.exists("copy") == dry {
			t.Errorf("dry run %v, table there %v", dry, r.exists("copy"))
		}
	}
}

// A table that is changed or dropped during its backup is backed up as it was.
func TestTableChangesDuringBackup(t *testing.T) {
	t.Parallel()
	onEach(t, func(r *rig) {
		source := r.rich(100)
		before := r.rows(source)
		r.store.Inject(faultBefore("data/000002", func() {
			r.engine.WriteEach(r.Context(), []storage.Write{r.write(source, ddb.Item{"pk": ddb.String("new"), "sk": ddb.Int(1)})})
			_, err := r.engine.UpdateTable(r.Context(), account, "source", func(t *storage.Table) (ddb.TableDefinition, error) {
				def := t.Def
				def.TableClass = ddb.ClassInfrequentAccess
				return def, nil
			})
			if err != nil {
				r.Errorf("update: %v", err)
			}
		}), faultBefore("data/000004", func() {
			if _, err := r.engine.DropTable(r.Context(), account, "source", func(*storage.Table) error { return nil }); err != nil {
				r.Errorf("drop: %v", err)
			}
		}))
		s := r.create("source")
		if left := r.store.Unused(); len(left) > 0 {
			r.Fatalf("not met: %q", left)
		}
		r.verifies(s.ref())
		if _, err := Restore(r.Context(), r.env, s.ref(), r.target("copy")); err != nil {
			r.Fatal(err)
		}
		copied, _, err := r.engine.Describe(r.Context(), account, "copy")
		if err != nil || copied.Def.TableClass != "" || !reflect.DeepEqual(r.rows(copied), before) {
			r.Errorf("the copy has class %q and %d rows of %d: %v", copied.Def.TableClass, len(r.rows(copied)), len(before), err)
		}
	})
}

// Lines hold long numbers with exponents, because other programs stop at 4 MiB.
func TestLongNumbers(t *testing.T) {
	t.Parallel()
	onEach(t, func(r *rig) {
		r.env.Limits.TargetBytes = 16 << 20
		many := make([]ddb.Value, 70_000) // of 1E-130 each: 10 MB in plain
		for i := range many {
			many[i] = number("1E-130")
		}
		r.table(onDemand("source", "pk", "pk:N"), 1, func(int) ddb.Item {
			return ddb.Item{"pk": number("9.9E125"), "l": ddb.List(many...)}
		})
		s := r.create("source")
		r.verifies(s.ref())
		body, err := r.store.Get(r.Context(), s.ref().Key("data/000001.json.gz"))
		if err != nil {
			r.Fatal(err)
		}
		defer body.Close()
		z, err := gzip.NewReader(body)
		if err != nil {
			r.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil || len(plain) > format.MaxPortableLine || !strings.Contains(string(plain), `"pk":{"N":"9.9E+125"}`) && !strings.Contains(string(plain), `"pk":{"N":"9.9E125"}`) {
			r.Errorf("a line of %d bytes, %v", len(plain), err)
		}
		if strings.Contains(r.log.String(), "other programs") {
			r.Errorf("log %.1000s", r.log)
		}
		if _, err := Restore(r.Context(), r.env, s.ref(), r.target("copy")); err != nil {
			r.Fatal(err)
		}
		r.same("source", "copy")
	})
}

// Lines that other programs cannot read are mentioned, once.
func TestLongLinesAreMentionedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.table(onDemand("source", "pk", "pk:N"), 4, func(i int) ddb.Item {
		return ddb.Item{"pk": ddb.Int(int64(i)), "v": ddb.String(strings.Repeat("x", i/2*(format.MaxPortableLine)))}
	})
	if s := r.create("source"); s.Files < 3 {
		t.Errorf("%d files", s.Files)
	}
	if n := strings.Count(r.log.String(), "other programs may not be able to read"); n != 1 {
		t.Errorf("mentioned %d times", n)
	}
}
