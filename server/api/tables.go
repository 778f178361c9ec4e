// SPDX-License-Identifier: Apache-2.0

package api

// CreateTableInput is the request of CreateTable. As in the other requests a
// nil member is absent; types carry the names of the service's structures
// because texts about them show these.
type CreateTableInput struct {
	AttributeDefinitions               []AttributeDefinition
	TableName                          *string
	KeySchema                          []KeySchemaElement
	LocalSecondaryIndexes              []LocalSecondaryIndex
	GlobalSecondaryIndexes             []GlobalSecondaryIndex
	BillingMode                        *string
	ProvisionedThroughput              *ProvisionedThroughput
	StreamSpecification                *StreamSpecification
	SSESpecification                   *SSESpecification
	Tags                               []Tag
	TableClass                         *string
	DeletionProtectionEnabled          *bool
	WarmThroughput                     *WarmThroughput
	ResourcePolicy                     *string
	OnDemandThroughput                 *OnDemandThroughput
	VectorIndexes                      []VectorIndex
	GlobalTableSourceArn               *string
	GlobalTableSettingsReplicationMode *string
}

// UpdateTableInput is the request of UpdateTable.
type UpdateTableInput struct {
	AttributeDefinitions               []AttributeDefinition
	TableName                          *string // name or ARN
	BillingMode                        *string
	ProvisionedThroughput              *ProvisionedThroughput
	GlobalSecondaryIndexUpdates        []GlobalSecondaryIndexUpdate
	StreamSpecification                *StreamSpecification
	SSESpecification                   *SSESpecification
	ReplicaUpdates                     []ReplicationGroupUpdate
	TableClass                         *string
	DeletionProtectionEnabled          *bool
	MultiRegionConsistency             *string
	GlobalTableWitnessUpdates          []GlobalTableWitnessGroupUpdate
	OnDemandThroughput                 *OnDemandThroughput
	WarmThroughput                     *WarmThroughput
	GlobalTableSettingsReplicationMode *string
	VectorIndexUpdates                 []VectorIndexUpdate
}

// DescribeTableInput is the request of DescribeTable.
type DescribeTableInput struct{ TableName *string } // name or ARN

// DeleteTableInput is the request of DeleteTable.
type DeleteTableInput struct{ TableName *string } // name or ARN

// ListTablesInput is the request of ListTables.
type ListTablesInput struct {
	ExclusiveStartTableName *string
	Limit                   *int32
}

// DescribeLimitsInput is the request of DescribeLimits, which has no members.
type DescribeLimitsInput struct{}

// DescribeEndpointsInput is the request of DescribeEndpoints, which has no
// members either: Host is the Host header, set by the wire after decoding.
type DescribeEndpointsInput struct {
	Host string `json:"-"`
}

// KeySchemaElement is one key attribute of a request.
type KeySchemaElement struct{ AttributeName, KeyType *string }

// AttributeDefinition types one key attribute in a request.
type AttributeDefinition struct{ AttributeName, AttributeType *string }

// Projection says what an index of a request carries.
type Projection struct {
	ProjectionType   *string
	NonKeyAttributes []string
}

// ProvisionedThroughput is capacity in units per second.
type ProvisionedThroughput struct{ ReadCapacityUnits, WriteCapacityUnits *int64 }

// OnDemandThroughput caps an on-demand table or index; -1 lifts the cap.
type OnDemandThroughput struct{ MaxReadRequestUnits, MaxWriteRequestUnits *int64 }

// WarmThroughput is capacity, in units per second, to hold ready.
type WarmThroughput struct{ ReadUnitsPerSecond, WriteUnitsPerSecond *int64 }

// LocalSecondaryIndex is a local index of CreateTable.
type LocalSecondaryIndex struct {
	IndexName  *string
	KeySchema  []KeySchemaElement
	Projection *Projection
}

// GlobalSecondaryIndex is a global index of CreateTable.
type GlobalSecondaryIndex struct {
	IndexName             *string
	KeySchema             []KeySchemaElement
	Projection            *Projection
	ProvisionedThroughput *ProvisionedThroughput
	OnDemandThroughput    *OnDemandThroughput
	WarmThroughput        *WarmThroughput
}

// StreamSpecification switches the table's change stream on or off.
type StreamSpecification struct {
	StreamEnabled  *bool
	StreamViewType *string
}

// SSESpecification chooses the key of server-side encryption.
type SSESpecification struct {
	Enabled        *bool
	SSEType        *string
	KMSMasterKeyId *string
}

// Tag is a label of a resource.
type Tag struct{ Key, Value *string }

// VectorIndex is a vector index of CreateTable.
type VectorIndex struct{ IndexName *string }

// GlobalSecondaryIndexUpdate is one change of UpdateTable to a global index.
type GlobalSecondaryIndexUpdate struct {
	Update *UpdateGlobalSecondaryIndexAction
	Create *GlobalSecondaryIndex
	Delete *DeleteGlobalSecondaryIndexAction
}

// UpdateGlobalSecondaryIndexAction changes the throughput of a global index.
type UpdateGlobalSecondaryIndexAction struct {
	IndexName             *string
	ProvisionedThroughput *ProvisionedThroughput
	OnDemandThroughput    *OnDemandThroughput
	WarmThroughput        *WarmThroughput
}

// DeleteGlobalSecondaryIndexAction removes a global index.
type DeleteGlobalSecondaryIndexAction struct{ IndexName *string }

// VectorIndexUpdate is one change of UpdateTable to a vector index.
type VectorIndexUpdate struct{ Create, Delete *VectorIndex }

// ReplicationGroupUpdate is one change to the replicas of a global table.
type ReplicationGroupUpdate struct{}

// GlobalTableWitnessGroupUpdate is one change to the witness of a global table.
type GlobalTableWitnessGroupUpdate struct{}
