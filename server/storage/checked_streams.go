// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"time"
)

// Horizon implements Streams.
func (c *checked) Horizon(ctx context.Context) (int64, error) {
	const call = "Horizon"
	before := c.horizon.Load()
	h, err := c.next.Horizon(ctx)
	if err != nil {
		return 0, c.filter(ctx, call, err)
	}
	if h < before {
		c.breach(call, "falls from %d to %d", before, h)
	}
	for seen := before; h > seen && !c.horizon.CompareAndSwap(seen, h); {
		seen = c.horizon.Load()
	}
	return h, nil
}

// Records implements Streams.
func (c *checked) Records(ctx context.Context, t TableID, after, upTo int64, limit, bytes int) ([]Record, error) {
	const call = "Records"
	if t == 0 || after < 0 || upTo < after || limit < 1 || bytes < 0 {
		return nil, c.invalid(call, "table %d, after %d, up to %d, limit %d, %d bytes", t, after, upTo, limit, bytes)
	}
	if upTo > c.horizon.Load() { // perhaps one of an earlier life
		if h, err := c.Horizon(ctx); err != nil {
			return nil, err
		} else if upTo > h {
			return nil, c.invalid(call, "up to %d, beyond the horizon %d", upTo, h)
		}
	}
	records, err := c.next.Records(ctx, t, after, upTo, limit, bytes)
	if err != nil {
		return nil, c.filter(ctx, call, err)
	}
	if len(records) > limit {
		c.breach(call, "%d records for limit %d", len(records), limit)
	}
	last := after
	for i := range records {
		r := &records[i]
		if r.Seq <= last || r.Seq > upTo {
			c.breach(call, "number %d after %d, up to %d", r.Seq, last, upTo)
		}
		last = r.Seq
		if problem := r.problem(t); problem != "" {
			c.breach(call, "record %d: %s", r.Seq, problem)
		}
	}
	return records, nil
}

// problem says in which way a record is not one of the table.
func (r *Record) problem(t TableID) string {
	switch {
	case r.Table != t:
		return "of another table"
	case len(r.Key.PK) == 0 || len(r.Keys) == 0 || r.Size <= 0 || r.Old != nil && len(r.Old) == 0 || r.New != nil && len(r.New) == 0:
		return "incomplete"
	case r.At.IsZero() || r.At.Location() != time.UTC || r.At.Nanosecond()%int(time.Millisecond) != 0:
		return "instant is not in milliseconds of UTC"
	case r.Kind < RecordInsert || r.Kind > RecordRemove, r.Kind == RecordInsert && r.Old != nil, r.Kind == RecordRemove && r.New != nil:
		return "images do not fit the kind"
	}
	return ""
}
