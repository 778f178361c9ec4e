// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Result is what a run of clients has seen.
type Result struct {
	Elapsed   time.Duration   // from the start to the last answer
	Latencies []time.Duration // of all requests, sorted
}

// Rate is the number of requests a second.
func (r Result) Rate() float64 { return float64(len(r.Latencies)) / r.Elapsed.Seconds() }

// Quantile is the latency that a share q, of 0 to 1, of the requests did not
// exceed.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(int(q*float64(len(r.Latencies))), len(r.Latencies)-1)]
}

// Run lets clients make one request after another until ctx ends. Each makes at
// least one. An error ends its client and is returned.
func Run(ctx context.Context, clients []func() error) (Result, error) {
	var (
		all  = make([][]time.Duration, len(clients))
		errs = make([]error, len(clients))
		done sync.WaitGroup
	)
	start := time.Now()
	for i, request := range clients {
		done.Go(func() {
			last := time.Now()
			for {
				if errs[i] = request(); errs[i] != nil {
					return
				}
				now := time.Now()
				all[i] = append(all[i], now.Sub(last))
				if last = now; ctx.Err() != nil {
					return
				}
			}
		})
	}
	done.Wait()
	r := Result{Elapsed: time.Since(start), Latencies: slices.Concat(all...)}
	slices.Sort(r.Latencies)
	return r, errors.Join(errs...)
}
