// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/extenddb/extenddb/format/ddb"
)

// Codes of answers that the service does not model.
const (
	CodeRequestTooLarge = "RequestEntityTooLarge"
	CodeRequestTimeout  = "RequestTimeout"
	CodeUnavailable     = "ServiceUnavailable"
)

// Serialization returns the SerializationException of what Decode refused a
// body with.
func Serialization(err error) *Error {
	e := &Error{Code: CodeSerialization, Status: http.StatusBadRequest}
	var syntax *ddb.SyntaxError
	if errors.As(err, &syntax) {
		e.Message = syntax.Message
	}
	return e
}

// UnknownOperation returns the answer to a target that names no operation.
func UnknownOperation() *Error {
	return &Error{Code: CodeUnknownOperation, Status: http.StatusBadRequest}
}

// RequestTooLarge returns the answer to a body of more than 16 MiB (HTTP 413).
func RequestTooLarge() *Error {
	return &Error{Code: CodeRequestTooLarge, Message: "Request size has exceeded the maximum allowed size", Status: http.StatusRequestEntityTooLarge}
}

// RequestTimeout returns the answer to a body that does not arrive (HTTP 408).
func RequestTimeout() *Error {
	return &Error{Code: CodeRequestTimeout, Message: "The request body did not arrive in time", Status: http.StatusRequestTimeout}
}

// Unavailable returns the answer of a server with too much in flight (HTTP
// 503): clients try again.
func Unavailable() *Error {
	return &Error{Code: CodeUnavailable, Message: "The server is busy, try again", Status: http.StatusServiceUnavailable}
}

// StorageUnavailable returns the answer while the database cannot be reached or
// written (HTTP 503): nothing was done, clients try again.
func StorageUnavailable(cause error) *Error {
	return &Error{
		Code: CodeUnavailable, Message: "The service is temporarily unavailable, try again",
		Status: http.StatusServiceUnavailable, Cause: cause,
	}
}

// Namespaces of error types.
const (
	namespaceModel        = "com.amazonaws.dynamodb.v20120810#"
	namespaceService      = "com.amazon.coral.service#"
	namespaceValidation   = "com.amazon.coral.validate#"
	namespaceAvailability = "com.amazon.coral.availability#"
)

// form returns the namespace of a code and how its message member is spelled.
func form(code string) (namespace, message string) {
	switch code {
	case CodeValidation:
		return namespaceValidation, "message"
	case CodeSerialization, CodeAccessDenied:
		return namespaceService, "Message"
	case CodeUnknownOperation, "MissingAuthenticationTokenException", "IncompleteSignatureException",
		"InvalidSignatureException", "UnrecognizedClientException":
		return namespaceService, "message"
	case CodeThrottling:
		return namespaceAvailability, "message"
	case CodeCanceled:
		return namespaceModel, "Message"
	}
	return namespaceModel, "message"
}

// maxMessage bounds a message, in bytes: many repeat what the request holds,
// which may be megabytes that escape to six times as many.
const maxMessage = 64 << 10

// AppendJSON appends the body of the answer. A message longer than 64 KiB is cut.
func (e *Error) AppendJSON(dst []byte) []byte {
	namespace, message := form(e.Code)
	dst = append(dst, `{"__type":"`...)
	dst = append(dst, namespace...)
	dst = append(dst, e.Code...)
	dst = append(dst, '"')
	if e.Message != "" {
		dst = append(dst, `,"`...)
		dst = append(dst, message...)
		dst = append(dst, `":`...)
		dst = ddb.AppendString(dst, cut(e.Message))
	}
	if e.Item != nil {
		dst = append(dst, `,"Item":`...)
		dst = append(dst, e.Item...)
	}
	if e.Reasons != nil {
		dst = append(dst, `,"CancellationReasons":`...)
		dst = appendReasons(dst, e.Reasons)
	}
	return append(dst, '}')
}

func appendReasons(dst []byte, reasons []CancellationReason) []byte {
	dst = append(dst, '[')
	for i, r := range reasons {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = ddb.AppendString(append(dst, `{"Code":`...), r.Code)
		if r.Message != "" {
			dst = ddb.AppendString(append(dst, `,"Message":`...), cut(r.Message))
		}
		if r.Item != nil {
			dst = append(append(dst, `,"Item":`...), r.Item...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// cut returns the first maxMessage bytes of s, or up to three fewer for a
// character to stay whole.
func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	n := maxMessage
	for n > maxMessage-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
