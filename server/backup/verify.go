// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

// maxFindings is how many findings a report lists; the rest are counted. At
// maxFaults in lines the verification ends: a file made to have millions would
// keep it busy for long.
const (
	maxFindings = 100
	maxFaults   = 10_000
)

var errEnough = errors.New("there are too many findings")

// Verify reads all of a backup and reports everything that is wrong with it:
// an unusable manifest, missing, altered and surplus objects, lines that are
// no items of the table, wrong counts. That is no error; one is returned when
// there is no such backup, its format is unknown, or the store fails.
func Verify(ctx context.Context, e Env, ref format.Ref) (report *Report, err error) {
	e = e.withDefaults()
	meter := e.meter(progress.Verify, ref.Table)
	defer func() { finish(ctx, meter, err) }()
	report = &Report{Backup: Summary{Account: ref.Account, Table: ref.Table, ID: ref.ID}, Findings: []Finding{}}
	m, err := readManifest(ctx, e, ref)
	var version *format.VersionError
	switch {
	case errors.As(err, &version):
		return nil, Classify(ctx, err)
	case invalidManifest(err):
		report.Findings = append(report.Findings, Finding{Object: format.ManifestName, Message: err.Error()})
		return report, nil
	case err != nil:
		return nil, Classify(ctx, notFound(ref, err))
	}
	protected, err := isProtected(ctx, e, ref)
	if err != nil {
		return nil, Classify(ctx, err)
	}
	report.Backup = *summarize(ref, m, protected)
	meter.SetBackup(m.BackupARN)
	meter.SetTotal(m.Table.Items)
	v, err := newVerifier(e, ref, m, meter)
	if err != nil {
		return nil, Classify(ctx, err)
	}
	v.report = report
	if _, err := Definition(m, m.Table.Name); errors.Is(err, format.ErrManifest) {
		_ = v.found(format.ManifestName, "%v", err) // with a report it returns nil
	}
	if err := v.run(ctx); err != nil {
		return nil, Classify(ctx, err)
	}
	return report, nil
}

// verifier checks one backup against its manifest, which is good.
type verifier struct {
	e     Env
	ref   format.Ref
	m     *format.Manifest
	table *storage.Table // as it would be restored
	meter *progress.Meter
	// report collects findings. nil before a restore: then the first one that
	// matters to it ends the verification, as an error.
	report *Report

	broken   map[int]bool // data files that are not worth reading
	md5      map[int]string
	annex    *format.Annex
	checked  int64 // items
	size     int64 // of them
	faults   int   // findings in data
	last     place
	byKey    bool // items came strictly ascending so far
	byValues bool
}

// newVerifier prepares a verification. Only the keys of the table matter to it.
func newVerifier(e Env, ref format.Ref, m *format.Manifest, meter *progress.Meter) (*verifier, error) {
	def := ddb.TableDefinition{TableName: m.Table.Name, KeySchema: m.Table.KeySchema, AttributeDefinitions: m.Table.AttributeDefinitions}
	t, err := storage.NewTable(storage.Table{Def: def}, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: source table: %w", format.ErrManifest, err)
	}
	return &verifier{
		e: e, ref: ref, m: m, table: t, meter: meter,
		broken: map[int]bool{}, md5: map[int]string{}, byKey: true, byValues: true,
	}, nil
}

// run checks everything. Its error is one of the store or the context, or,
// without a report, a finding.
func (v *verifier) run(ctx context.Context) error {
	v.meter.Phase("verify")
	if err := v.objects(ctx); err != nil {
		return err
	}
	if err := v.sidecars(ctx); err != nil {
		return err
	}
	r := reading[checkedLines]{
		e: v.e, ref: v.ref, m: v.m, md5: true,
		skip:   func(i int) bool { return v.broken[i] },
		decode: v.check,
		each:   v.chunk,
		count:  func(n int) { v.meter.Add(0, 0, int64(n)) },
	}
	if err := r.run(ctx); errors.Is(err, errEnough) {
		v.report.Stopped = true
	} else if err != nil {
		return err
	}
	if v.report != nil {
		v.report.Checked, v.report.Ordered = v.checked, (v.byKey || v.byValues) && v.whole()
	}
	return v.totals(ctx)
}

// found notes a finding about an object.
func (v *verifier) found(object, text string, args ...any) error {
	text = fmt.Sprintf(text, args...)
	switch {
	case v.report == nil:
		return damaged(v.ref, object, text)
	case len(v.report.Findings) == maxFindings:
		v.report.Omitted++
	default:
		v.report.Findings = append(v.report.Findings, Finding{Object: object, Message: text})
	}
	return nil
}

// damaged is the refusal to restore.
func damaged(ref format.Ref, object, text string) error {
	return errorf(Failed, "backup %s is damaged: %s: %s", ref.Prefix(), object, text).
		hint("restore another backup; extenddb backup verify tells all that is wrong with this one")
}

// advise notes a finding that is no obstacle to a restore: the items and the
// definition can be trusted all the same.
func (v *verifier) advise(ctx context.Context, object, text string, args ...any) error {
	if v.report != nil {
		return v.found(object, text, args...)
	}
	v.e.Log.WarnContext(ctx, "backup is not as it should be, but can be restored",
		"backup", v.m.BackupARN, "object", object, "finding", fmt.Sprintf(text, args...))
	return nil
}

// checkedLines is what decoding tells of a run of lines.
type checkedLines struct {
	size        int64 // of the items
	faults      []lineFault
	first, last place // of the items; last.key.PK is nil when there is none
	byKey       bool  // strictly ascending
	byValues    bool
}

// lineFault is something wrong with a line, counted from 0.
type lineFault struct {
	line int
	text string
}

// place is where an item stands in both orders that a backup may be in: that
// of the encoded keys, and that of the values of the key attributes. They
// differ where long hash keys are shortened. Either proves that no key is
// there twice.
type place struct {
	key  storage.Key
	hash string // sorts as the hash attribute does
}

func (p place) compare(o place) (byKey, byValues int) {
	sort := bytes.Compare(p.key.SK, o.key.SK)
	return cmp.Or(bytes.Compare(p.key.PK, o.key.PK), sort), cmp.Or(cmp.Compare(p.hash, o.hash), sort)
}

// check decodes lines. It runs on any goroutine.
func (v *verifier) check(lines [][]byte) checkedLines {
	c := checkedLines{byKey: true, byValues: true}
	for i, line := range lines {
		it, err := format.ParseLine(line)
		if err != nil {
			c.faults = append(c.faults, lineFault{i, err.Error()})
			continue
		}
		key, err := v.table.KeyOf(it)
		if err != nil {
			c.faults = append(c.faults, lineFault{i, err.Error()})
			continue
		}
		c.size += int64(it.Size())
		at := place{key, it[v.table.Hash.Name].Str()}
		if v.table.Hash.Kind == ddb.KindN {
			at.hash = string(key.PK) // text of numbers does not sort
		}
		if c.last.key.PK == nil {
			c.first = at
		} else if !ascends(c.last, at, &c.byKey, &c.byValues) {
			c.faults = append(c.faults, lineFault{i, duplicateText})
		}
		c.last = at
	}
	return c
}

const duplicateText = "the item has the key of the one before"

// ascends clears the orders that b, after a, is not in; false when both have
// the same key.
func ascends(a, b place, byKey, byValues *bool) bool {
	k, val := a.compare(b)
	*byKey, *byValues = *byKey && k < 0, *byValues && val < 0
	return k != 0
}

// chunk takes in what decoding made of a chunk.
func (v *verifier) chunk(c *chunk[checkedLines]) error {
	file, out := &v.m.Files[c.file], &c.out
	if out.first.key.PK != nil {
		if v.last.key.PK != nil && !ascends(v.last, out.first, &v.byKey, &v.byValues) {
			out.faults = append([]lineFault{{0, duplicateText}}, out.faults...)
		}
		v.byKey, v.byValues = v.byKey && out.byKey, v.byValues && out.byValues
		v.last = out.last
	}
	for _, f := range out.faults {
		v.faults++
		if err := v.found(file.Key, "line %d: %s", c.first+int64(f.line), f.text); err != nil {
			return err
		}
	}
	n := int64(len(c.lines))
	v.checked += n
	v.size += out.size
	v.meter.Add(n, n, 0)
	if v.faults >= maxFaults { // which takes a report
		return errEnough
	}
	if c.end == nil {
		return nil
	}
	return v.fileEnd(c.file, c.end)
}

// fileEnd takes in what a data file as a whole is like.
func (v *verifier) fileEnd(i int, end *fileEnd) error {
	key := v.m.Files[i].Key
	if end.err != nil {
		v.faults++
		return v.found(key, "%s", withoutKey(end.err))
	}
	sum := base64.StdEncoding.EncodeToString(end.md5[:])
	if want, ok := v.md5[i]; ok && want != sum {
		if err := v.found(format.FilesName, "md5Checksum of %s is %s, the file has %s", key, want, sum); err != nil {
			return err
		}
	}
	if v.annex == nil || v.report == nil || i >= len(v.annex.Files) {
		return nil
	}
	a := &v.annex.Files[i]
	switch {
	case a.MD5 != sum:
		return v.found(format.AnnexName, "md5 of %s is %s, the file has %s", key, a.MD5, sum)
	case a.Plain != end.plain:
		return v.found(format.AnnexName, "uncompressed_bytes of %s is %d, the file has %d", key, a.Plain, end.plain)
	}
	return nil
}

// withoutKey is the text of an error that is told beside the name of its file.
func withoutKey(err error) string {
	var f *format.FileError
	if !errors.As(err, &f) {
		return err.Error()
	}
	if f.Line == 0 {
		return f.Err.Error()
	}
	return fmt.Sprintf("line %d: %v", f.Line, f.Err)
}

// whole reports whether every item of every file was read.
func (v *verifier) whole() bool { return v.faults == 0 && len(v.broken) == 0 }

// totals checks what only all items together tell. table_size_bytes is how the
// writer counted: programs may differ in that, so it is no obstacle to a
// restore, and neither is what the annex says.
func (v *verifier) totals(ctx context.Context) error {
	if !v.whole() {
		return nil // they are the reason
	}
	if want := v.m.Table.SizeBytes; v.size != want {
		if err := v.advise(ctx, format.ManifestName, "table_size_bytes is %d, the items have %d", want, v.size); err != nil {
			return err
		}
	}
	if v.annex != nil && v.annex.KeyOrdered && !v.byKey && !v.byValues {
		return v.advise(ctx, format.AnnexName, "key_ordered is true, but the items are in another order")
	}
	return nil
}
