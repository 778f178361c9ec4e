// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/extenddb/extenddb/test/bench/load"
	"github.com/extenddb/extenddb/test/proc"
)

// Start is how a server begins.
type Start struct {
	File        string  `json:"file"`            // what is in the database
	FirstAnswer float64 `json:"first_answer_ms"` // from the start of the process to an answer; median
	Idle        float64 `json:"idle_mib"`        // anonymous memory right after; median
}

// measureStart starts the server on files that hold the same. request is what
// it has to answer first.
func measureStart(bin, content string, files []string, request func(*proc.Server) error) (Start, error) {
	var first, idle []float64
	for _, file := range files {
		begin := time.Now()
		srv, err := proc.TryStart(bin, file)
		if err != nil {
			return Start{}, err
		}
		err = request(srv)
		took := time.Since(begin)
		rss, rerr := srv.AnonymousRSS()
		if err = errors.Join(err, rerr, srv.Stop()); err != nil {
			return Start{}, fmt.Errorf("start on %s: %w", content, err)
		}
		first, idle = append(first, millis(took)), append(idle, float64(rss)/(1<<20))
	}
	return Start{File: content, FirstAnswer: median(first), Idle: median(idle)}, nil
}

// Tables is how CreateTable behaves among many tables.
type Tables struct {
	Present    int     `json:"present"` // tables at the end
	Median     float64 `json:"create_p50_ms"`
	Max        float64 `json:"create_max_ms"`
	WriterMax  float64 `json:"writer_max_ms"`       // longest wait of a writer meanwhile
	WriterP99  float64 `json:"writer_p99_ms"`       // meanwhile
	WriterRest float64 `json:"writer_alone_max_ms"` // longest wait in as many writes without CreateTable
}

const (
	tableWriters = 8
	fillers      = 16
)

// measureTables fills a database with tables and creates the last ones while
// writers write. It leaves the file for measureStart.
func measureTables(ctx context.Context, bin, file string, total, timed int) (t Tables, err error) {
	srv, err := proc.TryStart(bin, file)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, srv.Stop()) }()
	do := call(ctx, srv)
	if err := fillTable(do, 1); err != nil {
		return t, err
	}
	if err := createTables(do, 1, total-timed); err != nil {
		return t, err
	}
	sizes, err := answerSizes(do)
	if err != nil {
		return t, err
	}
	writers, closeAll, err := putClients(ctx, &httpTarget{srv: srv, partitions: 1, sizes: sizes}, operations()[1], tableWriters)
	if err != nil {
		return t, err
	}
	defer closeAll()
	var creates []time.Duration
	busy, err := during(ctx, writers, func() error {
		for i := total - timed; i < total; i++ {
			begin := time.Now()
			if err := createOne(do, i); err != nil {
				return err
			}
			creates = append(creates, time.Since(begin))
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	alone, err := runFor(ctx, writers, busy.Elapsed)
	if err != nil {
		return t, err
	}
	slices.Sort(creates)
	return Tables{
		Present: total, Median: millis(creates[len(creates)/2]), Max: millis(creates[len(creates)-1]),
		WriterMax: millis(busy.Quantile(1)), WriterP99: millis(busy.Quantile(0.99)), WriterRest: millis(alone.Quantile(1)),
	}, nil
}

// putClients returns so many writers on connections of their own.
func putClients(ctx context.Context, t *httpTarget, put operation, n int) (requests []func() error, closeAll func(), err error) {
	var conns []client
	closeAll = func() {
		for _, c := range conns {
			_ = c.close()
		}
	}
	for i := range n {
		c, err := t.client(ctx, put, i)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		conns, requests = append(conns, c), append(requests, c.request)
	}
	return requests, closeAll, nil
}

// during runs clients until f has ended.
func during(ctx context.Context, clients []func() error, f func() error) (load.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		r    load.Result
		rerr error
		done sync.WaitGroup
	)
	done.Go(func() { r, rerr = load.Run(ctx, clients) })
	err := f()
	cancel()
	done.Wait()
	return r, errors.Join(err, rerr)
}

// createTables creates tables of the numbers from (included) to to.
func createTables(do caller, from, to int) error {
	errs := make([]error, fillers)
	var done sync.WaitGroup
	for f := range fillers {
		done.Go(func() {
			for i := from + f; i < to && errs[f] == nil; i += fillers {
				errs[f] = createOne(do, i)
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}

func createOne(do caller, i int) error {
	_, err := do("CreateTable", fmt.Sprintf(`{"TableName":"table-%05d","BillingMode":"PAY_PER_REQUEST",`+
		`"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"at","AttributeType":"N"}],`+
		`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"GlobalSecondaryIndexes":[{"IndexName":"by-time",`+
		`"KeySchema":[{"AttributeName":"at","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}]}`, i))
	return err
}

// syncTime is the median time of appending 4 KiB to a file and making it
// durable.
func syncTime(dir string, times int) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page := make([]byte, 4<<10)
	var took []time.Duration
	for range times {
		begin := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
