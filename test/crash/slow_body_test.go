// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/test/proc"
)

// TestSlowBodies opens a thousand connections that each announce 16 MiB and
// never finish: memory stays within the budget, and honest clients are served.
func TestSlowBodies(t *testing.T) {
	const (
		budget    = 64 << 20
		slack     = 64 << 20
		attackers = 1000
		announced = 16 << 20
	)
	dir := t.TempDir()
	srv := proc.Start(t, proc.Binary(t, dir), filepath.Join(dir, "data.db"), "--memory-budget", "64MiB")
	db := srv.Client()
	create(t, db)
	idle, err := srv.AnonymousRSS()
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 64<<10)
	for i := range chunk {
		chunk[i] = ' '
	}
	var sent, pushing sync.WaitGroup
	sent.Add(attackers)
	for range attackers {
		conn, err := net.Dial("tcp", srv.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		pushing.Go(func() {
			_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: DynamoDB_20120810.PutItem\r\n"+
				"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n", announced)
			first := true
			// All but the end of the body, as fast as the server takes it.
			for left := announced - len(chunk); err == nil && left > 0; left -= len(chunk) {
				_, err = conn.Write(chunk)
				if first {
					sent.Done()
					first = false
				}
			}
			if first {
				sent.Done()
			}
		})
	}
	sent.Wait()
	var worst int64
	var slowest time.Duration
	for i := range 300 {
		began := time.Now()
		if err := put(t, db, 1, i); err != nil {
			t.Fatalf("an honest client was refused: %v", err)
		}
		slowest = max(slowest, time.Since(began))
		rss, err := srv.AnonymousRSS()
		if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, rss)
	}
	if worst > idle+budget+slack {
		t.Errorf("anonymous memory grew from %d to %d MiB, the budget is %d", idle>>20, worst>>20, budget>>20)
	}
	t.Logf("idle %d MiB, at most %d MiB; slowest honest request %v", idle>>20, worst>>20, slowest)
}
