// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/extenddb/extenddb/backupstore"
)

// endless is a body that never ends; it counts how often it is read, and calls
// first before the first time is over.
type endless struct {
	reads int
	first func()
}

func (e *endless) Read(b []byte) (int, error) {
	if e.reads++; e.reads == 1 {
		e.first()
	}
	if e.reads > 1000 {
		return 0, io.EOF
	}
	return len(b), nil
}

// TestPutEndsWithItsContext: a body is not read on when nobody waits for it any
// more, and an object whose put was cancelled at the last moment is not there.
func TestPutEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]Op{"in the body": "", "after it": OpSync, "with the lock": OpLock} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			s := open(t, func(op Op, _ string) error {
				if op == at {
					cancel()
				}
				return nil
			})
			body := &endless{first: func() {}}
			if at == "" {
				body.first = cancel
			}
			_, err := s.Put(ctx, "a/k", body, backupstore.PutOptions{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			if at == "" && body.reads != 1 {
				t.Errorf("the body was read %d times", body.reads)
			}
			if got := tree(t, s.Root()); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
}
