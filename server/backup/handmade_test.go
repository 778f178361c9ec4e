// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
)

// handmade is a backup as another program writes it: nothing but the manifest
// and its data files, whose lines are given.
type handmade struct {
	m     *format.Manifest
	files []string // plain text; the manifest follows from it
	gz    [][]byte // of files; nil: compressed when it is stored
}

// newHandmade returns a backup of a table with the key pk (S) and sk (N).
func newHandmade(files ...string) *handmade {
	return &handmade{files: files, m: &format.Manifest{
		FormatVersion: 1,
		BackupARN:     "arn:aws:dynamodb:us-east-1:123456789012:table/Music/backup/1757500000123-73d8d5bc",
		BackupName:    "by-another",
		Created:       1757500000.5583227, // finer than a millisecond
		SourceBackend: "postgres", SourceVersion: "0.1.11",
		Snapshot: format.SnapshotInfo{Kind: "postgres_repeatable_read", Marker: "1234:1240:1235,1237"},
		Table: format.SourceTable{
			Name: "Music", ID: "12345a12-abcd-123a-ab12-1234abc12345",
			ARN: "arn:aws:dynamodb:us-east-1:123456789012:table/Music", Created: 1757400000.25,
			KeySchema: schema("pk / sk"), AttributeDefinitions: attrs("sk:N pk:S"), // in its own order
			BillingMode: ddb.PayPerRequest,
		},
	}}
}

func (h *handmade) ref(t *testing.T) format.Ref {
	t.Helper()
	arn, err := format.ParseARN(h.m.BackupARN)
	if err != nil {
		t.Fatal(err)
	}
	return arn.Ref()
}

// seal describes the files in the manifest and counts the items.
func (h *handmade) seal(t *testing.T) {
	t.Helper()
	h.m.Files, h.m.SizeBytes, h.m.Table.Items, h.m.Table.SizeBytes = nil, 0, 0, 0
	for i, text := range h.files {
		if len(h.gz) == i {
			h.gz = append(h.gz, gzipped(t, text))
		}
		sum := sha256.Sum256(h.gz[i])
		f := format.DataFile{Key: format.DataFileKey(i + 1), SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(h.gz[i]))}
		for line := range strings.Lines(text) {
			f.Items++
			if it, err := format.ParseLine([]byte(strings.TrimSpace(line))); err == nil {
				h.m.Table.SizeBytes += int64(it.Size())
			}
		}
		h.m.Files = append(h.m.Files, f)
		h.m.SizeBytes += f.Bytes
		h.m.Table.Items += f.Items
	}
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// document is the manifest with its digest, whatever it says.
func document(t *testing.T, m *format.Manifest) []byte {
	t.Helper()
	doc, err := m.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(doc)
	return bytes.Replace(doc, []byte(`"manifest_sha256":""`), []byte(`"manifest_sha256":"`+hex.EncodeToString(sum[:])+`"`), 1)
}

// store seals the backup, changes the manifest once more, and stores it.
func (h *handmade) store(r *rig, change func(m *format.Manifest)) format.Ref {
	r.Helper()
	h.seal(r.T)
	if change != nil {
		change(h.m)
	}
	ref := h.ref(r.T)
	for i, gz := range h.gz {
		r.put(ref.Key(format.DataFileKey(i+1)), string(gz))
	}
	r.put(ref.Key(format.ManifestName), string(document(r.T, h.m)))
	return ref
}

func (r *rig) put(key, body string) {
	r.Helper()
	if _, err := r.store.Put(r.Context(), key, strings.NewReader(body), backupstore.PutOptions{}); err != nil {
		r.Fatal(err)
	}
}

// What another program wrote: an id of 13 digits, another backend, a time finer
// than milliseconds, unsorted attributes and definitions, numbers with
// exponents, CRLF, a file without last newline, sizes counted in another way.
func TestRestoreFromAnotherProgram(t *testing.T) {
	t.Parallel()
	onEach(t, func(r *rig) {
		h := newHandmade(
			`{"Item":{"sk":{"N":"1.5E3"},"pk":{"S":"b"},"g":{"S":"x"},"v":{"NS":["1E2","-2.5e-2"]}}}`+"\n"+
				`{"Item":{"pk":{"S":"a"},"sk":{"N":"+007"}},"Other":[1,{"a":null}]}`+"\r\n",
			"",
			`{"Item":{"pk":{"S":"c"},"sk":{"N":"-0"},"big":{"N":"1E-130"},"g":{"N":"1"}}}`)
		h.m.Table.AttributeDefinitions = attrs("sk:N unused:B g:S pk:S")
		h.m.Table.GlobalIndexes = []format.IndexInfo{{
			IndexName: "by-g", KeySchema: schema("g / sk"),
			Projection: ddb.Projection{ProjectionType: ddb.ProjectInclude, NonKeyAttributes: []string{"v", "big"}},
		}}
		h.m.Table.LocalIndexes = []format.IndexInfo{}
		ref := h.store(r, func(m *format.Manifest) { m.Table.SizeBytes += 100 })
		report, err := Verify(r.Context(), r.env, ref)
		if err != nil || report.Ordered || report.Checked != 3 || len(report.Findings) != 1 ||
			!strings.HasPrefix(report.Findings[0].Message, "table_size_bytes is") {
			r.Errorf("report %+v, %v", report, err)
		}
		if _, err := Restore(r.Context(), r.env, ref, r.target("Music")); err != nil {
			r.Fatal(err)
		}
		if !strings.Contains(r.log.String(), "table_size_bytes") {
			r.Errorf("log %s", r.log)
		}
		def := onDemand("expected", "pk / sk", "g:S pk:S sk:N")
		def.GlobalSecondaryIndexes = []ddb.IndexDefinition{index("by-g", "g / sk",
			ddb.Projection{ProjectionType: ddb.ProjectInclude, NonKeyAttributes: []string{"big", "v"}}, &ddb.Throughput{})}
		r.table(def, 3, func(i int) ddb.Item {
			return []ddb.Item{
				{"pk": ddb.String("b"), "sk": ddb.Int(1500), "g": ddb.String("x"), "v": ddb.NewSet(ddb.KindNS, []string{"100", "-0.025"})},
				{"pk": ddb.String("a"), "sk": ddb.Int(7)},
				{"pk": ddb.String("c"), "sk": ddb.Int(0), "big": number("1E-130"), "g": ddb.Int(1)},
			}[i]
		})
		r.same("expected", "Music")
		list := r.listed()
		if len(list) != 1 || list[0].ID != "1757500000123-73d8d5bc" || list[0].Created.UnixMilli() != 1757500000558 {
			r.Errorf("list %+v", list)
		}
	})
}

const (
	lineA = `{"Item":{"pk":{"S":"a"},"sk":{"N":"1"}}}` + "\n"
	lineB = `{"Item":{"pk":{"S":"b"},"sk":{"N":"1"}}}` + "\n"
	lineC = `{"Item":{"pk":{"S":"c"},"sk":{"N":"1"}}}` + "\n"
)

// Backups whose digests are right and that are wrong all the same: whoever
// made them did it on purpose, or has a fault.
func TestSealedButWrong(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 1<<20)
	for name, c := range map[string]struct {
		files   []string
		change  func(h *handmade, m *format.Manifest)
		object  string
		text    string
		code    Code // of the restore; Failed when empty
		loading bool // only the load finds out
	}{
		"a line that is no JSON":   {files: []string{lineA + "{}}\n"}, object: "data/000001.json.gz", text: "line 2: "},
		"no item":                  {files: []string{lineA, `{"NotItem":{}}` + "\n"}, object: "data/000002.json.gz", text: "line 1: the line has no member Item"},
		"a blank line":             {files: []string{lineA + "\n" + lineB}, object: "data/000001.json.gz", text: "line 2: blank line"},
		"no key":                   {files: []string{`{"Item":{"pk":{"S":"a"}}}` + "\n"}, object: "data/000001.json.gz", text: `line 1: key attribute "sk"`},
		"key of another type":      {files: []string{lineA, `{"Item":{"pk":{"N":"1"},"sk":{"N":"1"}}}` + "\n"}, object: "data/000002.json.gz", text: `line 1: key attribute "pk" (S, found N)`},
		"empty key":                {files: []string{`{"Item":{"pk":{"S":""},"sk":{"N":"1"}}}` + "\n"}, object: "data/000001.json.gz", text: "empty"},
		"key too long":             {files: []string{`{"Item":{"pk":{"S":"` + strings.Repeat("x", 2049) + `"},"sk":{"N":"1"}}}` + "\n"}, object: "data/000001.json.gz", text: "2048"},
		"item too large":           {files: []string{`{"Item":{"pk":{"S":"a"},"sk":{"N":"1"},"v":{"S":"` + strings.Repeat("x", 409600) + `"}}}` + "\n"}, object: "data/000001.json.gz", text: "Item size has exceeded"},
		"incremental":              {files: []string{`{"Keys":{},"NewImage":{}}` + "\n"}, object: "data/000001.json.gz", text: "incremental"},
		"same key, neighbours":     {files: []string{lineA + lineB + lineB + lineC}, object: "data/000001.json.gz", text: "line 3: the item has the key of the one before"},
		"same key, across files":   {files: []string{lineA + lineB, "", lineB}, object: "data/000003.json.gz", text: "line 1: the item has the key of the one before"},
		"same key, far apart":      {files: []string{lineB + lineA, lineC + lineB}, object: "data/000002.json.gz", text: "line 2: the item has the key of an earlier one", loading: true},
		"fewer items than it says": {files: []string{lineA, lineB}, object: "data/000002.json.gz", text: "item count mismatch", change: func(_ *handmade, m *format.Manifest) { m.Files[1].Items++; m.Table.Items++ }},
		"more items than it says":  {files: []string{lineA + lineB}, object: "data/000001.json.gz", text: "item count mismatch", change: func(_ *handmade, m *format.Manifest) { m.Files[0].Items--; m.Table.Items-- }},
		"another digest":           {files: []string{lineA, lineB}, object: "data/000001.json.gz", text: "sha256 checksum mismatch", change: func(_ *handmade, m *format.Manifest) { m.Files[0].SHA256 = m.Files[1].SHA256 }},
		"another size":             {files: []string{lineA, lineB}, object: "data/000002.json.gz", text: "the manifest says", change: func(_ *handmade, m *format.Manifest) { m.Files[1].Bytes++; m.SizeBytes++ }},
		"a file that is not there": {files: []string{lineA, lineB}, object: "data/000009.json.gz", text: "object is missing", change: func(_ *handmade, m *format.Manifest) {
			m.Files = append(m.Files, m.Files[1])
			m.Files[2].Key = "data/000009.json.gz"
			m.Files[2].Items = 0
			m.Files[2].Bytes = 0
		}},
		"a bomb of one line":      {files: []string{strings.Repeat(zeros, 40)}, object: "data/000001.json.gz", text: "refusing to decompress further"},
		"a bomb of lines":         {files: []string{strings.Repeat("\n", 1<<20)}, object: "data/000001.json.gz", text: "line 1: blank line"},
		"a bomb behind the items": {files: []string{lineA + strings.Repeat(lineB, 100_000)}, object: "data/000001.json.gz", text: "item count mismatch", change: func(_ *handmade, m *format.Manifest) { m.Files[0].Items = 2; m.Table.Items = 2 }},
		"sums that disagree":      {files: []string{lineA}, object: format.ManifestName, text: "invalid backup manifest", change: func(_ *handmade, m *format.Manifest) { m.Table.Items++ }},
		"two manifests' prefixes": {files: []string{lineA}, object: format.ManifestName, text: "invalid backup manifest", change: func(_ *handmade, m *format.Manifest) {
			m.BackupARN = strings.Replace(m.BackupARN, "123456789012", "999999999999", 1)
			m.Table.ARN = strings.Replace(m.Table.ARN, "123456789012", "999999999999", 1)
		}},
		"a path out of the backup": {files: []string{lineA}, object: format.ManifestName, text: "invalid data file key", change: func(_ *handmade, m *format.Manifest) { m.Files[0].Key = "data/../../x.json.gz" }},
		"two indexes of a name": {files: []string{lineA}, object: format.ManifestName, text: `index name "one" is not valid or used twice`, change: func(_ *handmade, m *format.Manifest) {
			ix := format.IndexInfo{IndexName: "one", KeySchema: schema("sk"), Projection: ddb.Projection{ProjectionType: ddb.ProjectAll}}
			m.Table.GlobalIndexes = []format.IndexInfo{ix, ix}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			h := newHandmade(c.files...)
			h.seal(t)
			ref := h.ref(t)
			h.store(r, nil)
			if c.change != nil {
				c.change(h, h.m)
				r.put(ref.Key(format.ManifestName), string(document(t, h.m)))
			}
			report, err := Verify(t.Context(), r.env, ref)
			switch {
			case err != nil:
				t.Errorf("verify: %v", err)
			case c.loading:
				if len(report.Findings) > 0 || report.Ordered {
					t.Errorf("report %+v", report)
				}
			case !foundAt(report, c.object, c.text) || report.Ordered && c.object != format.ManifestName:
				t.Errorf("findings %+v (ordered %v) do not say %s: %s", report.Findings, report.Ordered, c.object, c.text)
			}
			_, err = Restore(t.Context(), r.env, ref, r.target("copy"))
			wantError(t, err, Failed, c.text)
			if c.object != format.ManifestName {
				wantError(t, err, Failed, c.object)
			}
			if r.exists("copy") {
				t.Error("the table is there")
			}
			if loads := r.engine.Calls("Load"); (loads > 0) != c.loading {
				t.Errorf("%d loads were begun", loads)
			}
			if n := r.store.Open(); n != 0 {
				t.Errorf("%d objects are still open", n)
			}
		})
	}
}

func foundAt(report *Report, object, text string) bool {
	for _, f := range report.Findings {
		if f.Object == object && strings.Contains(f.Message, text) {
			return true
		}
	}
	return false
}
