// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what S3 calls an object's ETag
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
)

// program names the writer in annexes.
const program = "extenddb"

// commit writes the manifests, the one that makes it a backup last.
func (c *creation) commit(ctx context.Context) (*Summary, error) {
	m := c.manifest()
	c.meter.SetTotal(m.Table.Items)
	c.meter.Phase("manifest")
	doc, err := m.Seal()
	if err != nil {
		return nil, c.discard(ctx, fmt.Errorf("seal the manifest: %w", err))
	}
	for _, o := range c.sidecars(m) {
		if err := c.put(ctx, o.name, o.data, false); err != nil {
			return nil, c.discard(ctx, err)
		}
	}
	if err := c.put(ctx, format.ManifestName, doc, true); err != nil {
		switch there := c.committed(ctx, doc); {
		case !there && errors.Is(err, backupstore.ErrExists):
			return nil, fmt.Errorf("another program writes to %s too: nothing there was removed: %w", c.ref.Prefix(), err)
		case !there:
			return nil, c.discard(ctx, err)
		}
		c.e.Log.WarnContext(ctx, "the manifest was written, although the store said otherwise", "backup", c.arn(), "err", err)
	}
	return summarize(c.ref, m, false), nil
}

// committed reports whether the manifest is there although its Put failed:
// the answer may have got lost, or a repetition met the first attempt.
func (c *creation) committed(ctx context.Context, doc []byte) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	e := c.e
	e.Limits.MaxManifest = int64(len(doc))
	there, err := readObject(ctx, e, c.ref.Key(format.ManifestName))
	return err == nil && bytes.Equal(there, doc)
}

// manifest describes what was written.
func (c *creation) manifest() *format.Manifest {
	m := &format.Manifest{
		FormatVersion: format.Version,
		BackupARN:     c.arn(),
		BackupName:    c.o.Name,
		Created:       format.Seconds(c.started),
		SourceBackend: c.o.Backend,
		SourceVersion: c.o.Version,
		Snapshot:      format.SnapshotInfo{Kind: c.kind, Marker: c.marker},
		Table:         sourceTable(c.table, c.o.Region),
	}
	for _, f := range c.files {
		m.Files = append(m.Files, format.DataFile{Key: f.key, Items: f.sums.Items, SHA256: f.sums.SHA256, Bytes: f.sums.Bytes})
		m.SizeBytes += f.sums.Bytes
		m.Table.Items += f.sums.Items
	}
	m.Table.SizeBytes = c.size
	return m
}

type object struct {
	name string
	data []byte
}

// sidecars are the objects beside manifest and data, in the order of writing.
func (c *creation) sidecars(m *format.Manifest) []object {
	var files []byte
	annex := format.Annex{KeyOrdered: c.ordered, Writer: strings.TrimSpace(program + " " + c.o.Version)}
	for _, f := range c.files {
		sum := base64.StdEncoding.EncodeToString(f.sums.MD5[:])
		files = format.AppendExportFile(files, format.ExportFile{
			Items: f.sums.Items, MD5: sum, ETag: etag(f), Key: c.ref.Key(f.key),
		})
		annex.Files = append(annex.Files, format.AnnexFile{
			Key: f.key, Plain: f.sums.Plain, MD5: sum, FirstKey: f.first, LastKey: f.last,
		})
	}
	summary := c.exportSummary(m)
	return []object{
		{format.FilesName, files},
		{format.FilesMD5Name, []byte(format.MD5Text(files))},
		{format.SummaryName, summary},
		{format.SummaryMD5Name, []byte(format.MD5Text(summary))},
		{format.AnnexName, annex.Append(nil)},
	}
}

// exportSummary is manifest-summary.json.
func (c *creation) exportSummary(m *format.Manifest) []byte {
	s := format.ExportSummary{
		ExportARN: m.Table.ARN + "/export/" + c.ref.ID,
		StartTime: c.started, EndTime: c.e.Clock.Now(), ExportTime: c.started,
		TableARN: m.Table.ARN, TableID: m.Table.ID,
		S3Prefix: c.ref.Prefix(), S3SSEAlgorithm: "NONE",
		ManifestFilesS3Key: c.ref.Key(format.FilesName),
		BilledSizeBytes:    m.Table.SizeBytes, ItemCount: m.Table.Items,
	}
	return s.Append(nil)
}

// etag is the S3 ETag of a data file; where the store has another kind of ETag,
// the one S3 gives an object that is put at once: its MD5.
func etag(f *dataFile) string {
	if isS3ETag(f.put.ETag) {
		return f.put.ETag
	}
	return hex.EncodeToString(f.sums.MD5[:])
}

// isS3ETag reports whether s is 32 hexadecimal digits, perhaps followed by "-"
// and the number of parts.
func isS3ETag(s string) bool {
	sum, parts, several := strings.Cut(s, "-")
	b, err := hex.DecodeString(sum)
	if err != nil || len(b) != md5.Size {
		return false
	}
	n, err := strconv.Atoi(parts)
	return !several || err == nil && n > 0
}
