// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/backup"
)

func (a *App) backupShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show BACKUP",
		Short: "Show what is in a backup",
		Long: "show prints the manifest: definition of the table, counts, data files. With\n" +
			"--output json the manifest comes as it is stored.\n" + namedBackups + exitStatus("0    done", "1    failed, or the manifest cannot be used", "2    wrong usage or configuration",
			"10   the backup or store does not exist", "12   permission denied: the store",
			"13   refused: the backup is of a newer format", "130  interrupted"),
		Example: "  extenddb backup show latest:music",
		Args:    some(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(e backup.Env, _ values) error { return a.backupShow(cmd.Context(), e, args[0]) })
		},
	}
	addFlags(cmd, storeFlags()...)
	return cmd
}

func (a *App) backupShow(ctx context.Context, e backup.Env, name string) error {
	n, err := backup.Find(ctx, e, name)
	if err != nil {
		return err
	}
	if text := notNewest(n.Passed); text != "" {
		a.warn(text, false)
	}
	ref := n.Ref
	summary, m, err := backup.Show(ctx, e, ref)
	if err != nil {
		return err
	}
	raw, err := storedManifest(ctx, e, ref)
	if err != nil {
		return err
	}
	return a.result(describeBackup(summary, m), struct {
		Backup   *backup.Summary `json:"backup"`
		Manifest json.RawMessage `json:"manifest"`
	}{summary, raw})
}

// storedManifest is the manifest as it is, with what a newer writer added.
func storedManifest(ctx context.Context, e backup.Env, ref format.Ref) (raw json.RawMessage, err error) {
	r, err := e.Store.Get(ctx, ref.Key(format.ManifestName))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	raw, err = io.ReadAll(io.LimitReader(r, e.Limits.MaxManifest))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	return raw, nil
}

func describeBackup(b *backup.Summary, m *format.Manifest) string {
	t := &m.Table
	rows := [][]string{
		{"backup", b.ARN},
		{"name", b.Name},
		{"created", instant(b.Created)},
		{"items", count(b.Items)},
		{"size", fmt.Sprintf("%s compressed in %s; the table had %s", iec(b.Size), plural(int64(b.Files), "file", "files"), iec(b.TableSize))},
		{"protected", yesNo(b.Protected)},
		{"snapshot", strings.TrimSpace(m.Snapshot.Kind + " " + m.Snapshot.Marker)},
		{"written by", fmt.Sprintf("extenddb %s on %s, format version %d", m.SourceVersion, m.SourceBackend, m.FormatVersion)},
		{"digest", m.SHA256},
		{"table", t.ARN},
		{"table id", t.ID},
		{"key", keyText(t.KeySchema, t.AttributeDefinitions)},
		{"billing", billingText(t)},
	}
	if t.TableClass != nil {
		rows = append(rows, []string{"class", *t.TableClass})
	}
	if t.SSE != nil {
		rows = append(rows, []string{"encryption", strings.TrimSpace(fmt.Sprint(*t.SSE))})
	}
	for _, x := range t.GlobalIndexes {
		rows = append(rows, []string{"global index", indexText(x, t)})
	}
	for _, x := range t.LocalIndexes {
		rows = append(rows, []string{"local index", indexText(x, t)})
	}
	for _, x := range t.VectorIndexes {
		rows = append(rows, []string{"vector index", fmt.Sprintf("%s on %s, %d dimensions, %s", x.IndexName, x.VectorAttribute, x.Dimensions, x.Distance)})
	}
	for _, f := range m.Files {
		rows = append(rows, []string{"file", fmt.Sprintf("%s: %s, %s, sha256 %s", f.Key, plural(f.Items, "item", "items"), iec(f.Bytes), f.SHA256)})
	}
	return columns(rows)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// keyText is a key for people: "artist (S), title (S)".
func keyText(schema []ddb.KeySchemaElement, types []ddb.AttributeDefinition) string {
	var parts []string
	for _, k := range schema {
		for _, d := range types {
			if d.AttributeName == k.AttributeName {
				parts = append(parts, fmt.Sprintf("%s (%s)", k.AttributeName, d.AttributeType))
			}
		}
	}
	return strings.Join(parts, ", ")
}

func billingText(t *format.SourceTable) string {
	text := t.BillingMode
	if p := t.Throughput; p != nil {
		text += fmt.Sprintf(", read %d, write %d", p.ReadCapacityUnits, p.WriteCapacityUnits)
	}
	if d := t.OnDemand; d != nil {
		if d.MaxReadRequestUnits != nil {
			text += fmt.Sprintf(", at most %d reads", *d.MaxReadRequestUnits)
		}
		if d.MaxWriteRequestUnits != nil {
			text += fmt.Sprintf(", at most %d writes", *d.MaxWriteRequestUnits)
		}
	}
	return text
}

func indexText(x format.IndexInfo, t *format.SourceTable) string {
	text := fmt.Sprintf("%s on %s, %s", x.IndexName, keyText(x.KeySchema, t.AttributeDefinitions), x.Projection.ProjectionType)
	if len(x.Projection.NonKeyAttributes) > 0 {
		text += " " + strings.Join(x.Projection.NonKeyAttributes, ", ")
	}
	if p := x.Throughput; p != nil {
		text += fmt.Sprintf(", read %d, write %d", p.ReadCapacityUnits, p.WriteCapacityUnits)
	}
	return text
}
