// SPDX-License-Identifier: Apache-2.0

package format

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/extenddb/extenddb/format/ddb"
)

// Version is the version of the backup format that this build writes and reads.
const Version = 1

// Manifest is the commit record of a backup: a prefix without a valid one is no
// backup. Optional members are nil when absent; an empty list is not the same
// as an absent one, because the digest covers the difference.
type Manifest struct {
	FormatVersion int64 // Version
	BackupARN     string
	BackupName    string
	Created       float64 // Unix seconds, to the millisecond; see Seconds
	SizeBytes     int64   // compressed bytes of all data files
	SourceBackend string  // "sqlite", "postgres", "mongodb"; opaque on reading
	SourceVersion string  // of the program that wrote it; opaque
	Snapshot      SnapshotInfo
	Table         SourceTable
	Files         []DataFile // in the order of the items
	SHA256        string     // manifest_sha256, 64 lower-case hex digits
}

// SnapshotInfo says which snapshot a backup was read from; opaque on reading.
type SnapshotInfo struct{ Kind, Marker string }

// DataFile is one data file of a backup.
type DataFile struct {
	Key    string // "data/000001.json.gz"
	Items  int64
	SHA256 string // of the compressed bytes, 64 lower-case hex digits
	Bytes  int64  // compressed
}

// SourceTable is the definition of the table, with exact counts.
type SourceTable struct {
	Name                 string
	ID                   string // UUID
	ARN                  string
	Created              float64 // Unix seconds, to the millisecond
	KeySchema            []ddb.KeySchemaElement
	AttributeDefinitions []ddb.AttributeDefinition
	BillingMode          string
	Throughput           *Throughput
	OnDemand             *OnDemand
	TableClass           *string
	SSE                  *ddb.SSEDescription
	GlobalIndexes        []IndexInfo // nil: absent
	LocalIndexes         []IndexInfo
	VectorIndexes        []VectorIndexInfo
	Items                int64
	SizeBytes            int64 // as DynamoDB counts items
}

// Throughput is provisioned capacity.
type Throughput struct{ ReadCapacityUnits, WriteCapacityUnits int64 }

// OnDemand caps an on-demand table; both members are always written.
type OnDemand struct{ MaxReadRequestUnits, MaxWriteRequestUnits *int64 }

// IndexInfo is a global or local secondary index.
type IndexInfo struct {
	IndexName  string
	KeySchema  []ddb.KeySchemaElement
	Projection ddb.Projection // NonKeyAttributes nil: absent
	Throughput *Throughput    // of a global one of a PROVISIONED table
}

// VectorIndexInfo is a vector index.
type VectorIndexInfo struct {
	IndexName       string
	VectorAttribute string
	Dimensions      int64
	SearchSchema    []SearchElement // nil: absent
	Distance        string
	Status          string
	Backfilling     *bool
	SizeBytes       int64
	Items           int64
	ARN             string
	Projection      *ddb.Projection
}

// SearchElement is one attribute a vector index can filter by.
type SearchElement struct{ AttributeName, ElementType string }

// Seconds is t as a manifest has it: Unix seconds, cut to milliseconds. Finer
// fractions do not survive every reader of the format.
func Seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Time is the instant of Unix seconds, to the millisecond.
func Time(seconds float64) time.Time {
	return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
}

// Seal checks m, sets its SHA256 and returns the document to be stored, which
// ParseManifest accepts. It takes out of m what the format leaves out: optional
// lists that are empty, and provisioned throughput of an on-demand table. Errors
// are those of ParseManifest; SHA256 is then as it was.
func (m *Manifest) Seal() ([]byte, error) {
	if m.FormatVersion != Version {
		return nil, &VersionError{Found: m.FormatVersion}
	}
	m.Table.omit()
	if err := m.check(); err != nil {
		return nil, manifestError(err)
	}
	if err := m.checkWritten(); err != nil {
		return nil, manifestError(err)
	}
	doc, err := m.Canonical()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(doc)
	digest := hex.EncodeToString(sum[:])
	doc = append(doc[:len(doc)-len(`"}`)], digest+`"}`...)
	if len(doc) > DefaultMaxManifest {
		return nil, fmt.Errorf("%w: %d data files make it larger than %d bytes", ErrManifest, len(m.Files), DefaultMaxManifest)
	}
	m.SHA256 = digest
	return doc, nil
}

// omit takes out what a writer leaves out.
func (t *SourceTable) omit() {
	if t.BillingMode == ddb.PayPerRequest {
		t.Throughput = nil
	}
	for i := range t.GlobalIndexes {
		x := &t.GlobalIndexes[i]
		x.Projection.NonKeyAttributes = filled(x.Projection.NonKeyAttributes)
		if t.BillingMode == ddb.PayPerRequest {
			x.Throughput = nil
		}
	}
	for i := range t.LocalIndexes {
		x := &t.LocalIndexes[i]
		x.Projection.NonKeyAttributes = filled(x.Projection.NonKeyAttributes)
		x.Throughput = nil
	}
	for i := range t.VectorIndexes {
		x := &t.VectorIndexes[i]
		x.SearchSchema = filled(x.SearchSchema)
		if x.Projection != nil {
			x.Projection.NonKeyAttributes = filled(x.Projection.NonKeyAttributes)
		}
	}
	t.GlobalIndexes = filled(t.GlobalIndexes)
	t.LocalIndexes = filled(t.LocalIndexes)
	t.VectorIndexes = filled(t.VectorIndexes)
}

func filled[T any](all []T) []T {
	if len(all) == 0 {
		return nil
	}
	return all
}

// checkWritten returns an error for what is read of other writers but not
// written here.
func (m *Manifest) checkWritten() error {
	arn, _ := ParseARN(m.BackupARN) // check has read it
	switch {
	case arn.Partition != "aws":
		return fmt.Errorf("backup_arn is of partition %s, which other readers refuse", arn.Partition)
	case !backupID(arn.ID):
		return fmt.Errorf("backup_arn: identifier %s is not 14 digits, '-' and 8 hexadecimal digits", arn.ID)
	case !uuid(m.Table.ID):
		return fmt.Errorf("source_table.table_id %q is no lower-case UUID", cut(m.Table.ID))
	case Seconds(Time(m.Created)) != m.Created:
		return fmt.Errorf("backup_creation_date_time %v is not on a millisecond", m.Created)
	case Seconds(Time(m.Table.Created)) != m.Table.Created:
		return fmt.Errorf("source_table.table_creation_date_time %v is not on a millisecond", m.Table.Created)
	case len(m.Files) == 0:
		return errors.New("data_files is empty; a table without items has one file without items")
	}
	return nil
}
