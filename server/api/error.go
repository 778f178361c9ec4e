// SPDX-License-Identifier: Apache-2.0

// Package api holds the shapes of requests and responses, the decoder that
// keeps apart what was absent and what was empty, and the one error type of
// the wire with the service's texts.
package api

import "net/http"

// Error is an answer other than success.
type Error struct {
	Code    string // "ValidationException"
	Message string // "" is sent without a message member where the service does so
	Status  int    // HTTP status; 400 for everything the service models
	// Item is the canonical JSON of the item that a failed condition found, for
	// ReturnValuesOnConditionCheckFailure ALL_OLD; nil otherwise.
	Item []byte
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

// Internal returns an InternalServerError (HTTP 500) that hides its cause.
func Internal(cause error) *Error {
	return &Error{Code: CodeInternal, Message: "Internal server error", Status: http.StatusInternalServerError, Cause: cause}
}
