// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/extenddb/extenddb/test/bench/load"
)

// The writers put items of their own into the table that is backed up.
const (
	backupWriters = 4
	writerTime    = 3  // times the time of a cell, without a backup
	writerSpread  = 10 // partitions
	writerPut     = `{"TableName":"` + syntheticTable + `","Item":{"at":{"N":"` + markCount + `"},"code":{"S":"written"},` +
		`"customer":{"S":"writer-` + markPartition + `"},"note":{"S":"The quick brown fox jumps over the lazy dog, and nobody knows why."},` +
		`"order":{"S":"order-` + markRow + `"},"owner":{"S":"owner-0001"},"state":{"S":"new"}}}`
)

// Writers is how clients that write are served while their table is backed up.
type Writers struct {
	Items   int            `json:"items"` // of the table
	Clients int            `json:"clients"`
	Samples []WriterSample `json:"samples"` // one a repeat
}

// WriterSample is one backup, and the time right before it.
type WriterSample struct {
	Alone  Waits   `json:"alone"`
	During Waits   `json:"during"`
	Backup float64 `json:"backup_seconds"`
}

// Waits are how long requests took.
type Waits struct {
	Rate float64 `json:"requests_per_second"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
}

func waitsOf(r load.Result) Waits {
	return Waits{Rate: r.Rate(), P50: millis(r.Quantile(0.5)), P99: millis(r.Quantile(0.99)), Max: millis(r.Quantile(1))}
}

// growth is the median of how many times longer the slowest hundredth of the
// requests takes at least.
func (w *Writers) growth() float64 {
	var v []float64
	for _, s := range w.Samples {
		v = append(v, s.During.P99/s.Alone.P99)
	}
	return median(v)
}

// measureWriters lets clients write to a server, alone and during a backup.
func (b *backupRig) measureWriters(ctx context.Context, o options) (w *Writers, err error) {
	srv, err := startIdle(ctx, b.bin, b.path("source.db"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.Stop()) }()
	put := operation{name: "PutItem", body: writerPut, writes: true}
	target := &httpTarget{srv: srv, partitions: writerSpread, sizes: map[string]int{put.name: len("{}")}}
	writers, closeAll, err := putClients(ctx, target, put, backupWriters)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	if _, err := runFor(ctx, writers, o.time); err != nil { // to warm up
		return nil, err
	}
	w = &Writers{Items: b.table.Items, Clients: backupWriters}
	for range o.repeats {
		alone, err := runFor(ctx, writers, writerTime*o.time)
		if err != nil {
			return nil, err
		}
		var job JobSample
		busy, err := during(ctx, writers, func() (err error) {
			job, err = b.backup(ctx, srv, "store-3")
			return err
		})
		if err = errors.Join(err, os.RemoveAll(b.path("store-3"))); err != nil {
			return nil, fmt.Errorf("back up while others write: %w", err)
		}
		w.Samples = append(w.Samples, WriterSample{Alone: waitsOf(alone), During: waitsOf(busy), Backup: job.Seconds})
	}
	return w, nil
}
