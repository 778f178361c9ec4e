// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
)

// record keeps the record of a change that is about to be applied.
func (m *Memory) record(mt *memTable, w storage.Write, next *storage.Next) error {
	var cur *storage.Row
	if i, found := mt.row(w.Key); found {
		cur = &mt.rows[i].row
	}
	r, err := storage.RecordOf(mt.def, w.Key, cur, next, w.Change)
	if r == nil || err != nil {
		return err
	}
	m.disk.lastSeq++
	at := w.Change.At
	if at.IsZero() {
		at = clock.Real{}.Now()
	}
	r.Seq, r.At = m.disk.lastSeq, at.UTC().Truncate(time.Millisecond)
	m.disk.records = append(m.disk.records, cloneRecord(r))
	return nil
}

func cloneRecord(r *storage.Record) *storage.Record {
	c := *r
	c.Key = storage.Key{PK: bytes.Clone(r.Key.PK), SK: bytes.Clone(r.Key.SK)}
	c.Keys, c.Old, c.New = bytes.Clone(r.Keys), bytes.Clone(r.Old), bytes.Clone(r.New)
	return &c
}

// Horizon implements storage.Streams: the lock is held while numbers are drawn
// and their records kept.
func (m *Memory) Horizon(ctx context.Context) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.disk.lastSeq, m.enter(ctx)
}

// Records implements storage.Streams.
func (m *Memory) Records(ctx context.Context, t storage.TableID, after, upTo int64, limit, size int) ([]storage.Record, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	from, _ := slices.BinarySearchFunc(m.disk.records, after+1, func(r *storage.Record, seq int64) int { return int(r.Seq - seq) })
	var records []storage.Record
	total := 0
	for _, r := range m.disk.records[from:] {
		if r.Seq > upTo || len(records) == limit || size > 0 && total >= size {
			break
		}
		if r.Table == t {
			records = append(records, *cloneRecord(r))
			total += len(r.Keys) + len(r.Old) + len(r.New)
		}
	}
	return records, nil
}
