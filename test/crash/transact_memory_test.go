// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/test/proc"
)

// TestTransactionMemory lets 64 clients have transactions refused that look at
// 40 MB each: memory stays near the budget, and an unrelated client is served.
func TestTransactionMemory(t *testing.T) {
	const (
		budget  = 64 << 20
		slack   = 192 << 20 // garbage, connections, the pages of SQLite
		clients = 64
		items   = 100
	)
	key := func(i int) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"p": &types.AttributeValueMemberS{Value: fmt.Sprint(i)}}
	}
	var checks, updates []types.TransactWriteItem
	for i := range items {
		checks = append(checks, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: aws.String("big"), Key: key(i), ConditionExpression: aws.String("attribute_not_exists(p)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
		updates = append(updates, types.TransactWriteItem{Update: &types.Update{
			TableName: aws.String("big"), Key: key(i), UpdateExpression: aws.String("SET q = p"),
		}})
	}
	proc.EachEngine(t, func(t *testing.T, e proc.Engine) {
		srv := proc.Start(t, proc.Binary(t, t.TempDir()), e.Database(t), "--memory-budget", "64MiB")
		db := srv.Client()
		if _, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("big"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("p"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("p"), KeyType: types.KeyTypeHash}},
		}); err != nil {
			t.Fatal(err)
		}
		for i := range items {
			item := key(i)
			item["v"] = &types.AttributeValueMemberS{Value: strings.Repeat("x", 400_000)}
			if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("big"), Item: item}); err != nil {
				t.Fatal(err)
			}
		}
		var refused, busy atomic.Int64
		var attack sync.WaitGroup
		for i := range clients {
			attack.Go(func() {
				for _, actions := range [][]types.TransactWriteItem{checks, updates}[i%2:] {
					_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: actions},
						func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
					var cancelled *types.TransactionCanceledException
					switch {
					case errors.As(err, &cancelled), err != nil && strings.Contains(err.Error(), "ValidationException"):
						refused.Add(1)
					case err != nil && strings.Contains(err.Error(), "busy"):
						busy.Add(1)
					default:
						t.Errorf("answered %.300v", err)
					}
				}
			})
		}
		for i := range 20 {
			if _, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("big"), Key: key(items + i)}); err != nil {
				t.Errorf("an unrelated client was refused: %v", err)
			}
		}
		attack.Wait()
		if refused.Load() == 0 {
			t.Error("no transaction came to an end")
		}
		most, err := proc.Memory(srv.Pid(), "VmHWM")
		if err != nil {
			t.Fatal(err)
		}
		if most > budget+slack {
			t.Errorf("the process took %d MiB, its budget is %d", most>>20, int64(budget)>>20)
		}
		t.Logf("at most %d MiB; %d refused, %d too busy", most>>20, refused.Load(), busy.Load())
	})
}
