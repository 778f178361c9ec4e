// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/extenddb/extenddb/server/clock"
)

// What is written arrives, in order, before close returns.
func TestOutbox(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := newOutbox(&out, clock.Real{})
	var want strings.Builder
	for i := range outboxLines {
		fmt.Fprintf(o, "line %d\n", i)
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if o.close(); out.String() != want.String() {
		t.Errorf("got %q", out.String())
	}
}

// stuck is a terminal that was stopped.
type stuck chan struct{}

func (s stuck) Write([]byte) (int, error) {
	<-s
	return 0, nil
}

// Nobody waits for a reader that does not read, but a moment at the end.
func TestOutboxOfAStoppedTerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		terminal := make(stuck)
		o := newOutbox(terminal, clock.Real{})
		begin := time.Now()
		for range 10 * outboxLines {
			if n, err := o.Write([]byte("news\n")); n != 5 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		o.close()
		if took := time.Since(begin); took != outboxLast {
			t.Errorf("it took %v", took)
		}
		close(terminal)
	})
}
