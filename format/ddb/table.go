// SPDX-License-Identifier: Apache-2.0

package ddb

// The shapes of a table's definition, named and spelled as on the wire. They
// are kept in the catalog, served by DescribeTable and written into backup
// manifests.

// KeySchemaElement names one key attribute; KeyType is HASH or RANGE.
type KeySchemaElement struct {
	AttributeName string `json:"AttributeName"`
	KeyType       string `json:"KeyType"`
}

// AttributeDefinition gives the type of a key attribute: S, N or B.
type AttributeDefinition struct {
	AttributeName string `json:"AttributeName"`
	AttributeType string `json:"AttributeType"`
}

// Values of KeyType, ProjectionType, BillingMode and TableClass.
const (
	Hash  = "HASH"
	Range = "RANGE"

	ProjectAll      = "ALL"
	ProjectKeysOnly = "KEYS_ONLY"
	ProjectInclude  = "INCLUDE"

	Provisioned   = "PROVISIONED"
	PayPerRequest = "PAY_PER_REQUEST"

	ClassStandard         = "STANDARD"
	ClassInfrequentAccess = "STANDARD_INFREQUENT_ACCESS"
)

// Projection says which attributes an index carries beside the keys.
type Projection struct {
	ProjectionType   string   `json:"ProjectionType"`
	NonKeyAttributes []string `json:"NonKeyAttributes,omitempty"`
}

// Throughput is provisioned capacity in units per second; zeros on demand.
// Times are Unix seconds, 0 when it never changed that way.
type Throughput struct {
	ReadCapacityUnits      int64   `json:"ReadCapacityUnits"`
	WriteCapacityUnits     int64   `json:"WriteCapacityUnits"`
	NumberOfDecreasesToday int64   `json:"NumberOfDecreasesToday"`
	LastIncreaseDateTime   float64 `json:"LastIncreaseDateTime,omitempty"`
	LastDecreaseDateTime   float64 `json:"LastDecreaseDateTime,omitempty"`
}

// OnDemandThroughput caps an on-demand table; nil means no cap.
type OnDemandThroughput struct {
	MaxReadRequestUnits  *int64 `json:"MaxReadRequestUnits,omitempty"`
	MaxWriteRequestUnits *int64 `json:"MaxWriteRequestUnits,omitempty"`
}

// WarmThroughput is the capacity a table can serve at once.
type WarmThroughput struct {
	ReadUnitsPerSecond  int64 `json:"ReadUnitsPerSecond"`
	WriteUnitsPerSecond int64 `json:"WriteUnitsPerSecond"`
}

// SSEDescription is the server-side encryption a table was given.
type SSEDescription struct {
	Status          string `json:"Status"`
	SSEType         string `json:"SSEType,omitempty"`
	KMSMasterKeyArn string `json:"KMSMasterKeyArn,omitempty"`
}

// IndexDefinition defines a global or local secondary index. Throughput,
// OnDemandThroughput and WarmThroughput are nil for local ones.
type IndexDefinition struct {
	IndexName          string              `json:"IndexName"`
	KeySchema          []KeySchemaElement  `json:"KeySchema"`
	Projection         Projection          `json:"Projection"`
	Throughput         *Throughput         `json:"ProvisionedThroughput,omitempty"`
	OnDemandThroughput *OnDemandThroughput `json:"OnDemandThroughput,omitempty"`
	WarmThroughput     *WarmThroughput     `json:"WarmThroughput,omitempty"`
}

// TableDefinition is what a user defined of a table, with the instants its
// description reports. It says nothing of storage and nothing that time or
// work changes (statuses, counts).
type TableDefinition struct {
	TableName              string                `json:"TableName"`
	KeySchema              []KeySchemaElement    `json:"KeySchema"`
	AttributeDefinitions   []AttributeDefinition `json:"AttributeDefinitions"` // sorted by name
	BillingMode            string                `json:"BillingMode"`
	BillingModeReported    bool                  `json:"BillingModeReported,omitempty"` // BillingModeSummary is shown
	PayPerRequestSince     float64               `json:"PayPerRequestSince,omitempty"`  // Unix seconds
	Throughput             Throughput            `json:"ProvisionedThroughput"`
	OnDemandThroughput     *OnDemandThroughput   `json:"OnDemandThroughput,omitempty"`
	WarmThroughput         *WarmThroughput       `json:"WarmThroughput,omitempty"`
	GlobalSecondaryIndexes []IndexDefinition     `json:"GlobalSecondaryIndexes,omitempty"`
	LocalSecondaryIndexes  []IndexDefinition     `json:"LocalSecondaryIndexes,omitempty"`
	TableClass             string                `json:"TableClass,omitempty"` // "" when never sent
	TableClassSince        float64               `json:"TableClassSince,omitempty"`
	DeletionProtection     bool                  `json:"DeletionProtectionEnabled,omitempty"`
	SSE                    *SSEDescription       `json:"SSEDescription,omitempty"`
	StreamViewType         string                `json:"StreamViewType,omitempty"` // "" without a stream
	Tags                   []Tag                 `json:"Tags,omitempty"`           // sorted by key; of the live table only, no backup has them
}

// Tag is a label of a table, of no meaning to it.
type Tag struct {
	Key   string `json:"Key"`
	Value string `json:"Value"`
}

// Values of StreamViewType: what change records hold beside the keys.
const (
	ViewKeysOnly = "KEYS_ONLY"
	ViewNew      = "NEW_IMAGE"
	ViewOld      = "OLD_IMAGE"
	ViewBoth     = "NEW_AND_OLD_IMAGES"
)

// AttributeKind returns the type of a defined attribute, 0 when undefined.
func (d *TableDefinition) AttributeKind(name string) Kind {
	for _, a := range d.AttributeDefinitions {
		if a.AttributeName == name {
			k, _ := ParseKind(a.AttributeType)
			return k
		}
	}
	return 0
}
