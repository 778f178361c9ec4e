// SPDX-License-Identifier: Apache-2.0

package api

// TransactWriteItemsInput is the request of TransactWriteItems.
type TransactWriteItemsInput struct {
	TransactItems               []TransactWriteItem
	ReturnConsumedCapacity      *string
	ReturnItemCollectionMetrics *string
	ClientRequestToken          *string
}

// TransactWriteItem is one action of a TransactWriteItems; exactly one member
// is to be sent.
type TransactWriteItem struct {
	ConditionCheck *ConditionCheck
	Put            *Put
	Delete         *Delete
	Update         *Update
}

// ConditionCheck is the action that only checks an item.
type ConditionCheck struct {
	Key                                 AttributeMap
	TableName                           *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]AttributeValue
	ReturnValuesOnConditionCheckFailure *string
}

// Put is the action that creates or replaces an item.
type Put struct {
	Item                                AttributeMap
	TableName                           *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]AttributeValue
	ReturnValuesOnConditionCheckFailure *string
}

// Delete is the action that deletes an item.
type Delete struct {
	Key                                 AttributeMap
	TableName                           *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]AttributeValue
	ReturnValuesOnConditionCheckFailure *string
}

// Update is the action that changes attributes of an item, or creates it.
type Update struct {
	Key                                 AttributeMap
	UpdateExpression                    *string
	TableName                           *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]AttributeValue
	ReturnValuesOnConditionCheckFailure *string
}

// TransactGetItemsInput is the request of TransactGetItems.
type TransactGetItemsInput struct {
	TransactItems          []TransactGetItem
	ReturnConsumedCapacity *string
}

// TransactGetItem is one element of a TransactGetItems.
type TransactGetItem struct{ Get *Get }

// Get reads the item of a key.
type Get struct {
	Key                      AttributeMap
	TableName                *string
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
}
