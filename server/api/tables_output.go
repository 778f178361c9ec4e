// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/extenddb/extenddb/format/ddb"

// TableDescription is what the service tells of a table. Pointers and empty
// lists are left out where it leaves the member out. Times are Unix seconds
// with millisecond precision.
type TableDescription struct {
	AttributeDefinitions      []ddb.AttributeDefinition `json:",omitempty"`
	TableName                 string
	KeySchema                 []ddb.KeySchemaElement `json:",omitempty"`
	TableStatus               string
	CreationDateTime          float64 `json:",omitempty"`
	ProvisionedThroughput     ddb.Throughput
	TableSizeBytes            int64
	ItemCount                 int64
	TableArn                  string
	TableId                   string
	BillingModeSummary        *BillingModeSummary               `json:",omitempty"`
	LocalSecondaryIndexes     []LocalSecondaryIndexDescription  `json:",omitempty"`
	GlobalSecondaryIndexes    []GlobalSecondaryIndexDescription `json:",omitempty"`
	SSEDescription            *ddb.SSEDescription               `json:",omitempty"`
	TableClassSummary         *TableClassSummary                `json:",omitempty"`
	DeletionProtectionEnabled bool
	OnDemandThroughput        *ddb.OnDemandThroughput    `json:",omitempty"`
	WarmThroughput            *WarmThroughputDescription `json:",omitempty"`
}

// BillingModeSummary tells the billing mode and since when it is on demand.
type BillingModeSummary struct {
	BillingMode                       string
	LastUpdateToPayPerRequestDateTime float64 `json:",omitempty"`
}

// TableClassSummary tells the table class and since when it is so.
type TableClassSummary struct {
	TableClass         string
	LastUpdateDateTime float64 `json:",omitempty"`
}

// WarmThroughputDescription tells what a table or index can serve at once.
type WarmThroughputDescription struct {
	ReadUnitsPerSecond  int64
	WriteUnitsPerSecond int64
	Status              string
}

// LocalSecondaryIndexDescription describes a local index.
type LocalSecondaryIndexDescription struct {
	IndexName      string
	KeySchema      []ddb.KeySchemaElement
	Projection     ddb.Projection
	IndexSizeBytes int64
	ItemCount      int64
	IndexArn       string
}

// GlobalSecondaryIndexDescription describes a global index.
type GlobalSecondaryIndexDescription struct {
	IndexName             string
	KeySchema             []ddb.KeySchemaElement
	Projection            ddb.Projection
	IndexStatus           string
	ProvisionedThroughput ddb.Throughput
	IndexSizeBytes        int64
	ItemCount             int64
	IndexArn              string
	OnDemandThroughput    *ddb.OnDemandThroughput    `json:",omitempty"`
	WarmThroughput        *WarmThroughputDescription `json:",omitempty"`
}

// CreateTableOutput is the response of CreateTable; that of UpdateTable and
// DeleteTable look the same.
type CreateTableOutput struct{ TableDescription *TableDescription }

// DescribeTableOutput is the response of DescribeTable.
type DescribeTableOutput struct{ Table *TableDescription }

// ListTablesOutput is the response of ListTables. TableNames is never null;
// LastEvaluatedTableName is left out on the last page.
type ListTablesOutput struct {
	TableNames             []string
	LastEvaluatedTableName string `json:",omitempty"`
}

// DescribeLimitsOutput is the response of DescribeLimits, in capacity units.
type DescribeLimitsOutput struct {
	AccountMaxReadCapacityUnits  int64
	AccountMaxWriteCapacityUnits int64
	TableMaxReadCapacityUnits    int64
	TableMaxWriteCapacityUnits   int64
}

// DescribeEndpointsOutput is the response of DescribeEndpoints.
type DescribeEndpointsOutput struct{ Endpoints []Endpoint }

// Endpoint is an address at which the API is served.
type Endpoint struct {
	Address              string
	CachePeriodInMinutes int64
}
