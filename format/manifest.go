// SPDX-License-Identifier: Apache-2.0

package format

import "github.com/extenddb/extenddb/format/ddb"

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
