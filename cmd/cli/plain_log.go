// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// plainLog writes records as commands write their own warnings:
// "extenddb: warning: MESSAGE (KEY=VALUE, ...)". Its level is warn or above, else
// what only informs would be a warning.
type plainLog struct {
	w     io.Writer
	level slog.Level
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h plainLog) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle implements slog.Handler.
func (h plainLog) Handle(_ context.Context, r slog.Record) error {
	var facts []string
	add := func(at slog.Attr) bool {
		facts = append(facts, at.Key+"="+printable(at.Value.Resolve().String()))
		return true
	}
	for _, at := range h.attrs {
		add(at)
	}
	r.Attrs(add)
	kind := "warning"
	if r.Level >= slog.LevelError {
		kind = "error"
	}
	text := fmt.Sprintf("extenddb: %s: %s", kind, printable(r.Message))
	if len(facts) > 0 {
		text += " (" + strings.Join(facts, ", ") + ")"
	}
	_, err := io.WriteString(h.w, text+"\n")
	return err
}

// WithAttrs implements slog.Handler.
func (h plainLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Concat(h.attrs, attrs)
	return h
}

// WithGroup implements slog.Handler; nobody makes groups.
func (h plainLog) WithGroup(string) slog.Handler { return h }
