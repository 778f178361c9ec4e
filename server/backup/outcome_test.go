// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
)

// To be stopped is no failure, nor is a wish that cannot be granted; and no
// text tells people of contexts.
func TestOutcome(t *testing.T) {
	t.Parallel()
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	asked, leaving, live := ended(nil), ended(errors.New("the command ended")), t.Context()
	reading := fmt.Errorf("read: %w", context.Canceled)
	for name, c := range map[string]struct {
		ctx              context.Context
		err              error
		state            progress.State
		event, text, log string
	}{
		"done":           {ctx: live, state: progress.Done},
		"failed":         {live, errFault, progress.Failed, errFault.Error(), errFault.Error(), "ERROR backup failed err=" + errFault.Error()},
		"refused":        {live, errorf(Refused, "no"), progress.Failed, "no", "no", "WARN backup failed err=no"},
		"invalid":        {live, errorf(Invalid, "no"), progress.Failed, "no", "no", "WARN backup failed err=no"},
		"busy":           {live, errorf(Busy, "no"), progress.Failed, "no", "no", "WARN backup failed err=no"},
		"no table":       {live, storage.ErrTableNotFound, progress.Failed, storage.ErrTableNotFound.Error(), storage.ErrTableNotFound.Error(), "WARN backup failed err=" + storage.ErrTableNotFound.Error()},
		"denied":         {live, errorf(Denied, "no"), progress.Failed, "no", "no", "ERROR backup failed err=no"},
		"asked":          {asked, reading, progress.Cancelled, "", "read", "INFO backup cancelled reason=stopped as asked"},
		"asked at once":  {asked, context.Canceled, progress.Cancelled, "", "interrupted", "INFO backup cancelled reason=stopped as asked"},
		"reason":         {leaving, reading, progress.Cancelled, "the command ended", "read: the command ended", "INFO backup cancelled reason=the command ended"},
		"said twice":     {leaving, Classify(leaving, reading), progress.Cancelled, "the command ended", "read: the command ended", "INFO backup cancelled reason=the command ended"},
		"another reason": {asked, errorf(Failed, "disk on fire"), progress.Cancelled, "", "disk on fire", "INFO backup cancelled reason=stopped as asked"},
	} {
		state, err := Outcome(c.ctx, c.err)
		event := ""
		if err != nil {
			event = err.Error()
		}
		if state != c.state || event != c.event {
			t.Errorf("%s: %s %q, want %s %q", name, state, event, c.state, c.event)
		}
		if c.err == nil {
			continue
		}
		e := Classify(c.ctx, c.err)
		if e.Error() != c.text || !errors.Is(e, c.err) {
			t.Errorf("%s: the error is %q, want %q", name, e, c.text)
		}
		var log bytes.Buffer
		LogEnd(c.ctx, slog.New(slog.NewTextHandler(&log, nil)), progress.Backup, c.err)
		line := strings.NewReplacer(`"`, "", "level=", "", "msg=", "").Replace(log.String())
		if _, line, _ = strings.Cut(strings.TrimSpace(line), " "); line != c.log {
			t.Errorf("%s: the log says %q, want %q", name, line, c.log)
		}
	}
}
