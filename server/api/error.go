// SPDX-License-Identifier: Apache-2.0

// Package api holds the shapes of requests and responses, the decoder that
// keeps apart what was absent and what was empty, and the one error type of
// the wire with the service's texts.
package api

import (
	"net/http"
	"strings"
)

// Error is an answer other than success.
type Error struct {
	Code    string // "ValidationException"
	Message string // "" is sent without a message member where the service does so
	Status  int    // HTTP status; 400 for everything the service models
	// Item is the canonical JSON of the item that a failed condition found, for
	// ReturnValuesOnConditionCheckFailure ALL_OLD; nil otherwise.
	Item []byte
	// Reasons are those of a cancelled transaction, one for each of its
	// actions in order; nil otherwise.
	Reasons []CancellationReason
	// Cause is what went wrong inside, for the log; never sent.
	Cause error
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Codes of errors.
const (
	CodeValidation        = "ValidationException"
	CodeSerialization     = "SerializationException"
	CodeUnknownOperation  = "UnknownOperationException"
	CodeResourceNotFound  = "ResourceNotFoundException"
	CodeResourceInUse     = "ResourceInUseException"
	CodeLimitExceeded     = "LimitExceededException"
	CodeConditionalFailed = "ConditionalCheckFailedException"
	CodeAccessDenied      = "AccessDeniedException"
	CodeInternal          = "InternalServerError"
	CodeThrottling        = "ThrottlingException"
	CodeCanceled          = "TransactionCanceledException"
	CodeConflict          = "TransactionConflictException"
	CodeTokenMismatch     = "IdempotentParameterMismatchException"
)

// CancellationReason says what one action of a cancelled transaction met.
type CancellationReason struct {
	Code    string // ReasonNone and so on
	Message string // "" for ReasonNone
	Item    []byte // as in Error
}

// Codes of cancellation reasons.
const (
	ReasonNone       = "None"
	ReasonCondition  = "ConditionalCheckFailed"
	ReasonValidation = "ValidationError"
	ReasonConflict   = "TransactionConflict"
)

// Validation returns a ValidationException.
func Validation(message string) *Error {
	return &Error{Code: CodeValidation, Message: message, Status: http.StatusBadRequest}
}

// VE1 is the prefix of a message that one failed constraint is wrapped in.
const VE1 = "1 validation error detected: "

// InvalidParameters is the prefix of many messages of the control plane and of
// item values.
const InvalidParameters = "One or more parameter values were invalid: "

// ResourceNotFound returns a ResourceNotFoundException.
func ResourceNotFound(message string) *Error {
	return &Error{Code: CodeResourceNotFound, Message: message, Status: http.StatusBadRequest}
}

// ResourceInUse returns a ResourceInUseException.
func ResourceInUse(message string) *Error {
	return &Error{Code: CodeResourceInUse, Message: message, Status: http.StatusBadRequest}
}

// LimitExceeded returns a LimitExceededException.
func LimitExceeded(message string) *Error {
	return &Error{Code: CodeLimitExceeded, Message: message, Status: http.StatusBadRequest}
}

// AccessDenied returns an AccessDeniedException.
func AccessDenied(message string) *Error {
	return &Error{Code: CodeAccessDenied, Message: message, Status: http.StatusBadRequest}
}

// ConditionFailed returns a ConditionalCheckFailedException; item is the
// canonical JSON of the present item when the caller asked for it, else nil.
func ConditionFailed(item []byte) *Error {
	return &Error{Code: CodeConditionalFailed, Message: "The conditional request failed", Status: http.StatusBadRequest, Item: item}
}

// TextConflict is what the service says of an item that others are writing.
const TextConflict = "Transaction is ongoing for the item"

// Conflict returns the TransactionConflictException of a single write that
// others were in the way of.
func Conflict(cause error) *Error {
	return &Error{Code: CodeConflict, Message: TextConflict, Status: http.StatusBadRequest, Cause: cause}
}

// Canceled returns the TransactionCanceledException of a transaction, whose
// message lists the codes of the reasons.
func Canceled(reasons []CancellationReason) *Error {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i] = r.Code
	}
	return &Error{
		Code: CodeCanceled, Status: http.StatusBadRequest, Reasons: reasons,
		Message: "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]",
	}
}

// TokenMismatch returns the answer to a ClientRequestToken that another request
// has used.
func TokenMismatch() *Error {
	return &Error{
		Code: CodeTokenMismatch, Status: http.StatusBadRequest,
		Message: "DynamoDB rejected the request because you retried a request with a different payload but with an idempotent token that was already used.",
	}
}

// Internal returns an InternalServerError (HTTP 500) that hides its cause.
func Internal(cause error) *Error {
	return &Error{Code: CodeInternal, Message: "Internal server error", Status: http.StatusInternalServerError, Cause: cause}
}
