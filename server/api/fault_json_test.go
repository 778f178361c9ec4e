// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

func TestErrorJSON(t *testing.T) {
	t.Parallel()
	const model = "com.amazonaws.dynamodb.v20120810#"
	for _, c := range []struct {
		err    *Error
		status int
		want   string
	}{
		{Validation(`a "quoted" <text>`), 400, `{"__type":"com.amazon.coral.validate#ValidationException","message":"a \"quoted\" <text>"}`},
		{ResourceNotFound("m"), 400, `{"__type":"` + model + `ResourceNotFoundException","message":"m"}`},
		{ResourceInUse("m"), 400, `{"__type":"` + model + `ResourceInUseException","message":"m"}`},
		{LimitExceeded("m"), 400, `{"__type":"` + model + `LimitExceededException","message":"m"}`},
		{ConditionFailed(nil), 400, `{"__type":"` + model + `ConditionalCheckFailedException","message":"The conditional request failed"}`},
		{ConditionFailed([]byte(`{"a":{"N":"1"}}`)), 400,
			`{"__type":"` + model + `ConditionalCheckFailedException","message":"The conditional request failed","Item":{"a":{"N":"1"}}}`},
		{Internal(io.ErrUnexpectedEOF), 500, `{"__type":"` + model + `InternalServerError","message":"Internal server error"}`},
		{Conflict(io.ErrUnexpectedEOF), 400, `{"__type":"` + model + `TransactionConflictException","message":"Transaction is ongoing for the item"}`},
		{Canceled([]CancellationReason{
			{Code: ReasonNone}, {Code: ReasonCondition, Message: "m", Item: []byte(`{"a":{"N":"1"}}`)}, {Code: ReasonValidation, Message: `"`},
		}), 400, `{"__type":"` + model + `TransactionCanceledException",` +
			`"Message":"Transaction cancelled, please refer cancellation reasons for specific reasons [None, ConditionalCheckFailed, ValidationError]",` +
			`"CancellationReasons":[{"Code":"None"},{"Code":"ConditionalCheckFailed","Message":"m","Item":{"a":{"N":"1"}}},{"Code":"ValidationError","Message":"\""}]}`},
		{TokenMismatch(), 400, `{"__type":"` + model + `IdempotentParameterMismatchException","message":"DynamoDB rejected the request because ` +
			`you retried a request with a different payload but with an idempotent token that was already used."}`},
		{StorageUnavailable(io.ErrUnexpectedEOF), 503, `{"__type":"` + model + `ServiceUnavailable","message":"The service is temporarily unavailable, try again"}`},
		{Serialization(&ddb.SyntaxError{Message: "m"}), 400, `{"__type":"com.amazon.coral.service#SerializationException","Message":"m"}`},
		{Serialization(&ddb.SyntaxError{}), 400, `{"__type":"com.amazon.coral.service#SerializationException"}`},
		{UnknownOperation(), 400, `{"__type":"com.amazon.coral.service#UnknownOperationException"}`},
		{&Error{Code: CodeAccessDenied, Message: "m", Status: 400}, 400, `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"m"}`},
		{&Error{Code: CodeThrottling, Message: "m", Status: 400}, 400, `{"__type":"com.amazon.coral.availability#ThrottlingException","message":"m"}`},
		{RequestTooLarge(), 413, `{"__type":"` + model + `RequestEntityTooLarge","message":"Request size has exceeded the maximum allowed size"}`},
		{RequestTimeout(), 408, `{"__type":"` + model + `RequestTimeout","message":"The request body did not arrive in time"}`},
		{Unavailable(), 503, `{"__type":"` + model + `ServiceUnavailable","message":"The server is busy, try again"}`},
	} {
		if got := string(c.err.AppendJSON(nil)); got != c.want || c.err.Status != c.status {
			t.Errorf("%v: got %d %s, want %d %s", c.err, c.err.Status, got, c.status, c.want)
		}
	}
}

// TestErrorChecksums compares whole bodies with checksums the service sent.
func TestErrorChecksums(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *Error
		want uint32
	}{
		{Serialization(&ddb.SyntaxError{}), 3948637019},
		{UnknownOperation(), 1368724161},
		{&Error{Code: "MissingAuthenticationTokenException", Message: "Request is missing Authentication Token"}, 2088342776},
	} {
		if got := crc32.ChecksumIEEE(c.err.AppendJSON(nil)); got != c.want {
			t.Errorf("%v: checksum %d, want %d", c.err, got, c.want)
		}
	}
}

func TestErrorUnwraps(t *testing.T) {
	t.Parallel()
	err := error(Internal(io.ErrUnexpectedEOF))
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "InternalServerError: Internal server error" {
		t.Errorf("cause is lost or shown: %v", err)
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	t.Parallel()
	const e = "\u20ac" // three bytes
	for shift, want := range []int{maxMessage / 3, (maxMessage - 1) / 3, (maxMessage - 2) / 3} {
		text := strings.Repeat("x", shift) + strings.Repeat(e, maxMessage)
		var got struct{ Message string }
		if err := json.Unmarshal(Validation(text).AppendJSON(nil), &got); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(got.Message, e); n != want || len(got.Message) != shift+3*want {
			t.Errorf("shifted by %d: %d characters in %d bytes, want %d", shift, n, len(got.Message), want)
		}
	}
	if got := cut(strings.Repeat("x", maxMessage)); len(got) != maxMessage {
		t.Errorf("%d bytes are left", len(got))
	}
}
