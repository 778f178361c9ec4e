// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/expr"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

// transact is a TransactWriteItems of actions written as JSON.
func transact(more string, actions ...string) string {
	return `{"TransactItems":[` + strings.Join(actions, ",") + `]` + more + `}`
}

// act writes an action of table "hash" on the item "a"; it may name another
// table or object in more, as the last of two members counts.
func act(kind, more string) string {
	object := "Key"
	if kind == "Put" {
		object = "Item"
	}
	s := `{"` + kind + `":{"TableName":"hash","` + object + `":{"pk":{"S":"a"}}`
	if more != "" {
		s += "," + more
	}
	return s + `}}`
}

// set is an update of item pk of "hash".
func set(pk, expression, values string) string {
	s := `"Key":{"pk":{"S":"` + pk + `"}},"UpdateExpression":"` + expression + `"`
	if values != "" {
		s += `,"ExpressionAttributeValues":{` + values + `}`
	}
	return act("Update", s)
}

const (
	canceledText = "TransactionCanceledException: Transaction cancelled, please refer cancellation reasons for specific reasons "
	mismatchText = "IdempotentParameterMismatchException: DynamoDB rejected the request because you retried a request with a different payload " +
		"but with an idempotent token that was already used."
	exists    = `"ConditionExpression":"attribute_exists(pk)"`
	absent    = `"ConditionExpression":"attribute_not_exists(pk)"`
	fails     = `"ConditionExpression":"attribute_exists(nope)"`
	one       = `":v":{"N":"1"}`
	putA      = `{"Put":{"TableName":"hash","Item":{"pk":{"S":"a"}}}}`
	minLength = " failed to satisfy constraint: Member must have length greater than or equal to "
	maxLength = " failed to satisfy constraint: Member must have length less than or equal to "
)

func TestTransactWriteItems(t *testing.T) {
	t.Parallel()
	play(t, map[string][]call{
		"all kinds": {
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"gone"}}}`, `{}`},
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"here"},"n":{"N":"1"}}}`, `{}`},
			{"TransactWriteItems", transact("",
				act("Put", absent), set("u", "SET v = :v", one),
				act("Delete", `"Key":{"pk":{"S":"gone"}},`+exists), act("ConditionCheck", `"Key":{"pk":{"S":"here"}},`+exists)), `{}`},
			{"Scan", `{"TableName":"hash","FilterExpression":"pk IN (:a, :b, :c, :d)","ProjectionExpression":"pk","Select":"SPECIFIC_ATTRIBUTES",` +
				`"ExpressionAttributeValues":{":a":{"S":"a"},":b":{"S":"u"},":c":{"S":"gone"},":d":{"S":"here"}}}`,
				`{"Items":[{"pk":{"S":"a"}},{"pk":{"S":"here"}},{"pk":{"S":"u"}}],"Count":3,"ScannedCount":3}`},
			{"GetItem", `{"TableName":"hash","Key":{"pk":{"S":"u"}}}`, `{"Item":{"pk":{"S":"u"},"v":{"N":"1"}}}`},
			// a check that holds changes nothing, not even where there is nothing
			{"TransactWriteItems", transact("", act("ConditionCheck", `"Key":{"pk":{"S":"no"}},`+absent)), `{}`},
			{"GetItem", `{"TableName":"hash","Key":{"pk":{"S":"no"}}}`, `{}`},
		},
		"several tables": {
			{"TransactWriteItems", transact("", putA, act("Put", `"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/comp","Item":{"pk":{"S":"a"},"sk":{"N":"1"}}`),
				act("Put", `"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":"g"}}`)), `{}`},
			{"GetItem", `{"TableName":"comp","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}}`, `{"Item":{"pk":{"S":"a"},"sk":{"N":"1"}}}`},
			{"Query", `{"TableName":"idx","IndexName":"some","KeyConditionExpression":"g = :g","ExpressionAttributeValues":{":g":{"S":"g"}},"Select":"COUNT"}`, `{"Count":1,"ScannedCount":1}`},
		},
		"reasons are positional, and nothing is done": {
			{"PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"n":{"N":"7"}}}`, `{}`},
			{"TransactWriteItems", transact("", act("Put", absent), act("Put", `"Item":{"pk":{"S":"new"}}`)), canceledText + "[ConditionalCheckFailed, None]"},
			{"TransactWriteItems", transact("", act("Put", `"Item":{"pk":{"S":"new"}},`+absent), act("Delete", fails)), canceledText + "[None, ConditionalCheckFailed]"},
			{"TransactWriteItems", transact("", act("ConditionCheck", fails), act("Put", `"Item":{"pk":{"S":"new"}}`), set("b", "SET x = y", "")),
				canceledText + "[ConditionalCheckFailed, None, ValidationError]"},
			{"Scan", `{"TableName":"hash"}`, `{"Items":[{"n":{"N":"7"},"pk":{"S":"a"}}],"Count":1,"ScannedCount":1}`},
		},
		"conditions see the state before": {
			{"TransactWriteItems", transact("", putA, act("ConditionCheck", `"Key":{"pk":{"S":"b"}},`+absent), act("Put", `"Item":{"pk":{"S":"c"}},`+absent)), `{}`},
			{"TransactWriteItems", transact("", act("Delete", exists), act("Put", `"Item":{"pk":{"S":"c"}},`+absent)), canceledText + "[None, ConditionalCheckFailed]"},
		},
	})
}

// reasons carries a transaction out that is cancelled and returns its body.
func (r *rig) reasons(request string) string {
	r.Helper()
	_, err := r.try("TransactWriteItems", request)
	if err == nil || err.Code != api.CodeCanceled {
		r.Fatalf("%.300s: %v", request, err)
	}
	_, list, _ := strings.Cut(string(err.AppendJSON(nil)), `"CancellationReasons":`)
	return strings.TrimSuffix(list, "}")
}

func TestCancellationReasons(t *testing.T) {
	t.Parallel()
	const key = `[{"Code":"ValidationError","Message":"The provided key element does not match the schema"}]`
	big := `{"S":"` + strings.Repeat("x", maxItemSize-20) + `"}`
	onEachStore(t, writeTables(), func(r *rig) {
		r.must("PutItem", `{"TableName":"hash","Item":{"pk":{"S":"a"},"s":{"S":"x"}}}`)
		r.must("PutItem", `{"TableName":"hash","Item":{"pk":{"S":"big"},"v":`+big+`}}`)
		const failed = `{"Code":"ConditionalCheckFailed","Message":"The conditional request failed"}`
		const shown = `{"Code":"ConditionalCheckFailed","Message":"The conditional request failed","Item":{"pk":{"S":"a"},"s":{"S":"x"}}}`
		const show = `,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`
		validation := func(text string) string { return `[{"Code":"ValidationError","Message":"` + text + `"}]` }
		for _, c := range []struct{ actions, want string }{
			{act("Put", fails), `[` + failed + `]`},
			{act("Put", fails+show), `[` + shown + `]`},
			{act("Delete", fails+show), `[` + shown + `]`},
			{act("ConditionCheck", fails+show), `[` + shown + `]`},
			{act("Update", `"UpdateExpression":"REMOVE x",`+fails+show), `[` + shown + `]`},
			{act("Put", `"Item":{"pk":{"S":"no"}},`+fails+show), `[` + failed + `]`},
			{act("Put", fails+`,"ReturnValuesOnConditionCheckFailure":"NONE"`), `[` + failed + `]`},
			{act("Put", `"Item":{"pk":{"S":"b"}}`) + "," + act("Delete", fails+show), `[{"Code":"None"},` + shown + `]`},
			// keys that do not fit
			{act("Put", `"Item":{"pk":{"N":"1"}}`), validation(ivp + "Type mismatch for key pk expected: S actual: N")},
			{act("Put", `"Item":{"pk":{"L":[]}}`), validation(ivp + "Type mismatch for key pk expected: S actual: L")},
			{act("Put", `"Item":{"x":{"S":"a"}}`), validation(ivp + "Missing the key pk in the item")},
			{act("Put", `"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"N":"1"}}`),
				validation(ivp + "Type mismatch for Index Key g Expected: S Actual: N IndexName: all")},
			{act("Update", `"TableName":"idx","Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"UpdateExpression":"SET g = :v","ExpressionAttributeValues":{`+one+`}`),
				validation(ivp + "Type mismatch for Index Key g Expected: S Actual: N IndexName: all")},
			{act("Delete", `"Key":{}`), key},
			{act("Delete", `"Key":{"pk":{"N":"1"}}`), key},
			{act("Delete", `"Key":{"pk":{"S":"a"},"sk":{"S":"a"}}`), key},
			{act("ConditionCheck", `"Key":{"pk":{"M":{}}},`+exists), key},
			{act("Update", `"Key":{"no":{"S":"a"}},"UpdateExpression":"REMOVE x"`), key},
			{putA + "," + act("Delete", `"Key":{}`), `[{"Code":"None"},` + key[1:]},
			{act("Update", `"UpdateExpression":"REMOVE pk"`), validation(ivp + "Cannot update attribute pk. This attribute is part of the key")},
			{act("Delete", `"ConditionExpression":"attribute_exists(pk.x)"`),
				validation("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk")},
			{act("Delete", `"Key":{"pk":{"S":"`+strings.Repeat("k", 2049)+`"}}`), validation(hashTooLong)},
			// updates that do not fit the item
			{set("a", "SET x = y", ""), validation("The provided expression refers to an attribute that does not exist in the item")},
			{set("a", "SET x.y = :v", one), validation("The document path provided in the update expression is invalid for update")},
			{set("a", "SET s = s + :v", one), validation("An operand in the update expression has an incorrect data type")},
			{set("big", "SET w = v", ""), validation(updateTooBig)},
		} {
			if got := r.reasons(transact("", c.actions)); got != c.want {
				r.Errorf("%.300s\n got %s\nwant %s", c.actions, got, c.want)
			}
		}
	})
}

// TestTransactWriteRefusals checks what refuses the whole request.
func TestTransactWriteRefusals(t *testing.T) {
	t.Parallel()
	const tooLong = "1234567890123456789012345678901234567"
	const pattern = " failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
	null := func(path string) string {
		return "Value null at 'transactItems." + path + "' failed to satisfy constraint: Member must not be null"
	}
	nested := `{"S":"x"}`
	for range 32 {
		nested = `{"L":[` + nested + `]}`
	}
	big := `{"S":"` + strings.Repeat("x", maxItemSize) + `"}`
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	for _, c := range []struct{ request, want string }{
		{`{}`, ve1 + "Value null at 'transactItems' failed to satisfy constraint: Member must not be null"},
		{transact(""), ve1 + "Value '[]' at 'transactItems'" + minLength + "1"},
		{transact(`,"ReturnConsumedCapacity":"INVALID"`, putA), ve1 + badCapacity},
		{transact(`,"ReturnItemCollectionMetrics":"INVALID","ReturnConsumedCapacity":"INVALID"`, putA), ve + "2 validation errors detected: " + badCapacity + "; " + badMetrics},
		{transact(`,"ReturnItemCollectionMetrics":"INVALID"`, act("Put", `"TableName":"none"`)), ve1 + badMetrics},
		{transact(`,"ReturnConsumedCapacity":"INVALID"`, putA, putA), ve1 + badCapacity},
		{transact(`,"ClientRequestToken":"`+tooLong+`"`, putA), ve1 + "Value '" + tooLong + "' at 'clientRequestToken'" + maxLength + "36"},
		{transact(`,"ClientRequestToken":""`, putA), ve1 + "Value '' at 'clientRequestToken'" + minLength + "1"},
		{transact(`,"ClientRequestToken":"`+tooLong+`","ReturnConsumedCapacity":"INVALID"`, putA),
			ve + "2 validation errors detected: Value '" + tooLong + "' at 'clientRequestToken'" + maxLength + "36; " + badCapacity},
		// members of actions
		{transact("", `{"Put":{}}`), ve + "2 validation errors detected: " + null("1.member.put.item") + "; " + null("1.member.put.tableName")},
		{transact("", putA, `{"Delete":{}}`), ve + "2 validation errors detected: " + null("2.member.delete.key") + "; " + null("2.member.delete.tableName")},
		{transact("", act("Update", "")), ve1 + null("1.member.update.updateExpression")},
		{transact("", act("ConditionCheck", "")), ve1 + null("1.member.conditionCheck.conditionExpression")},
		{transact("", act("Put", `"TableName":"bad!"`)), ve1 + "Value 'bad!' at 'transactItems.1.member.put.tableName'" + pattern},
		{transact("", act("Put", `"TableName":"ab"`)), ve + "TableName must be at least 3 characters long and at most 255 characters long"},
		{transact("", act("Delete", `"ReturnValuesOnConditionCheckFailure":"ALL_NEW"`)),
			ve1 + "Value 'ALL_NEW' at 'transactItems.1.member.delete.returnValuesOnConditionCheckFailure' failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, NONE]"},
		{transact("", `{}`), ve + severalActions},
		{transact("", `{"Put":{"TableName":"hash","Item":{"pk":{"S":"a"}}},"Delete":{"TableName":"hash","Key":{"pk":{"S":"b"}}}}`), ve + severalActions},
		{transact("", act("Put", `"TableName":"arn:aws:dynamodb:us-east-1:123456789012:table/hash"`)), "AccessDeniedException: Access is denied"},
		// static faults, in the wording without an envelope, before tables
		{transact("", act("Put", `"TableName":"none","Item":{"pk":{"N":"abc"}}`)), ve + "The parameter cannot be converted to a numeric value: abc"},
		{transact("", act("Put", `"Item":{"pk":{"S":"a"},"v":{"NS":["1","1"]}}`)), ve + "Input collection contains duplicates"},
		{transact("", act("Put", `"TableName":"none","Item":{"pk":{"S":"a"},"v":`+nested+`}`)), ve + tooDeep},
		{transact("", act("Put", `"Item":{"pk":{"S":"a"},"":{"S":"x"}}`)), ve + "Empty attribute name"},
		{transact("", act("Put", `"TableName":"none","Item":{"pk":`+big+`}`)), ve + itemTooBig},
		{transact("", act("Put", `"Item":{"pk":{"S":"a"},"v":{"N":"abc"}},"ConditionExpression":""`)), ve + "The parameter cannot be converted to a numeric value: abc"},
		{transact("", act("Delete", `"Key":{"pk":`+nested+`},"ConditionExpression":"a = = b"`)), ve + `Invalid ConditionExpression: Syntax error; token: "=", near: "= = b"`},
		{transact("", act("Delete", `"Key":{"pk":`+nested+`}`)), ve + tooDeep},
		{transact("", act("Put", `"ConditionExpression":""`)), ve + "Invalid ConditionExpression: The expression can not be empty;"},
		{transact("", act("Update", `"UpdateExpression":"INVALID SYNTAX HERE"`)), ve + `Invalid UpdateExpression: Syntax error; token: "INVALID", near: "INVALID SYNTAX"`},
		{transact("", set("a", "SET v = :v", `":v":{"N":"abc"}`)),
			ve + "ExpressionAttributeValues contains invalid value: The parameter cannot be converted to a numeric value: abc for key :v"},
		{transact("", act("ConditionCheck", exists+`,"ExpressionAttributeValues":{":v":`+nested+`}`)),
			ve + "ExpressionAttributeValues contains invalid value: " + tooDeep + " for key :v"},
		{transact("", act("Put", `"TableName":"none"`), act("ConditionCheck", exists+`,"ExpressionAttributeValues":{`+one+`}`)),
			ve + "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}"},
		{transact("", act("Put", `"ExpressionAttributeValues":{`+one+`}`)), ve + "ExpressionAttributeValues can only be specified when using expressions"},
		{transact("", act("Put", `"ExpressionAttributeNames":{"#a":"x"}`)), ve + "ExpressionAttributeNames can only be specified when using expressions"},
		// the first action counts
		{transact("", act("Put", `"Item":{"pk":{"S":"a"},"v":`+nested+`}`), act("ConditionCheck", `"ConditionExpression":"attribute_not_exists("`)), ve + tooDeep},
		{transact("", act("ConditionCheck", `"ConditionExpression":"attribute_not_exists("`), act("Put", `"Item":{"pk":{"S":"a"},"v":`+nested+`}`)),
			ve + `Invalid ConditionExpression: Syntax error; token: "<EOF>", near: "("`},
		// then tables, then items that occur twice, then reasons to cancel
		{transact("", act("Put", `"TableName":"none"`)), notFound},
		{transact("", putA, putA, act("Put", `"TableName":"none"`)), notFound},
		{transact("", act("Delete", `"Key":{}`), putA, act("ConditionCheck", exists)), ve + sameItemTwice},
		{transact("", putA, act("Delete", `"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/hash"`)), ve + sameItemTwice},
		// what is empty is refused without cancelling
		{transact("", act("Put", `"Item":{"pk":{"S":""}}`)), ve + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"},
		{transact("", act("Delete", `"TableName":"bytes","Key":{"pk":{"B":""},"sk":{"S":"a"}}`)),
			ve + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty binary value. Key: pk"},
		{transact("", act("Put", fails), act("Put", `"TableName":"idx","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"g":{"S":""}}`)),
			ve + "One or more parameter values are not valid. A value specified for a secondary index key is not supported. " +
				"The AttributeValue for a key attribute cannot contain an empty string value. IndexName: all, IndexKey: g"},
		{transact("", act("Put", `"Item":{"pk":{"S":"x"}}`), act("Update", `"TableName":"idx","Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"UpdateExpression":"SET g = :v","ExpressionAttributeValues":{":v":{"S":""}}`)),
			ve + "One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. " +
				"The AttributeValue for a key attribute cannot contain an empty string value."},
	} {
		r.want("TransactWriteItems", c.request, c.want)
	}
	r.want("Scan", `{"TableName":"hash","Select":"COUNT"}`, `{"Count":0,"ScannedCount":0}`)
}

func TestTransactionsOfTooManyActions(t *testing.T) {
	t.Parallel()
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	actions := make([]string, 101)
	for i := range actions {
		actions[i] = act("Put", fmt.Sprintf(`"Item":{"pk":{"S":"%d"}}`, i))
	}
	r.want("TransactWriteItems", transact("", actions[1:]...), `{}`)
	actions[1] = `{"Update":{"TableName":"hash","Key":{"pk":{"B":"AA=="}},"UpdateExpression":"REMOVE x"}}`
	got := r.do("TransactWriteItems", transact("", actions...))
	const head = ve1 + "Value '[TransactWriteItem(conditionCheck=null, put=Put(item={pk=AttributeValue(s=0, n=null, "
	if !strings.HasPrefix(got, head) || !strings.HasSuffix(got, "]' at 'transactItems'"+maxLength+"100") ||
		!strings.Contains(got, "b=java.nio.HeapByteBuffer[pos=0 lim=1 cap=1], ") || !strings.Contains(got, "tableName=hash, updateExpression=REMOVE x, conditionExpression=null)") {
		t.Errorf("got %.600s", got)
	}
}

func TestTransactionSize(t *testing.T) {
	t.Parallel()
	const each = 400_000
	value := `{"S":"` + strings.Repeat("x", each-100) + `"}`
	grow := func(i int) string {
		return act("Update", fmt.Sprintf(`"Key":{"pk":{"S":"%d"}},"UpdateExpression":"SET n = :n","ExpressionAttributeValues":{":n":{"N":"1"}}`, i))
	}
	onEachStore(t, writeTables(), func(r *rig) {
		var puts, updates []string
		for i := range 11 {
			puts = append(puts, act("Put", fmt.Sprintf(`"Item":{"pk":{"S":"%d"},"v":%s}`, i, value)))
			updates = append(updates, grow(i))
		}
		r.want("TransactWriteItems", transact("", puts...), ve+transactionTooBig)
		r.want("TransactWriteItems", transact("", puts[:10]...), `{}`)
		r.want("TransactWriteItems", transact("", puts[10]), `{}`)
		// an update counts with what it makes of its item
		r.want("TransactWriteItems", transact("", updates...), ve+transactionTooBig)
		r.want("GetItem", `{"TableName":"hash","Key":{"pk":{"S":"0"}},"ProjectionExpression":"n"}`, `{"Item":{}}`)
		r.want("TransactWriteItems", transact("", updates[:10]...), `{}`)
		r.want("TransactWriteItems", transact("", append(puts[:5:5], updates[5:]...)...), ve+transactionTooBig)
		// one that changes nothing counts with the item it found
		r.want("TransactWriteItems", transact("", updates...), ve+transactionTooBig)
		// refused by a condition as well: that is what is told
		if got := r.reasons(transact("", append(updates[:10:10], act("Delete", `"Key":{"pk":{"S":"none"}},`+exists))...)); !strings.Contains(got, "ConditionalCheckFailed") {
			r.Errorf("got %s", got)
		}
	})
}

func TestTransactionOfManyStoredBytes(t *testing.T) {
	t.Parallel()
	// Each number counts 2 bytes and is stored in 132.
	numbers := strings.TrimSuffix(strings.Repeat(`{"N":"1E-130"},`, 70_000), ",")
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	put := func(pk string) string {
		return act("Put", `"Item":{"pk":{"S":"`+pk+`"},"v":{"L":[`+numbers+`]}}`)
	}
	r.want("TransactWriteItems", transact("", put("a"), put("b")), ve+transactionTooBig)
	r.want("TransactWriteItems", transact("", put("a")), `{}`)
	r.want("TransactWriteItems", transact("", put("b")), `{}`)
	r.want("TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"hash","Key":{"pk":{"S":"a"}}}},{"Get":{"TableName":"hash","Key":{"pk":{"S":"b"}}}},`+
		`{"Get":{"TableName":"hash","Key":{"pk":{"S":"c"}}}}]}`, ve+transactionTooBig)
}

// TestTransactionSizeIsWeighedAnew: items that were large only while an earlier
// try looked at them are no reason to refuse.
func TestTransactionSizeIsWeighedAnew(t *testing.T) {
	t.Parallel()
	memory := testStores()["memory"](t)
	stub := &storagetest.Stub{Engine: memory}
	r := newRig(t, stub, writeTables()...)
	tries := 0
	stub.OnWriteAll = func(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
		if tries++; tries > 1 {
			return memory.WriteAll(ctx, ws, token)
		}
		// All items are large when the updates run first; then one refuses, and
		// when it has run again there is nothing left of that.
		reasons := make([]error, len(ws))
		for i, w := range ws {
			_, reasons[i] = w.Decide(w.Table, &storage.Row{Key: w.Key, Ver: 1, Item: []byte(`{"pk":{"S":"x"},"v":{"S":"` + strings.Repeat("x", 390_000) + `"}}`)})
		}
		for _, w := range ws {
			if _, err := w.Decide(w.Table, nil); err != nil && w.Key.Equal(ws[0].Key) {
				reasons[0] = err
			}
		}
		return nil, &storage.Cancelled{Reasons: reasons}
	}
	var updates []string
	for i := range 11 {
		updates = append(updates, set(fmt.Sprint(i), "SET n = :v", one))
	}
	r.want("TransactWriteItems", transact("", updates...), `{}`)
	if tries != 2 {
		t.Errorf("%d tries", tries)
	}
}

func TestTransactionFaults(t *testing.T) {
	t.Parallel()
	request := transact("", putA, act("Put", `"Item":{"pk":{"S":"b"}}`))
	for _, c := range []struct {
		err  error
		want string
	}{
		{storage.ErrConflict, canceledText + "[TransactionConflict, TransactionConflict]"},
		{storage.ErrUnavailable, unavailable},
		{storage.ErrInDoubt, "InternalServerError: Internal server error"},
		{storage.ErrTableNotFound, notFound},
		{&storage.Cancelled{Reasons: []error{nil, fmt.Errorf("row: %w", storage.ErrCorrupt)}}, "InternalServerError: Internal server error"},
	} {
		stub := &storagetest.Stub{Engine: testStores()["memory"](t)}
		stub.OnWriteAll = func(context.Context, []storage.Write, *storage.Token) ([]storage.Result, error) { return nil, c.err }
		e := New(Options{Storage: stub, Clock: newRig(t, testStores()["memory"](t)).clock})
		r := &rig{T: t, e: e, store: stub}
		if _, err := stub.CreateTable(t.Context(), "000000000000", writeTables()[0], time.Unix(1, 0).UTC()); err != nil {
			t.Fatal(err)
		}
		r.want("TransactWriteItems", request, c.want)
	}
	if got := string(cancellation(storage.ErrConflict, 1).(*api.Error).AppendJSON(nil)); !strings.Contains(got, //nolint:errorlint,forcetypeassert // a panic fails the test
		`"CancellationReasons":[{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"}]`) {
		t.Errorf("conflict: %s", got)
	}
}

// TestReasonsShowSoMuch: the items of reasons are bounded together, however
// often they are looked at.
func TestReasonsShowSoMuch(t *testing.T) {
	t.Parallel()
	// Each number counts 2 bytes and is stored in 132.
	item := `{"pk":{"S":"%d"},"v":{"L":[` + strings.TrimSuffix(strings.Repeat(`{"N":"1E-130"},`, 33_000), ",") + `]}}`
	r := newRig(t, testStores()["memory"](t), writeTables()...)
	var deletes []string
	for i := range 4 {
		r.must("PutItem", `{"TableName":"hash","Item":`+fmt.Sprintf(item, i)+`}`)
		deletes = append(deletes, act("Delete", fmt.Sprintf(`"Key":{"pk":{"S":"%d"}},`, i)+fails+`,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`))
	}
	_, err := r.try("TransactWriteItems", transact("", deletes...))
	if err == nil || len(err.Reasons) != len(deletes) {
		r.Fatalf("got %v", err)
	}
	shown := 0
	for _, reason := range err.Reasons {
		if reason.Code != api.ReasonCondition {
			r.Errorf("reason %s", reason.Code)
		}
		if reason.Item != nil {
			shown++
		}
	}
	if shown != 3 {
		r.Errorf("%d items are shown", shown)
	}

	row := &storage.Row{Item: []byte(`{"pk":{"S":"a"}}`)}
	var s shownItems
	d := &deletion{writing: writing{onFail: true, shared: &s, cond: mustCondition(t, r, "attribute_exists(nope)")}}
	for range 3 {
		if _, err := d.decide(r.table("hash"), row); err == nil || s.bytes.Load() != int64(len(row.Item)) {
			r.Errorf("%d bytes are shown: %v", s.bytes.Load(), err)
		}
	}
}

func mustCondition(t *testing.T, r *rig, text string) *expr.Condition {
	t.Helper()
	c, err := r.e.condition(older, expr.NewPlaceholders(nil, nil), expr.RoleCondition, &text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
