// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/extenddb/extenddb/server/progress"
)

// Reason tells why ctx is over, where whoever ended it said so; else it is "".
func Reason(ctx context.Context) string {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return ""
	}
	return cause.Error()
}

// Outcome returns how a job ended that came to err, and what its last event
// gives as the error: of one that was stopped the reason, if there is one.
func Outcome(ctx context.Context, err error) (progress.State, error) {
	switch reason := Reason(ctx); {
	case err == nil:
		return progress.Done, nil
	case ctx.Err() == nil:
		return progress.Failed, err
	case reason != "":
		return progress.Cancelled, errors.New(reason)
	}
	return progress.Cancelled, nil
}

// LogEnd logs that a job of a kind came to err. To be stopped is no failure;
// what cannot be done as it was asked for is no failure of the program.
func LogEnd(ctx context.Context, log *slog.Logger, kind progress.Kind, err error) {
	if ctx.Err() != nil {
		log.InfoContext(ctx, string(kind)+" cancelled", "reason", cmp.Or(Reason(ctx), "stopped as asked"))
		return
	}
	level := slog.LevelError
	switch Classify(ctx, err).Code {
	case Refused, Invalid, NotFound, Busy:
		level = slog.LevelWarn
	case Failed, Denied, Incomplete, Interrupted:
	}
	log.Log(ctx, level, string(kind)+" failed", "err", err)
}

// stopped is the error of what was stopped. Whoever stopped it wants to know
// why and where, not what contexts say.
type stopped struct {
	err  error
	text string
}

func (e *stopped) Error() string { return e.text }

// Unwrap returns the cause.
func (e *stopped) Unwrap() error { return e.err }

// stoppedBy words an error that came of the end of ctx.
func stoppedBy(ctx context.Context, err error) error {
	var done *stopped
	if errors.As(err, &done) {
		return err
	}
	text, reason := err.Error(), Reason(ctx)
	for _, e := range []error{context.Canceled, context.DeadlineExceeded} {
		if reason == "" {
			text = strings.ReplaceAll(text, ": "+e.Error(), "")
		}
		text = strings.ReplaceAll(text, e.Error(), cmp.Or(reason, "interrupted"))
	}
	return &stopped{err, text}
}
