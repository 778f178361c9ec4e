// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/extenddb/extenddb/format/ddb"

// AttributeMap is a member that holds an item or a key. Bad is the first value
// in it that breaks a rule of the data model; the engine reports it when its
// turn comes (the service checks other members first).
type AttributeMap struct {
	Item    ddb.Item
	Bad     *ddb.ValueError
	Present bool
}

// ScanJSON reads the member.
func (m *AttributeMap) ScanJSON(s *ddb.Scanner) (err error) {
	m.Present = true
	m.Item, m.Bad, err = ddb.ScanItem(s)
	return err
}

// AttributeValue is a member that holds one value; see AttributeMap.
type AttributeValue struct {
	Value   ddb.Value
	Bad     *ddb.ValueError
	Present bool
}

// ScanJSON reads the member.
func (v *AttributeValue) ScanJSON(s *ddb.Scanner) (err error) {
	v.Present = true
	v.Value, v.Bad, err = ddb.ScanValue(s)
	return err
}

// In the shapes below a nil pointer, slice or map stands for an absent (or
// null) member; an empty slice or map was sent empty.

// PutItemInput is the request of PutItem.
type PutItemInput struct {
	TableName                           *string
	Item                                AttributeMap
	Expected                            map[string]ExpectedAttributeValue
	ReturnValues                        *string
	ReturnConsumedCapacity              *string
	ReturnItemCollectionMetrics         *string
	ConditionalOperator                 *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]AttributeValue
	ReturnValuesOnConditionCheckFailure *string
}

// DeleteItemInput is the request of DeleteItem.
type DeleteItemInput struct {
	TableName                           *string
	Key                                 AttributeMap
	Expected                            map[string]ExpectedAttributeValue
	ConditionalOperator                 *string
	ReturnValues                        *string
	ReturnConsumedCapacity              *string
	ReturnItemCollectionMetrics         *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]AttributeValue
	ReturnValuesOnConditionCheckFailure *string
}

// UpdateItemInput is the request of UpdateItem.
type UpdateItemInput struct {
	TableName                           *string
	Key                                 AttributeMap
	AttributeUpdates                    map[string]AttributeValueUpdate
	Expected                            map[string]ExpectedAttributeValue
	ConditionalOperator                 *string
	ReturnValues                        *string
	ReturnConsumedCapacity              *string
	ReturnItemCollectionMetrics         *string
	UpdateExpression                    *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]AttributeValue
	ReturnValuesOnConditionCheckFailure *string
}

// GetItemInput is the request of GetItem.
type GetItemInput struct {
	TableName                *string
	Key                      AttributeMap
	AttributesToGet          []string
	ConsistentRead           *bool
	ReturnConsumedCapacity   *string
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
}

// QueryInput is the request of Query.
type QueryInput struct {
	TableName                 *string
	IndexName                 *string
	Select                    *string
	AttributesToGet           []string
	Limit                     *int32
	ConsistentRead            *bool
	KeyConditions             map[string]Condition
	QueryFilter               map[string]Condition
	ConditionalOperator       *string
	ScanIndexForward          *bool
	ExclusiveStartKey         AttributeMap
	ReturnConsumedCapacity    *string
	ProjectionExpression      *string
	FilterExpression          *string
	KeyConditionExpression    *string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]AttributeValue
}

// ScanInput is the request of Scan.
type ScanInput struct {
	TableName                 *string
	IndexName                 *string
	AttributesToGet           []string
	Limit                     *int32
	Select                    *string
	ScanFilter                map[string]Condition
	ConditionalOperator       *string
	ExclusiveStartKey         AttributeMap
	ReturnConsumedCapacity    *string
	TotalSegments             *int32
	Segment                   *int32
	ProjectionExpression      *string
	FilterExpression          *string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]AttributeValue
	ConsistentRead            *bool
}

// BatchGetItemInput is the request of BatchGetItem.
type BatchGetItemInput struct {
	RequestItems           map[string]KeysAndAttributes
	ReturnConsumedCapacity *string
}

// KeysAndAttributes is what BatchGetItem asks of one table.
type KeysAndAttributes struct {
	Keys                     []AttributeMap
	AttributesToGet          []string
	ConsistentRead           *bool
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
}

// BatchWriteItemInput is the request of BatchWriteItem.
type BatchWriteItemInput struct {
	RequestItems                map[string][]WriteRequest
	ReturnConsumedCapacity      *string
	ReturnItemCollectionMetrics *string
}

// WriteRequest is one element of a BatchWriteItem: a put or a delete.
type WriteRequest struct {
	PutRequest    *PutRequest
	DeleteRequest *DeleteRequest
}

// PutRequest puts an item.
type PutRequest struct{ Item AttributeMap }

// DeleteRequest deletes the item of a key.
type DeleteRequest struct{ Key AttributeMap }

// ExpectedAttributeValue is a legacy condition on one attribute.
type ExpectedAttributeValue struct {
	Value              AttributeValue
	Exists             *bool
	ComparisonOperator *string
	AttributeValueList []AttributeValue
}

// AttributeValueUpdate is a legacy update of one attribute.
type AttributeValueUpdate struct {
	Value  AttributeValue
	Action *string
}

// Condition is a legacy condition of a query or filter.
type Condition struct {
	AttributeValueList []AttributeValue
	ComparisonOperator *string
}
