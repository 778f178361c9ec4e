// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"

	"github.com/extenddb/extenddb/server/progress"
)

const (
	jobsPath    = "/admin/v1/jobs"
	versionPath = "/admin/v1/version"
)

// Codes of errors that this package makes itself; jobs have others.
const (
	codeFailed      = "failed"
	codeInvalid     = "invalid"
	codeNotFound    = "not_found"
	codeInterrupted = "interrupted"
)

// request is the body of a job's request.
type request struct {
	Kind   string          `json:"kind"`
	Params json.RawMessage `json:"params"`
}

// line is one line of the answer.
type line struct {
	Event  *progress.Event `json:"event,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *JobError       `json:"error,omitempty"`
}

// last reports whether no line follows.
func (l *line) last() bool { return l.Result != nil || l.Error != nil }

// JobError is why a job failed, as the server tells it.
type JobError struct {
	Code    string `json:"code"`    // class: "failed", "invalid", "not_found", "busy", "interrupted" …
	Message string `json:"message"` // one line
	Hint    string `json:"hint"`    // one line, may be empty
}

func (e *JobError) Error() string { return e.Message }

// JobCode returns the class.
func (e *JobError) JobCode() string { return e.Code }

// JobHint returns the hint.
func (e *JobError) JobHint() string { return e.Hint }

// coded is an error that knows its class and a hint.
type coded interface {
	error
	JobCode() string
	JobHint() string
}

// jobError makes an error ready to travel.
func jobError(err error) *JobError {
	var c coded
	if errors.As(err, &c) {
		return &JobError{Code: c.JobCode(), Message: err.Error(), Hint: c.JobHint()}
	}
	return &JobError{Code: codeFailed, Message: err.Error()}
}
