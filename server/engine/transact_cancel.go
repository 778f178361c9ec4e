// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

// oversize is what an update refuses a transaction with that is too large: it
// cancels nothing but refuses the request.
type oversize struct{ fault *api.Error }

func (o *oversize) Error() string { return o.fault.Error() }

// Unwrap returns what to answer.
func (o *oversize) Unwrap() error { return o.fault }

// blamesSize reports whether all that keeps a transaction from being carried
// out is its size.
func blamesSize(err error) bool {
	var c *storage.Cancelled
	if !errors.As(err, &c) {
		return false
	}
	for _, reason := range c.Reasons {
		var r *oversize
		if reason != nil && !errors.As(reason, &r) {
			return false
		}
	}
	return true
}

// cancellation turns what WriteAll or GetAll refused a transaction of n actions
// with into the answer.
func cancellation(err error, n int) error {
	var c *storage.Cancelled
	switch {
	case errors.As(err, &c):
		return canceled(c.Reasons)
	case errors.Is(err, storage.ErrConflict):
		reasons := make([]api.CancellationReason, n)
		for i := range reasons {
			reasons[i] = api.CancellationReason{Code: api.ReasonConflict, Message: api.TextConflict}
		}
		return api.Canceled(reasons)
	}
	return err
}

// canceled is the answer to a transaction of which some actions, those whose
// reason is not nil, cannot be carried out; nil when all can. Reasons that are
// none to the service answer the whole request.
func canceled(reasons []error) error {
	out := make([]api.CancellationReason, len(reasons))
	failed := false
	for i, err := range reasons {
		out[i].Code = api.ReasonNone
		if err == nil {
			continue
		}
		failed = true
		var fault *api.Error
		var whole *oversize
		if !errors.As(err, &fault) || errors.As(err, &whole) || strings.HasPrefix(fault.Message, keyNotValid) {
			return err
		}
		switch fault.Code {
		case api.CodeValidation:
			out[i].Code = api.ReasonValidation
		case api.CodeConditionalFailed:
			out[i].Code = api.ReasonCondition
		default:
			return err
		}
		out[i].Message, out[i].Item = fault.Message, fault.Item
	}
	if !failed {
		return nil
	}
	return api.Canceled(out)
}

// shownItems counts the bytes of the items that the reasons of one transaction
// show, and bounds them. nil is without bound. It is safe for concurrent use.
type shownItems struct{ bytes atomic.Int64 }

// take reports whether an item may be shown.
func (s *shownItems) take(bytes int) bool {
	if s == nil || s.bytes.Add(int64(bytes)) <= maxStored {
		return true
	}
	s.give(bytes)
	return false
}

// give takes back what take allowed.
func (s *shownItems) give(bytes int) {
	if s != nil {
		s.bytes.Add(-int64(bytes))
	}
}
